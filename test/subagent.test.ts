// Tools that tell how they get on, that pause with questions of their own, and agents as tools, which are made of these.
import { agent, AgentError, type AgentRun, pause, pending, type PendingCall, type State, type Step, type Tool, tool } from "yieldagent";
import { subagent } from "yieldagent/subagent";
import { script, toolCall } from "yieldagent/testing";
import { describe, expect, test } from "vitest";
import { drive, line, trace } from "./trace.ts";

const user = { role: "user", content: "go" };
/** What a store would give back. */
const stored = (state: State): State => JSON.parse(JSON.stringify(state)) as State;
/** A promise, and what settles it. */
function signal(): { wait: Promise<void>; go: () => void } {
  let go = (): void => {};
  const wait = new Promise<void>((resolve) => (go = resolve));
  return { wait, go };
}
/** Each save as `revision: id status …`, with what is inside of each call in brackets. */
const statuses = (calls: State["calls"]): string => calls.map(({ id, status, data, message }) => `${id} ${status}${data && !message ? ` (${statuses((data as State).calls)})` : ""}`).join(", ");

describe("a tool that is an async generator", () => {
  test("hands over what it yields, and its return is the result", async () => {
    const tools = {
      copy: tool({
        run: async function* ({ files }) {
          for (const [i, file] of (files as string[]).entries()) yield { file, share: (i + 1) / 2 };
          return "copied";
        },
      }),
    };
    const { lines, steps } = await trace({ call: script(toolCall("copy", { files: ["a", "b"] }, "c"), "done"), tools });
    expect(lines).toEqual(["message", "start c", 'progress c: {"file":"a","share":0.5}', 'progress c: {"file":"b","share":1}', 'result c: "copied"', "message", "final stop: done"]);
    expect(steps[2]).toEqual({ type: "tool-progress", id: "c", tool: "copy", value: { file: "a", share: 0.5 } });
    expect(steps.every((step) => Object.isFrozen(step) || step.type !== "tool-progress")).toBe(true);
  });

  test("goes on when the next step is asked for, and no sooner", async () => {
    const log: string[] = [];
    const tools = { t: tool({ run: async function* () { for (const n of [1, 2]) { log.push(`yields ${n}`); yield n; } log.push("returns"); } }) };
    const run = agent({ call: script(toolCall("t", {}, "c"), "done"), tools, messages: [user] });
    for await (const step of run) {
      await new Promise(setImmediate); // would it run ahead, it would have by now
      log.push(line(step as Step));
    }
    expect(log).toEqual(["message", "start c", "yields 1", "progress c: 1", "yields 2", "progress c: 2", "returns", "result c: null", "message", "final stop: done"]);
  });

  test("tells of itself while its siblings run, in the order in which it happens", async () => {
    const first = signal();
    const second = signal();
    const tools = {
      a: tool({ run: async function* () { yield "a1"; await second.wait; yield "a2"; return "a"; } }),
      b: tool({ run: async function* () { await first.wait; yield "b1"; return "b"; } }),
    };
    const lines: string[] = [];
    for await (const step of agent({ call: script([toolCall("a", {}, "x"), toolCall("b", {}, "y")], "done"), tools, messages: [user] })) {
      lines.push(line(step as Step));
      if (step.type === "tool-progress" && step.value === "a1") first.go();
      if (step.type === "tool-result" && step.id === "y") second.go();
    }
    expect(lines.slice(3, -2)).toEqual(['progress x: "a1"', 'progress y: "b1"', 'result y: "b"', 'progress x: "a2"', 'result x: "a"']);
  });

  test("that throws after it has told something has failed, and may have taken effect", async () => {
    const tools = { t: tool({ run: async function* () { yield 1; throw new Error("no ink"); } }) };
    expect((await trace({ call: script(toolCall("t", {}, "c"), "done"), tools })).lines.slice(2, 4)).toEqual(["progress c: 1", "error c: the tool failed and may have taken effect: no ink"]);
  });

  test("that yields what JSON can't hold has failed, and is closed", async () => {
    let closed = false;
    const tools = { t: tool({ run: async function* () { try { yield new Map(); } finally { closed = true; } } }) };
    expect((await trace({ call: script(toolCall("t", {}, "c"), "done"), tools })).lines[2]).toBe("error c: the tool failed and may have taken effect: JSON can't hold Map objects");
    expect(closed).toBe(true);
  });

  test.each(["break", "abort"])("is closed where it waits, on %s", async (how) => {
    const closed = signal();
    const controller = new AbortController();
    const tools = { t: tool({ run: async function* (_, { signal }) { try { yield 1; yield 2; } finally { if (signal.aborted) closed.go(); } } }) };
    const run = agent({ call: script(toolCall("t", {}, "c")), tools, messages: [user], signal: controller.signal });
    const reading = (async () => {
      for await (const step of run) {
        if (step.type !== "tool-progress") continue;
        if (how === "break") break;
        controller.abort(new Error("enough"));
      }
    })();
    if (how === "break") await reading;
    else await expect(reading).rejects.toThrow("enough");
    await closed.wait;
    expect(statuses(run.state.calls)).toBe("c started");
  });
});

