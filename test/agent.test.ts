import { getEventListeners } from "node:events";
import { agent, AgentError, type Delta, type Reply, type State, tool } from "yieldagent";
import { collect, script, toolCall } from "yieldagent/testing";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { drive, line, stored, toldTo, trace, user } from "./trace.ts";

let ran: string[] = [];
beforeEach(() => {
  ran = [];
});

const tools = {
  p: tool({ run: (_, { id }) => (ran.push(id), `did ${id}`) }),
  g: tool({ needsApproval: true, run: (_, { id }) => (ran.push(id), `did ${id}`) }),
};
const p = (id: string) => toolCall("p", {}, id);
const g = (id: string) => toolCall("g", {}, id);
const statuses = (state: State) => state.calls.map(({ status }) => status).join(" ");

describe("options", () => {
  const call = script("ok");
  test.each([
    [{ call: "gpt" }, "options.call must be a function"],
    [{ call: undefined }, "options.call must be a function"],
    [{ messages: "hi" }, "options.messages must be an array"],
    [{ messages: undefined }, "options has neither messages to start from nor a state to go on from"],
    [{ messages: [{ role: "usr", content: "hi" }] }, "messages[0].role must be one of system, developer, user, assistant, tool"],
    [{ messages: [user, { role: "user", content: 7 }] }, "messages[1].content must be a string, an array of parts or null"],
    [{ messages: [{ role: "user", content: "x", tool_calls: [p("a")] }] }, "messages[0].tool_calls must be an array, on an assistant message"],
    [{ messages: [{ role: "assistant", tool_calls: [{ id: "a" }] }] }, "messages[0].tool_calls[0].function.name must be a string"],
    [{ messages: [{ role: "assistant", tool_calls: [null] }] }, "messages[0].tool_calls[0].function.name must be a string"],
    [{ messages: [{ role: "tool", content: "x" }] }, "messages[0].tool_call_id must be a string"],
    [{ messages: [{ role: "tool", content: "x", tool_call_id: 7 }] }, "messages[0].tool_call_id must be a string"],
    [{ messages: [null] }, "messages[0].role must be one of system, developer, user, assistant, tool"],
    [{ messages: [{ role: "user", content: "x", at: new Map([[1, 1]]) }] }, "messages[0] must be plain JSON: JSON can't hold Map objects"],
    [{ tools: [] }, "options.tools must be an object"],
    [{ maxSteps: 0 }, "options.maxSteps must be a whole number from 1, or Infinity"],
    [{ maxSteps: Number.NaN }, "options.maxSteps must be a whole number from 1, or Infinity"],
    [{ concurrency: 1.5 }, "options.concurrency must be a whole number from 1, or Infinity"],
    [{ approve: true }, "options.approve must be a function"],
    [{ save: {} }, "options.save must be a function"],
    [{ recover: "yes" }, "options.recover must be a boolean"],
    [{ onToolError: "no" }, "options.onToolError must be a function"],
    [{ id: "" }, "options.id must be a string, not empty"],
    [{ signal: new AbortController() }, "options.signal must be an AbortSignal"],
    [{ decisions: [true] }, "options.decisions must be an object"],
    [{ tools: new Map() }, "options.tools must be an object"],
    [{ decisions: new Map() }, "options.decisions must be an object"],
    [{ aprove: () => true }, 'options has no field "aprove", only call, tools, messages, state, decisions, approve, save, recover, maxSteps, concurrency, onToolError, id, signal'],
  ])("%o is bad-options, thrown by agent() itself: %s", (wrong, message) => {
    const error = caught(() => agent({ call, tools, messages: [user], ...wrong } as never));
    expect(error).toBeInstanceOf(AgentError);
    expect(error).toMatchObject({ code: "bad-options", message, name: "AgentError" });
    expect(call.requests).toHaveLength(0);
  });

  test("the id of a run is given or a random UUID, and belongs to its state", async () => {
    expect((await trace({ call: script("ok"), id: "run-7" })).state.id).toBe("run-7");
    const { state } = await trace({ call: script("ok") });
    expect(state.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const message = `options.id is "other", but the state is of the run "${state.id}"`;
    expect(() => agent({ call, state, id: "other" })).toThrow(expect.objectContaining({ code: "bad-options", message }) as Error);
    expect(agent({ call, state, id: state.id }).state).toEqual(state);
  });

  test.each([undefined, {}])("with the global crypto as %o, as in a durable engine's sandbox, the id is a UUID too, and each run's own", async (crypto) => {
    vi.stubGlobal("crypto", crypto);
    const ids = [(await trace({ call: script("ok") })).state.id, (await trace({ call: script("ok") })).state.id];
    vi.unstubAllGlobals();
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(new Set(ids).size).toBe(2);
  });

  test("only an error with a code and the library's name is an AgentError, whichever copy of it threw", () => {
    for (const other of [undefined, null, "AgentError", new Error("x"), Object.assign(new Error("x"), { code: "ENOENT" }), { name: "AgentError" }]) expect(other instanceof AgentError).toBe(false);
    expect({ name: "AgentError", code: "bad-state" } instanceof AgentError).toBe(true);
  });
});

describe("the loop", () => {
  test("an empty conversation is one, too: the model is asked", async () => {
    expect((await trace({ call: script("ok"), messages: [] })).lines).toEqual(["message", "final stop: ok"]);
  });

  test("a run without tools is a message and a final", async () => {
    const { steps } = await trace({ call: async () => ({ role: "assistant", content: "hi", finish_reason: "stop", usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 } }), id: "r" });
    const messages = [user, { role: "assistant", content: "hi" }];
    const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 };
    expect(steps).toEqual([
      { type: "message", message: { role: "assistant", content: "hi" }, usage, finishReason: "stop" },
      { type: "final", text: "hi", reason: "stop", messages, state: { version: 1, id: "r", revision: 1, messages, calls: [], steps: 1, usage, finishReason: "stop" } },
    ]);
  });

  test("nothing happens before the first step is asked for, and then only what it takes", async () => {
    const call = script(p("a"), "ok");
    const run = agent({ call, tools, messages: [user] });
    expect(call.requests).toHaveLength(0);
    await run.next();
    expect(call.requests).toHaveLength(1);
    await run.next();
    expect(ran).toEqual([]);
    await run.next();
    expect(ran).toEqual(["a"]);
    expect(call.requests).toHaveLength(1);
  });

  test("call gets its own array of the run's frozen messages, the tools as JSON Schema, the step and a signal", async () => {
    const seen: unknown[] = [];
    const described = { w: tool({ description: "Weather", parameters: { $schema: "x", type: "object", properties: { city: { type: "string" } } }, run: () => 1 }), bare: tool({ run: () => 1 }) };
    const call = async (messages: unknown[], definitions: unknown, { step, signal }: { step: number; signal: AbortSignal }): Promise<Reply> => {
      seen.push([...messages], definitions, step, signal.aborted);
      messages.push("scribble");
      return step === 1 ? { role: "assistant", content: null, tool_calls: [toolCall("bare", {}, "a")] } : { role: "assistant", content: "ok" };
    };
    const { state } = await trace({ call, tools: described });
    const [first, definitions, step, aborted, second, again, secondStep] = seen as [object[], unknown, number, boolean, object[], unknown, number];
    expect(definitions).toStrictEqual([
      { type: "function", function: { name: "w", description: "Weather", parameters: { type: "object", properties: { city: { type: "string" } } } } },
      { type: "function", function: { name: "bare", parameters: { type: "object", properties: {} } } },
    ]);
    expect([step, aborted, secondStep]).toEqual([1, false, 2]);
    expect(again).toBe(definitions);
    expect(second[0]).toBe(first[0]);
    expect(Object.isFrozen(first[0])).toBe(true);
    expect(state.messages).toHaveLength(4);
  });

  test("step counts the assistant messages of the whole conversation", async () => {
    const steps: number[] = [];
    const call = async (_: unknown, __: unknown, { step }: { step: number }) => (steps.push(step), { role: "assistant", content: "ok" });
    const history = [user, { role: "assistant", content: "hello" }, user];
    const { state } = await trace({ call, messages: history });
    await trace({ call, state, messages: [user] });
    expect(steps).toEqual([2, 3]);
  });

  test("what the model sent goes back as it came, but for finish_reason and usage", async () => {
    const reply = { role: "assistant", content: [{ type: "text", text: "a" }, { type: "text", text: "b" }], reasoning_content: "hm", tool_calls: [{ ...p("a"), extra_content: { google: { thought_signature: "s" } }, index: 0 }], finish_reason: "tool_calls", usage: null };
    const call = script(reply, "ok");
    const { state } = await trace({ call, tools });
    const { finish_reason: _, usage: __, ...message } = reply;
    expect(state.messages[1]).toEqual(message);
  });

  test("tool_calls that are null are as good as none", async () => {
    const { state, lines } = await trace({ call: script({ role: "assistant", content: "hi", tool_calls: null }), tools });
    expect(lines).toEqual(["message", "final stop: hi"]);
    expect(state.messages[1]).toStrictEqual({ role: "assistant", content: "hi" });
  });

  test("a reply with a method called next is no stream", async () => {
    const reply = { role: "assistant", content: "hi", next: () => ({ done: true }) };
    expect((await trace({ call: async () => reply as never })).lines).toEqual(["message", "final stop: hi"]);
  });

  test.each([7, "", null])("a finish reason %j says nothing: the final says stop, and the state has none", async (finish_reason) => {
    const { state, lines } = await trace({ call: async () => ({ role: "assistant", content: "hi", finish_reason: finish_reason as never }) });
    expect(lines).toEqual(["message", "final stop: hi"]);
    expect(state).not.toHaveProperty("finishReason");
  });

  test("final.text joins text parts, and is null where there is no text", async () => {
    const parts = async () => ({ role: "assistant", content: [{ type: "reasoning", text: "hm" }, { type: "text", text: "a" }, { type: "image_url" }, { type: "text", text: "b" }] });
    expect((await trace({ call: parts })).steps.at(-1)).toMatchObject({ text: "ab" });
    expect((await trace({ call: async () => ({ role: "assistant", content: null }) })).steps.at(-1)).toMatchObject({ text: null, reason: "stop" });
    const texts = async () => ({ role: "assistant", content: ["a", { type: "text" }, { type: "text", text: "b" }] as never });
    expect((await trace({ call: texts })).steps.at(-1)).toMatchObject({ text: "ab" });
  });

  test("the provider's finish reason is the final's, also of a finished run that is entered again", async () => {
    const call = script({ role: "assistant", content: "hm", finish_reason: "content_filter" });
    const { state } = await trace({ call });
    const again = await trace({ call, state: stored(state) });
    expect(again.lines).toEqual(["final content_filter: hm"]);
    expect(again.state).toEqual(state);
    expect(call.requests).toHaveLength(1);
  });

  test("usage is summed over the replies, whatever numbers a server sends", async () => {
    const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7, cost: 0.5, cached: null, odd: -1, details: { reasoning_tokens: 1 }, constructor: 5 };
    const call = script({ role: "assistant", content: null, tool_calls: [p("a")], usage }, { role: "assistant", content: "ok", usage: { ...usage, cost: Number.MAX_VALUE } });
    const { state } = await trace({ call, tools });
    expect(state.usage).toEqual({ prompt_tokens: 10, completion_tokens: 4, total_tokens: 14, cost: 0.5, constructor: 10 });
    expect(() => agent({ call, tools, state: stored(state) })).not.toThrow();
  });

  test("usage holds its three counts where a server sends none, a zero where it sends one, and numbers up to the safe ones", async () => {
    expect((await trace({ call: script("ok") })).state.usage).toEqual({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 });
    const usage = { cached: 0, most: Number.MAX_SAFE_INTEGER };
    expect((await trace({ call: script({ role: "assistant", content: "ok", usage }) })).state.usage).toEqual({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, ...usage });
  });

  test("model calls are at most 10, or as many as maxSteps allows, which may be Infinity", async () => {
    const call = script(...Array.from({ length: 30 }, (_, i) => p(`p${i}`)), "ok");
    const ends = [];
    for (const maxSteps of [undefined, 1, 12, Infinity]) {
      const { lines, state } = await trace({ call, tools, maxSteps, concurrency: Infinity });
      ends.push(`${lines.at(-1)} after ${state.steps}`);
    }
    expect(ends).toEqual(["final max-steps: null after 10", "final max-steps: null after 1", "final max-steps: null after 12", "final stop: ok after 31"]);
  });

  test("steps starts again at 0 with a new user message, and maxSteps counts from there", async () => {
    const call = script(p("a"), "ok", p("b"), "ok");
    const { state } = await trace({ call, tools, maxSteps: 2 });
    expect(state.steps).toBe(2);
    const next = await trace({ call, tools, maxSteps: 2, state, messages: [user] });
    expect(next.lines.at(-1)).toBe("final stop: ok");
    expect(next.state.steps).toBe(2);
  });
});

