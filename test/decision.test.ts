import { agent, type Decision, pending, type State, tool } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { stored, toldTo, trace, user } from "./trace.ts";

let ran: unknown[] = [];
beforeEach(() => {
  ran = [];
});

const tools = {
  send: tool({ needsApproval: true, run: (args) => (ran.push(args), "sent") }),
  ask: tool({}),
};

/** A state that waits: `a` to be approved, `q` to be answered, and with `recover` also `i`, interrupted. */
async function waiting(interrupted = false): Promise<State> {
  const call = script([toolCall("send", { to: "ann" }, "a"), toolCall("ask", {}, "q"), toolCall("send", { to: "bob" }, "i")]);
  const { state } = await trace({ call, tools });
  if (!interrupted) return stored(state);
  const died = stored(state);
  Object.assign(died.calls[2] as object, { status: "started", reason: undefined });
  return stored((await trace({ call, tools, state: stored(died), recover: true })).state);
}

function nested(depth: number): unknown {
  let value: unknown = 0;
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

describe("a decision is refused before anything happened", () => {
  test.each([
    ['the call "x" is not pending in the state (it may have been decided already); pending: "a", "q", "i"', { x: true }],
    ['the call "toString" is not pending in the state (it may have been decided already); pending: "a", "q", "i"', { toString: true }],
    ['the decision on call "a" must be true, false, { approved, args | reason }, { result } or { rerun: true }', { a: "yes" }],
    ['the decision on call "a" must be true, false, { approved, args | reason }, { result } or { rerun: true }', { a: 1 }],
    ['the decision on call "a" must be true, false, { approved, args | reason }, { result } or { rerun: true }', { a: null }],
    ['the decision on call "a" must be true, false, { approved, args | reason }, { result } or { rerun: true }', { a: undefined }],
    ['the decision on call "a" must be true, false, { approved, args | reason }, { result } or { rerun: true }', { a: [true] }],
    ['the decision on call "a" must be true, false, { approved, args | reason }, { result } or { rerun: true }', { a: {} }],
    ['the decision on call "a" must be true, false, { approved, args | reason }, { result } or { rerun: true }', { a: Object.create({ approved: true }) as object }],
    ['the decision on call "a".approved must be a boolean', { a: { approved: "false" } }],
    ['the decision on call "a".approved must be a boolean', { a: { approved: 1 } }],
    ['the decision on call "a" has no field "arguments", only approved, args', { a: { approved: true, arguments: {} } }],
    ['the decision on call "a" has no field "reason", only approved, args', { a: { approved: true, reason: "x" } }],
    ['the decision on call "a" has no field "args", only approved, reason', { a: { approved: false, args: {} } }],
    ['the decision on call "a" has no field "result", only approved, args', { a: { approved: true, result: 1 } }],
    ['the decision on call "a" has no field "rerun", only result', { a: { result: 1, rerun: true } }],
    ['the decision on call "a".reason must be a string', { a: { approved: false, reason: 7 } }],
    ['the decision on call "a" has args that are undefined; leave them out to run it as shown', { a: { approved: true, args: undefined } }],
    ['the decision on call "a".args must be an object', { a: { approved: true, args: [1] } }],
    ['the decision on call "a" can\'t be taken: JSON can\'t hold NaN', { a: { approved: true, args: { n: Number.NaN } } }],
    ['the decision on call "a" can\'t be taken: it has a key __proto__', { a: { approved: true, args: JSON.parse('{"__proto__":1}') as object } }],
    ['the decision on call "a" can\'t be taken: the arguments are larger than 1 MiB', { a: { approved: true, args: { s: "x".repeat(1024 * 1024) } } }],
    ['the decision on call "a" can\'t be taken: its result is nothing that JSON can hold; for no result say null', { a: { result: undefined } }],
    ['the decision on call "a" can\'t be taken: its result is nothing that JSON can hold; for no result say null', { a: { result: () => 1 } }],
    ['the decision on call "a" can\'t be taken: its result is nothing that JSON can hold; for no result say null', { a: { result: { toJSON: () => undefined } } }],
    ['the decision on call "a" can\'t be taken: it is larger than 16 MiB', { a: { result: "x".repeat(16 * 1024 * 1024) } }],
    ['the decision on call "a" can\'t be taken: it is nested too deep, or contains itself', { a: { result: nested(500) } }],
    ['the decision on call "a" can\'t be taken: JSON can\'t hold a BigInt', { a: { result: 1n } }],
    ['the decision on call "a" can\'t rerun it: it never ran', { a: { rerun: true } }],
    ['the decision on call "a".rerun must be true', { a: { rerun: 1 } }],
    ['the decision on call "i" has no field "reason", only rerun', { i: { rerun: true, reason: "x" } }],
    [`the call "${"x".repeat(80)}" is not pending in the state (it may have been decided already); pending: "a", "q", "i"`, { ["x".repeat(200)]: true }],
    ['the decision on call "q" can\'t approve it: its tool has no run; say { result } or { approved: false }', { q: true }],
    ['the decision on call "i" can\'t approve it: it may have run already; say { rerun: true }, { result } or { approved: false }', { i: true }],
    ['the decision on call "i" can\'t approve it: it may have run already; say { rerun: true }, { result } or { approved: false }', { i: { approved: true, args: {} } }],
    ['the call "x" is not pending in the state (it may have been decided already); pending: "a", "q", "i"', { q: { result: 1 }, x: true }],
  ])("%s", async (message, decisions) => {
    const state = await waiting(true);
    const before = JSON.stringify(state);
    let saves = 0;
    const call = script();
    expect(() => agent({ call, tools, state, decisions: decisions as never, save: () => void saves++ })).toThrow(expect.objectContaining({ code: "bad-decision", message }) as Error);
    expect([JSON.stringify(state), saves, call.requests.length, ran]).toEqual([before, 0, 0, []]);
  });

  test("edited arguments that the tool's schema rejects", async () => {
    const fits = { "~standard": { version: 1 as const, vendor: "test", validate: async (value: unknown) => (value as { to: string }).to.includes("@") ? { value } : { issues: [{ message: "no address", path: ["to"] }] } } };
    const checked = { send: tool({ parameters: fits, jsonSchema: { type: "object" }, needsApproval: true, run: () => "sent" }) };
    const { state } = await trace({ call: script([toolCall("send", { to: "a@b" }, "a"), toolCall("send", { to: "c@d" }, "b")]), tools: checked });
    let saves = 0;
    const { thrown, state: after } = await trace({ call: script(), tools: checked, state, decisions: { a: true, b: { approved: true, args: { to: "eve" } } }, save: () => void saves++ });
    expect(thrown).toMatchObject({ code: "bad-decision", message: `the decision on call "b" can't be taken: its arguments don't fit: to: no address` });
    expect([after, saves]).toEqual([state, 0]);
  });

  test("a decision without a state has no call to be on", () => {
    expect(() => agent({ call: script("ok"), tools, messages: [user], decisions: { a: true } })).toThrow('the call "a" is not pending in the state (it may have been decided already); pending: none');
  });
});

describe("a decision is carried out", () => {
  const rest: Record<string, Decision> = { q: { result: "42" }, i: false };
  const resume = async (decisions: Record<string, Decision>, interrupted = false) => trace({ call: script("", "ok"), tools, state: await waiting(interrupted), decisions });

  test.each([[true], [{ approved: true }]])("%o runs the call exactly as it was shown", async (decision) => {
    const { lines, steps, state } = await resume({ ...rest, a: decision as Decision });
    expect(lines).toEqual(['result q: "42"', "error i: not run: it was rejected", "start a", 'result a: "sent"', "message", "final stop: ok"]);
    expect(ran).toEqual([{ to: "ann" }]);
    expect(steps[3]).toEqual({ type: "tool-result", id: "a", tool: "send", args: { to: "ann" }, result: "sent", decision });
    expect(toldTo(state)).toEqual({ a: "sent", q: "42", i: "Error: not run: it was rejected" });
  });

  test("an edit runs with the person's arguments, the model's message stays, and the result tells it", async () => {
    const { state, steps } = await resume({ ...rest, a: { approved: true, args: { to: "eve" } } });
    expect(ran).toEqual([{ to: "eve" }]);
    expect(steps[2]).toEqual({ type: "tool-start", id: "a", tool: "send", args: { to: "eve" } });
    expect(state.messages[1]?.tool_calls?.[0]?.function.arguments).toBe('{"to":"ann"}');
    expect(toldTo(state)["a"]).toBe('sent\n\n(The arguments were changed to {"to":"eve"})');
  });

  test("an edit that changes nothing is an approval", async () => {
    const { state } = await resume({ ...rest, a: { approved: true, args: { to: "ann" } } });
    expect(toldTo(state)["a"]).toBe("sent");
  });

  test("a rejection tells the model the reason, and that it did not run", async () => {
    const { state } = await resume({ ...rest, a: { approved: false, reason: "not today" } });
    expect(ran).toEqual([]);
    expect(toldTo(state)["a"]).toBe("Error: not run: it was rejected: not today");
  });

  test.each([{ approved: false, reason: "" }, { approved: false, reason: undefined }])("a rejection with the reason of %j gives none", async (decision) => {
    const { state } = await resume({ ...rest, a: decision });
    expect(toldTo(state)["a"]).toBe("Error: not run: it was rejected");
  });

  test("a decision of just 16 MiB is taken", async () => {
    const result = "x".repeat(16 * 1024 * 1024 - '{"result":""}'.length);
    const { state } = await resume({ ...rest, a: { result } });
    expect((toldTo(state)["a"] as string).length).toBe(result.length);
  });

  test("a result takes the place of the tool's own", async () => {
    const { state, steps } = await resume({ ...rest, a: { result: { sent: "by hand" } } });
    expect(ran).toEqual([]);
    expect(steps[0]).toMatchObject({ id: "a", result: { sent: "by hand" } });
    expect(toldTo(state)["a"]).toBe('{"sent":"by hand"}');
  });

  test("a result as deep as may be leaves a state that can be saved and resumed", async () => {
    const { state } = await trace({ call: script(), tools, state: await waiting(), decisions: { a: { result: nested(499) } } });
    const again = await trace({ call: script(), tools, state: stored(state) });
    expect(again.lines).toEqual(["ask q answer, i approval"]);
    expect(again.state).toEqual(state);
  });

  test("an interrupted call is run again, with the same key, only if a person says so", async () => {
    const { lines, state } = await resume({ a: false, q: { result: 1 }, i: { rerun: true } }, true);
    expect(lines).toEqual(["error a: not run: it was rejected", "result q: 1", "start i", 'result i: "sent"', "message", "final stop: ok"]);
    expect(ran).toEqual([{ to: "bob" }]);
    expect(toldTo(state)["i"]).toBe("sent");
  });

  test("an interrupted call that did run gets its result from a person; one left alone says that its outcome is unknown", async () => {
    const did = await resume({ a: false, q: { result: 1 }, i: { result: "it was sent" } }, true);
    expect(toldTo(did.state)["i"]).toBe("it was sent");
    const left = await resume({ a: false, q: { result: 1 }, i: { approved: false, reason: "ask her" } }, true);
    expect(toldTo(left.state)["i"]).toBe("Error: the outcome is unknown: it may or may not have run, and a person chose not to run it again: ask her");
    expect(ran).toEqual([]);
  });

  test("an interrupted call that the user passed over says that its outcome is unknown", async () => {
    const { state } = await trace({ call: script("", "ok"), tools, state: await waiting(true), messages: [user] });
    expect(toldTo(state)).toEqual({
      a: "Error: not run: the user went on without deciding",
      q: "Error: not run: the user went on without deciding",
      i: "Error: the outcome is unknown: it may or may not have run, and the user went on without deciding",
    });
  });

  test("decisions on some leave the others pending; the model is not asked", async () => {
    const call = script();
    const { lines, state } = await trace({ call, tools, state: await waiting(), decisions: { i: true } });
    expect(lines).toEqual(["start i", 'result i: "sent"', "ask a approval, q answer"]);
    expect(pending(stored(state))).toEqual([
      { id: "a", tool: "send", args: { to: "ann" }, reason: "approval" },
      { id: "q", tool: "ask", args: {}, reason: "answer" },
    ]);
    expect(call.requests).toHaveLength(0);
  });

  test("an edited call that is interrupted and run again is still told to be edited", async () => {
    const first = await waiting();
    const { state: ready } = await trace({ call: script(), tools: { ...tools, send: tool({ needsApproval: true, run: () => new Promise(() => {}) }) }, state: first, decisions: { a: { approved: true, args: { to: "eve" } } }, save: (state) => {
      if (state.calls[0]?.status === "started") throw Object.assign(new Error("killed"), { state });
    } }).then(({ thrown }) => ({ state: (thrown as { state: State }).state }));
    const asked = await trace({ call: script(), tools, state: stored(ready), recover: true });
    expect(asked.lines).toEqual(["ask a interrupted, q answer, i approval"]);
    const { state } = await trace({ call: script("", "ok"), tools, state: stored(asked.state), decisions: { ...rest, a: { rerun: true } } });
    expect(toldTo(state)["a"]).toBe('sent\n\n(The arguments were changed to {"to":"eve"})');
  });
});

describe("the caller's policy", () => {
  const plain = { p: tool({ run: (args) => (ran.push(args), "ran") }), send: tools.send, ask: tools.ask };
  const one = (name: string, approve: unknown) => trace({ call: script(toolCall(name, { to: "ann" }, "a"), "ok"), tools: plain, approve: approve as never });

  test.each([
    ["p", () => true, 'result a: "ran"'],
    ["p", async () => true, 'result a: "ran"'],
    ["p", () => false, "ask a approval"],
    ["p", () => undefined, "ask a approval"],
    ["p", () => "yes", "ask a approval"],
    ["p", () => { throw new Error("policy down"); }, "ask a approval"],
    ["p", () => Promise.reject(new Error("policy down")), "ask a approval"],
    ["p", () => ({ approved: "true" }), "ask a approval"],
    ["p", () => ({ approved: false, reason: "deny list" }), "error a: not run: it was rejected: deny list"],
    ["p", () => ({ rerun: true }), "ask a approval"],
    ["p", () => ({ result: () => 1 }), "ask a approval"],
    ["send", () => true, "ask a approval"],
    ["send", () => ({ approved: true }), 'result a: "sent"'],
    ["send", () => ({ approved: true, args: { to: "eve" } }), 'result a: "sent"'],
    ["send", () => ({ result: "done by hand" }), 'result a: "done by hand"'],
    ["ask", () => true, "ask a answer"],
    ["ask", () => ({ approved: true }), "ask a answer"],
    ["ask", () => ({ result: "blue" }), 'result a: "blue"'],
  ])("of a call to %s that answers %s: %s", async (name, approve, expected) => {
    const { lines } = await one(name, approve);
    expect(lines.find((text) => /^(result|error|ask)/.test(text))).toBe(expected);
  });

  test("is told the tool, a copy of the arguments, the id, the conversation, and whether the tool is gated", async () => {
    const seen: unknown[] = [];
    await one("send", (name: string, args: { to: string }, context: object) => (seen.push(name, { ...args }, context), (args.to = "eve"), { approved: true }));
    expect(seen).toEqual(["send", { to: "ann" }, { id: "a", gated: true, messages: [user, expect.objectContaining({ role: "assistant" }) as object] }]);
    expect(ran).toEqual([{ to: "ann" }]);
  });

  test("its decision is in the step and in the state, an unobjected call's is not", async () => {
    const { steps } = await one("send", () => ({ approved: true }));
    expect(steps.find((step) => step.type === "tool-result")).toMatchObject({ decision: { approved: true } });
    const free = await one("p", () => true);
    expect(free.steps.find((step) => step.type === "tool-result")).not.toHaveProperty("decision");
  });

  test("is told of a tool without run that it is gated, whatever its needsApproval says", async () => {
    const seen: boolean[] = [];
    const human = { ask: tool({ needsApproval: false }) };
    await trace({ call: script(toolCall("ask", {}, "a")), tools: human, approve: (_, __, { gated }) => (seen.push(gated), true) });
    expect(seen).toEqual([true]);
  });

  test("is not asked about what can't run", async () => {
    let asked = 0;
    const { lines } = await trace({ call: script([toolCall("nope", {}, "a"), toolCall("p", "{", "b")], "ok"), tools: plain, approve: () => (asked++, true) });
    expect(lines.filter((text) => text.startsWith("error"))).toHaveLength(2);
    expect(asked).toBe(0);
  });
});

describe("needsApproval", () => {
  test.each([
    [true, true], [false, false], [undefined, false], [() => true, true], [() => false, false], [async () => false, false],
    [() => undefined, true], [() => 0, true], [() => "", true], [() => null, true], [() => { throw new Error("x"); }, true], [() => Promise.reject(new Error("x")), true],
  ])("%s asks a person: %s", async (needsApproval, asks) => {
    const { lines } = await trace({ call: script(toolCall("t", {}, "a"), "ok"), tools: { t: tool({ needsApproval: needsApproval as boolean, run: () => 1 }) } });
    expect(lines[1]).toBe(asks ? "ask a approval" : "start a");
  });

  test("that is false waives a person under a policy, too", async () => {
    const t = tool({ needsApproval: false, run: () => "did" });
    expect((await trace({ call: script(toolCall("t", {}, "a"), "ok"), tools: { t }, approve: () => true })).lines).toEqual(["message", "start a", 'result a: "did"', "message", "final stop: ok"]);
  });

  test("a function gets the arguments, the id and the conversation so far", async () => {
    const seen: unknown[] = [];
    const t = tool({ needsApproval: (args, { id, messages }) => (seen.push(args, id, messages.length), false), run: () => 1 });
    await trace({ call: script(toolCall("t", { n: 1 }, "a"), "ok"), tools: { t } });
    expect(seen).toEqual([{ n: 1 }, "a", 2]);
  });

  test.each(["yes", 1, null, {}])("%o is bad-options: only true, false or a function can be meant", (needsApproval) => {
    expect(() => agent({ call: script(), messages: [user], tools: { t: { needsApproval: needsApproval as never, run: () => 1 } } })).toThrow("tools.t.needsApproval must be a boolean or a function");
  });
});

test("pending lists only the calls that wait, and that say for what", () => {
  const open = { id: "a", tool: "t", args: {} };
  const calls = [{ ...open, status: "started", reason: "approval" }, { ...open, status: "pending" }, { ...open, id: "b", status: "pending", reason: "answer" }];
  expect(pending({ calls } as never)).toEqual([{ id: "b", tool: "t", args: {}, reason: "answer" }]);
});
