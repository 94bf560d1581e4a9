// The scenarios of real life, each with its whole trace. g is a gated tool, p a plain one.
import { agent, AgentError, pending, tool } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";
import { beforeEach, expect, test } from "vitest";
import { stored, toldTo, trace, user } from "./trace.ts";

let ran: string[] = [];
beforeEach(() => {
  ran = [];
});

const tools = {
  g: tool({ needsApproval: true, run: (_, { id }) => (ran.push(id), `did ${id}`) }),
  p: tool({ run: (_, { id }) => (ran.push(id), `did ${id}`) }),
};
const g = (id: string) => toolCall("g", {}, id);
const p = (id: string) => toolCall("p", {}, id);

test("one of two gated calls is approved, the other rejected: one runs, both are answered in reply order", async () => {
  const call = script([g("a"), g("b")], "ok");
  const paused = await trace({ call, tools });
  expect(paused.lines).toEqual(["message", "ask a approval, b approval"]);
  const resumed = await trace({ call, tools, state: stored(paused.state), decisions: { b: false, a: true } });
  expect(resumed.lines).toEqual(["error b: not run: it was rejected", "start a", "result a: \"did a\"", "message", "final stop: ok"]);
  expect(resumed.state.messages.slice(2, 4)).toEqual([
    { role: "tool", tool_call_id: "a", content: "did a" },
    { role: "tool", tool_call_id: "b", content: "Error: not run: it was rejected" },
  ]);
  expect(call.requests).toHaveLength(2);
});

test("a plain call runs beside a gated one that waits, and the gated one gets its rejection", async () => {
  const call = script([g("a"), p("r")], "ok");
  const paused = await trace({ call, tools });
  expect(paused.lines).toEqual(["message", "start r", "result r: \"did r\"", "ask a approval"]);
  const resumed = await trace({ call, tools, state: stored(paused.state), decisions: { a: { approved: false, reason: "too dear" } } });
  expect(resumed.lines).toEqual(["error a: not run: it was rejected: too dear", "message", "final stop: ok"]);
  expect(ran).toEqual(["r"]);
});

test.each([[[toolCall("nope", {}, "x"), g("a")]], [[g("a"), toolCall("nope", {}, "x")]]])("an unknown tool beside a gated call changes nothing for it, in either order", async (calls) => {
  const paused = await trace({ call: script(calls, "ok"), tools });
  expect(paused.lines).toEqual(["message", "error x: not run: there is no tool \"nope\"; the tools are: g, p", "ask a approval"]);
});

test("two gated calls approved one after the other, the later one first: each runs once, the model is asked once", async () => {
  const call = script([g("a"), g("b")], "ok");
  const first = await trace({ call, tools });
  const second = await trace({ call, tools, state: stored(first.state), decisions: { b: true } });
  expect(second.lines).toEqual(["start b", "result b: \"did b\"", "ask a approval"]);
  const third = await trace({ call, tools, state: stored(second.state), decisions: { a: true } });
  expect(third.lines).toEqual(["start a", "result a: \"did a\"", "message", "final stop: ok"]);
  expect(ran).toEqual(["b", "a"]);
  expect(call.requests).toHaveLength(2);
});

test("an approval given again on the state after it ran is refused", async () => {
  const call = script([g("a"), g("b")], "ok");
  const first = await trace({ call, tools });
  const second = await trace({ call, tools, state: first.state, decisions: { a: true } });
  expect(() => agent({ call, tools, state: second.state, decisions: { a: true } })).toThrow('the call "a" is not pending in the state (it may have been decided already); pending: "b"');
  expect(ran).toEqual(["a"]);
});

test("two runs from one state object, one of them decided: the other is still pending", async () => {
  const call = script([g("a")], "ok");
  const { state } = await trace({ call, tools });
  const decided = await trace({ call, tools, state, decisions: { a: true } });
  const undecided = await trace({ call, tools, state });
  expect(decided.lines.at(-1)).toBe("final stop: ok");
  expect(undecided.lines).toEqual(["ask a approval"]);
});

test("a caller that empties the pending array it was handed changes nothing", async () => {
  const call = script([g("a")], "ok");
  const { steps, state } = await trace({ call, tools });
  const asked = steps.at(-1);
  if (asked?.type === "approval-needed") (asked.pending as unknown[]).length = 0;
  expect(pending(state)).toEqual([{ id: "a", tool: "g", args: {}, reason: "approval" }]);
  expect((await trace({ call, tools, state })).lines).toEqual(["ask a approval"]);
});

test("an approved tool that throws is an error result, and the model goes on", async () => {
  const boom = { g: tool({ needsApproval: true, run: () => { throw new Error("no paper"); } }) };
  const call = script([g("a")], "sorry");
  const { state } = await trace({ call, tools: boom });
  const resumed = await trace({ call, tools: boom, state, decisions: { a: true } });
  expect(resumed.lines).toEqual(["start a", "error a: the tool failed and may have taken effect: no paper", "message", "final stop: sorry"]);
});

