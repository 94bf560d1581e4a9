// The crash matrix, simulated: every plan is killed at every point and at every pair of points, saves are lost, and saves
// land that are reported lost. The world checks the rules at every moment; here, that every way ends like the whole run.
import { agent, type AgentRun, pending, type State, type Tool, tool } from "yieldagent";
import { collect, script, toolCall } from "yieldagent/testing";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { keyOf } from "./model.ts";
import { everyCall, IDEMPOTENT, modelOf, nested, type Plan, planned, plans } from "./plan.ts";
import { figure, random, SCALE, SEED } from "./scale.ts";
import { equal, fail, type Fault, live, type Schedule, type Told } from "./world.ts";

beforeAll(() => console.log(`SAFETY_SEED=${SEED}`));
let schedules = 0;
/** Those of them with agents as tools. */
let inside = 0;
afterAll(() => {
  figure("simulated crashes", schedules);
  figure("simulated crashes with agents as tools", inside);
});

const MATRIX: Readonly<Record<string, Plan>> = {
  "every kind of tool in one reply": { policy: "none", replies: [{ calls: [planned("gated", 1), planned("free", 2), planned("idem", 3), planned("human", 4)] }] },
  "an edit, and a gated idempotent tool": { policy: "none", replies: [{ calls: [planned("gated", 1, { verdict: "edit" }), planned("both", 2), planned("cond", 3)] }] },
  "a rejection beside tools that fail and take their time": { policy: "none", replies: [{ calls: [planned("gated", 1, { verdict: "reject" }), planned("fails", 2), planned("slow", 4)], streams: true }] },
  "two replies, one after the other": { policy: "none", replies: [{ calls: [planned("gated", 1), planned("free", 2)] }, { calls: [planned("gated", 11), planned("idem", 12)] }] },
  "strictly one after another": { policy: "none", concurrency: 1, replies: [{ calls: [planned("free", 1), planned("gated", 2), planned("idem", 3)] }] },
  "decided later, and passed over": { policy: "none", replies: [{ calls: [planned("gated", 1, { verdict: "later" }), planned("gated", 2)] }, { calls: [planned("gated", 11, { verdict: "interject" })] }] },
  "approved by policy": { policy: "approves", replies: [{ calls: [planned("gated", 1), planned("slow", 2), planned("typed", 3)] }] },
  "what can't run": { policy: "none", replies: [{ calls: [planned("missing", 1), planned("free", 2, { args: "{" }), planned("gated", 3, { id: "__proto__" })] }] },
};

/** One reply, and what happens inside of the agents that it calls. */
const reply = (calls: Plan["replies"][number]["calls"], teams: Plan["teams"] = {}, more: Partial<Plan> = {}): Plan => ({ policy: "none", replies: [{ calls }], teams, ...more });

/** The same with agents as tools, two and three deep. The first is tried with every pair of points, the others with some. */
const NESTED: Readonly<Record<string, Plan>> = {
  "a gated call inside of an agent": reply([planned("team", 1)], { team: reply([planned("gated", 2)]) }),
  "a call three deep": reply([planned("team", 1)], { team: reply([planned("team", 2)], { team: reply([planned("free", 3)]) }) }),
  "a gated call three deep, beside an idempotent one": reply([planned("team", 1)], { team: reply([planned("team", 2), planned("idem", 3)], { team: reply([planned("gated", 4)]) }) }),
  "two agents in parallel": reply([planned("team", 1), planned("other", 2)], { team: reply([planned("gated", 3)]), other: reply([planned("slow", 4)]) }),
  "two agents three deep in parallel, beside a gated call": reply([planned("team", 1), planned("other", 2), planned("gated", 3)], {
    team: reply([planned("team", 4)], { team: reply([planned("gated", 5)]) }),
    other: reply([planned("other", 6)], { other: reply([planned("free", 7)]) }),
  }),
  "the same agent twice, one after the other, with an edit and a rejection inside": reply([planned("team", 1), planned("team", 2)], { team: reply([planned("gated", 3, { verdict: "edit" }), planned("both", 4, { verdict: "reject" })]) }, { concurrency: 1 }),
  "an agent that needs approval and pauses twice, some of it decided later": reply([planned("boss", 1, { verdict: "edit" })], {
    boss: { policy: "none", replies: [{ calls: [planned("gated", 2, { verdict: "later" }), planned("gated", 3)] }, { calls: [planned("human", 12), planned("free", 13)], streams: true }] },
  }),
};

