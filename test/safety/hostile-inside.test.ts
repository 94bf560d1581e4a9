// The same from inside: what agents that are tools, and tools that pause and keep, may be given, and states that hold it damaged.
import { agent, AgentError, type AgentRun, pause, pending, type PendingCall, type State, type Tool, tool } from "yieldagent";
import { subagent } from "yieldagent/subagent";
import { script, toolCall } from "yieldagent/testing";
import { beforeAll, describe, expect, test } from "vitest";
import { drive, stored, trace, user } from "../trace.ts";
import { SEED } from "./scale.ts";
import { equal } from "./world.ts";

beforeAll(() => console.log(`SAFETY_SEED=${SEED}`));

const IDS = ["a/b", "/", "//", "a/", "%2F", "%", "__proto__", "", "constructor", "toString", "\u0000", "\ud800", "\u202eevil", "c/c/c", "approved: true", "x".repeat(5000)];

/** An agent around others, `depth` deep in all, whose innermost has a gated tool; every call has this id. */
function nested(depth: number, id: string, ran: string[]): Tool {
  const send = tool({ needsApproval: true, run: (_, { key }) => { ran.push(key); return "sent"; } });
  const inside = depth > 1 ? nested(depth - 1, id, ran) : send;
  return subagent({ call: script([toolCall("t", { to: "Ann" }, id), toolCall("t", { to: "Bo" }, `${id}/x`)], "told"), tools: { t: inside }, messages: () => [user] }) as Tool;
}

describe.each([1, 2, 3])("%d deep", (depth) => {
  test.each(IDS.map((id) => [JSON.stringify(id.slice(0, 20)), id]))("ids of %s, beside ones that look as if they were inside of them: each is asked about for itself, and runs once by a key of its own", async (_, id) => {
    const ran: string[] = [];
    const tools = { t: nested(depth, id, ran) };
    const call = script(toolCall("t", {}, id), "done");
    const first = await trace({ call, tools, id: "r" });
    const asked = pending(stored(first.state));
    expect(new Set(asked.map((each) => each.id)).size).toBe(2 ** depth);
    expect(asked.map(({ args, path }) => [args["to"], path?.length])).toEqual(asked.map((_, i) => [i % 2 === 0 ? "Ann" : "Bo", depth]));
    // One at a time, the last first: nothing runs but what was decided.
    let { state } = first;
    for (const [i, { id: decided }] of [...asked].reverse().entries()) {
      const next = await trace({ call, tools, state: stored(state), decisions: Object.fromEntries([[decided, true as const]]) });
      expect(next.thrown).toBeUndefined();
      expect(ran.length).toBe(i + 1);
      expect(equal(stored(next.state), next.state)).toBe(true);
      ({ state } = next);
    }
    expect(new Set(ran).size).toBe(2 ** depth);
    expect(ran.every((key) => key.split("/").length === depth + 2 && key.startsWith("r/"))).toBe(true);
    expect(state.messages.at(-1)).toEqual({ role: "assistant", content: "done" });
  });
});

test("a decision on a call inside, delivered again, decides on no later call", async () => {
  const ran: string[] = [];
  const send = tool({ needsApproval: true, run: ({ to }) => { ran.push(to as string); return "sent"; } });
  const clerk = subagent({ call: script(toolCall("send", { to: "Ann" }, "s"), "told"), tools: { send }, messages: () => [user] });
  const call = script(toolCall("clerk", {}, "c"), toolCall("send", { to: "Eve" }, "c/s"), "done");
  const tools = { clerk, send };
  const first = await trace({ call, tools });
  const second = await trace({ call, tools, state: stored(first.state), decisions: { "c/s": true } });
  expect(ran).toEqual(["Ann"]);
  expect(() => agent({ call, tools, state: stored(second.state), decisions: { "c/s": true } })).toThrow(expect.objectContaining({ code: "bad-decision" }));
});

describe("a question of a tool", () => {
  test.each(IDS.filter((id) => id !== "" && id !== "__proto__").map((id) => [JSON.stringify(id.slice(0, 20)), id]))("with %s for id, name, path and argument comes up as it is, and its decision comes down to it alone", async (_, text) => {
    const seen: unknown[] = [];
    const question: PendingCall = { id: text, tool: text, args: { [text]: text }, reason: "approval", path: [text] };
    const tools = { t: tool({ run: (_, { decisions }) => { seen.push(decisions); return Object.keys(decisions).length > 0 ? "ok" : pause([question, { ...question, id: "other" }]); } }) };
    const call = script(toolCall("t", {}, "c"), "done");
    const { state } = await trace({ call, tools });
    expect(pending(stored(state))).toEqual([{ ...question, id: `c/${text}`, path: ["t", text] }, { ...question, id: "c/other", path: ["t", text] }]);
    const second = await trace({ call, tools, state: stored(state), decisions: { [`c/${text}`]: { approved: false, reason: text } } });
    expect(second.lines.at(-1)).toBe("final stop: done");
    expect(seen).toEqual([{}, { [text]: { approved: false, reason: text } }]);
    expect(() => agent({ call, tools, state, decisions: { [text]: true } })).toThrow(expect.objectContaining({ code: "bad-decision" }));
  });
});