test("a model that repeats a rejected call for ever is stopped by maxSteps, which counts across resumes", async () => {
  const call = script(...Array.from({ length: 20 }, (_, i) => g(`a${i}`)));
  let { state, lines } = await trace({ call, tools, maxSteps: 3 });
  for (let i = 0; i < 3; i++) ({ state, lines } = await trace({ call, tools, maxSteps: 3, state: stored(state), decisions: { [`a${i}`]: false } }));
  expect(lines).toEqual(["error a2: not run: it was rejected", "final max-steps: null"]);
  expect(call.requests).toHaveLength(3);
});

test.each([null, false, "", 0])("an answer %j is the answer", async (result) => {
  const human = { ask: tool({ description: "ask the user" }) };
  const call = script(toolCall("ask", {}, "q"), "ok");
  const { state, lines } = await trace({ call, tools: human });
  expect(lines).toEqual(["message", "ask q answer"]);
  const resumed = await trace({ call, tools: human, state: stored(state), decisions: { q: { result } } });
  expect(resumed.lines).toEqual([`result q: ${JSON.stringify(result)}`, "message", "final stop: ok"]);
  expect(toldTo(resumed.state)).toEqual({ q: typeof result === "string" ? result : JSON.stringify(result) });
});

test("a policy that changes its mind is not asked again about a call that is pending", async () => {
  let asked = 0;
  const policy = { g: tool({ needsApproval: () => ++asked === 1, run: () => "did" }) };
  const call = script(g("a"), "ok");
  const { state } = await trace({ call, tools: policy });
  const again = await trace({ call, tools: policy, state: stored(state), approve: () => ({ approved: true }) });
  expect(again.lines).toEqual(["ask a approval"]);
  expect(asked).toBe(1);
});

test("arguments that are no JSON give an error result, and the history holds {}", async () => {
  const { lines, state } = await trace({ call: script(toolCall("p", '{"a":', "a"), "ok"), tools });
  expect(lines).toEqual(["message", "error a: not run: its arguments are not a JSON object", "message", "final stop: ok"]);
  expect(state.messages[1]?.tool_calls?.[0]?.function.arguments).toBe("{}");
  expect(ran).toEqual([]);
});

test("an id used twice in one reply, and again in the next: every call has its own id and result", async () => {
  const { lines, state } = await trace({ call: script([p("x"), p("x")], [p("x"), p("0")], "ok"), tools });
  expect(lines).toEqual([
    "message", "start x", "start call_1_2", 'result x: "did x"', 'result call_1_2: "did call_1_2"',
    "message", "start call_2_1", "start 0", 'result call_2_1: "did call_2_1"', 'result 0: "did 0"', "message", "final stop: ok",
  ]);
  expect(Object.keys(toldTo(state))).toHaveLength(4);
});

test("a reply cut off at its limit runs no call, even one whose arguments happen to parse", async () => {
  const call = script({ role: "assistant", content: null, finish_reason: "length", tool_calls: [p("a"), g("b")] }, "ok");
  const { lines } = await trace({ call, tools });
  const cut = "not run: the reply was cut off at its token limit; try again with less";
  expect(lines).toEqual(["message", `error a: ${cut}`, `error b: ${cut}`, "message", "final stop: ok"]);
  expect(ran).toEqual([]);
});

test("arguments cut in the middle run nothing, whatever the finish reason says", async () => {
  const call = script({ role: "assistant", content: null, finish_reason: "tool_calls", tool_calls: [toolCall("p", '{"to":"ann', "a")] }, "ok");
  expect((await trace({ call, tools })).lines[1]).toBe("error a: not run: its arguments are not a JSON object");
});

test("a slow call before a fast one: steps as they finish, messages in reply order", async () => {
  let release = (_: string): void => {};
  const slow = new Promise<string>((resolve) => (release = resolve));
  const both = { slow: tool({ run: () => slow }), fast: tool({ run: () => (queueMicrotask(() => setTimeout(release, 0, "late")), "soon") }) };
  const { lines, state } = await trace({ call: script([toolCall("slow", {}, "a"), toolCall("fast", {}, "b")], "ok"), tools: both });
  expect(lines).toEqual(["message", "start a", "start b", 'result b: "soon"', 'result a: "late"', "message", "final stop: ok"]);
  expect(state.messages.slice(2, 4).map((message) => message.tool_call_id)).toEqual(["a", "b"]);
});

test("a user message while a call is pending: the call is closed first", async () => {
  const call = script(g("a"), "as you like");
  const { state } = await trace({ call, tools });
  const resumed = await trace({ call, tools, state: stored(state), messages: [{ role: "user", content: "never mind" }] });
  expect(resumed.lines).toEqual(["error a: not run: the user went on without deciding", "message", "final stop: as you like"]);
  expect(resumed.state.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "user", "assistant"]);
  expect(ran).toEqual([]);
});

