// The engine and the service as processes, and kill -9 for the service.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Bar, type Row, timeline } from "../../timeline.ts";

const here = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "yieldagent-restate-"));
const ledger = join(folder, "ledger.txt");
const lines = (): string[] => (existsSync(ledger) ? readFileSync(ledger, "utf8").split("\n").slice(0, -1) : []);
/** With UPDATE people and payments take a moment, so that there is something to see in the picture. */
const MOMENT = process.env["UPDATE"] ? 700 : 0;
/** When the service lived. */
const lives: Bar[] = [];
let engine: ChildProcess;
let service: ChildProcess;
let [port, ingress, admin, node] = [0, 0, 0, 0];

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as { port: number };
  await new Promise((closed) => server.close(closed));
  return port;
}

async function until<T>(look: () => T | Promise<T>): Promise<NonNullable<T>> {
  for (const end = Date.now() + 60_000; ; ) {
    const found = await Promise.resolve().then(look).catch(() => undefined);
    if (found) return found;
    if (Date.now() > end) throw new Error(`it did not come about: ${look}; ${lines().join(", ")}`);
    await sleep(50);
  }
}

/** `moment`: how long a payment takes, in ms. */
function startService(moment = MOMENT): ChildProcess {
  const life: Bar = { from: Date.now(), to: Infinity, kind: "up" };
  lives.push(life);
  const child = spawn(process.execPath, [join(here, "dist/service.cjs")], { cwd: here, env: { ...process.env, PORT: String(port), LEDGER: ledger, MOMENT: String(moment), RESTATE_LOGGING: "ERROR" }, stdio: ["ignore", "pipe", "inherit"] });
  child.stdout.once("data", () => (life.from = Date.now()));
  return child;
}

async function kill(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
  (lives.at(-1) as Bar).to = Date.now();
}

