// Real processes, really killed: kill -9 at every point of a run and again in the life after it, against SQLite and
// PostgreSQL, with the effects counted in a ledger that is flushed to disk.
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Message, State } from "yieldagent";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startPostgres } from "./postgres.ts";
import { figure, random, SCALE, SEED } from "./scale.ts";
import { eachInside } from "./world.ts";
// @ts-expect-error: plain JavaScript, for the processes to share
import { open } from "./store.mjs";

interface Where { kind: "sqlite" | "postgres"; at: string }
interface Store { create(): Promise<void>; load(id: string): Promise<string | undefined>; history(id: string): Promise<State[]>; save(state: State): Promise<void>; close(): Promise<void> }
interface Task { id: string; ledger: string; killAt?: number; variant?: string; barrier?: boolean; lease?: number; name?: string; replies?: number; deep?: boolean; trace?: string }
interface Line { what: "entered" | "acted"; key: string; args?: unknown }

const here = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "yieldagent-kills-"));
const server = startPostgres();
if (typeof server === "string") console.error(`\n*** NOT TESTED against PostgreSQL: ${server} ***\n`);
const places: Where[] = [{ kind: "sqlite", at: join(folder, "runs.db") }, ...(typeof server === "string" ? [] : [{ kind: "postgres" as const, at: server.host }])];

let kills = 0;
beforeAll(() => {
  console.log(`SAFETY_SEED=${SEED}`);
  if (!existsSync(join(here, "../../dist/index.js"))) throw new Error("the processes run the built package: npm run build");
});
/** Those of them of agents inside of agents. */
let inside = 0;
afterAll(() => {
  if (typeof server !== "string") server.stop();
  rmSync(folder, { recursive: true, force: true });
  if (places.length === 2) {
    figure("real kills", kills);
    figure("real kills three deep", inside);
  }
});

/** Starts a worker. Returns how it ended: `end`, or the signal that killed it. */
function worker(store: Where, task: Task): Promise<string> {
  return new Promise((done, failed) => {
    execFile(process.execPath, [join(here, "worker.mjs"), JSON.stringify({ store, ...task })], { timeout: 60_000 }, (error, stdout, stderr) => {
      if (error?.signal === "SIGKILL") kills++;
      if (error?.signal) done(error.signal);
      else if (error) failed(new Error(`a worker failed: ${stderr}`));
      else done(stdout.trim());
    });
  });
}

const linesOf = (ledger: string): Line[] => readFileSync(ledger, { encoding: "utf8", flag: "a+" }).split("\n").filter(Boolean).map((line) => JSON.parse(line) as Line);

/** How often each call took effect. */
function effectsOf(ledger: string): Record<string, number> {
  const effects: Record<string, number> = {};
  for (const { what, key } of linesOf(ledger)) if (what === "acted") effects[key] = (effects[key] ?? 0) + 1;
  return effects;
}

const MOVES: Readonly<Record<string, string>> = { new: "ready pending done", pending: "ready done", ready: "started", started: "done ready pending", done: "" };

/** What must hold of a run that has come to its end, however often it was killed. */
async function checkEnd(store: Store, id: string, ledger: string, whole: readonly Message[]): Promise<void> {
  const history = await store.history(id);
  expect(history.map(({ revision }) => revision)).toEqual(history.map((_, i) => i + 1));
  for (const [i, { calls, messages }] of history.entries()) {
    const before = history[i - 1];
    expect(messages.slice(0, before?.messages.length ?? 0)).toEqual(before?.messages ?? []);
    for (const [n, { status, tool, decision }] of calls.entries()) {
      const from = before?.calls[n]?.status;
      if (from !== undefined && from !== status && !MOVES[from]?.split(" ").includes(status)) throw new Error(`${id}: a call went from ${from} to ${status}`);
      if (tool === "gated" && status === "started") expect(decision, "a gated call starts only with a decision").toBeDefined();
    }
  }
  expect((JSON.parse((await store.load(id)) as string) as State).messages).toEqual(whole);
  const effects = effectsOf(ledger);
  const calls = whole.flatMap(({ tool_calls: calls }) => calls ?? []).filter(({ function: { name } }) => name !== "human");
  expect(Object.keys(effects).sort()).toEqual(calls.map((call) => `${id}/${call.id}`).sort());
  for (const [key, times] of Object.entries(effects)) if (!key.includes("/idem")) expect(times, `${key} took effect ${times} times`).toBe(1);
  // With exactly the arguments that the person wrote.
  for (const { key, args, what } of linesOf(ledger)) if (what === "acted" && key.endsWith("/gated0")) expect(args).toEqual({ turn: 0, edited: true });
}