describe("tools of one reply", () => {
  test("all that may run are announced before the first of them runs", async () => {
    const { lines } = await trace({ call: script([p("a"), p("b"), p("c")], "ok"), tools });
    expect(lines.slice(0, 5)).toEqual(["message", "start a", "start b", "start c", 'result a: "did a"']);
  });

  test("concurrency 1 is strictly one after another, in reply order", async () => {
    const { lines } = await trace({ call: script([p("a"), p("b")], "ok"), tools, concurrency: 1 });
    expect(lines).toEqual(["message", "start a", 'result a: "did a"', "start b", 'result b: "did b"', "message", "final stop: ok"]);
  });

  test("never more than concurrency run at a time, and a free place is taken at once", async () => {
    let running = 0;
    let most = 0;
    const slow = { s: tool({ run: async () => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve));
      running--;
    } }) };
    const { lines } = await trace({ call: script(Array.from({ length: 7 }, (_, i) => toolCall("s", {}, `s${i}`)), "ok"), tools: slow, concurrency: 3 });
    expect(most).toBe(3);
    expect(lines.filter((text) => text.startsWith("result"))).toHaveLength(7);
  });

  test("a gated call is asked about only after the others have finished", async () => {
    const { lines } = await trace({ call: script([g("a"), p("b"), g("c")], "ok"), tools });
    expect(lines).toEqual(["message", "start b", 'result b: "did b"', "ask a approval, c approval"]);
  });

  test("run gets its own copy of the arguments, its id, a key and a signal", async () => {
    const seen: unknown[] = [];
    const greedy = { t: tool({ run: (args, { id, key, signal }) => {
      seen.push({ ...args }, id, key, signal instanceof AbortSignal);
      (args["list"] as number[]).push(3);
    } }) };
    const { state, steps } = await trace({ call: script(toolCall("t", { list: [1, 2] }, "a/b"), "ok"), tools: greedy, id: "r" });
    expect(seen).toEqual([{ list: [1, 2, 3] }, "a/b", "r/a%2Fb", true]);
    expect(steps[1]).toEqual({ type: "tool-start", id: "a/b", tool: "t", args: { list: [1, 2] } });
    expect(state.messages[1]?.tool_calls?.[0]?.function.arguments).toBe('{"list":[1,2]}');
  });

  test("onToolError gives the text that the model reads, and what it throws ends the run", async () => {
    const bad = { b: tool({ run: () => { throw new Error("password is hunter2"); } }) };
    const call = script(toolCall("b", {}, "x"), "ok");
    const calls: unknown[] = [];
    const hidden = await trace({ call, tools: bad, onToolError: (error, at) => (calls.push((error as Error).message, at), "it failed") });
    expect(hidden.lines[2]).toBe("error x: it failed");
    expect(toldTo(hidden.state)).toEqual({ x: "Error: it failed" });
    expect(calls).toEqual(["password is hunter2", { tool: "b", id: "x" }]);
    const fatal = new Error("stop everything");
    const ended = await trace({ call, tools: bad, onToolError: () => { throw fatal; } });
    expect(ended.thrown).toBe(fatal);
    expect(statuses(ended.state)).toBe("started");
  });

  test("a fatal error of an asynchronous tool ends the run too, and tells its siblings", async () => {
    let told: AbortSignal | undefined;
    const mixed = { bad: tool({ run: async () => { throw new Error("no"); } }), stall: tool({ run: (_, { signal }) => (told = signal, new Promise(() => {})) }) };
    const fatal = new Error("stop everything");
    const { thrown, state } = await trace({ call: script([toolCall("stall", {}, "a"), toolCall("bad", {}, "b")]), tools: mixed, onToolError: () => { throw fatal; } });
    expect(thrown).toBe(fatal);
    expect(told?.reason).toBe(fatal);
    expect(statuses(state)).toBe("started started");
  });

  test.each([
    [undefined, "undefined"], [null, "no message"], ["", "no message"], ["text", "text"], [7, "7"], [Object.create(null), "no message"],
    [Object.assign(new Error(""), { name: "TypeError" }), "TypeError"], [new Error("x".repeat(5000)), "x".repeat(1957)], [new Error("\ud800!"), "\ufffd!"],
  ])("a tool that throws %o has an error that says something, is well-formed and not long", async (thrown, expected) => {
    const { lines } = await trace({ call: script(p("a"), "ok"), tools: { p: tool({ run: () => { throw thrown; } }) } });
    expect(lines[2]).toBe(`error a: ${`the tool failed and may have taken effect: ${expected === "undefined" ? "no message" : expected}`.slice(0, 2000)}`);
  });
});