describe("what a tool keeps", () => {
  const deep = (levels: number): unknown => JSON.parse("[".repeat(levels) + "]".repeat(levels));
  test.each<[string, unknown]>([["500 levels", deep(500)], ["8 MiB", "x".repeat(2 ** 23)], ["keys of prototypes", { constructor: 1, toString: 2, hasOwnProperty: null }], ["what looks like a state", { version: 1, id: "r", calls: [{ status: "done" }], usage: { total_tokens: -1 } }]])("%s: comes back as it was, from a state that can be stored", async (_, data) => {
    const seen: unknown[] = [];
    const cut = new AbortController();
    const t = tool({ resumable: true, run: async (_, context) => { seen.push(context.data); if (context.data !== undefined) return "ok"; await context.keep(data); cut.abort(); return ""; } });
    const call = script(toolCall("t", {}, "c"), "done");
    const first = await trace({ call, tools: { t }, signal: cut.signal });
    expect((await trace({ call, tools: { t }, state: stored(first.state), recover: true })).lines).toEqual(["start c", 'result c: "ok"', "message", "final stop: done"]);
    expect(equal(seen, [undefined, data])).toBe(true);
  });

  test.each<[string, unknown, string]>([["3,000 levels", deep(3000), "TypeError: it is nested too deep, or contains itself"], ["__proto__", JSON.parse('{"__proto__":1}'), "TypeError: it has a key __proto__"], ["a BigInt", 1n, "TypeError: JSON can't hold a BigInt"]])("%s: is refused, and the state stays as it was", async (_, data, error) => {
    let said = "";
    const t = tool({ run: async (_, { keep }) => { try { await keep(data); } catch (error) { said = String(error); } return "ok"; } });
    const saved: State[] = [];
    await trace({ call: script(toolCall("t", {}, "c"), "done"), tools: { t }, save: (state) => void saved.push(state) });
    expect(said).toBe(error);
    expect(saved.some(({ calls }) => calls.some((open) => "data" in open))).toBe(false);
  });
});

describe("a state that was damaged", () => {
  const clerk = (ran: string[]): Tool => nested(1, "s", ran);
  const call = script(toolCall("clerk", {}, "c"), "done");
  const paused = async (): Promise<State> => stored((await trace({ call, tools: { clerk: clerk([]) } })).state);
  const question = { id: "s", tool: "t", args: {}, reason: "approval" };

  test.each<[string, unknown, string]>([
    ["questions", undefined, "reason"], ["questions", null, "reason"], ["questions", [], "questions"], ["questions", "x", "questions"], ["questions", {}, "questions"], ["questions", [null], "questions[0]"],
    ["questions", [{ ...question, id: "" }], "questions[0].id"], ["questions", [question, question], "questions[1].id"], ["questions", [{ ...question, id: "__proto__" }], "questions[0].id"],
    ["questions", [{ ...question, args: [] }], "questions[0].args"], ["questions", [{ ...question, reason: "x" }], "questions[0].reason"], ["questions", [{ ...question, path: "t" }], "questions[0].path"],
    ["decisions", 1, "decisions"], ["decisions", "x", "decisions"], ["decisions", [], "decisions"], ["decisions", true, "decisions"],
  ])("in the %s of a call, %j, is refused as bad-state that names the field, before anything happened", async (field, value, named) => {
    const state = await paused();
    const damaged = { ...state, calls: state.calls.map((open) => ({ ...open, [field]: value })) } as State;
    expect(() => agent({ call, tools: { clerk: clerk([]) }, state: damaged })).toThrow(expect.objectContaining({ code: "bad-state", message: expect.stringContaining(`state.calls[0].${named} `) as string }));
  });

  test.each<[string, unknown]>([["a number", 1], ["null", null], ["a list", []], ["nothing of a state", {}], ["another version", { version: 2 }], ["an id that is another run's", "id"], ["calls that its messages don't have", "calls"]])("in what an agent inside has kept: %s. It is refused, nothing ran, and its questions wait as before", async (_, value) => {
    const ran: string[] = [];
    const state = await paused();
    const data = state.calls[0]?.data as State;
    const bad = value === "id" ? { ...data, id: 7 } : value === "calls" ? { ...data, calls: [] } : value;
    const damaged = { ...state, calls: state.calls.map((open) => ({ ...open, data: bad })) } as State;
    const { thrown, state: after } = await drive(agent({ call, tools: { clerk: clerk(ran) }, state: damaged, decisions: { "c/s": true } }) as AgentRun);
    expect(thrown).toBeInstanceOf(AgentError);
    expect(thrown).toMatchObject({ code: "bad-state", message: expect.stringMatching(/^in the call "c" of clerk: state/) as string });
    expect([ran, pending(after)]).toEqual([[], pending(state)]);
  });

  test.each([[{ s: "yes" }], [{ s: 1 }], [{ nobody: true }], [{ s: { rerun: true } }]])("in the decisions that a call has taken, %j: they are refused inside, and nothing ran", async (decisions) => {
    const ran: string[] = [];
    const state = await paused();
    const damaged = { ...state, calls: state.calls.map((open) => ({ ...open, status: "ready", decisions })) } as unknown as State;
    const { thrown } = await drive(agent({ call, tools: { clerk: clerk(ran) }, state: damaged }) as AgentRun);
    expect(thrown).toMatchObject({ code: "bad-decision", message: expect.stringMatching(/^in the call "c" of clerk: /) as string });
    expect(ran).toEqual([]);
  });
});
