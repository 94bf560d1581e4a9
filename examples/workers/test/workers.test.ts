// Real workers, a real database, and kill -9.
import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Client, Pool } from "pg";
import type { Message } from "yieldagent";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Bar, timeline } from "../../timeline.ts";
import { Lost, Runs } from "../src/runs.ts";
import { PAYMENTS } from "../src/shop.ts";
import { postgres } from "./postgres.ts";

const program = fileURLToPath(new URL("../dist/worker.cjs", import.meta.url));
let server: Awaited<ReturnType<typeof postgres>>;
let db: Pool;
let runs: Runs;

beforeAll(async () => {
  server = await postgres();
  db = new Pool({ connectionString: server.url });
  runs = new Runs(db, 1000);
  await runs.createTables(PAYMENTS);
});
afterAll(async () => {
  await db?.end();
  await server?.stop();
});
afterEach(() => Promise.all([...living].map(kill)));
beforeEach(() => db.query("TRUNCATE runs, messages, decisions, payments"));

const request = (i: number): Message[] => [{ role: "user", content: `Pay back order A-${i}` }];

const living = new Set<ChildProcess>();

function startWorker(env: Record<string, string> = {}): Promise<ChildProcess> {
  const child = spawn(process.execPath, [program], { env: { ...process.env, DATABASE_URL: server.url, LEASE: "1000", ...env }, stdio: ["ignore", "pipe", "inherit"] });
  living.add(child);
  return new Promise((resolve, reject) => {
    child.stdout.once("data", () => resolve(child));
    child.once("exit", (code) => reject(new Error(`a worker ended with ${code}`)));
  });
}

async function kill(child: ChildProcess): Promise<void> {
  living.delete(child);
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
}

/** Somebody who is told what waits, and decides: approves what is asked, and looks up what may have been paid. */
async function people(): Promise<{ interrupted: number; stop(): Promise<void> }> {
  const seen = { interrupted: 0, stop: async (): Promise<void> => void (await ears.end()) };
  const ears = new Client({ connectionString: server.url });
  await ears.connect();
  ears.on("error", () => {}); // the database is stopped at the end
  ears.on("notification", ({ payload: run = "" }) => {
    void (async () => {
      const { rows: [row] } = await db.query<{ head: string }>("SELECT head FROM runs WHERE id = $1 AND status = 'waiting'", [run]);
      if (!row) return;
      const { calls } = JSON.parse(row.head) as { calls: { id: string; status: string; reason: "approval" | "interrupted" }[] };
      for (const { id, reason } of calls.filter(({ status }) => status === "pending")) {
        if (reason === "approval") await Promise.all(["Ann", "Bo"].map((who) => runs.decide(run, { id, reason }, true, who)));
        else {
          const { rowCount } = await db.query("SELECT FROM payments WHERE key = $1", [`${run}/${id}`]);
          if (await runs.decide(run, { id, reason }, rowCount ? { result: "it was paid back" } : { rerun: true }, "Ann")) seen.interrupted++;
        }
      }
    })().catch(() => {}); // the test is over
  });
  await ears.query("LISTEN waiting");
  return seen;
}

