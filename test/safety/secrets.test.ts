// Canaries: words that must not get out, put wherever the caller's code has secrets (keys, headers, URLs, what an error
// carries beside its message), and looked for in all that the library hands out. (The adapters' canaries are in
// adapter-secrets.test.ts.)
import { agent, AgentError, type AgentRun, type State, tool } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

const CANARY = "sk-canary-5eC7e7";
const user = { role: "user", content: "go" };

/** An error as HTTP clients throw them: harmless words, and everything else full of secrets. */
function leaky(message = "request failed"): Error {
  const request = { url: `https://api.example.com/v1?key=${CANARY}`, headers: { authorization: `Bearer ${CANARY}` }, body: CANARY };
  const error = Object.assign(new Error(message, { cause: new Error(CANARY) }), { request, config: request, response: { headers: { "set-cookie": CANARY }, data: CANARY }, code: "EFAIL", errors: [new Error(CANARY)] });
  error.stack = `Error: ${message}\n    at ${CANARY}`;
  return error;
}

const logs: string[] = [];
beforeEach(() => {
  logs.length = 0;
  for (const method of ["log", "info", "warn", "error", "debug", "trace"] as const) vi.spyOn(console, method).mockImplementation((...args) => void logs.push(args.map(String).join(" ")));
  vi.spyOn(process, "emitWarning").mockImplementation((warning) => void logs.push(String(warning)));
});
afterEach(() => void vi.restoreAllMocks());

/** Runs to the end, through whatever is asked, and returns all that was handed out: steps, states, saves and messages to the model. */
async function everything(options: object): Promise<{ text: string; thrown: unknown }> {
  const out: unknown[] = [];
  const save = (options as { save?: (state: State) => unknown }).save;
  const run = agent({ ...options, messages: [user], id: "r", save: (state: State) => (out.push(state), save?.(state)) } as never) as AgentRun;
  let thrown: unknown;
  try {
    for await (const step of run) out.push(step);
  } catch (error) {
    thrown = error;
  }
  out.push(run.state);
  return { text: JSON.stringify(out), thrown };
}

const one = (args: unknown = {}) => script(toolCall("t", args, "a"), (messages) => JSON.stringify(messages));

describe("a secret never reaches a state, a step, a message or a log:", () => {
  test.each<[string, object, boolean]>([
    ["from what a tool throws", { call: one(), tools: { t: tool({ run: () => { throw leaky(); } }) } }, false],
    ["from what a tool rejects with", { call: one(), tools: { t: tool({ run: async () => { throw leaky(); } }) } }, false],
    ["from an Error that a tool returns", { call: one(), tools: { t: tool({ run: () => leaky() }) } }, false],
    ["from an Error inside a result", { call: one(), tools: { t: tool({ run: () => ({ failed: leaky() }) }) } }, false],
    ["from a Map, a Headers and a class with secrets in a result", { call: one(), tools: { t: tool({ run: () => ({ headers: new Headers({ authorization: CANARY }), map: new Map([[CANARY, CANARY]]) }) }) } }, false],
    ["from a result whose toJSON throws", { call: one(), tools: { t: tool({ run: () => ({ toJSON() { throw leaky(); } }) }) } }, false],
    ["from what needsApproval throws", { call: one(), tools: { t: tool({ needsApproval: () => { throw leaky(); }, run: () => 1 }) } }, false],
    ["from what a policy throws", { call: one(), tools: { t: tool({ run: () => 1 }) }, approve: () => { throw leaky(); } }, false],
    ["from a policy's decision that can't be taken", { call: one(), tools: { t: tool({ run: () => 1 }) }, approve: () => ({ approved: CANARY, key: CANARY }) }, false],
    ["from what a schema throws", { call: one(), tools: { t: tool({ parameters: { "~standard": { version: 1, vendor: "v", validate: () => { throw leaky(); } } } as never, jsonSchema: {}, run: () => 1 }) } }, false],
    ["from what the model's call throws", { call: () => { throw leaky(); } }, true],
    ["from what the model's call rejects with", { call: () => Promise.reject(leaky()) }, true],
    ["from what a stream throws", { call: async function* () { yield { type: "text", text: "x" }; throw leaky(); } }, true],
    ["from what save throws", { call: script("ok"), save: () => { throw leaky(); } }, true],
    ["from what onToolError throws", { call: one(), tools: { t: tool({ run: () => { throw new Error("x"); } }) }, onToolError: () => { throw leaky(); } }, true],
    ["from the reason of an abort", { call: one(), signal: AbortSignal.abort(leaky()) }, true],
    ["from the message of an error that onToolError hides", { call: one(), tools: { t: tool({ run: () => { throw leaky(`GET https://x/?key=${CANARY}`); } }) }, onToolError: () => "it failed" }, false],
    ["from the closure, the name and the fields of call", { call: Object.assign(one(), { apiKey: CANARY, headers: { authorization: CANARY } }), tools: { t: tool({ run: () => 1 }) } }, false],
  ])("%s", async (_, options, throws) => {
    const { text, thrown } = await everything(options);
    expect(text).not.toContain(CANARY);
    expect(thrown !== undefined).toBe(throws);
    // What the caller's own code threw comes back to it as it was; the library's own words hold none of it.
    if (thrown instanceof AgentError) expect(`${thrown.message} ${thrown.stack}`).not.toContain(CANARY);
    expect(logs).toEqual([]);
  });

  test.each<[string, object]>([
    ["a key in the place of call", { call: CANARY }],
    ["a key in the place of a tool", { tools: { t: CANARY } }],
    ["a key in the place of a tool's run", { tools: { t: { run: CANARY } } }],
    ["a key in the place of a message", { messages: [CANARY] }],
    ["a message with a key for a role", { messages: [{ role: CANARY, content: "x" }] }],
    ["a message that holds a client", { messages: [{ role: "user", content: "x", client: new Headers({ authorization: CANARY }), map: new Map([[CANARY, CANARY]]) }] }],
    ["a key in the place of maxSteps", { maxSteps: CANARY }],
    ["a key in the place of a signal", { signal: CANARY }],
    ["a key in the place of a state", { messages: undefined, state: CANARY }],
    ["a state with keys in it", { messages: undefined, state: { version: 1, id: "r", revision: CANARY, messages: [], calls: [], steps: 0, usage: { key: CANARY } } }],
    ["a schema that can't be read", { tools: { t: tool({ parameters: { type: "object", secret: new Map([[CANARY, CANARY]]) }, run: () => 1 }) } }],
  ])("from the error about %s", (_, options) => {
    let thrown: unknown;
    try {
      agent({ call: script("ok"), messages: [user], ...options } as never);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(AgentError);
    expect(`${String(thrown)} ${(thrown as Error).stack} ${JSON.stringify(thrown)} ${String((thrown as Error).cause)}`).not.toContain(CANARY);
    expect(logs).toEqual([]);
  });

  test("from the error about a decision", async () => {
    const tools = { t: tool({ needsApproval: true, run: () => 1 }) };
    const run = agent({ call: one(), tools, messages: [user] });
    for await (const _ of run) {
      // Until it asks.
    }
    for (const decision of [CANARY, { approved: CANARY }, { approved: true, args: CANARY }, { approved: true, args: { key: 1n, other: CANARY } }, { result: new Map([[CANARY, CANARY]]) }, { approved: false, reason: [CANARY] }]) {
      expect(() => agent({ call: one(), tools, state: run.state, decisions: { a: decision } as never })).toThrow(expect.not.objectContaining({ message: expect.stringContaining(CANARY) as string }) as Error);
    }
  });
});
