import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../dist/main.js", import.meta.url));

/** The inbox as a process of its own, over a data folder of its own. */
export class Inbox {
  readonly folder: string = mkdtempSync(join(tmpdir(), "yieldagent-inbox-"));
  readonly password = "open sesame";
  port = 0;
  #child: ChildProcess | undefined;

  get address(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts it, at the same port as before. */
  async start(env: Record<string, string> = {}): Promise<void> {
    const child = spawn(process.execPath, [program], {
      env: { ...process.env, STAND_IN_DELAY: "0", TOOL_DELAY: "0", OPENAI_API_KEY: "", OPENAI_BASE_URL: "", ANTHROPIC_API_KEY: "", INBOX_DATA: this.folder, INBOX_PASSWORD: this.password, PORT: String(this.port), HOST: "127.0.0.1", ...env },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#child = child;
    const line = await new Promise<string>((resolve, reject) => {
      child.stdout.once("data", (data: Buffer) => resolve(String(data)));
      child.once("exit", (code) => reject(new Error(`the inbox ended with ${code}`)));
    });
    this.port = Number(/:(\d+),/.exec(line)?.[1]);
    // Or a test would say of the one store what holds for the other.
    if (existsSync(join(this.folder, "inbox.db")) !== isBuiltin("node:sqlite")) throw new Error("this is not the store that this Node should have");
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** A cookie of somebody who has signed in. */
  async signIn(name: string): Promise<string> {
    const response = await this.post("/sign-in", { name, password: this.password });
    return response.headers.get("set-cookie")?.split(";")[0] ?? "";
  }

  post(path: string, form: Record<string, string>, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(this.address + path, { method: "POST", redirect: "manual", body: new URLSearchParams(form), headers });
  }

  get(path: string, cookie: string): Promise<Response> {
    return fetch(this.address + path, { redirect: "manual", headers: { cookie } });
  }

  /** Starts a run by the HTTP call; returns its id. */
  async ask(request: string, name = "shop"): Promise<string> {
    const authorization = `Basic ${Buffer.from(`${name}:${this.password}`).toString("base64")}`;
    const response = await fetch(`${this.address}/api/runs`, { method: "POST", headers: { authorization, "content-type": "application/json" }, body: JSON.stringify({ request }) });
    return ((await response.json()) as { id: string }).id;
  }

  async look(id: string): Promise<{ status: string; pending: { id: string; tool: string; reason: string }[]; text: string | null }> {
    const authorization = `Basic ${Buffer.from(`shop:${this.password}`).toString("base64")}`;
    return (await (await fetch(`${this.address}/api/runs/${id}`, { headers: { authorization } })).json()) as never;
  }

  /** Emails that were sent, in order. */
  mails(): { key: string; to: string; subject: string; body: string }[] {
    return this.#filesIn("outbox") as never;
  }

  payments(): { key: string; order: string; euros: number }[] {
    return this.#filesIn("payments") as never;
  }

  #filesIn(name: string): unknown[] {
    const folder = join(this.folder, name);
    const files = existsSync(folder) ? readdirSync(folder).filter((file) => file.endsWith(".json")) : []; // others a kill left behind
    return files.sort().map((file) => JSON.parse(readFileSync(join(folder, file), "utf8")) as unknown);
  }
}

/** A promise, and what settles it. */
export class Signal<T = void> {
  readonly promise: Promise<T>;
  resolve!: (value: T) => void;
  reject!: (error: Error) => void;

  constructor() {
    this.promise = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }));
    this.promise.catch(() => {});
  }
}

/** Looks again and again until it is so. */
export async function until<T>(look: () => T | Promise<T>, milliseconds = 60_000): Promise<T> {
  for (const end = Date.now() + milliseconds; ; ) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`it did not come about: ${look}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}