async function done(count: number): Promise<void> {
  for (const end = Date.now() + 120_000; ; ) {
    const { rows: [row] } = await db.query<{ n: number }>("SELECT count(*)::int AS n FROM runs WHERE status = 'done'");
    if (row?.n === count) return;
    if (Date.now() > end) throw new Error(`not done: ${JSON.stringify((await db.query("SELECT id, status, revision, lease, lease_until, decided, head FROM runs WHERE status <> 'done' LIMIT 3")).rows)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

describe("many workers", () => {
  test("killed at random, three of them finish 200 runs: none is lost, and each approved payment was made once", async () => {
    const desk = await people();
    for (let i = 0; i < 200; i++) await runs.start(`run-${i}`, request(i));
    const begun = Date.now();
    const lives: Bar[][] = [[], [], []];
    const start = async (n: number): Promise<ChildProcess> => {
      // A lease that nobody outlives who is only slow, or this would be another test: see the README.
      const child = await startWorker({ SLOTS: "2", LEASE: "3000" });
      lives[n]?.push({ from: Date.now() - begun, to: Infinity, kind: "up" });
      return child;
    };
    const workers = await Promise.all([0, 1, 2].map(start));
    let kills = 0;
    let over = false;
    const killer = (async () => {
      while (!over) {
        await new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 500));
        if (over) return;
        const n = Math.floor(Math.random() * workers.length);
        await kill(workers[n] as ChildProcess);
        (lives[n]?.at(-1) as Bar).to = Date.now() - begun;
        kills++;
        workers[n] = await start(n);
      }
    })();
    const before = performance.now();
    await done(200);
    const seconds = (performance.now() - before) / 1000;
    const end = Date.now() - begun;
    over = true;
    await killer;
    await Promise.all(workers.map(kill));
    await desk.stop();

    const { rows: payments } = await db.query<{ key: string }>("SELECT key FROM payments ORDER BY key");
    expect(payments.map(({ key }) => key)).toEqual(Array.from({ length: 200 }, (_, i) => `run-${i}/call_2_1`).sort());
    // Every conversation is whole: request, call, result, call, result, answer, each in its place once.
    const { rows: whole } = await db.query<{ n: number; last: string }>("SELECT count(*)::int AS n, (array_agg(value ORDER BY place DESC))[1] AS last FROM messages GROUP BY run HAVING max(place) = count(*) - 1");
    expect(whole.map(({ n }) => n)).toEqual(Array(200).fill(6));
    for (const { last } of whole) expect(JSON.parse(last)).toMatchObject({ content: expect.stringMatching(/^Done: (A-\d+: \d+ € paid back|it was paid back)/) as string });
    // Of two who approved each call, one was taken.
    const { rows: [approvals] } = await db.query<{ n: number }>("SELECT count(*)::int AS n FROM decisions WHERE decision = 'true' AND taken");
    expect(approvals?.n).toBe(200);
    expect(kills).toBeGreaterThan(3);
    if (process.env["UPDATE"]) {
      const times = async (query: string): Promise<number[]> => (await db.query<{ at: Date }>(query)).rows.map(({ at }) => at.getTime() - begun);
      const looked = await times("SELECT at FROM decisions WHERE decision <> 'true' AND taken");
      writeFileSync(fileURLToPath(new URL("../runs.svg", import.meta.url)), timeline({
        title: `200 runs on three workers, killed ${kills} times: ${payments.length} payments, each once`, end,
        rows: [
          ...lives.map((bars, i) => ({ label: `worker ${i + 1}`, bars: bars.filter(({ from }) => from < end).map((bar) => ({ ...bar, to: Math.min(bar.to, end) })), kills: bars.map(({ to }) => to).filter((at) => at < end) })),
          ...(looked.length > 0 ? [{ label: "cut off: a person looks", bars: looked.map((at): Bar => ({ from: at - 40, to: at + 40, kind: "person" })) }] : []),
        ],
        counts: [{ label: "approved by a person", at: await times("SELECT at FROM decisions WHERE decision = 'true' AND taken"), kind: "person" }, { label: "paid, and done", at: await times("SELECT since AS at FROM runs WHERE status = 'done'"), kind: "work" }],
      }));
    }
    console.log(`200 runs, 3 workers, ${kills} kills in ${seconds.toFixed(1)} s: ${payments.length} payments, none twice; ${desk.interrupted} had been cut off, and a person looked`);
  });

  test("finish more runs a second the more there are", async () => {
    const figures: { workers: number; perSecond: number }[] = [];
    for (const count of [1, 2, 3, 4]) {
      await db.query("TRUNCATE runs, messages, decisions, payments");
      const desk = await people();
      const workers = await Promise.all(Array.from({ length: count }, () => startWorker({ MOMENT: "150" })));
      const before = performance.now();
      const size = 10 * count;
      await Promise.all(Array.from({ length: size }, (_, i) => runs.start(`run-${i}`, request(i))));
      await done(size);
      figures.push({ workers: count, perSecond: size / ((performance.now() - before) / 1000) });
      await Promise.all(workers.map(kill));
      await desk.stop();
    }
    console.log(figures.map(({ workers, perSecond }) => `${workers} worker${workers > 1 ? "s" : ""}: ${perSecond.toFixed(1)} runs/s`).join(", "));
    // How much depends on the machine, which has more to do than this; that it grows doesn't.
    expect(figures[3]?.perSecond).toBeGreaterThan(1.3 * (figures[0]?.perSecond ?? 0));
  });
});

describe("a worker that was taken for dead", () => {
  test("saves nothing more, renews nothing and gives nothing back", async () => {
    const short = new Runs(db, 50);
    await runs.start("run", request(1));
    const late = await short.claim();
    if (!late) throw new Error("it should be there");
    expect(await short.claim()).toBeUndefined();
    await new Promise((resolve) => setTimeout(resolve, 80));
    const now = await runs.claim();
    expect(now?.lease).toBe("2");
    const next = { ...late.state, revision: late.state.revision + 1 };
    await expect(short.save(late, next, 1)).rejects.toBeInstanceOf(Lost);
    expect(await short.renew(late)).toBe(false);
    await short.release(late, true);
    expect((await db.query("SELECT status, revision FROM runs")).rows).toEqual([{ status: "ready", revision: 0 }]);
    if (now) await runs.save(now, next, 1);
    if (now) await expect(runs.save(now, next, 1)).rejects.toBeInstanceOf(Lost);
    expect((await db.query("SELECT status, revision FROM runs")).rows).toEqual([{ status: "ready", revision: 1 }]);
  });

  test("a decision on no call that waits is refused, and so is a second one", async () => {
    await runs.start("run", request(1));
    expect(await runs.decide("run", { id: "call_2_1", reason: "approval" }, true, "Ann")).toBe(false);
    expect(await runs.decide("nobody's", { id: "call_2_1", reason: "approval" }, true, "Ann")).toBe(false);
    const worker = await startWorker();
    for (;;) {
      const [found] = await runs.waiting();
      if (found) break;
    }
    await kill(worker);
    expect(await runs.decide("run", { id: "call_2_1", reason: "interrupted" }, { rerun: true }, "Ann")).toBe(false);
    expect(await Promise.all(["Ann", "Bo", "Cy"].map((who) => runs.decide("run", { id: "call_2_1", reason: "approval" }, true, who))).then((all) => all.filter(Boolean))).toEqual([true]);
  });
});