describe("streaming", () => {
  async function* stream(): AsyncGenerator<Delta, Reply> {
    yield { type: "reasoning", text: "hm" };
    yield { type: "text", text: "he" };
    yield { type: "text", text: "llo" };
    return { role: "assistant", content: "hello" };
  }

  test("deltas are handed over as they arrive, then the reply enters as a whole", async () => {
    expect((await trace({ call: stream })).lines).toEqual(["reasoning hm", "text he", "text llo", "message", "final stop: hello"]);
  });

  test("a call may also promise its stream", async () => {
    expect((await trace({ call: async () => stream() })).lines).toEqual(["reasoning hm", "text he", "text llo", "message", "final stop: hello"]);
  });

  test("a stream that throws leaves nothing of its reply behind, and the state goes on", async () => {
    async function* broken(): AsyncGenerator<Delta, Reply> {
      yield { type: "text", text: "he" };
      throw new Error("connection reset");
    }
    const { lines, thrown, state } = await trace({ call: broken });
    expect(lines).toEqual(["text he"]);
    expect(thrown).toEqual(new Error("connection reset"));
    expect(state).toMatchObject({ revision: 0, messages: [user], steps: 0 });
    expect((await trace({ call: stream, state })).lines.at(-1)).toBe("final stop: hello");
  });

  test("a break or an abort between deltas closes the stream, its cleanup awaited", async () => {
    const closed: string[] = [];
    const open = (name: string) => async function* (): AsyncGenerator<Delta, Reply> {
      try {
        yield* stream();
        return { role: "assistant" };
      } finally {
        await Promise.resolve();
        closed.push(name);
      }
    };
    for await (const _ of agent({ call: open("break"), messages: [user] })) break;
    expect(closed).toEqual(["break"]);
    const controller = new AbortController();
    const run = agent({ call: open("abort"), messages: [user], signal: controller.signal });
    await run.next();
    controller.abort();
    await expect(run.next()).rejects.toMatchObject({ name: "AbortError" });
    expect(closed).toEqual(["break", "abort"]);
  });

  test.each([["a string", "hi"], ["an unknown type", { type: "audio", text: "x" }], ["no text", { type: "text" }]])("a delta that is %s is a bad-reply", async (_, delta) => {
    const { thrown } = await trace({ call: async function* () { yield delta as Delta; return { role: "assistant" }; } });
    expect(thrown).toMatchObject({ code: "bad-reply", message: 'a streaming call must yield { type: "text" | "reasoning", text }' });
  });
});