/** The faults that can happen at a point. */
function faultsOf(point: string): readonly Fault[] {
  if (point === "save asked") return ["kill", "lost", "abort"];
  if (point === "save landed") return ["kill", "landed", "abort"];
  return /^(message|tool-start|tool-progress|tool-result|text)$/.test(point) ? ["kill", "break", "abort"] : ["kill", "abort"];
}

/** Runs a plan with these faults and compares its end with the whole run's. */
async function crash(plan: Plan, schedule: Schedule, whole: Told, stepFed: boolean): Promise<Told> {
  schedules++;
  try {
    const told = await live(plan, { schedule, stepFed });
    // A call takes effect if it does in the whole run, and then once; an idempotent one at least once.
    const effects = new Map(whole.entries.filter(({ effect }) => effect).map(({ key }) => [key, 0]));
    for (const { key, tool, effect } of told.entries) {
      if (!effect) continue;
      const count = (effects.get(key) ?? fail(`${key} took effect, which it must not`)) + 1;
      if (count > 1 && !IDEMPOTENT.includes(tool)) fail(`${key} took effect ${count} times`);
      effects.set(key, count);
    }
    for (const [key, count] of effects) if (count === 0) fail(`${key} never took effect`);
    // A tool that always fails is told otherwise by a person who saw that it took effect.
    const failing = new Set(whole.entries.filter(({ tool }) => tool === "fails").map(({ key }) => key));
    const comparable = ({ messages, inside }: Told) => [...inside].concat([["r", messages]]).sort().map(([run, said]) => [run, said.filter(({ tool_call_id: id = "" }) => !failing.has(keyOf(run, id)))]);
    if (!equal(comparable(told), comparable(whole))) fail(`it ended with ${JSON.stringify(comparable(told))} instead of ${JSON.stringify(comparable(whole))}`);
    return told;
  } catch (error) {
    throw new Error(`${(error as Error).message}\nreplay: SAFETY_PLAN='${JSON.stringify(plan)}' SAFETY_SCHEDULE='${JSON.stringify(schedule)}'${stepFed ? " SAFETY_STEPFED=1" : ""} npm run test:safety -- crashes`, { cause: error });
  }
}

/**
 * A plan at every point with every fault, and at every pair of points with a kill at the second (not for a planted bug: one
 * is enough); with a `stride`, at every so many-th second one, from another one on for each first.
 */
async function everyPair(plan: Plan, limit = Infinity, stepFed = false, stride = 1): Promise<void> {
  const whole = await live(plan, { stepFed });
  for (let first = 1; first <= whole.points.length; first++) {
    for (const fault of faultsOf(whole.points[first - 1] as string)) {
      const once = await crash(plan, { [first]: fault }, whole, stepFed);
      if (fault === "abort" || fault === "break" || SCALE < 1) continue;
      for (let second = first + 1 + ((first + SEED) % stride); second <= once.points.length; second += stride) {
        if (schedules >= limit) return;
        await crash(plan, { [first]: fault, [second]: "kill" }, whole, stepFed);
      }
    }
  }
}

const { SAFETY_PLAN, SAFETY_SCHEDULE, SAFETY_STEPFED } = process.env;