describe.each(places)("against $kind", (where) => {
  let store: Store;
  let count = 0;
  const fresh = (): { id: string; ledger: string } => ({ id: `${where.kind}-${++count}`, ledger: join(folder, `${where.kind}-${count}`) });
  beforeAll(async () => {
    store = (await open(where)) as Store;
    await store.create();
  });
  afterAll(() => store.close());

  test("killed at every point, and again in the life after it: each call takes effect once, as approved, and the run ends the same", async () => {
    const calm = fresh();
    const trace = `${calm.ledger}-points`;
    expect(await worker(where, { ...calm, trace })).toBe("end");
    const points = readFileSync(trace, "utf8").trim().split("\n");
    const { messages: whole } = JSON.parse((await store.load(calm.id)) as string) as State;
    await checkEnd(store, calm.id, calm.ledger, whole);
    const before = kills;
    const draw = random(SEED);
    const one = async (first: number, second: number): Promise<void> => {
      const task = fresh();
      const replay = `SAFETY_SEED=${SEED}: ${where.kind}, killed at ${first} (${points[first - 1]}), then at ${second}`;
      try {
        expect(await worker(where, { ...task, killAt: first })).toBe("SIGKILL");
        await worker(where, { ...task, killAt: second }); // it may come to its end before that point
        expect(await worker(where, task)).toBe("end");
        await checkEnd(store, task.id, task.ledger, whole);
      } catch (error) {
        throw new Error(`${replay}: ${(error as Error).message}`, { cause: error });
      }
    };
    for (let round = 0; round < SCALE; round++) {
      for (let first = 1; first <= points.length; first += 2) {
        const tasks = [first, first + 1].filter((point) => point <= points.length).map((point) => [point, 1 + Math.floor(draw() * (points.length - point + 1))] as const);
        await Promise.all(tasks.map(([first, second]) => one(first, second)));
      }
    }
    expect(kills - before).toBeGreaterThanOrEqual(points.length + points.length / 2);
  });

  test("six workers with a lease, killed at random: the run comes to its end, and each call takes effect once", async () => {
    const calm = fresh();
    await worker(where, { ...calm, replies: 8 });
    const { messages: whole } = JSON.parse((await store.load(calm.id)) as string) as State;
    const task = { ...fresh(), replies: 8, lease: 400 };
    const draw = random(SEED);
    const before = kills;
    let deaths = 0;
    const places = Array.from({ length: 6 }, async (_, place) => {
      // Each is started anew when it dies, until enough have died; at random points, and not at all in the end.
      for (let times = 0; ; times++) {
        const killAt = deaths++ < 40 ? 2 + Math.floor(draw() * 18) : 0;
        if ((await worker(where, { ...task, name: `${place}.${times}`, killAt })) === "end") break;
      }
    });
    await Promise.all(places);
    await checkEnd(store, task.id, task.ledger, whole);
    expect(kills - before).toBeGreaterThanOrEqual(15);
  });

  test("three deep, killed at every point, and again in the life after it: each call inside takes effect once, as approved, and the run ends the same", async () => {
    const calm = { ...fresh(), deep: true };
    const trace = `${calm.ledger}-points`;
    expect(await worker(where, { ...calm, trace })).toBe("end");
    const points = readFileSync(trace, "utf8").trim().split("\n");
    const { messages: whole } = JSON.parse((await store.load(calm.id)) as string) as State;
    expect(whole.map(({ role, content }) => `${role} ${content}`)).toEqual(["user go", "assistant null", "tool done inside", "assistant done"]);
    const before = kills;
    const draw = random(SEED);
    const check = async ({ id, ledger }: { id: string; ledger: string }): Promise<void> => {
      const history = await store.history(id);
      expect(history.map(({ revision }) => revision)).toEqual(history.map((_, i) => i + 1));
      expect(history.at(-1)?.messages).toEqual(whole);
      const last = new Map<string, State>();
      for (const state of history) eachInside(state, (one) => {
        const before = last.get(one.id);
        expect(one.messages.slice(0, before?.messages.length ?? 0)).toEqual(before?.messages ?? []);
        last.set(one.id, one);
        for (const { tool, status, decision } of one.calls) if (tool === "gated" && status === "started") expect(decision, "a gated call starts only with a decision").toBeDefined();
      });
      expect([...last].map(([of, { messages }]) => [of.slice(id.length), messages.length])).toEqual([["/lead0", 5], ["/lead0/one0", 5], ["/lead0/other0", 4]]);
      const { [`${id}/lead0/one0/idem0`]: idem = 0, ...once } = effectsOf(ledger);
      expect(once).toEqual({ [`${id}/lead0/one0/gated0`]: 1, [`${id}/lead0/other0/free0`]: 1 });
      expect(idem).toBeGreaterThanOrEqual(1);
      for (const { key, args, what } of linesOf(ledger)) if (what === "acted" && key.endsWith("/gated0")) expect(args).toEqual({ turn: 0, edited: true });
    };
    await check(calm);
    // Against SQLite every point but those around a save, of which a push takes some; against PostgreSQL, which is no
    // other to an agent, only those where a tool is inside.
    const chosen = points.flatMap((what, i) => (SCALE > 1 || what.startsWith("tool ") || (where.kind === "sqlite" && (!what.startsWith("save ") || (i + SEED) % 9 === 0)) ? [i + 1] : []));
    const one = async (first: number): Promise<void> => {
      const second = 1 + Math.floor(draw() * (points.length - first + 1));
      const task = { ...fresh(), deep: true };
      try {
        expect(await worker(where, { ...task, killAt: first })).toBe("SIGKILL");
        await worker(where, { ...task, killAt: second }); // it may come to its end before that point
        expect(await worker(where, task)).toBe("end");
        await check(task);
      } catch (error) {
        throw new Error(`SAFETY_SEED=${SEED}: ${where.kind}, three deep, killed at ${first} (${points[first - 1]}), then at ${second}: ${(error as Error).message}`, { cause: error });
      }
    };
    for (let i = 0; i < chosen.length; i += 2) await Promise.all(chosen.slice(i, i + 2).map(one));
    inside += kills - before;
    expect(kills - before).toBeGreaterThanOrEqual(chosen.length);
  });

  test("three deep without the write-ahead, a call inside that was killed after its effect runs again: the harness sees the second effect", async () => {
    const calm = { ...fresh(), deep: true, variant: "no write-ahead" };
    const trace = `${calm.ledger}-points`;
    await worker(where, { ...calm, trace });
    const acted = readFileSync(trace, "utf8").trim().split("\n").lastIndexOf("tool acted") + 1; // after the idempotent one
    const task = { ...fresh(), deep: true, variant: "no write-ahead" };
    expect(await worker(where, { ...task, killAt: acted })).toBe("SIGKILL");
    await worker(where, task);
    expect(effectsOf(task.ledger)).toMatchObject({ [`${task.id}/lead0/other0/free0`]: 2 });
  });

  /** Two processes that have both read the row of a call that is ready when they are let go. Returns how often it took effect. */
  async function rivals(variant: string): Promise<{ effects: number; ends: string[] }> {
    const task = { ...fresh(), variant, barrier: true };
    const asked = { role: "assistant", content: null, tool_calls: [{ id: "free0", type: "function", function: { name: "free", arguments: '{"turn":0}' } }] };
    const state: State = { version: 1, id: task.id, revision: 1, messages: [{ role: "user", content: "go" }, asked], calls: [{ id: "free0", tool: "free", args: { turn: 0 }, status: "ready" }], steps: 1, usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } };
    await store.save(state);
    const both = [1, 2].map(() => spawn(process.execPath, [join(here, "worker.mjs"), JSON.stringify({ store: where, ...task })], { stdio: ["pipe", "pipe", "pipe"] }));
    const ended = both.map((child) => new Promise<string>((done) => {
      let errors = "";
      child.stderr.on("data", (data: Buffer) => (errors += data.toString()));
      child.on("close", (code) => done(code === 0 ? "end" : (/Error: (.*)/.exec(errors)?.[1] ?? errors)));
    }));
    await Promise.all(both.map((child) => new Promise((ready) => child.stdout.once("data", ready))));
    for (const child of both) child.stdin.end("go\n");
    const ends = await Promise.all(ended);
    return { effects: effectsOf(task.ledger)[`${task.id}/free0`] ?? 0, ends: ends.sort() };
  }

  test("two processes that go on from one row: one effect, and the other is refused before it ran anything", async () => {
    expect(await rivals("")).toEqual({ effects: 1, ends: ["end", "somebody else goes on with this run"] });
  });

  test("without compare-and-set they both run it: the harness sees the second effect", async () => {
    expect(await rivals("no compare-and-set")).toEqual({ effects: 2, ends: ["end", "end"] });
  });

  test("without the write-ahead a call that was killed after its effect runs again: the harness sees the second effect", async () => {
    const calm = fresh();
    const trace = `${calm.ledger}-points`;
    await worker(where, { ...calm, trace, variant: "no write-ahead" });
    const acted = readFileSync(trace, "utf8").trim().split("\n").indexOf("tool acted") + 1;
    const task = fresh();
    expect(await worker(where, { ...task, variant: "no write-ahead", killAt: acted })).toBe("SIGKILL");
    await worker(where, { ...task, variant: "no write-ahead" });
    expect(effectsOf(task.ledger)[`${task.id}/free0`]).toBe(2);
  });
});