describe("a stream that is stuck", () => {
  test("is not waited for by a consumer that goes away", async () => {
    async function* stuck(): AsyncGenerator<Delta, Reply> {
      await new Promise(() => {});
      yield { type: "text", text: "never" };
      return { role: "assistant" };
    }
    const run = agent({ call: stuck, messages: [user] });
    const step = run.next();
    await new Promise((resolve) => setTimeout(resolve));
    await run.return();
    expect(await step).toEqual({ done: true, value: undefined });
  });
});

describe("a bad reply", () => {
  test.each([
    [undefined, /^call returned no assistant message/],
    ["hello", /^call returned no assistant message/],
    [{ role: "user", content: "x" }, /^call returned no assistant message/],
    [{ role: "assistant", content: 3 }, /^the reply.content must be a string, an array of parts or null$/],
    [{ role: "assistant", tool_calls: {} }, /^the reply.tool_calls must be an array, on an assistant message$/],
    [{ role: "assistant", tool_calls: [{ id: "a", function: {} }] }, /^the reply.tool_calls\[0\].function.name must be a string$/],
    [{ role: "assistant", content: [null] }, /^the reply.content\[0\] must be a part, an object with a type$/],
    [{ role: "assistant", tool_calls: 0 }, /^the reply.tool_calls must be an array, on an assistant message$/],
    [{ role: "assistant", tool_calls: "" }, /^the reply.tool_calls must be an array, on an assistant message$/],
    [new ReadableStream(), /^call returned no assistant message/],
    [{ role: "assistant", content: "x", raw: 1n }, /^the reply must be plain JSON: JSON can't hold a BigInt$/],
    [{ role: "assistant", content: "x", usage: { n: 1n } }, /^the reply's usage must be plain JSON: JSON can't hold a BigInt$/],
  ])("%o throws, and nothing of it is in the state", async (reply, message) => {
    const run = agent({ call: async () => reply as Reply, messages: [user] });
    const { thrown, state } = await drive(run as never);
    expect(thrown).toMatchObject({ code: "bad-reply", message: expect.stringMatching(message) as string });
    expect(state).toMatchObject({ revision: 0, messages: [user] });
  });
});

describe("save", () => {
  test("is awaited at every change, one revision each, before what the change leads to", async () => {
    const log: string[] = [];
    const logged = { p: tool({ run: () => void log.push("run") }) };
    const save = async (state: State) => {
      await Promise.resolve();
      log.push(`save ${state.revision} ${state.messages.length} ${statuses(state)}`);
    };
    for await (const step of agent({ call: script(p("a"), "ok"), tools: logged, messages: [user], save })) log.push(line(step as never));
    expect(log).toEqual([
      "save 1 2 new", "message", "save 2 2 ready", "start a", "save 3 2 started", "run", "save 4 2 done", "result a: null",
      "save 5 3 ", "save 6 4 ", "message", "final stop: ok",
    ]);
  });

  test("messages added are saved before the model is asked", async () => {
    const { state } = await trace({ call: script("ok"), id: "r" });
    const saved: string[] = [];
    const call = script("", (messages) => (saved.push(`asked with ${messages.length}`), "again"));
    await trace({ call, state, messages: [user], save: ({ revision, messages }) => void saved.push(`${revision}: ${messages.length} messages`) });
    expect(saved).toEqual(["2: 3 messages", "asked with 3", "3: 4 messages"]);
  });

  test("decisions are saved before any of them has an effect", async () => {
    const { state } = await trace({ call: script([g("a"), g("b")]), tools });
    const log: string[] = [];
    for await (const step of agent({ call: script("", "ok"), tools, state, decisions: { a: true, b: false }, save: (saved) => void log.push(`save ${statuses(saved)}`) })) log.push(line(step as never));
    expect(log.slice(0, 4)).toEqual(["save ready done", "error b: not run: it was rejected", "start a", "save started done"]);
  });

  test("is called before approval-needed, and not again where nothing changed", async () => {
    const log: string[] = [];
    const options = { call: script(g("a"), "ok"), tools, save: (state: State) => void log.push(`save ${state.revision} ${statuses(state)}`) };
    const { state } = await trace(options);
    expect(log).toEqual(["save 1 new", "save 2 pending"]);
    await trace({ ...options, state });
    expect(log).toHaveLength(2);
  });

  test.each([1, 2, 3, 4, 5])("a throw at save %i ends the run at once, with the state that was saved last", async (n) => {
    let saves = 0;
    let last: State | undefined;
    const save = (state: State) => {
      if (++saves === n) throw new Error("disk full");
      last = state;
    };
    const { thrown, state } = await trace({ call: script(p("a"), "ok"), tools, id: "r", save });
    expect(thrown).toEqual(new Error("disk full"));
    expect(saves).toBe(n);
    expect(ran).toEqual(n <= 3 ? [] : ["a"]);
    if (last) expect(state).toBe(last);
    else expect(state).toMatchObject({ revision: 0, messages: [user] });
  });

  test("a save that fails is the last one, whatever comes in meanwhile", async () => {
    const saved: string[] = [];
    const both = { now: tool({ run: () => "A" }), soon: tool({ run: async () => "B" }) };
    const save = async (state: State) => {
      saved.push(statuses(state));
      if (statuses(state) !== "done started") return;
      await new Promise((resolve) => setTimeout(resolve));
      throw new Error("disk full");
    };
    const { thrown, state } = await trace({ call: script([toolCall("now", {}, "a"), toolCall("soon", {}, "b")]), tools: both, save });
    expect(thrown).toEqual(new Error("disk full"));
    expect(saved).toEqual(["new new", "ready ready", "started started", "done started"]);
    expect(statuses(state)).toBe("started started");
  });

  test("two resumers of one state with compare-and-set: one wins, the other throws having run nothing", async () => {
    const { state } = await trace({ call: script(g("a")), tools });
    let row = stored(state);
    const save = async (next: State) => {
      await Promise.resolve();
      if (row.revision !== next.revision - 1) throw new Error("conflict");
      row = stored(next);
    };
    const resume = () => trace({ call: script("", "ok"), tools, state: stored(state), decisions: { a: true }, save });
    const [one, two] = await Promise.all([resume(), resume()]);
    expect([one.thrown, two.thrown]).toEqual([undefined, new Error("conflict")]);
    expect(ran).toEqual(["a"]);
  });

  test("a loser that tries again from its own state, again and again, never gets past the compare-and-set", async () => {
    const { state } = await trace({ call: script([g("a"), g("b"), g("c")]), tools });
    let row = stored(state);
    const save = (next: State) => {
      if (row.revision !== next.revision - 1) throw new Error("conflict");
      row = stored(next);
    };
    let mine = stored(state);
    await trace({ call: script("", "ok"), tools, state: stored(state), decisions: { a: true }, save });
    for (const decisions of [{ c: false }, { b: false }, { a: true }, {}, {}, {}]) {
      const known = Object.fromEntries(Object.entries(decisions).filter(([id]) => mine.calls.some((call) => call.id === id && call.status === "pending")));
      const run = agent({ call: script("", "ok"), tools, state: mine, decisions: known, save });
      await drive(run as never);
      mine = stored(run.state);
    }
    expect(ran).toEqual(["a"]);
  });
});

describe("a consumer that goes away", () => {
  test("after tool-start: the calls announced are ready again, and run once when the run goes on", async () => {
    const call = script([p("a"), p("b")], "ok");
    const run = agent({ call, tools, messages: [user], id: "r" });
    const revisions: number[] = [];
    for await (const step of run) {
      revisions.push(run.state.revision);
      if (step.type === "tool-start") {
        expect(statuses(run.state)).toBe("started started");
        break;
      }
    }
    expect(statuses(run.state)).toBe("ready ready");
    expect(revisions).toEqual([1, 3]);
    expect(run.state.revision).toBe(4);
    expect(ran).toEqual([]);
    expect((await trace({ call, tools, state: stored(run.state) })).lines.at(-1)).toBe("final stop: ok");
    expect(ran).toEqual(["a", "b"]);
  });

  test("after tool-start, with save: the state is the one that was saved, and a compare-and-set store goes on from it", async () => {
    let row: State | undefined;
    const save = (state: State) => {
      if (row && row.revision !== state.revision - 1) throw new Error("conflict");
      row = stored(state);
    };
    const call = script([p("a"), p("b")], "ok");
    const run = agent({ call, tools, messages: [user], save });
    for await (const step of run) if (step.type === "tool-start") break;
    expect(run.state).toEqual(row);
    expect((await trace({ call, tools, state: stored(run.state), save })).lines.at(-1)).toBe("final stop: ok");
    expect(ran).toEqual(["a", "b"]);
  });

  test("results that have come in meanwhile are kept, and saved", async () => {
    const saved: string[] = [];
    const both = { now: tool({ run: () => "A" }), soon: tool({ run: async () => "B" }) };
    const run = agent({ call: script([toolCall("now", {}, "a"), toolCall("soon", {}, "b")]), tools: both, messages: [user], save: (state) => void saved.push(statuses(state)) });
    for await (const step of run) {
      if (step.type !== "tool-result") continue;
      await new Promise((resolve) => setTimeout(resolve));
      break;
    }
    expect(statuses(run.state)).toBe("done done");
    expect(saved.at(-1)).toBe("done done");
    expect(toldTo((await trace({ call: script("", "ok"), tools: both, state: stored(run.state) })).state)).toEqual({ a: "A", b: "B" });
  });

  test("while tools run: nothing is thrown, the tools are told, and the state says started", async () => {
    let told: AbortSignal | undefined;
    const slow = { fast: tool({ run: () => 1 }), slow: tool({ run: (_, { signal }) => (told = signal, new Promise(() => {})) }) };
    const run = agent({ call: script([toolCall("slow", {}, "a"), toolCall("fast", {}, "b")]), tools: slow, messages: [user] });
    for await (const step of run) if (step.type === "tool-result") break;
    expect(told?.aborted).toBe(true);
    expect(told?.reason).toMatchObject({ name: "AbortError", message: "nobody reads the run any more" });
    expect(statuses(run.state)).toBe("started done");
    await expect(run.next()).resolves.toEqual({ done: true, value: undefined });
  });

  test("return() while a step is awaited, as a cancelled stream does, ends both without a throw", async () => {
    let told: AbortSignal | undefined;
    const run = agent({ call: (_, __, { signal }) => (told = signal, new Promise(() => {})), messages: [user] });
    const step = run.next();
    await expect(run.return()).resolves.toEqual({ done: true, value: undefined });
    await expect(step).resolves.toEqual({ done: true, value: undefined });
    expect(told?.aborted).toBe(true);
  });

  test("await using ends a run, where the engine knows it", async () => {
    const { asyncDispose } = Symbol as { asyncDispose?: symbol };
    const run = agent({ call: script("ok"), messages: [user] });
    await run.next();
    if (asyncDispose) await (run as unknown as Record<symbol, () => Promise<void>>)[asyncDispose]?.();
    else await run.return();
    expect(await run.next()).toEqual({ done: true, value: undefined });
  });

  test("throw() ends a run with what it is given", async () => {
    const run = agent({ call: script(p("a")), tools, messages: [user] });
    await run.next();
    await expect(run.throw(new Error("enough"))).rejects.toThrow("enough");
    expect(await collect(run)).toEqual([]);
  });

  test("a save that fails while the consumer goes away is thrown to the step that waits for it", async () => {
    let fail = (): void => {};
    const save = () => new Promise<void>((_, reject) => (fail = () => reject(new Error("disk full"))));
    const run = agent({ call: script("ok"), messages: [user], save });
    const step = run.next();
    await new Promise((resolve) => setTimeout(resolve));
    const end = run.return();
    fail();
    await expect(step).rejects.toThrow("disk full");
    await expect(end).resolves.toEqual({ done: true, value: undefined });
  });

  test("a run that is never iterated, or returned first, does nothing", async () => {
    const call = script("ok");
    const run = agent({ call, messages: [user] });
    await run.return();
    expect(await collect(run)).toEqual([]);
    expect(call.requests).toHaveLength(0);
    expect(run.state.revision).toBe(0);
  });
});

describe("signal", () => {
  test("an aborted signal throws its reason before anything happens", async () => {
    const call = script("ok");
    const { thrown, lines, state } = await trace({ call, signal: AbortSignal.abort("no") });
    expect([thrown, lines, call.requests.length, state.revision]).toEqual(["no", [], 0, 0]);
  });

  test("an abort while the model is asked throws at once, even if call ignores it", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const run = agent({ call: () => (setTimeout(() => controller.abort(reason)), new Promise(() => {})), messages: [user], signal: controller.signal });
    await expect(run.next()).rejects.toBe(reason);
    expect(run.state.revision).toBe(0);
  });

  test("an abort while a policy is asked throws at once, and the call is still new", async () => {
    const controller = new AbortController();
    const approve = () => (setTimeout(() => controller.abort()), new Promise<boolean>(() => {}));
    const { thrown, state } = await trace({ call: script(p("a")), tools, approve, signal: controller.signal });
    expect(thrown).toMatchObject({ name: "AbortError" });
    expect(statuses(state)).toBe("new");
  });

  test.each(["message", "tool-start", "tool-result"])("an abort at %s lets nothing new start", async (type) => {
    const controller = new AbortController();
    const call = script([p("a"), p("b")], "ok");
    const run = agent({ call, tools, messages: [user], signal: controller.signal });
    const seen: string[] = [];
    await expect((async () => {
      for await (const step of run) {
        seen.push(line(step as never));
        if (step.type === type) controller.abort();
      }
    })()).rejects.toMatchObject({ name: "AbortError" });
    expect(seen.at(-1)?.startsWith({ message: "message", "tool-start": "start a", "tool-result": "result a" }[type] as string)).toBe(true);
    expect(call.requests).toHaveLength(1);
    expect(ran).toEqual(type === "tool-result" ? ["a", "b"] : []);
  });

  test("a type that is missing is added, another one stays, and a fresh id never meets one that is there", async () => {
    const { type: _, ...untyped } = p("a");
    const reply = { role: "assistant", tool_calls: [{ ...p("x"), id: "call_1_2", type: "custom" }, { ...p("y"), id: "" }, untyped] };
    const { state } = await trace({ call: script(reply as never, "ok"), tools });
    expect(state.messages[1]?.tool_calls?.map(({ id, type }) => `${id} ${type}`)).toEqual(["call_1_2 custom", "call_1_2x function", "a function"]);
  });

  test("odd ids and types of calls are as good as missing ones", async () => {
    const reply = { role: "assistant", tool_calls: [{ ...p("a"), id: { toString: 1 } }, { ...p("a"), id: 7, type: 5 }] };
    const { state } = await trace({ call: script(reply as never, "ok"), tools });
    expect(state.messages[1]?.tool_calls).toMatchObject([{ id: "call_1_1", type: "function" }, { id: "call_1_2", type: "function" }]);
  });

  test("an abort during the write-ahead runs no tool, and the calls are saved as ready again", async () => {
    const controller = new AbortController();
    const saved: string[] = [];
    const save = (state: State) => {
      saved.push(`${state.revision} ${statuses(state)}`);
      if (statuses(state) === "started") controller.abort();
    };
    const { thrown } = await trace({ call: script(p("a")), tools, signal: controller.signal, save });
    expect(thrown).toMatchObject({ name: "AbortError" });
    expect(saved).toEqual(["1 new", "2 ready", "3 started", "4 ready"]);
    expect(ran).toEqual([]);
  });

  test("no listener is left on the caller's signal, however the run ends", async () => {
    const { signal } = new AbortController();
    const listeners = () => getEventListeners(signal, "abort").length;
    const run = agent({ call: script("ok"), messages: [user], signal });
    await run.next();
    expect(listeners()).toBe(1);
    await run.return();
    expect(listeners()).toBe(0);
    await trace({ call: script(p("a"), "ok"), tools, signal });
    await trace({ call: script(new Error("no")), signal });
    expect(listeners()).toBe(0);
  });
});