async function ask(path: string, body?: unknown): Promise<unknown> {
  const response = await fetch(`http://127.0.0.1:${ingress}/refunds/run-1/${path}`, { method: "POST", ...(body !== undefined && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return await response.json();
}

/** The journal that the engine kept of the run. */
async function journal(): Promise<Entry[]> {
  const query = "SELECT j.index, j.name, j.appended_at, j.entry_lite_json FROM sys_journal j JOIN sys_invocation i ON i.id = j.id WHERE i.target_handler_name = 'run' ORDER BY j.index";
  const response = await fetch(`http://127.0.0.1:${admin}/query`, { method: "POST", headers: { "content-type": "application/json", accept: "application/json" }, body: JSON.stringify({ query }) });
  return ((await response.json()) as { rows: Entry[] }).rows;
}
interface Entry {
  name?: string;
  appended_at: string;
  entry_lite_json: string;
}

/** Each step of the journal: from when it was asked for until its answer was there for good. */
function rowsOf(entries: readonly Entry[], begun: number): Row[] {
  const read = entries.map(({ name = "", appended_at: at, entry_lite_json: json }) => ({ name, at: Date.parse(at) - begun, entry: JSON.parse(json) as Lite }));
  return read.flatMap(({ name, at, entry: { Command: { Run: run, GetPromise: promise } = {} } }): Row[] => {
    const asked = run ?? promise;
    const answer = asked && read.find(({ entry }) => entry.Notification?.id.CompletionId === asked.completion_id);
    if (!asked || !answer) return [];
    const times = lines().filter((line) => line === name.replace("refund", "asked")).length;
    const text = promise ? "a person decides" : times > 0 ? `asked ${times === 1 ? "once" : `${times} times`}, paid once` : undefined;
    return [{ label: promise ? `promise ${promise.key}` : name, bars: [{ from: at, to: answer.at, kind: promise ? "person" : "work" }], ...(text !== undefined && { text }) }];
  });
}
interface Lite {
  Command?: { Run?: { completion_id: number }; GetPromise?: { completion_id: number; key: string } };
  Notification?: { id: { CompletionId: number } };
}

const waiting = async (): Promise<{ id: string; args: unknown } | undefined> => ((await ask("pending")) as { id: string; args: unknown }[])[0];

beforeAll(async () => {
  [port, ingress, admin, node] = await Promise.all([freePort(), freePort(), freePort(), freePort()]) as [number, number, number, number];
  engine = spawn(join(here, "node_modules/.bin/restate-server"), ["--base-dir", join(folder, "engine"), "--node-name", "one", "--bind-ip", "127.0.0.1", "--bind-port", String(node), "--listen-mode", "tcp", "--no-logo"], {
    detached: true, // the program is started by a script: both end together, as one group
    cwd: folder, env: { ...process.env, RESTATE_INGRESS__BIND_PORT: String(ingress), RESTATE_ADMIN__BIND_PORT: String(admin), DO_NOT_TRACK: "1", RESTATE_DISABLE_TELEMETRY: "true", RUST_LOG: "error,octocrab=off" }, stdio: ["ignore", "ignore", "inherit"],
  });
  service = startService();
  const uri = JSON.stringify({ uri: `http://127.0.0.1:${port}` });
  await until(async () => (await fetch(`http://127.0.0.1:${admin}/deployments`, { method: "POST", headers: { "content-type": "application/json" }, body: uri })).ok);
});

afterAll(async () => {
  await kill(service);
  if (engine?.pid) process.kill(-engine.pid, "SIGKILL");
  await until(() => engine.exitCode !== null || engine.signalCode !== null);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("killed in the middle of a tool and while it waits, the run goes on: the model is asked once a step, and each approved refund is paid once", async () => {
  await ask("run/send", "Pay back A-17 and A-18.");
  const first = await until(waiting);
  expect(first).toMatchObject({ tool: "refund", args: { order: "A-17", euros: 40 }, reason: "approval" });
  expect(lines()).toEqual(["model"]);

  await sleep(MOMENT);
  await kill(service); // while it waits for people
  service = startService(600_000);
  await expect(until(() => ask("decide", { call: first.id, decision: "yes" }).catch((error: Error) => error.message))).resolves.toContain("say { approved: true }");
  await sleep(MOMENT);
  const [taken, late] = [await until(() => ask("decide", { call: first.id, decision: { approved: true } })), await ask("decide", { call: first.id, decision: { approved: false } })];
  expect([taken, late]).toEqual(["taken", "already decided"]);

  await until(() => lines().some((line) => line.startsWith("asked")));
  await sleep(MOMENT);
  await kill(service); // in the middle of the refund
  expect(lines()).toEqual(["model", "asked run-1/call_1_1"]);
  service = startService();

  const second = await until(async () => {
    const found = await waiting();
    return found && found.id !== first.id ? found : undefined;
  });
  expect(lines()).toEqual(["model", "asked run-1/call_1_1", "asked run-1/call_1_1", "paid run-1/call_1_1: A-17, 40 €", "model"]);
  await sleep(MOMENT);
  await ask("decide", { call: second.id, decision: { approved: true, args: { order: "A-18", euros: 55 } } });
  const text = await (await fetch(`http://127.0.0.1:${ingress}/restate/workflow/refunds/run-1/attach`)).json();
  expect(text).toMatch(/^Both are settled: A-17: 40 € paid back; A-18: 55 € paid back/);
  expect(lines().slice(5)).toEqual(["asked run-1/call_2_1", "paid run-1/call_2_1: A-18, 55 €", "model"]);
  expect(await ask("pending")).toEqual([]);

  const entries = await journal();
  const begun = Date.parse(entries[0]?.appended_at ?? "");
  const end = Date.now() - begun;
  const rows = rowsOf(entries, begun);
  expect(rows.map(({ label, text }) => [label, ...(text === undefined ? [] : [text])].join(": "))).toEqual([
    "model 1", "promise call_1_1: a person decides", "refund run-1/call_1_1: asked 2 times, paid once", "model 2", "promise call_2_1: a person decides", "refund run-1/call_2_1: asked once, paid once", "model 3"]);
  const bars = lives.map(({ from, to, kind }): Bar => ({ from: Math.max(0, from - begun), to: Math.min(end, to - begun), kind }));
  const kills = bars.slice(0, -1).map(({ to }) => to);
  for (const [row, kill] of [[rows[1], kills[0]], [rows[2], kills[1]]] as const) expect(row?.bars.some(({ from, to }) => kill !== undefined && from < kill && kill < to)).toBe(true);
  const picture = timeline({ title: "The journal of one run, and when its service was alive", end, rows: [{ label: "service", bars }, ...rows], kills });
  if (process.env["UPDATE"]) writeFileSync(join(here, "journal.svg"), picture);
});
