// Programs of the examples, run in processes of their own, and a server for the model they ask.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { watch, writeFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Call, Message } from "yieldagent";
import { ask, callChunk, chunk, finish, sse } from "./wire.ts";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));

/** What an npm script of the package bundles and runs, bundled into a folder of its own. Returns the program. */
export async function bundle(script: "start" | "team"): Promise<string> {
  const build = await fs.mkdtemp(join(tmpdir(), "yieldagent-build-"));
  const { scripts } = JSON.parse(await fs.readFile(join(PACKAGE, "package.json"), "utf8")) as { scripts: Record<string, string> };
  const [command = ""] = scripts[script]?.split(" && ") ?? [];
  execFileSync(process.execPath, [join(PACKAGE, "node_modules/tsup/dist/cli-default.js"), ...command.split(" ").slice(1, -1), build], { cwd: PACKAGE });
  await fs.writeFile(join(build, "package.json"), '{ "type": "module" }');
  return join(build, (await fs.readdir(build)).find((name) => name.startsWith("main.")) ?? "");
}

/** Loaded before the program: its next call of this function never comes to an end, so that it can be killed right there. */
function hang(name: "unlink" | "appendFile", place: "before" | "after"): string {
  return `
  const fs = require("node:fs/promises");
  const { ${name} } = fs;
  fs.${name} = async (...args) => {
    if (${place === "after"}) await ${name}(...args);
    await new Promise(() => setInterval(() => {}, 1e9));
  };`;
}

export interface Ended {
  code: number | null;
  out: string;
  err: string;
}

/** Starts the program where `home` is the folder for temporary files, and without any model's key. */
export function start(program: string, home: string, args: readonly string[], hangs?: ["unlink" | "appendFile", "before" | "after"], env: Record<string, string> = {}): { child: ChildProcess; ended: Promise<Ended> } {
  const preload = join(dirname(program), `hang-${hangs?.join("-")}.cjs`);
  if (hangs) writeFileSync(preload, hang(...hangs));
  // os.tmpdir() goes by TMPDIR, or by TEMP on Windows. npm sets INIT_CWD, also when it runs these tests.
  const child = spawn(process.execPath, [...(hangs ? ["--require", preload] : []), program, ...args], { env: { ...process.env, TMPDIR: home, TEMP: home, INIT_CWD: home, OPENAI_API_KEY: "", OPENAI_BASE_URL: "", ANTHROPIC_API_KEY: "", ...env } });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  return { child, ended: new Promise((resolve) => child.on("close", (code) => resolve({ code, out, err }))) };
}

/** Waits until something is true of the files in these folders, asking again at each change there. */
export async function until(places: readonly string[], isTrue: () => Promise<boolean> | boolean): Promise<void> {
  let changed = (): void => {};
  const watchers = places.map((place) => watch(place, () => changed()));
  try {
    for (;;) {
      const change = new Promise<void>((resolve) => (changed = resolve));
      if (await isTrue()) return;
      await change;
    }
  } finally {
    for (const watcher of watchers) watcher.close();
  }
}

/** A server with a model behind it, and what it was asked. */
export interface ModelServer {
  url: string;
  bodies: string[];
  /** The keys it was given. */
  heard: (string | undefined)[];
  close(): void;
}

/** `answer` makes of a request's body the answer's status and body. */
export async function serveModel(answer: (body: string) => Promise<[status: number, body: string]>): Promise<ModelServer> {
  const bodies: string[] = [];
  const heard: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (data: Buffer) => (body += data.toString()));
    request.on("end", () => {
      bodies.push(body);
      heard.push(request.headers.authorization ?? request.headers["x-api-key"]?.toString());
      void answer(body).then(([status, text]) => {
        response.writeHead(status);
        for (let i = 0; i < text.length; i += 50) response.write(text.slice(i, i + 50));
        response.end();
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, bodies, heard, close: () => server.close() };
}

/** A stand-in, as a server streams it: reasoning, text, calls. */
export async function streamed(standIn: Call, body: string): Promise<[number, string]> {
  const { messages } = JSON.parse(body) as { messages: Message[] };
  const { reply } = await ask(standIn, messages);
  const pieces = String(reply?.content).match(/[^]{1,9}/g) ?? [];
  const calls = (reply?.tool_calls ?? []).map((call, index) => callChunk({ index, ...call }));
  return [200, sse(chunk({ role: "assistant", reasoning_content: "Let me " }), chunk({ reasoning_content: "think." }), ...pieces.map((content) => chunk({ content })), ...calls, finish(calls.length > 0 ? "tool_calls" : "stop"), "[DONE]")];
}