describe("an end in the middle", () => {
  test("a tool that aborts the run: its siblings that were announced don't start, and are ready again", async () => {
    const controller = new AbortController();
    const both = { a: tool({ run: () => void controller.abort(new Error("stop")) }), p: tools.p };
    const saved: string[] = [];
    const { thrown, state } = await trace({ call: script([toolCall("a", {}, "a"), p("b"), p("c")]), tools: both, signal: controller.signal, save: (next) => void saved.push(`${next.revision} ${statuses(next)}`) });
    expect(thrown).toEqual(new Error("stop"));
    expect(ran).toEqual([]);
    expect(saved.slice(2)).toEqual(["3 started started started", "4 started ready ready", "5 done ready ready"]);
    expect(statuses(state)).toBe("done ready ready");
  });

  test("a fatal error of one tool: what was not entered is ready again, what had finished is done", async () => {
    const three = { p: tools.p, bad: tool({ run: () => { throw new Error("no"); } }) };
    const { thrown, state } = await trace({ call: script([p("a"), toolCall("bad", {}, "b"), p("c")]), tools: three, onToolError: () => { throw new Error("fatal"); } });
    expect(thrown).toEqual(new Error("fatal"));
    expect(statuses(state)).toBe("done started ready");
    expect(ran).toEqual(["a"]);
  });

  test("a call that aborts the run before it returns throws at once", async () => {
    const controller = new AbortController();
    const call = () => {
      controller.abort(new Error("stop"));
      return new Promise<Reply>(() => {});
    };
    expect((await trace({ call, signal: controller.signal })).thrown).toEqual(new Error("stop"));
  });

  test("an abort doesn't wait for a stream whose cleanup never ends", async () => {
    const controller = new AbortController();
    async function* stuck(): AsyncGenerator<Delta, Reply> {
      try {
        yield { type: "text", text: "x" };
      } finally {
        await new Promise(() => {});
      }
      return { role: "assistant" };
    }
    const run = agent({ call: stuck, messages: [user], signal: controller.signal });
    await run.next();
    controller.abort(new Error("stop"));
    await expect(run.next()).rejects.toThrow("stop");
  });

  test.each([
    ["call", { call: () => Promise.reject(undefined) }],
    ["save", { call: script("ok"), save: () => Promise.reject(undefined) }],
    ["onToolError", { call: script(p("a")), tools: { p: tool({ run: () => { throw new Error("x"); } }) }, onToolError: () => { throw undefined; } }],
  ])("undefined thrown by %s is thrown all the same", async (_, options) => {
    let threw = false;
    await collect(agent({ messages: [user], ...options } as never)).catch(() => (threw = true));
    expect(threw).toBe(true);
  });

  test("a run that ends while a schema takes its time enters no tool, and the call is ready", async () => {
    let release = (): void => {};
    const asked = new Promise<void>((resolve) => (release = resolve));
    let asks = 0;
    const slow = { "~standard": { version: 1 as const, vendor: "test", validate: async (value: unknown) => (++asks > 1 && (await asked), { value }) } };
    const controller = new AbortController();
    const t = tool({ parameters: slow, jsonSchema: { type: "object" }, run: () => void ran.push("ran") });
    const run = agent({ call: script(toolCall("t", {}, "a")), tools: { t }, messages: [user], signal: controller.signal });
    await run.next();
    const step = run.next();
    setTimeout(() => controller.abort(new Error("stop")));
    await expect(step).rejects.toThrow("stop");
    release();
    await new Promise((resolve) => setTimeout(resolve));
    expect(ran).toEqual([]);
    expect(statuses(run.state)).toBe("ready");
  });

  test("a tool is not asked for a run that ended while its schema took its time", async () => {
    const controller = new AbortController();
    let release = (): void => {};
    const asked = new Promise<void>((resolve) => (release = resolve));
    const slow = { "~standard": { version: 1 as const, vendor: "test", validate: async (value: unknown) => (controller.abort(new Error("stop")), await asked, { value }) } };
    let questions = 0;
    const t = tool({ parameters: slow, jsonSchema: { type: "object" }, needsApproval: () => ++questions > 0, run: () => 1 });
    expect((await trace({ call: script(toolCall("t", {}, "a")), tools: { t }, signal: controller.signal })).thrown).toEqual(new Error("stop"));
    release();
    await new Promise((resolve) => setTimeout(resolve));
    expect(questions).toBe(0);
  });

  test("a policy is not asked for a run that ended while the tool was asked", async () => {
    const controller = new AbortController();
    let release = (): void => {};
    const t = tool({ needsApproval: () => new Promise<boolean>((resolve) => (release = () => resolve(true), controller.abort(new Error("stop")))), run: () => 1 });
    let asked = 0;
    const { thrown } = await trace({ call: script(toolCall("t", {}, "a")), tools: { t }, signal: controller.signal, approve: () => (asked++, true) });
    expect(thrown).toEqual(new Error("stop"));
    release();
    await new Promise((resolve) => setTimeout(resolve));
    expect(asked).toBe(0);
  });

  test.each([0, 1, 2, 3, 4])("a result that comes in %i ticks before the run ends is kept", async (ticks) => {
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const both = {
      pay: tool({ run: async () => (await gate, "paid") }),
      log: tool({ run: async () => {
        await gate;
        for (let i = 0; i < ticks; i++) await undefined;
        throw new Error("db");
      } }),
    };
    setTimeout(() => open());
    const { thrown, state } = await trace({ call: script([toolCall("pay", {}, "a"), toolCall("log", {}, "b")]), tools: both, onToolError: (error) => { throw error; } });
    expect(thrown).toEqual(new Error("db"));
    expect(statuses(state)).toBe("done started");
  });

  test("a stream is not begun by a call that has ended the run, and a bad one is not waited for", async () => {
    const controller = new AbortController();
    const begun: string[] = [];
    async function* late(): AsyncGenerator<Delta, Reply> {
      begun.push("begun");
      yield { type: "text", text: "x" };
      return { role: "assistant" };
    }
    const { thrown } = await trace({ call: () => (controller.abort(new Error("stop")), late()), signal: controller.signal });
    expect([thrown, begun]).toEqual([new Error("stop"), []]);
    async function* bad(): AsyncGenerator<Delta, Reply> {
      try {
        yield 5 as never;
      } finally {
        await new Promise(() => {});
      }
      return { role: "assistant" };
    }
    expect((await trace({ call: bad })).thrown).toMatchObject({ code: "bad-reply" });
  });

  test("a stream whose return throws hides nothing", async () => {
    const stream = { next: async () => ({ done: false, value: { type: "text", text: "x" } }), return() { throw new Error("sync"); }, [Symbol.asyncIterator]() { return this; } };
    for await (const _ of agent({ call: () => stream as never, messages: [user] })) break;
    const controller = new AbortController();
    const run = agent({ call: () => stream as never, messages: [user], signal: controller.signal });
    await run.next();
    controller.abort(new Error("stop"));
    await expect(run.next()).rejects.toThrow("stop");
  });

  test("an asynchronous onToolError is waited for, and what it throws ends the run", async () => {
    const bad = { p: tool({ run: () => { throw new Error("x"); } }) };
    expect((await trace({ call: script(p("a"), "ok"), tools: bad, onToolError: (async () => "later") as never })).lines[2]).toBe("error a: later");
    expect((await trace({ call: script(p("a"), "ok"), tools: bad, onToolError: (async () => { throw new Error("fatal"); }) as never })).thrown).toEqual(new Error("fatal"));
  });

  test("an onToolError that gives no text leaves the default one, and a run never hangs on it", async () => {
    for (const onToolError of [() => undefined, () => Promise.resolve(1), () => Object.create(null) as never, () => ""]) {
      const { lines } = await trace({ call: script(p("a"), "ok"), tools: { p: tool({ run: async () => { throw new Error("x"); } }) }, onToolError: onToolError as never });
      expect(lines[2]).toBe("error a: the tool failed and may have taken effect: x");
    }
  });
});