if (SAFETY_PLAN !== undefined) {
  test("the plan and the schedule of SAFETY_PLAN and SAFETY_SCHEDULE", async () => {
    const plan = JSON.parse(SAFETY_PLAN) as Plan;
    const stepFed = SAFETY_STEPFED !== undefined;
    await crash(plan, JSON.parse(SAFETY_SCHEDULE ?? "{}") as Schedule, await live(plan, { stepFed }), stepFed);
  });
} else {
  test.each(Object.entries(MATRIX))("%s: killed at every point and every pair of points, each call takes effect once and the run ends the same", async (_, plan) => {
    await everyPair(plan);
  });

  test.each(Object.entries(MATRIX).slice(0, 3))("%s: the same with a store that is fed between the steps", async (_, plan) => {
    await everyPair(plan, Infinity, true);
  });

  test.each(Object.entries(NESTED))("%s: the same with agents as tools", async (name, plan) => {
    const before = schedules;
    await everyPair(plan, Infinity, false, [1, 6][Object.keys(NESTED).indexOf(name)] ?? 150);
    inside += schedules - before;
  });

  test.each(SCALE < 1 ? [] : Object.entries(NESTED))("%s: the same with agents as tools, with a store that is fed between the steps", async (_, plan) => {
    const before = schedules;
    await everyPair(plan, Infinity, true, 300);
    inside += schedules - before;
  });

  test.each([["generated plans", plans, 2000], ["generated plans with agents as tools", nested, 300]] as const)("%s, killed at every point and every pair of points", async (_, plans, count) => {
    const careful = plans(undefined, ["approve", "reject", "edit", "answer"], 2).map((plan) => everyCall(plan, (call) => ({ ...call, after: "truth" })));
    const before = schedules;
    const enough = schedules + (SCALE > 1 ? 5 * count * SCALE : Math.ceil(count * SCALE));
    for (let seed = SEED; schedules < enough; seed++) for (const plan of fc.sample(careful, { seed, numRuns: 10 })) if (plans !== nested || schedules < enough) await everyPair(plan, enough, false, plans === nested ? 40 : 1);
    if (plans === nested) inside += schedules - before;
  });

  test("without the write-ahead a crash makes a call take effect twice: the harness sees it", async () => {
    const plan = MATRIX["every kind of tool in one reply"] as Plan;
    const caught: string[] = [];
    const whole = await live(plan);
    for (let point = 1; point <= whole.points.length; point++) {
      await live(plan, { schedule: { [point]: "kill" }, withoutWriteAhead: true }).catch((error: Error) => caught.push(error.message));
    }
    expect(caught.length).toBeGreaterThan(0);
    expect(new Set(caught)).toEqual(new Set(["world: free c2 is entered 2 times", "world: gated c1 is entered 2 times"]));
  });

  test("the same three deep: what agents inside start must be saved before it runs, and the harness sees where it isn't", async () => {
    const plan = NESTED["a gated call three deep, beside an idempotent one"] as Plan;
    const caught: string[] = [];
    const whole = await live(plan);
    for (let point = 1; point <= whole.points.length; point++) {
      await live(plan, { schedule: { [point]: "kill" }, withoutWriteAhead: true }).catch((error: Error) => caught.push(error.message));
    }
    expect(new Set(caught)).toEqual(new Set(["world: gated c4 is entered 2 times"]));
  });
}

/** Two processes go on from one row at the same time, in an order that the seed draws. Returns each one's effects. */
async function rivals(plan: Plan, row: string, seed: number, compareAndSet: boolean): Promise<{ effects: string[][]; ends: string[] }> {
  const draw = random(seed);
  const wait = async (): Promise<void> => {
    for (let ticks = Math.floor(draw() * 12); ticks > 0; ticks--) await undefined;
  };
  let stored = row;
  const worker = async (): Promise<[string[], string]> => {
    const effects: string[] = [];
    const run = (_: unknown, { key }: { key: string }): Promise<string> => (effects.push(key), wait().then(() => "did"));
    const tools = { free: tool({ run }), slow: tool({ run }), fails: tool({ run }), typed: tool({ run }), gated: tool({ needsApproval: true, run }), cond: tool({ needsApproval: true, run }), idem: tool({ idempotent: true, run }), both: tool({ needsApproval: true, idempotent: true, run }), human: tool({}) };
    const model = modelOf(plan);
    await wait();
    const state = JSON.parse(stored) as State;
    const decisions = Object.fromEntries(state.calls.filter(({ status }) => status === "pending").map(({ id, reason }) => [id, reason === "approval" ? true : { result: "did" }]));
    const save = async (next: State): Promise<void> => {
      await wait();
      if (compareAndSet && (JSON.parse(stored) as State).revision !== next.revision - 1) throw new Error("somebody else goes on with this run");
      stored = JSON.stringify(next);
      await wait();
    };
    let last = "";
    try {
      for await (const step of agent({ call: async (messages) => (await wait(), model(messages)), tools, state, decisions, save, recover: true }) as AgentRun) {
        last = step.type;
        await wait();
      }
    } catch (error) {
      last = (error as Error).message;
    }
    return [effects, last];
  };
  const [one, other] = await Promise.all([worker(), worker()]);
  return { effects: [one[0], other[0]], ends: [one[1], other[1]] };
}