describe("what a tool keeps", () => {
  test("is in the saved state before it goes on, and given back when it is entered again", async () => {
    const log: string[] = [];
    const saved: State[] = [];
    const died = new Error("killed");
    const copy = (dies: boolean): Tool => tool({
      idempotent: true,
      run: async (_, { data, keep, recover, key }) => {
        log.push(`entered with ${JSON.stringify(data)}, ${recover}, ${key}`);
        for (const part of [1, 2, 3].slice((data as number | undefined) ?? 0)) {
          await keep(part);
          log.push(`kept ${part} at revision ${saved.at(-1)?.revision}: ${saved.at(-1)?.calls[0]?.data}`);
          if (dies && part === 2) return new Promise(() => {});
        }
        return "copied";
      },
    });
    const call = script(toolCall("copy", {}, "c"), "done");
    const save = async (state: State): Promise<void> => void saved.push(stored(state));
    const run = agent({ call, tools: { copy: copy(true) }, messages: [user], id: "r", save: async (state) => (await save(state), saved.length === 5 && Promise.reject(died)) }) as AgentRun;
    expect((await drive(run)).thrown).toBe(died);
    expect((await trace({ call, tools: { copy: copy(false) }, state: saved.at(-1) as State, recover: true, save })).lines).toEqual(["start c", 'result c: "copied"', "message", "final stop: done"]);
    expect(log).toEqual([
      "entered with undefined, false, r/c", "kept 1 at revision 4: 1",
      "entered with 2, true, r/c", "kept 3 at revision 8: 3",
    ]);
    expect(saved.map(({ revision }) => revision)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(saved.at(-1)?.calls).toEqual([]);
  });

  test("is saved one after another when many keep at once, each with a higher revision", async () => {
    const saved: State[] = [];
    const t = tool({ run: async (_, { id, keep }) => { for (const n of [1, 2]) await keep(`${id}${n}`); } });
    let saving = 0;
    const save = async (state: State): Promise<void> => {
      expect(++saving).toBe(1);
      await new Promise(setImmediate);
      saved.push(state);
      saving--;
    };
    await trace({ call: script([toolCall("t", {}, "a"), toolCall("t", {}, "b")], "done"), tools: { t }, save });
    expect(saved.map(({ revision, calls }) => `${revision}: ${calls.map(({ data }) => data ?? "").join(" ")}`)).toEqual(["1:  ", "2:  ", "3:  ", "4: a1 b1", "5: a2 b2", "6: a2 b2", "7: ", "8: "]);
  });

  test("must be JSON, and can't be kept once its call or its run has ended", async () => {
    let keep = async (_: unknown): Promise<void> => {};
    const problems: unknown[] = [];
    const t = tool({ run: async (_, context) => { ({ keep } = context); await keep(new Map()).catch((error: unknown) => problems.push(error)); return "ok"; } });
    const { lines } = await trace({ call: script(toolCall("t", {}, "c"), async () => (await keep(1).catch((error: unknown) => problems.push(error)), "done")), tools: { t } });
    expect(lines).toEqual(["message", "start c", 'result c: "ok"', "message", "final stop: done"]);
    expect(problems.map(String)).toEqual(["TypeError: JSON can't hold Map objects", 'Error: the call "c" has ended: nothing more can be kept for it']);
  });

  test("isn't kept when the save fails: the tool is told, and the run is as it was saved last", async () => {
    const told = signal();
    let said: unknown;
    const t = tool({ run: (_, { keep }) => keep(1).catch((error: unknown) => { said = error; told.go(); }) });
    const full = new Error("the disk is full");
    let saves = 0;
    const { thrown, state } = await trace({ call: script(toolCall("t", {}, "c")), tools: { t }, save: () => { if (++saves === 4) throw full; } });
    await told.wait;
    expect([thrown, said, statuses(state.calls), state.calls[0]?.data, saves]).toEqual([full, full, "c started", undefined, 4]);
  });
});

describe("a pause", () => {
  const question = (id: string, reason: PendingCall["reason"] = "answer"): PendingCall => ({ id, tool: "choose", args: { id }, reason });
  /** Asks for each of two colours, until it has both. */
  const paint = (asked: unknown[]): Tool => tool({
    run: (_, { decisions }) => {
      asked.push({ ...decisions });
      const open = ["wall", "door"].filter((id) => !decisions[id]);
      return open.length > 0 ? pause(open.map((id) => question(id))) : `painted: ${JSON.stringify(decisions)}`;
    },
  });

  test("makes the call pending with its questions, and the tool is entered again with the decisions", async () => {
    const asked: unknown[] = [];
    const call = script(toolCall("paint", {}, "c"), "done");
    const tools = { paint: paint(asked) };
    const first = await trace({ call, tools, id: "r" });
    expect(first.lines).toEqual(["message", "start c", "ask c/wall answer, c/door answer"]);
    expect(first.steps.at(-1)).toMatchObject({ pending: [{ id: "c/wall", tool: "choose", args: { id: "wall" }, reason: "answer", path: ["paint"] }, { id: "c/door", path: ["paint"] }] });
    expect(pending(stored(first.state))).toEqual((first.steps.at(-1) as { pending: unknown }).pending);
    const second = await trace({ call, tools, state: stored(first.state), decisions: { "c/door": { result: "red" } } });
    expect(second.lines).toEqual(["start c", "ask c/wall answer"]);
    expect(second.state.calls[0]?.decisions).toEqual({ door: { result: "red" } });
    const third = await trace({ call, tools, state: stored(second.state), decisions: { "c/wall": { result: "blue" } } });
    expect(third.lines).toEqual(["start c", 'result c: "painted: {\\"door\\":{\\"result\\":\\"red\\"},\\"wall\\":{\\"result\\":\\"blue\\"}}"', "message", "final stop: done"]);
    expect(asked).toEqual([{}, { door: { result: "red" } }, { door: { result: "red" }, wall: { result: "blue" } }]);
  });

  test("drops a decision on what it asks again, and all of them once something was kept", async () => {
    const seen: unknown[] = [];
    const tools = { t: tool({ run: async (_, { decisions, keep }) => { seen.push({ ...decisions }); if (decisions["b"]) await keep("both"); return pause([question("a"), question("b")]); } }) };
    const call = script(toolCall("t", {}, "c"));
    let { state } = await trace({ call, tools });
    for (const id of ["c/a", "c/a", "c/b", "c/a"]) ({ state } = await trace({ call, tools, state: stored(state), decisions: { [id]: { result: 1 } } }));
    expect(seen).toEqual([{}, { a: { result: 1 } }, { a: { result: 1 } }, { b: { result: 1 } }, { a: { result: 1 } }]);
    expect(state.calls[0]).toMatchObject({ data: "both" });
    expect(state.calls[0]).not.toHaveProperty("decisions");
  });

  test("waits with the calls beside it, each of which is decided for itself", async () => {
    const tools = { paint: paint([]), send: tool({ needsApproval: true, run: () => "sent" }) };
    const call = script([toolCall("paint", {}, "c"), toolCall("send", {}, "d")], "done");
    const first = await trace({ call, tools });
    expect(first.lines).toEqual(["message", "start c", "ask c/wall answer, c/door answer, d approval"]);
    const second = await trace({ call, tools, state: first.state, decisions: { d: true } });
    expect(second.lines).toEqual(["start d", 'result d: "sent"', "ask c/wall answer, c/door answer"]);
  });

  test("takes no decision that doesn't fit its question, and none on the call as a whole", async () => {
    const call = script(toolCall("t", {}, "c"));
    const tools = { t: tool({ run: () => pause([question("a"), question("b", "approval"), question("i", "interrupted")]) }) };
    const { state } = await trace({ call, tools });
    const refused = (decisions: object): unknown => { try { agent({ call, tools, state, decisions: decisions as never }); return "taken"; } catch (error) { return (error as Error).message; } };
    expect(refused({ c: true })).toBe('the call "c" is not pending in the state (it may have been decided already); pending: "c/a", "c/b", "c/i"');
    expect(refused({ a: true })).toContain('the call "a" is not pending');
    expect(refused({ "c/a": true })).toBe("the decision on call \"c/a\" can't approve it: its tool has no run; say { result } or { approved: false }");
    expect(refused({ "c/b": { rerun: true } })).toBe("the decision on call \"c/b\" can't rerun it: it never ran");
    expect(refused({ "c/i": true })).toContain('the decision on call "c/i" can\'t approve it: it may have run already');
    expect(refused({ "c/b": true, "c/x": true })).toContain('the call "c/x" is not pending');
    expect(refused({ "c/b": true })).toBe("taken");
  });

  test("whose user went on without deciding ends, and the model is told that it had begun", async () => {
    const call = script(toolCall("paint", {}, "c"), "well");
    const { state } = await trace({ call, tools: { paint: paint([]) } });
    const after = await trace({ call, tools: { paint: paint([]) }, state, messages: [{ role: "user", content: "leave it" }] });
    expect(after.lines).toEqual(["error c: it had begun and is left where it was: the user went on without deciding", "message", "final stop: well"]);
  });

  test("of a process that died in the tool again is asked about, with what was decided; a rerun gets that", async () => {
    const asked: unknown[] = [];
    const call = script(toolCall("paint", {}, "c"), "done");
    const { state } = await trace({ call, tools: { paint: paint(asked) } });
    const saved: State[] = [];
    const dies = { paint: tool({ run: () => new Promise(() => {}) }) };
    const dead = agent({ call, tools: dies, state, decisions: { "c/wall": { result: 1 }, "c/door": { result: 2 } }, save: (state) => void saved.push(stored(state)) });
    await dead.next();
    void dead.next();
    await new Promise(setImmediate);
    expect(saved.map(({ calls }) => statuses(calls))).toEqual(["c ready", "c started"]);
    const asks = await trace({ call, tools: { paint: paint(asked) }, state: saved[1] as State, recover: true });
    expect(asks.lines).toEqual(["ask c interrupted"]);
    const again = await trace({ call, tools: { paint: paint(asked) }, state: asks.state, decisions: { c: { rerun: true } } });
    expect(again.lines[1]).toBe('result c: "painted: {\\"wall\\":{\\"result\\":1},\\"door\\":{\\"result\\":2}}"');
  });

  test.each<[unknown, string]>([
    [[], "pending must be an array of at least one question"],
    ["a", "pending must be an array of at least one question"],
    [[question("a"), question("a")], 'pending[1].id is "a", which is no id of its own'],
    [[question("__proto__")], 'pending[0].id is "__proto__", which is no id of its own'],
    [[{ ...question("a"), id: "" }], "pending[0].id must be a string, not empty"],
    [[{ ...question("a"), args: [] }], "pending[0].args must be an object"],
    [[{ ...question("a"), args: { n: NaN } }], "pending[0].args can't be taken: JSON can't hold NaN"],
    [[{ ...question("a"), reason: "maybe" }], "pending[0].reason must be one of approval, answer, interrupted"],
    [[{ ...question("a"), path: [1] }], "pending[0].path must be an array of tools' names"],
    [[{ ...question("a"), note: "x" }], 'pending[0] has no field "note", only id, tool, args, reason, path'],
  ])("of %j is refused where it is made", (questions, message) => {
    expect(() => pause(questions as PendingCall[])).toThrow(expect.objectContaining({ name: "AgentError", code: "bad-options", message }));
  });

  test("is made by pause alone: what a tool merely says is data", async () => {
    const tools = { t: tool({ run: () => ({ "yieldagent.pause": [question("a")], questions: [question("a")], status: "pending" }) }) };
    expect((await trace({ call: script(toolCall("t", {}, "c"), "done"), tools })).lines[2]).toMatch(/^result c: /);
  });
});

test("of two calls of a reply neither has an id that is inside of the other's", async () => {
  const t = tool({ run: (_, { id }) => id });
  const ids = async (...given: string[]): Promise<string[]> => (await trace({ call: script(given.map((id) => toolCall("t", {}, id)), "done"), tools: { t } })).lines.filter((line) => line.startsWith("start")).map((line) => line.slice(6));
  expect(await ids("a", "a/b", "a/b/c")).toEqual(["a", "call_1_2", "call_1_3"]);
  expect(await ids("a/b", "a", "ab", "a/c", "x/a")).toEqual(["a/b", "call_1_2", "ab", "a/c", "x/a"]);
  expect(await ids("call_1_2/x", "")).toEqual(["call_1_2/x", "call_1_2x"]);
});