describe("what is handed out", () => {
  test("can't be used to change the run", async () => {
    const run = agent({ call: script([toolCall("g", { to: ["ann"] }, "a")], "ok"), tools, messages: [user] });
    for (const step of await collect(run)) {
      if (step.type === "approval-needed") {
        expect(() => ((step.pending[0]?.args["to"] as string[])[0] = "eve")).toThrow(TypeError);
        expect(() => ((step.state.calls as unknown[]).pop())).toThrow(TypeError);
        expect(() => ((step.state.messages as unknown[]).pop())).toThrow(TypeError);
        expect(() => ((step.state.usage as { prompt_tokens: number }).prompt_tokens = 9)).toThrow(TypeError);
      }
    }
    expect(run.state.calls[0]?.args).toEqual({ to: ["ann"] });
  });

  test("what the caller gave is neither changed nor frozen", async () => {
    const messages = [{ role: "user", content: "go", meta: { a: 1 } }];
    const reply = { role: "assistant", content: "ok", extra: { b: 1 } };
    const { state } = await trace({ call: async () => reply, messages });
    messages[0]!.meta.a = 2;
    reply.extra.b = 2;
    expect(state.messages).toMatchObject([{ meta: { a: 1 } }, { extra: { b: 1 } }]);
    const given = stored(state);
    await trace({ call: script("ok", "ok"), state: given, messages: [user] });
    expect(given).toEqual(state);
    expect(Object.isFrozen(given)).toBe(false);
  });

  test("the messages of a final are the caller's own list", async () => {
    const run = agent({ call: script("ok"), messages: [user] });
    const last = (await collect(run)).at(-1);
    if (last?.type === "final") last.messages.push(user);
    expect(run.state.messages).toHaveLength(2);
  });

  test("run.state is the same object until something changes", async () => {
    const run = agent({ call: script("ok"), messages: [user] });
    const before = run.state;
    expect(run.state).toBe(before);
    await collect(run);
    expect(before).toMatchObject({ revision: 0, messages: [user] });
    expect(run.state).toBe(run.state);
  });
});

function caught(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
}