test("a user message together with an approval: the call runs first, then the message comes", async () => {
  const call = script(g("a"), "done");
  const { state } = await trace({ call, tools });
  const resumed = await trace({ call, tools, state: stored(state), decisions: { a: true }, messages: [{ role: "user", content: "and then?" }] });
  expect(resumed.lines).toEqual(["start a", 'result a: "did a"', "message", "final stop: done"]);
  expect(resumed.state.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "user", "assistant"]);
});

const cycle: Record<string, unknown> = {};
cycle["self"] = cycle;
test.each([
  ["a BigInt", 1n, "error a: the tool ran, but its result can't be kept: JSON can't hold a BigInt"],
  ["a cycle", cycle, "error a: the tool ran, but its result can't be kept: it is nested too deep, or contains itself"],
  ["a Map", new Map([[1, 2]]), "error a: the tool ran, but its result can't be kept: JSON can't hold Map objects"],
  ["an Error", new Error("quota"), "error a: the tool failed and may have taken effect: quota"],
  ["a promise inside", { data: Promise.resolve(1) }, "error a: the tool ran, but its result can't be kept: JSON can't hold Promise objects"],
  ["undefined", undefined, "result a: null"],
  ["a date", new Date(0), 'result a: "1970-01-01T00:00:00.000Z"'],
])("a tool that returns %s ran once, and its one result says so", async (_, value, expected) => {
  let runs = 0;
  const odd = { p: tool({ run: () => (runs++, value) }) };
  const { lines, state } = await trace({ call: script(p("a"), "ok"), tools: odd });
  expect(lines).toEqual(["message", "start a", expected, "message", "final stop: ok"]);
  expect(stored(state)).toEqual(state);
  expect(runs).toBe(1);
});

test("one sibling throws and another stalls: the results of the others are handed over as they come", async () => {
  const mixed = {
    bad: tool({ run: () => { throw new Error("no"); } }),
    stall: tool({ run: () => new Promise(() => {}) }),
    good: tool({ run: () => "yes" }),
  };
  const run = agent({ call: script([toolCall("bad", {}, "a"), toolCall("stall", {}, "b"), toolCall("good", {}, "c")], "ok"), tools: mixed, messages: [user] });
  const seen: string[] = [];
  for await (const step of run) {
    if (step.type === "tool-result") seen.push(step.id);
    if (seen.length === 2) break;
  }
  expect(seen).toEqual(["a", "c"]);
  expect(run.state.calls.map(({ id, status }) => `${id} ${status}`)).toEqual(["a done", "b started", "c done"]);
});

test("an abort while a tool runs that ignores its signal throws at once, and the state says started", async () => {
  const controller = new AbortController();
  let told: AbortSignal | undefined;
  const deaf = { p: tool({ run: (_, { signal }) => (told = signal, setTimeout(() => controller.abort(new Error("enough"))), new Promise(() => {})) }) };
  const { lines, thrown, state } = await trace({ call: script(p("a"), "ok"), tools: deaf, signal: controller.signal });
  expect(lines).toEqual(["message", "start a"]);
  expect(thrown).toEqual(new Error("enough"));
  expect(told?.aborted).toBe(true);
  expect(state.calls[0]?.status).toBe("started");
});

test("the limit reached in the middle of work is an outcome, and a larger limit goes on", async () => {
  const call = script(p("a"), p("b"), "ok");
  const { lines, state } = await trace({ call, tools, maxSteps: 2 });
  expect(lines.at(-1)).toBe("final max-steps: null");
  expect((await trace({ call, tools, state: stored(state), maxSteps: 3 })).lines).toEqual(["message", "final stop: ok"]);
  expect(ran).toEqual(["a", "b"]);
});

test("400 steps hold their transcript once: the last snapshot shares every message with the run", async () => {
  const call = script(...Array.from({ length: 400 }, (_, i) => p(`c${i}`)), "ok");
  const { state } = await trace({ call, tools, maxSteps: 1000 });
  expect(state.messages).toHaveLength(802);
  expect(call.requests[200]?.messages[50]).toBe(state.messages[50]);
});

test("a configuration error at resume is thrown before anything changed", async () => {
  const call = script(g("a"), "ok");
  const { state } = await trace({ call, tools });
  const before = JSON.stringify(state);
  for (const wrong of [{}, { g: { needsApproval: true } }]) {
    expect(() => agent({ call, tools: wrong, state, decisions: { a: true } })).toThrow('tools has no "g" that can run, for the call "a" of the state');
  }
  expect(() => agent({ call, tools: { g: { parameters: { type: "array" }, run: () => 1 } }, state, decisions: { a: true } })).toThrow(AgentError);
  expect(JSON.stringify(state)).toBe(before);
});