const twice = (effects: string[][]): string[] => effects[0]?.filter((key) => effects[1]?.includes(key)) ?? [];

test("two processes that go on from one row: one save wins, and the other has run nothing of it", async () => {
  let pairs = 0;
  for (const plan of Object.values(MATRIX)) {
    for (const { text } of (await live(plan)).rows) {
      for (let seed = 0; seed < 20; seed++) {
        const { effects, ends } = await rivals(plan, text, SEED + seed, true);
        pairs++;
        // The second may begin when the first is through: then it finds nothing to run. What the first was still running, a person must tell.
        expect(twice(effects).filter((key) => !IDEMPOTENT.includes(plan.replies.flatMap(({ calls }) => calls).find(({ id }) => key.endsWith(`/${id}`))?.name ?? "")), `SAFETY_SEED=${SEED + seed} ${text}`).toEqual([]);
        expect(ends.some((end) => end === "final" || end === "approval-needed"), `${ends.join()} of ${text}`).toBe(true);
      }
    }
  }
  figure("pairs of rivals", pairs);
});

test("without compare-and-set two processes run the same call: the harness sees it", async () => {
  let seen = 0;
  for (const { text } of (await live(MATRIX["every kind of tool in one reply"] as Plan)).rows) {
    for (let seed = 0; seed < 20; seed++) if (twice((await rivals(MATRIX["every kind of tool in one reply"] as Plan, text, SEED + seed, false)).effects).length > 0) seen++;
  }
  expect(seen).toBeGreaterThan(0);
});

/** A tool that is cut off while it runs, and the state that is left. */
async function cutOff(made: Tool, cut: AbortController): Promise<State> {
  const run = agent({ call: script(toolCall("t", {}, "c")), tools: { t: made }, messages: [{ role: "user", content: "go" }], id: "r", signal: cut.signal });
  await collect(run).catch(() => {});
  return JSON.parse(JSON.stringify(run.state)) as State;
}

test("a tool that isn't resumable is asked about after a crash, whatever it has kept", async () => {
  const cut = new AbortController();
  const state = await cutOff(tool({ run: async (_, { keep }) => { await keep("half of it"); cut.abort(); return new Promise(() => {}); } }), cut);
  expect(state.calls).toMatchObject([{ id: "c", status: "started", data: "half of it" }]);
  let entered = 0;
  const steps = await collect(agent({ call: script(toolCall("t", {}, "c")), tools: { t: tool({ run: () => entered++ }) }, state, recover: true }));
  expect([entered, steps.map((step) => step.type), pending((steps[0] as { state: State }).state)]).toEqual([0, ["approval-needed"], [{ id: "c", tool: "t", args: {}, reason: "interrupted" }]]);
});

test("what a resumable tool makes of the end of its run is not its result: it is entered again, with what it kept", async () => {
  const cut = new AbortController();
  const state = await cutOff(tool({ resumable: true, run: async (_, { keep }) => { await keep("half of it"); cut.abort(); return "cut short"; } }), cut);
  const own = new AbortController();
  const at = await cutOff(tool({ resumable: true, run: () => (own.abort(), "cut short") }), own);
  expect([state, at].map(({ calls }) => calls.map(({ status, data }) => [status, data]))).toEqual([[["started", "half of it"]], [["started", undefined]]]);
  const seen: unknown[] = [];
  for (const from of [state, at]) await collect(agent({ call: script(toolCall("t", {}, "c"), "ok"), tools: { t: tool({ resumable: true, run: (_, { data, recover }) => void seen.push([data, recover]) }) }, state: from, recover: true }));
  expect(seen).toEqual([["half of it", true], [undefined, true]]);
});
