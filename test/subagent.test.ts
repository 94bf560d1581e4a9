// Tools that tell how they get on, that pause with questions of their own, and agents as tools, which are made of these.
import { agent, AgentError, type AgentRun, pause, pending, type PendingCall, type State, type Step, type Tool, tool } from "yieldagent";
import { subagent } from "yieldagent/subagent";
import { script, type Scripted, toolCall } from "yieldagent/testing";
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

  test("tells after the results that came in beside it", async () => {
    const tools = {
      tells: tool({ run: async function* () { yield "on"; return "over"; } }),
      now: tool({ run: () => 1 }),
      soon: tool({ run: async () => 2 }),
    };
    const { lines } = await trace({ call: script([toolCall("tells", {}, "a"), toolCall("now", {}, "b"), toolCall("soon", {}, "c")], "done"), tools });
    expect(lines.slice(4, -2)).toEqual(["result b: 1", "result c: 2", 'progress a: "on"', 'result a: "over"']);
  });

  test("may be an iterator made by hand, without a return", async () => {
    const run = (): AsyncGenerator<string, string> => {
      const words = ["one", "two"];
      return { next: async () => (words.length > 1 ? { done: false, value: words.shift() } : { done: true, value: words[0] }), [Symbol.asyncIterator]() { return this; } } as never;
    };
    expect((await trace({ call: script(toolCall("t", {}, "a"), "done"), tools: { t: tool({ run }) } })).lines.slice(2, 4)).toEqual(['progress a: "one"', 'result a: "two"']);
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
    const tried = async (data: unknown): Promise<unknown> => { try { await keep(data); } catch (error) { return problems.push(error); } };
    const t = tool({ run: async (_, context) => { ({ keep } = context); await tried(new Map()); return "ok"; } });
    const { lines } = await trace({ call: script(toolCall("t", {}, "c"), async () => (await tried(1), "done")), tools: { t } });
    expect(lines).toEqual(["message", "start c", 'result c: "ok"', "message", "final stop: done"]);
    expect(problems.map(String)).toEqual(["TypeError: JSON can't hold Map objects", 'Error: the call "c" has ended: nothing more can be kept for it']);
    const fails = tool({ run: async (_, context) => { ({ keep } = context); throw new Error("no"); } });
    const saved: State[] = [];
    await trace({ call: script(toolCall("fails", {}, "f"), async () => (await tried(1), "done")), tools: { fails }, save: (state) => void saved.push(state) });
    expect([String(problems[2]), saved.some(({ calls }) => calls[0]?.data !== undefined)]).toEqual(['Error: the call "f" has ended: nothing more can be kept for it', false]);
  });

  test("may be a state, in which no message is copied anew, and as deep as any other data", async () => {
    const nested = (levels: number): unknown => (levels > 0 ? [nested(levels - 1)] : 1);
    const inner = agent({ call: script(), messages: [{ ...user, deep: nested(499) }], id: "inner" }).state;
    const wrapped = (levels: number): unknown => (levels > 0 ? [wrapped(levels - 1)] : inner);
    const problems: unknown[] = [];
    const saved: State[] = [];
    // The state has 502 levels, and data may have 595.
    const t = tool({
      run: async (_, { keep }) => {
        await keep(inner);
        try { await keep(wrapped(94)); } catch (error) { problems.push(error); }
        await keep(wrapped(93));
      },
    });
    const call = script(toolCall("t", {}, "c"), "done");
    await trace({ call, tools: { t }, save: (state) => void saved.push(state) });
    const [first, second] = saved.slice(3, 5).map(({ calls }) => calls[0]?.data);
    expect((first as State).messages).toBe(inner.messages);
    expect(problems.map(String)).toEqual(["TypeError: it is nested too deep, or contains itself"]);
    expect((second as unknown[]).flat(93)).toEqual([inner]);
    expect((await trace({ call, tools: { t }, state: stored(saved[4] as State), recover: true })).lines).toEqual(["ask c interrupted"]);
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

test("a tool that doesn't wait for what it keeps, in a run that ends, disturbs nobody; one that waits goes no further", async () => {
  const unhandled: unknown[] = [];
  const listen = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", listen);
  const controller = new AbortController();
  const told: unknown[] = [];
  const careless = tool({ run: (_, { keep }) => { void keep(1); return new Promise(() => {}); } });
  const careful = tool({ run: async (_, { keep }) => { try { await keep(1); told.push("goes on"); } catch (error) { told.push(error); } } });
  const reason = new Error("enough");
  let saves = 0;
  const save = (): void => { if (++saves === 4) controller.abort(reason); };
  const { thrown } = await trace({ call: script([toolCall("careless"), toolCall("careful"), toolCall("careless")]), tools: { careless, careful }, signal: controller.signal, save });
  await new Promise(setImmediate);
  process.off("unhandledRejection", listen);
  expect([thrown, told, unhandled]).toEqual([reason, [reason], []]);
});

test("in a run that an abort ends while it saves, what comes in of plain tools is known, and nothing of resumable ones or of what they keep", async () => {
  const controller = new AbortController();
  const reason = new Error("enough");
  const saving = signal();
  let late = async (): Promise<void> => {};
  const untilAbort = ({ signal }: { signal: AbortSignal }): Promise<string> => new Promise((resolve) => signal.addEventListener("abort", () => resolve("stopped")));
  const tools = {
    quick: tool({ run: () => 1 }),
    plain: tool({ run: (_, context) => untilAbort(context) }),
    inside: tool({ resumable: true, run: (_, context) => untilAbort(context) }),
    keeps: tool({ run: async (_, { keep }) => { late = () => keep(2); await saving.wait; await keep(1).catch(() => {}); await new Promise(() => {}); } }),
  };
  const save = async ({ calls }: State): Promise<void> => {
    if (controller.signal.aborted || calls[0]?.status !== "done") return;
    saving.go();
    await new Promise(setImmediate);
    controller.abort(reason);
    await new Promise(setImmediate);
  };
  const { lines, state, thrown } = await trace({ call: script([toolCall("quick", {}, "a"), toolCall("plain", {}, "b"), toolCall("inside", {}, "c"), toolCall("keeps", {}, "d")]), tools, save, signal: controller.signal });
  expect([thrown, lines.at(-1), statuses(state.calls)]).toEqual([reason, "result a: 1", "a done, b done, c started, d started"]);
  expect(state.calls[3]).not.toHaveProperty("data");
  await expect(late()).rejects.toBe(reason);
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

  test("stands in the state with its questions as they were asked, and is a pause to every copy of the package", async () => {
    const { state } = await trace({ call: script(toolCall("paint", {}, "c")), tools: { paint: paint([]) } });
    expect(state.calls[0]?.questions).toEqual([question("wall"), question("door")]);
    expect(Object.keys(state.calls[0]?.questions?.[0] ?? {})).toEqual(["id", "tool", "args", "reason"]);
    expect(Object.getOwnPropertySymbols(pause([question("a")]))).toEqual([Symbol.for("yieldagent.pause")]);
    const damaged = { ...state, calls: [{ ...state.calls[0], questions: [{ ...question("a"), id: 1 }] }] } as unknown as State;
    expect(() => agent({ call: script(), state: damaged })).toThrow(expect.objectContaining({ code: "bad-state", message: "state.calls[0].questions[0].id must be a string, not empty" }));
  });

  test("is made by pause alone: what a tool merely says is data", async () => {
    const tools = { t: tool({ run: () => ({ "yieldagent.pause": [question("a")], questions: [question("a")], status: "pending" }) }) };
    expect((await trace({ call: script(toolCall("t", {}, "c"), "done"), tools })).lines[2]).toMatch(/^result c: /);
  });
});

test("a decision on a call inside, delivered again, is on no later call: no id is ever inside of another", async () => {
  const ran: unknown[] = [];
  const send = tool({ needsApproval: true, run: ({ to }) => { ran.push(to); return "sent"; } });
  const clerk = subagent({ call: script(toolCall("send", { to: "Ann" }, "s"), "told"), tools: { send }, messages: () => [user] });
  for (const [first, second] of [[toolCall("clerk", {}, "c"), toolCall("send", { to: "Eve" }, "c/s")], [toolCall("send", { to: "Bo" }, "c/s"), toolCall("clerk", {}, "c")]] as const) {
    const call = script(first, second, "done");
    const paused = await trace({ call, tools: { clerk, send } });
    const asks = await trace({ call, tools: { clerk, send }, state: stored(paused.state), decisions: { "c/s": true } });
    expect(() => agent({ call, tools: { clerk, send }, state: stored(asks.state), decisions: { "c/s": true } })).toThrow(expect.objectContaining({ code: "bad-decision" }));
  }
  expect(ran).toEqual(["Ann", "Bo"]);
});

test("of two calls neither has an id that is inside of the other's, whatever the model gives", async () => {
  const t = tool({ run: (_, { id }) => id });
  const ids = async (...given: string[]): Promise<string[]> => (await trace({ call: script(given.map((id) => toolCall("t", {}, id)), "done"), tools: { t } })).lines.filter((line) => line.startsWith("start")).map((line) => line.slice(6));
  expect(await ids("a", "a/b", "a/b/c")).toEqual(["a", "call_1_2", "call_1_3"]);
  expect(await ids("a/b", "a", "ab", "a/c", "x/a")).toEqual(["a/b", "call_1_2", "ab", "a/c", "x/a"]);
  expect(await ids("call_1_2/x", "")).toEqual(["call_1_2/x", "call_1_2x"]);
  expect(await ids("/", "/a", "a!", "a/", "a//")).toEqual(["/", "/a", "a!", "a/", "call_1_5"]);
  const many = "/".repeat(200_000);
  expect(await ids(many, "b/c", `b${many}`)).toEqual(["call_1_1", "b/c", "call_1_3"]);
});

describe("an agent as a tool", () => {
  const log: string[] = [];
  const send = tool({ needsApproval: true, run: ({ to }, { key }) => { log.push(`${key} to ${to}`); return `sent to ${to}`; } });
  const look = tool({ run: () => "found" });
  const human = tool({ description: "asks a person" });
  /** A run of them, with what ran and under which key. */
  async function ran(options: Parameters<typeof trace>[0]): Promise<{ lines: string[]; log: string[]; state: State; thrown: unknown; saved: State[] }> {
    log.length = 0;
    const saved: State[] = [];
    const { lines, state, thrown } = await trace({ id: "r", save: (state) => void saved.push(stored(state)), ...(options.state && { id: undefined }), ...options });
    return { lines, log: [...log], state: stored(state), thrown, saved };
  }
  const clerk = (...replies: Scripted[]): Tool<{ who: string }> => subagent<{ who: string }>({
    call: script(...replies), tools: { send, look, human },
    messages: ({ who }) => [{ role: "user", content: `write to ${who}` }],
  }) as Tool<{ who: string }>;
  const asksClerk = (...ids: string[]): ReturnType<typeof script> => script(ids.map((id) => toolCall("clerk", { who: id }, id)), "all told");

  test("pauses the whole run for a call inside, which is decided at the top, and goes on inside", async () => {
    const tools = { clerk: clerk([toolCall("look", {}, "l"), toolCall("send", { to: "Ann" }, "s")], "Ann knows") };
    const call = asksClerk("c");
    const first = await ran({ call, tools });
    expect(first.lines).toEqual([
      "message", "start c",
      'progress c: {"type":"message","message":{"role":"assistant","content":null,"tool_calls":[{"id":"l","type":"function","function":{"name":"look","arguments":"{}"}},{"id":"s","type":"function","function":{"name":"send","arguments":"{\\"to\\":\\"Ann\\"}"}}]}}',
      'progress c: {"type":"tool-start","id":"l","tool":"look","args":{}}',
      'progress c: {"type":"tool-result","id":"l","tool":"look","args":{},"result":"found"}',
      "ask c/s approval",
    ]);
    expect(pending(first.state)).toEqual([{ id: "c/s", tool: "send", args: { to: "Ann" }, reason: "approval", path: ["clerk"] }]);
    const second = await ran({ call, tools, state: first.state, decisions: { "c/s": true } });
    expect(second.lines).toEqual([
      "start c",
      'progress c: {"type":"tool-start","id":"s","tool":"send","args":{"to":"Ann"}}',
      'progress c: {"type":"tool-result","id":"s","tool":"send","args":{"to":"Ann"},"result":"sent to Ann","decision":true}',
      'progress c: {"type":"message","message":{"role":"assistant","content":"Ann knows"}}',
      'result c: "Ann knows"', "message", "final stop: all told",
    ]);
    expect([first.log, second.log]).toEqual([[], ["r/c/s to Ann"]]);
  });

  test("has each step inside saved outside before it is told, and each start before it runs", async () => {
    const tools = { clerk: clerk(toolCall("look", {}, "l"), "found it") };
    const saved: string[] = [];
    for await (const step of agent({ call: asksClerk("c"), tools, messages: [user], save: ({ revision, calls }) => void saved.push(`${revision} ${statuses(calls)}`) })) saved.push(step.type === "tool-progress" ? `-> ${(step.value as Step).type}` : `> ${step.type}`);
    expect(saved).toEqual([
      "1 c new", "> message", "2 c ready", "> tool-start", "3 c started",
      "4 c started (l new)", "-> message", "5 c started (l started)", "-> tool-start", "6 c started (l done)", "-> tool-result",
      "7 c started ()", "-> message", "8 c done", "> tool-result", "9 ", "10 ", "> message", "> final",
    ]);
  });

  test("is kept at each step without a copy of its conversation", async () => {
    const tools = { clerk: clerk(toolCall("look", {}, "l"), toolCall("look", {}, "m"), "found it") };
    const lists: (readonly object[])[] = [];
    await trace({ call: asksClerk("c"), tools, save: ({ calls: [open] }) => { if (open?.data && !open.message) lists.push((open.data as State).messages); } });
    expect(lists.map(({ length }) => length)).toEqual([2, 2, 2, 4, 4, 4, 6]);
    expect([lists[0] === lists[1], lists[1] === lists[2], lists[3] === lists[5]]).toEqual([true, true, true]);
    for (const list of lists) for (const [i, message] of list.entries()) expect(message).toBe(lists.at(-1)?.[i]);
  });

  test("may be one of many in a reply: what each asks comes in one question, and some may be decided before the others", async () => {
    const tools = { clerk: clerk(({ length }) => toolCall("send", { to: `${length}` }, "s"), "told") };
    const call = asksClerk("a", "b", "c");
    const first = await ran({ call, tools });
    expect(first.lines.at(-1)).toBe("ask a/s approval, b/s approval, c/s approval");
    const second = await ran({ call, tools, state: first.state, decisions: { "b/s": true, "c/s": { approved: false, reason: "not her" } } });
    expect(second.lines.filter((line) => !line.startsWith("progress"))).toEqual(["start b", "start c", 'result c: "told"', 'result b: "told"', "ask a/s approval"]);
    const third = await ran({ call, tools, state: second.state, decisions: { "a/s": true } });
    expect([first.log, second.log, third.log]).toEqual([[], ["r/b/s to 1"], ["r/a/s to 1"]]);
    expect(third.state.messages.map(({ role, content }) => `${role} ${content}`)).toEqual(["user go", "assistant null", "tool told", "tool told", "tool told", "assistant all told"]);
  });

  test("saves one after another when many run, each with the next revision", async () => {
    const tools = { clerk: clerk(toolCall("look", {}, "l"), "found it") };
    const { saved } = await ran({ call: asksClerk("a", "b", "c"), tools });
    expect(saved.map(({ revision }) => revision)).toEqual(saved.map((_, i) => i + 1));
    const inside = saved.flatMap(({ calls }) => calls.map(({ id, data }) => [id, (data as State | undefined)?.revision ?? 0] as const));
    for (const id of ["a", "b", "c"]) {
      const revisions = inside.filter((one) => one[0] === id).map(([, revision]) => revision);
      expect(revisions).toEqual([...revisions].sort((a, b) => a - b));
    }
  });

  test("takes an edit, an answer and a rejection inside, and pauses as often as it has to", async () => {
    const tools = { clerk: clerk([toolCall("send", { to: "Ann" }, "s"), toolCall("human", {}, "h")], toolCall("send", { to: "Bo" }, "t"), (messages) => messages.map(({ content }) => String(content ?? "")).join("|")) };
    const call = asksClerk("c");
    const first = await ran({ call, tools });
    const second = await ran({ call, tools, state: first.state, decisions: { "c/s": { approved: true, args: { to: "Eve" } }, "c/h": { result: "blue" } } });
    const third = await ran({ call, tools, state: second.state, decisions: { "c/t": { approved: false, reason: "no" } } });
    expect([first, second].map(({ lines }) => lines.at(-1))).toEqual(["ask c/s approval, c/h answer", "ask c/t approval"]);
    expect(third.lines.at(-3)).toBe('result c: "write to c||sent to Eve\\n\\n(The arguments were changed to {\\"to\\":\\"Eve\\"})|blue||Error: not run: it was rejected: no"');
    expect([...second.log, ...third.log]).toEqual(["r/c/s to Eve"]);
  });

  test("nests: three deep, the ids and paths grow, the keys too, and the result comes all the way up", async () => {
    const level = (name: string, inner: Tool): Tool => subagent({ call: script(toolCall(name, { who: "Ann" }, "x/y"), `${name} done`), tools: { [name]: inner }, messages: () => [user] }) as Tool;
    const tools = { boss: level("lead", level("clerk", clerk(toolCall("send", { to: "Ann" }, "s"), "told"))) };
    const call = script(toolCall("boss", {}, "b"), "done");
    const first = await ran({ call, tools });
    expect(pending(first.state)).toEqual([{ id: "b/x/y/x/y/s", tool: "send", args: { to: "Ann" }, reason: "approval", path: ["boss", "lead", "clerk"] }]);
    const second = await ran({ call, tools, state: first.state, decisions: { "b/x/y/x/y/s": true } });
    expect(second.log).toEqual(["r/b/x%2Fy/x%2Fy/s to Ann"]);
    expect(second.lines.at(-3)).toBe('result b: "lead done"');
  });

  test("of a process that died while a tool inside ran asks about that one call; said to run again, it does", async () => {
    const hangs = signal();
    const stuck = subagent<{ who: string }>({
      call: script([toolCall("look", {}, "l"), toolCall("send", { to: "Ann" }, "s")], "told"),
      tools: { look, send: tool({ needsApproval: true, run: () => (hangs.go(), new Promise(() => {})) }) }, messages: () => [user],
    });
    const call = asksClerk("c");
    const tools = { clerk: clerk([toolCall("look", {}, "l"), toolCall("send", { to: "Ann" }, "s")], "told") };
    const { state } = await ran({ call, tools });
    const saved: State[] = [];
    void drive(agent({ call, tools: { clerk: stuck }, state, decisions: { "c/s": true }, save: (state) => void saved.push(stored(state)) }) as AgentRun);
    await hangs.wait;
    const cut = saved.at(-1) as State;
    expect(statuses(cut.calls)).toBe("c started (l done, s started)");
    expect(() => agent({ call, tools, state: cut })).toThrow(expect.objectContaining({ code: "in-flight" }));
    const asks = await ran({ call, tools, state: cut, recover: true });
    expect(asks.lines).toEqual(["start c", "ask c/s interrupted"]);
    expect(() => agent({ call, tools, state: asks.state, decisions: { "c/s": true } })).toThrow("can't approve it: it may have run already");
    const again = await ran({ call, tools, state: asks.state, decisions: { "c/s": { rerun: true } } });
    expect([asks.log, again.log, again.lines.at(-1)]).toEqual([[], ["r/c/s to Ann"], "final stop: all told"]);
  });

  test("of a process that died before a decision inside was carried out carries it out once", async () => {
    const tools = { clerk: clerk(toolCall("send", { to: "Ann" }, "s"), "told") };
    const call = asksClerk("c");
    const { state } = await ran({ call, tools });
    const { saved } = await ran({ call, tools, state, decisions: { "c/s": true } });
    const runs = [];
    for (const cut of saved) {
      const { log, lines } = await ran({ call, tools, state: cut, recover: true });
      runs.push(`${statuses(cut.calls)}: ${log.length} ${lines.at(-1)}`);
    }
    expect(runs).toEqual([
      "c ready (s pending): 1 final stop: all told", "c started (s pending): 1 final stop: all told",
      "c started (s started): 0 ask c/s interrupted", // it may have run
      "c started (s done): 0 final stop: all told", "c started (): 0 final stop: all told", "c done: 0 final stop: all told", ": 0 final stop: all told", ": 0 final stop: all told",
    ]);
  });

  test("that stops at its limit, or whose model throws, has failed in words that the model outside can act on", async () => {
    const endless = subagent({ call: async () => ({ role: "assistant", content: null, tool_calls: [toolCall("look")] }), tools: { look }, maxSteps: 2, messages: () => [user] });
    const broken = subagent({ call: () => Promise.reject(new Error("the server is down")), messages: () => [user] });
    const call = script([toolCall("endless", {}, "e"), toolCall("broken", {}, "b")], "I see");
    const { lines } = await ran({ call, tools: { endless, broken } });
    expect(lines.filter((line) => !line.startsWith("progress")).sort()).toEqual([
      "error b: the tool failed and may have taken effect: the server is down",
      "error e: the tool failed and may have taken effect: it reached its limit of 2 model calls without an answer",
      "final stop: I see", "message", "message", "start b", "start e",
    ]);
  });

  test("whose failure must not be swallowed ends the run, which goes on inside where it was", async () => {
    const down = new Error("the server is down");
    let isDown = true;
    const replies = script(toolCall("look", {}, "l"), () => (isDown ? down : "found it"));
    const tools = { clerk: subagent({ call: replies, tools: { look }, messages: () => [user] }) };
    const call = asksClerk("c");
    const first = await ran({ call, tools, onToolError: (error) => { throw error; } });
    expect([first.thrown, statuses(first.state.calls)]).toEqual([down, "c started (l done)"]);
    isDown = false;
    const second = await ran({ call, tools, state: first.state, recover: true });
    expect(second.lines).toEqual(["start c", 'progress c: {"type":"message","message":{"role":"assistant","content":"found it"}}', 'result c: "found it"', "message", "final stop: all told"]);
    expect(replies.requests).toHaveLength(3);
  });

  test("whose inside refuses an edit ends the run with that, and the same questions wait; what ran beside it is kept", async () => {
    const number = { "~standard": { version: 1, vendor: "test", validate: (value: unknown) => (typeof (value as { n?: unknown }).n === "number" ? { value } : { issues: [{ message: "n must be a number" }] }), jsonSchema: { input: () => ({ type: "object" }) } } } as const;
    const pay = subagent({ call: script(toolCall("pay", { n: 1 }, "p"), "paid"), tools: { pay: tool({ parameters: number as never, needsApproval: true, run: () => "ok" }) }, messages: () => [user] });
    const call = script([toolCall("pay", {}, "c"), toolCall("clerk", { who: "Ann" }, "d")], "done");
    const tools = { pay, clerk: clerk(toolCall("send", { to: "Ann" }, "s"), "told") };
    const first = await ran({ call, tools });
    const second = await ran({ call, tools, state: first.state, decisions: { "c/p": { approved: true, args: { n: "1" } }, "d/s": true } });
    expect(second.thrown).toMatchObject({ code: "bad-decision", message: "in the call \"c\" of pay: the decision on call \"p\" can't be taken: its arguments don't fit: n must be a number" });
    expect([second.log, statuses(second.state.calls), pending(second.state).map(({ id }) => id)]).toEqual([["r/d/s to Ann"], "c pending (p pending), d done", ["c/p"]]);
    expect(second.state.calls[0]).not.toHaveProperty("decisions");
    const third = await ran({ call, tools, state: second.state, decisions: { "c/p": { approved: true, args: { n: 2 } } } });
    expect([third.lines.at(-1), third.log]).toEqual(["final stop: done", []]);
  });

  test("that is gone after a deploy, or a tool inside of it, is the caller's to put right: nothing is lost", async () => {
    const call = asksClerk("c");
    const tools = { clerk: clerk(toolCall("send", { to: "Ann" }, "s"), "told") };
    const { state } = await ran({ call, tools });
    expect(() => agent({ call, tools: {}, state, decisions: { "c/s": true } })).toThrow(expect.objectContaining({ code: "bad-options", message: 'tools has no "clerk" that can run, for the call "c" of the state' }));
    const without = { clerk: subagent<{ who: string }>({ call: script(), messages: () => [user] }) };
    const second = await ran({ call, tools: without, state, decisions: { "c/s": true } });
    expect(second.thrown).toMatchObject({ name: "AgentError", code: "bad-options", message: 'in the call "c" of clerk: tools has no "send" that can run, for the call "s" of the state' });
    expect(pending(second.state)).toEqual(pending(state));
    const third = await ran({ call, tools, state: second.state, decisions: { "c/s": true } });
    expect([third.log, third.lines.at(-1)]).toEqual([["r/c/s to Ann"], "final stop: all told"]);
  });

  test("counts what it uses, inside and outside", async () => {
    const usage = (n: number) => ({ usage: { prompt_tokens: n, completion_tokens: 1, total_tokens: n + 1 } });
    const inner = subagent({ call: script({ role: "assistant", content: null, tool_calls: [toolCall("look")], ...usage(10) }, { role: "assistant", content: "ok", ...usage(20) }), tools: { look }, messages: () => [user] });
    const call = script({ role: "assistant", content: null, tool_calls: [toolCall("inner", {}, "a"), toolCall("inner", {}, "b")], ...usage(100) }, { role: "assistant", content: "done", ...usage(200) });
    const { state } = await ran({ call, tools: { inner } });
    expect(state.usage).toEqual({ prompt_tokens: 360, completion_tokens: 6, total_tokens: 366 });
  });

  test("counts its model calls across pauses", async () => {
    const inner = subagent({ call: async (messages) => ({ role: "assistant", content: null, tool_calls: [toolCall("send", { to: messages.length }, `s${messages.length}`)] }), tools: { send }, maxSteps: 2, messages: () => [user] });
    const call = script(toolCall("inner", {}, "c"), "done");
    const tools = { inner };
    let { state, lines } = await ran({ call, tools });
    const ends = [lines.at(-1)];
    for (const id of ["c/s1", "c/s3"]) {
      ({ state, lines } = await ran({ call, tools, state, decisions: { [id]: true } }));
      ends.push(lines.at(-1));
    }
    expect(ends).toEqual(["ask c/s1 approval", "ask c/s3 approval", "final stop: done"]);
    expect(state.messages[2]?.content).toBe("Error: the tool failed and may have taken effect: it reached its limit of 2 model calls without an answer");
  });

  test("is told of an abort to the bottom, and stays where it was", async () => {
    const entered = signal();
    const told = signal();
    const bottom = tool({ run: (_, { signal }) => new Promise((_, reject) => { signal.onabort = () => { told.go(); reject(signal.reason as Error); }; entered.go(); }) });
    const level = (inner: Tool): Tool => subagent({ call: script(toolCall("t", {}, "t"), "done"), tools: { t: inner }, messages: () => [user] }) as Tool;
    const controller = new AbortController();
    const reason = new Error("enough");
    const running = ran({ call: script(toolCall("t", {}, "t")), tools: { t: level(level(bottom)) }, signal: controller.signal });
    await entered.wait;
    controller.abort(reason);
    const { thrown, state } = await running;
    await told.wait;
    expect([thrown, statuses(state.calls)]).toEqual([reason, "t started (t started (t started))"]);
    const asks = await ran({ call: script(toolCall("t", {}, "t"), "done"), tools: { t: level(level(bottom)) }, state, recover: true });
    expect(asks.lines.at(-1)).toBe("ask t/t/t interrupted");
  });

  test("may itself need approval, as any tool", async () => {
    const inner = subagent({ needsApproval: true, call: script("hi"), messages: () => [user] });
    const call = script(toolCall("inner", {}, "c"), "done");
    const first = await ran({ call, tools: { inner } });
    expect(pending(first.state)).toEqual([{ id: "c", tool: "inner", args: {}, reason: "approval" }]);
    expect((await ran({ call, tools: { inner }, state: first.state, decisions: { c: true } })).lines.slice(-3)).toEqual(['result c: "hi"', "message", "final stop: done"]);
  });

  test("saved in the loop's body, without save, runs nothing twice either", async () => {
    const call = asksClerk("c");
    const tools = { clerk: clerk([toolCall("look", {}, "l"), toolCall("send", { to: "Ann" }, "s")], "told") };
    const { state } = await ran({ call, tools });
    for (let cut = 1; cut <= 4; cut++) {
      log.length = 0;
      const run = agent({ call, tools, state, decisions: { "c/s": true } });
      let last = state;
      for (let i = 0; i < cut; i++) {
        await run.next();
        last = stored(run.state);
      }
      const before = log.length;
      void run.next(); // the process goes on a little, and dies
      await new Promise(setImmediate);
      const ran = log.length;
      log.length = 0;
      const after = await trace({ call, tools, state: last, recover: true });
      expect([cut, before, ran, log.length, after.lines.at(-1)]).toEqual([cut, cut > 2 ? 1 : 0, cut > 1 ? 1 : 0, cut === 1 ? 1 : 0, cut === 2 ? "ask c/s interrupted" : "final stop: all told"]);
    }
  });

  test.each<[object, string]>([
    [{ call: script() }, "options.messages must be a function of the call's arguments"],
    [{ messages: () => [] }, "options.call must be a function"],
    [{ call: script(), messages: () => [], needApproval: true }, 'options has no field "needApproval"'],
    [{ call: script(), messages: () => [], tools: { "a b": {} } }, 'the tool name "a b" must match'],
    [{ call: script(), messages: () => [], maxSteps: 0 }, "options.maxSteps must be a whole number from 1"],
  ])("with %j is refused where it is made", (options, message) => {
    expect(() => subagent(options as never)).toThrow(expect.objectContaining({ code: "bad-options", message: expect.stringContaining(message) as string }));
  });
});

describe("an AgentError", () => {
  const error = new AgentError("bad-options", "no");
  const question: PendingCall = { id: "a", tool: "x", args: {}, reason: "answer" };
  const call = script(toolCall("t", {}, "c"), "done");
  const FAILED = "error c: the tool failed and may have taken effect: no";
  /** What becomes of a tool that pauses, or that was cut off after it had kept something, when it is entered again. */
  async function again(how: "paused" | "cut off", t: Tool["run"], resumable = true): ReturnType<typeof trace> {
    const asks = tool({ resumable, run: async (_, { keep }) => (how === "paused" ? pause([question]) : (await keep("half"), await new Promise(() => {}))) });
    const tools = { t: tool({ resumable, run: t }) };
    if (how === "paused") return await trace({ call, tools, state: (await trace({ call, tools: { t: asks } })).state, decisions: { "c/a": { result: 1 } } });
    let cut: State | undefined;
    const dead = agent({ call, tools: { t: asks }, messages: [user], save: (state) => { if (state.calls[0]?.data) cut = stored(state); } });
    while (!cut) await Promise.race([dead.next(), new Promise(setImmediate)]);
    return await trace({ call, tools, state: cut, recover: true });
  }
  const throws = (): never => { throw error; };

  test("of a resumable tool that is entered again, and has kept nothing since, is the run's, and its call is as it was", async () => {
    const paused = await again("paused", throws);
    expect([paused.lines, paused.thrown, statuses(paused.state.calls), pending(paused.state)]).toEqual([["start c"], expect.objectContaining({ code: "bad-options", message: 'in the call "c" of t: no' }), "c pending", [{ ...question, id: "c/a", path: ["t"] }]]);
    const cut = await again("cut off", throws);
    expect([cut.lines, cut.thrown, statuses(stored(cut.state).calls.map((open) => ({ ...open, data: undefined }))), cut.state.calls[0]?.data]).toEqual([["start c"], expect.objectContaining({ code: "bad-options", message: 'in the call "c" of t: no' }), "c ready", "half"]);
    const { lines } = await trace({ call, tools: { t: tool({ resumable: true, run: (_, { data }) => `the other ${data}` }) }, state: cut.state });
    expect(lines).toEqual(["start c", 'result c: "the other half"', "message", "final stop: done"]);
  });

  test("of any other tool is a failure as any", async () => {
    expect((await again("paused", throws, false)).lines[1]).toBe(FAILED);
    // It had kept something.
    expect((await again("paused", async (_, { keep }) => { await keep(1); throw error; })).lines[1]).toBe(FAILED);
    expect((await again("cut off", async (_, { keep }) => { await keep("more"); throw error; })).lines[1]).toBe(FAILED);
    // What is wrong is the model's.
    expect((await again("cut off", () => { throw new AgentError("bad-reply", "no"); })).lines[1]).toBe(FAILED);
    // It is entered for the first time.
    expect((await trace({ call, tools: { t: tool({ resumable: true, run: throws }) } })).lines[2]).toBe(FAILED);
    expect((await trace({ call, tools: { t: tool({ resumable: true, run: async (_, { keep }) => { await keep(1); throw error; } }) } })).lines[2]).toBe(FAILED);
  });
});
