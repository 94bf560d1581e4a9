// What the Messages API sends, each kind in small and written by hand in the shape that was seen of it; and what is sent
// to it, judged as strictly as it judges.
import { describe, expect, test } from "vitest";
import { agent, type Message, type Reply, tool } from "yieldagent";
import { anthropic, type AnthropicOptions, ModelError } from "yieldagent/anthropic";
import { openai } from "yieldagent/openai";
import { collect } from "yieldagent/testing";
import { checkChat, checkMessages } from "./strict.ts";
import { ask, chunk, fakeServer, finish, sse } from "./wire.ts";

const events = (...all: { type: string }[]): string => all.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}   \n\n`).join("");
const start = { type: "message_start", message: { id: "msg_1", role: "assistant", content: [], usage: { input_tokens: 10, cache_creation_input_tokens: 3, cache_read_input_tokens: 4, output_tokens: 1 } } };
const ping = { type: "ping" };
const open = (index: number, block: object) => ({ type: "content_block_start", index, content_block: block });
const delta = (index: number, piece: object) => ({ type: "content_block_delta", index, delta: piece });
const close = (index: number) => ({ type: "content_block_stop", index });
const stopped = (reason: string, usage: object = { output_tokens: 7 }) => ({ type: "message_delta", delta: { stop_reason: reason, stop_sequence: null }, usage });
const stop = { type: "message_stop" };
/** A block and its pieces. */
const block = (index: number, first: object, ...pieces: object[]) => [open(index, first), ...pieces.map((piece) => delta(index, piece)), close(index)];
const text = (index: number, ...texts: string[]) => block(index, { type: "text", text: "" }, ...texts.map((one) => ({ type: "text_delta", text: one })));
const use = (index: number, id: string, name: string, ...json: string[]) => block(index, { type: "tool_use", id, name, input: {} }, ...json.map((partial_json) => ({ type: "input_json_delta", partial_json })));
const thinking = (index: number) => block(index, { type: "thinking", thinking: "", signature: "" }, { type: "thinking_delta", thinking: "Hm" }, { type: "thinking_delta", thinking: "m." }, { type: "signature_delta", signature: "sig" });
const thought = { type: "thinking", thinking: "Hmm.", signature: "sig" };
const message = (...all: ({ type: string } | { type: string }[])[]): string => events(start, ...all.flat());
const whole = (content: object[], stop_reason: string): string => JSON.stringify({ type: "message", role: "assistant", content, stop_reason, usage: { input_tokens: 10, output_tokens: 7 } });

const USAGE = { input_tokens: 10, cache_creation_input_tokens: 3, cache_read_input_tokens: 4, output_tokens: 7, prompt_tokens: 17, completion_tokens: 7, total_tokens: 24 };
const call = (id: string, name: string, args: string) => ({ id, type: "function", function: { name, arguments: args } });
const own = (...content: object[]) => ({ anthropic: { model: "m", content } });

/** Each kind: what the server sends, and the right reading of it. */
const KINDS: Record<string, [body: string, reply: Partial<Reply>, deltas: string[]]> = {
  "text, with pings everywhere": [message(ping, text(0, "H", "i"), ping, stopped("end_turn"), stop), { content: "Hi" }, ["text:Hi"]],
  "events without names": [message(text(0, "Hi"), stopped("end_turn"), stop).replace(/^event: .*\n/gm, ""), { content: "Hi" }, ["text:Hi"]],
  "[DONE] after the end": [message(text(0, "Hi"), stopped("end_turn"), stop) + "event: data\ndata: [DONE]\n\n", { content: "Hi" }, ["text:Hi"]],
  "[DONE] before the end": [message(text(0, "Hi")) + "data: [DONE]\n\n" + events(stopped("end_turn"), stop), { content: "Hi" }, ["text:Hi"]],
  "an end after the stop reason": [message(text(0, "Hi"), stopped("end_turn")), { content: "Hi" }, ["text:Hi"]],
  "an end after message_stop, without a stop reason": [message(text(0, "Hi"), stop), { content: "Hi", usage: { ...USAGE, output_tokens: 1, completion_tokens: 1, total_tokens: 18 } }, ["text:Hi"]],
  "text and calls": [
    message(text(0, "I look."), use(1, "toolu_1", "look", "", '{"at"', ':"x"}'), use(2, "toolu_2", "ping", ""), stopped("tool_use"), stop),
    { content: "I look.", tool_calls: [call("toolu_1", "look", '{"at":"x"}'), call("toolu_2", "ping", "{}")], finish_reason: "tool_calls" }, ["text:I look."],
  ],
  "a call that was cut off": [
    message(use(0, "toolu_1", "look", '{"at":'), stopped("max_tokens"), stop),
    { tool_calls: [call("toolu_1", "look", '{"at":')], finish_reason: "length" }, [],
  ],
  "thinking with its signature": [message(thinking(0), text(1, "Hi"), stopped("end_turn"), stop), { content: "Hi", ...own(thought, { type: "text", text: "Hi" }) }, ["reasoning:Hmm.", "text:Hi"]],
  "redacted thinking": [message(block(0, { type: "redacted_thinking", data: "AA" }), text(1, "Hi"), stopped("end_turn"), stop), { content: "Hi", ...own({ type: "redacted_thinking", data: "AA" }, { type: "text", text: "Hi" }) }, ["text:Hi"]],
  "tools of the server's own, which are no calls": [
    message(
      block(0, { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} }, { type: "input_json_delta", partial_json: '{"query"' }, { type: "input_json_delta", partial_json: ':"sky"}' }),
      block(1, { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [{ type: "web_search_result", url: "u" }] }),
      block(2, { type: "text", text: "", citations: [] }, { type: "citations_delta", citation: { cited_text: "c" } }, { type: "text_delta", text: "Blue." }), stopped("end_turn"), stop,
    ),
    {
      content: "Blue.",
      ...own({ type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "sky" } }, { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [{ type: "web_search_result", url: "u" }] }, { type: "text", text: "Blue.", citations: [{ cited_text: "c" }] }),
    },
    ["text:Blue."],
  ],
  "blocks and deltas of next year": [
    message(block(0, { type: "compaction", content: "" }, { type: "compaction_delta", content: "all " }, { type: "compaction_delta", content: "of it" }), block(1, { type: "fallback", from: { model: "x" } }), text(2, "Hi"), { type: "something_new" }, stopped("end_turn"), stop),
    { content: "Hi", ...own({ type: "compaction", content: "all of it" }, { type: "fallback", from: { model: "x" } }, { type: "text", text: "Hi" }) }, ["text:Hi"],
  ],
  "counts that a later event corrects, and leaves out": [
    message(text(0, "Hi"), stopped("end_turn", { input_tokens: 20, cache_read_input_tokens: null, output_tokens: 7 }), stop),
    { content: "Hi", usage: { ...USAGE, input_tokens: 20, prompt_tokens: 27, total_tokens: 34 } }, ["text:Hi"],
  ],
  "no block at all": [message(stopped("end_turn"), stop), {}, []],
  "a stop sequence": [message(text(0, "a "), stopped("stop_sequence"), stop), { content: "a " }, ["text:a "]],
  "a refusal": [message(stopped("refusal"), stop), { finish_reason: "content_filter" }, []],
  "an unknown stop reason": [message(text(0, "Hi"), stopped("sensitive"), stop), { content: "Hi", finish_reason: "sensitive" }, ["text:Hi"]],
  "message_start twice": [message(start, text(0, "Hi"), stopped("end_turn"), stop), { content: "Hi" }, ["text:Hi"]],
  "message_start again, between blocks": [message(text(0, "H"), start, text(1, "i"), stopped("end_turn"), stop), { content: "Hi", ...own({ type: "text", text: "H" }, { type: "text", text: "i" }) }, ["text:Hi"]],
  "an unknown stop reason that isn't one of ours by accident": [message(text(0, "Hi"), stopped("constructor"), stop), { content: "Hi", finish_reason: "constructor" }, ["text:Hi"]],
  "a call without arguments, the context full": [message(use(0, "toolu_2", "ping", ""), stopped("model_context_window_exceeded"), stop), { tool_calls: [call("toolu_2", "ping", "")], finish_reason: "model_context_window_exceeded" }, []],
  "another message that begins after a whole call": [
    message(use(0, "toolu_0", "look", "{}"), { type: "message_start", message: { ...start.message, id: "msg_2" } } as { type: string }, stopped("end_turn"), stop),
    {}, [],
  ],
  "the same message again in the middle of a call": [
    message(open(0, { type: "tool_use", id: "toolu_0", name: "look", input: {} }), delta(0, { type: "input_json_delta", partial_json: '{"a' }), start, text(1, "Hi"), stopped("end_turn"), stop),
    { content: "Hi" }, ["text:Hi"],
  ],
  "a message that begins anew in the middle of a call": [
    message(open(0, { type: "tool_use", id: "toolu_0", name: "look", input: {} }), delta(0, { type: "input_json_delta", partial_json: '{"at":"wr' }), start, use(0, "toolu_1", "look", "{}"), stopped("tool_use"), stop),
    { tool_calls: [call("toolu_1", "look", "{}")], finish_reason: "tool_calls" }, [],
  ],
};

const connect = (fetch: typeof globalThis.fetch, options: Partial<AnthropicOptions> = {}) => anthropic({ model: "m", apiKey: "k", baseURL: "https://server.example", maxRetries: 0, fetch, ...options });

describe("the Messages API sends", () => {
  for (const [kind, [body, reply, deltas]] of Object.entries(KINDS)) {
    for (const size of [Infinity, 64, 7, 1]) {
      test(`${kind}, ${size === Infinity ? "whole" : `cut every ${size} bytes`}`, async () => {
        const asked = await ask(connect(fakeServer([body], size).fetch));
        expect(asked.error).toBeUndefined();
        expect(asked.reply).toEqual({ role: "assistant", content: null, finish_reason: "stop", usage: USAGE, ...reply });
        expect([asked.reasoning, asked.text]).toEqual(["reasoning:", "text:"].map((type) => deltas.filter((one) => one.startsWith(type)).map((one) => one.slice(type.length)).join("")));
      });
    }
  }

  test("a whole reply: thinking, text, calls", async () => {
    const body = whole([thought, { type: "text", text: "I look." }, { type: "tool_use", id: "toolu_1", name: "look", input: { at: "x" }, caller: { type: "direct" } }], "tool_use");
    const { reply, deltas } = await ask(connect(fakeServer([body]).fetch, { stream: false }));
    expect(deltas).toEqual([]);
    expect(reply).toEqual({
      role: "assistant", content: "I look.", tool_calls: [call("toolu_1", "look", '{"at":"x"}')], finish_reason: "tool_calls",
      usage: { input_tokens: 10, output_tokens: 7, prompt_tokens: 10, completion_tokens: 7, total_tokens: 17 },
      ...own(thought, { type: "text", text: "I look." }, { type: "tool_use", id: "toolu_1", name: "look", input: { at: "x" }, caller: { type: "direct" } }),
    });
  });

  test("a turn that it paused, which goes on inside the call", async () => {
    const search = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "sky" } };
    for (const stream of [true, false]) {
      const server = fakeServer(stream
        ? [message(text(0, ""), text(1, "Let me see."), block(2, search), stopped("pause_turn"), stop), message(text(0, "Blue."), stopped("end_turn"), stop)]
        : [whole([{ type: "text", text: "" }, { type: "text", text: "Let me see." }, search], "pause_turn"), whole([{ type: "text", text: "Blue." }], "end_turn")]);
      const { reply, text: said } = await ask(connect(server.fetch, { stream }));
      expect(reply).toMatchObject({ content: "Let me see.Blue.", finish_reason: "stop", usage: { input_tokens: 20, output_tokens: 14 }, ...own({ type: "text", text: "" }, { type: "text", text: "Let me see." }, search, { type: "text", text: "Blue." }) });
      expect(said).toBe(stream ? "Let me see.Blue." : "");
      checkMessages(server.received[1]?.text ?? "");
      expect(server.received[1]?.body.messages).toEqual([{ role: "user", content: [{ type: "text", text: "go" }] }, { role: "assistant", content: [{ type: "text", text: "Let me see." }, search] }]);
    }
  });
});

describe("half a reply is never a reply:", () => {
  test.each<[string, string, Partial<ModelError>]>([
    ["an error event after half an answer", message(text(0, "H")) + events({ type: "error", error: { type: "overloaded_error", message: "Overloaded" } } as { type: string }), { message: "Overloaded", type: "overloaded_error", code: "overloaded_error", retryable: true }],
    ["an error event that passes never", message() + events({ type: "error", error: { type: "invalid_request_error", message: "no" } } as { type: string }), { message: "no", retryable: false }],
    ["an error event without words", message(text(0, "H")) + events({ type: "error", error: { type: "overloaded_error" } } as { type: string }, stopped("end_turn"), stop), { message: "overloaded_error", code: "overloaded_error", retryable: true }],
    ["a flat error event", message(text(0, "H")) + events({ type: "error", message: "Overloaded" } as { type: string }, stop), { message: "Overloaded", retryable: true }],
    ["an end in the middle of a call", message(open(0, { type: "tool_use", id: "toolu_1", name: "look", input: {} }), delta(0, { type: "input_json_delta", partial_json: "{}" })), { message: "the answer ended before the reply was complete", retryable: true }],
    ["an error as a whole body", JSON.stringify({ type: "error", error: { type: "api_error", message: "oops" }, request_id: "req_1" }), { message: "oops", requestId: "req_1", retryable: true }],
    ["a body of another API", JSON.stringify({ choices: [] }), { message: "the answer has no content: is baseURL that of a Messages API?", retryable: false }],
  ])("%s", async (_, body, facts) => {
    for (const size of [Infinity, 7, 1]) {
      const asked = await ask(connect(fakeServer([body], size).fetch));
      expect(asked.reply).toBeUndefined();
      expect(asked.error).toMatchObject({ status: 200, ...facts });
    }
  });
});

describe("the second turn", () => {
  /** Runs an agent whose first reply is `first`, through JSON into another process, and gives the body of the second request. */
  async function secondTurn(first: string, { next = "m" } = {}) {
    const model = "m";
    const tools = { look: tool<{ at?: string }>({ needsApproval: true, parameters: { type: "object" }, run: ({ at }) => at ?? "" }), ping: tool({ run: () => { throw new Error("down"); } }) };
    const run = agent({ call: connect(fakeServer([first]).fetch, { model }), tools, messages: [{ role: "system", content: "Be short." }, { role: "user", content: "go" }], id: "r" });
    await collect(run);
    const state = JSON.parse(JSON.stringify(run.state)) as typeof run.state;
    const there = fakeServer([message(text(0, "Hi"), stopped("end_turn"), stop)]);
    const decisions = Object.fromEntries(state.calls.filter(({ status }) => status === "pending").map(({ id }) => [id, true]));
    await collect(agent({ call: connect(there.fetch, { model: next }), tools, state, decisions, ...(state.calls.length === 0 && { messages: [{ role: "user", content: "So?" }] }) }));
    return there.received[0] ?? expect.fail("nothing was asked");
  }

  test("has all results in one turn, first and in order, and says which are errors", async () => {
    const { text: body, body: { messages, system } } = await secondTurn(message(text(0, "I look."), use(1, "toolu_1", "look", '{"at":"x"}'), use(2, "toolu_2", "ping", "{}"), use(3, "toolu_3", "look", "{}"), stopped("tool_use"), stop));
    checkMessages(body);
    expect(system).toEqual([{ type: "text", text: "Be short." }]);
    expect(messages).toEqual([
      { role: "user", content: [{ type: "text", text: "go" }] },
      { role: "assistant", content: [{ type: "text", text: "I look." }, { type: "tool_use", id: "toolu_1", name: "look", input: { at: "x" } }, { type: "tool_use", id: "toolu_2", name: "ping", input: {} }, { type: "tool_use", id: "toolu_3", name: "look", input: {} }] },
      {
        role: "user", content: [
          { type: "tool_result", tool_use_id: "toolu_1", content: "x" },
          { type: "tool_result", tool_use_id: "toolu_2", content: "Error: the tool failed and may have taken effect: down", is_error: true },
          { type: "tool_result", tool_use_id: "toolu_3" },
        ],
      },
    ]);
  });

  test("has the thinking first, unchanged, with its signature; and none of it for another model", async () => {
    const first = message(thinking(0), block(1, { type: "redacted_thinking", data: "AA" }), use(2, "toolu_1", "look", '{"at":"x"}'), stopped("tool_use"), stop);
    const called = { type: "tool_use", id: "toolu_1", name: "look", input: { at: "x" } };
    const { text: body, body: { messages } } = await secondTurn(first);
    checkMessages(body, { signatures: ["sig"] });
    expect(messages[1]).toEqual({ role: "assistant", content: [thought, { type: "redacted_thinking", data: "AA" }, called] });
    const switched = await secondTurn(first, { next: "other" });
    checkMessages(switched.text);
    expect(switched.body.messages[1]).toEqual({ role: "assistant", content: [called] });
  });

  test("has the server's own tools, in order; no thinking that was cut off, and no text without a letter", async () => {
    const search = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} };
    const found = { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] };
    const server = await secondTurn(message(text(0, "\n\n"), block(1, search), block(2, found), text(3, "Blue."), stopped("end_turn"), stop));
    checkMessages(server.text);
    expect(server.body.messages[1]).toEqual({ role: "assistant", content: [search, found, { type: "text", text: "Blue." }] });
    const cut = await secondTurn(message(open(0, { type: "thinking", thinking: "", signature: "" }), delta(0, { type: "thinking_delta", thinking: "Hm" }), stopped("max_tokens"), stop));
    checkMessages(cut.text);
    expect(cut.body.messages).toEqual([{ role: "user", content: [{ type: "text", text: "go" }, { type: "text", text: "So?" }] }]);
  });

  test("has an empty object for arguments that were cut off, and a result that says so", async () => {
    const server = fakeServer([message(thinking(0), use(1, "toolu_1", "ping", '{"at":'), stopped("max_tokens"), stop), message(text(0, "Hi"), stopped("end_turn"), stop)]);
    await collect(agent({ call: connect(server.fetch), tools: { ping: tool({ run: () => expect.fail("it ran") }) }, messages: [{ role: "user", content: "go" }] }));
    checkMessages(server.received[1]?.text ?? "", { signatures: ["sig"] });
    expect(server.received[1]?.body.messages.slice(1)).toEqual([
      { role: "assistant", content: [thought, { type: "tool_use", id: "toolu_1", name: "ping", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: expect.stringMatching(/^Error: not run: .*cut off/), is_error: true }] },
    ]);
  });

  test("has ids as the API takes them, the same in call and result, also where the loop gave another one", async () => {
    const twice = message(thinking(0), use(1, "functions.look:0", "look", "{}"), use(2, "functions.look:0", "look", "{}"), stopped("tool_use"), stop);
    const { text: body } = await secondTurn(twice);
    checkMessages(body, { signatures: ["sig"] });
  });

  test("goes to a server that speaks Chat Completions with nothing of Anthropic's, and back with all of it", async () => {
    const tools = { look: tool({ run: () => "seen" }) };
    const run = agent({ call: connect(fakeServer([message(thinking(0), use(1, "toolu_1", "look", "{}"), stopped("tool_use"), stop), message(thinking(0), text(1, "Hi "), stopped("end_turn"), stop)]).fetch), tools, messages: [{ role: "user", content: "go" }] });
    await collect(run);
    const chat = fakeServer([sse(chunk({ content: "Yes. ", reasoning_content: "Hm" }), finish("stop"), "[DONE]")]);
    const there = agent({ call: openai({ model: "c", baseURL: "https://chat.example/v1", fetch: chat.fetch }), tools, state: JSON.parse(JSON.stringify(run.state)), messages: [{ role: "user", content: "Really?" }] });
    await collect(there);
    checkChat(chat.received[0]?.text ?? "");
    const back = fakeServer([message(text(0, "Hi"), stopped("end_turn"), stop)]);
    await collect(agent({ call: connect(back.fetch), tools, state: there.state, messages: [{ role: "user", content: "Sure?" }] }));
    checkMessages(back.received[0]?.text ?? "", { signatures: ["sig"] });
    expect(back.received[0]?.body.messages.slice(3)).toEqual([
      { role: "assistant", content: [thought, { type: "text", text: "Hi " }] },
      { role: "user", content: [{ type: "text", text: "Really?" }] },
      { role: "assistant", content: [{ type: "text", text: "Yes." }] },
      { role: "user", content: [{ type: "text", text: "Sure?" }] },
    ]);
  });
});

describe("a request", () => {
  const request = async (options: Partial<AnthropicOptions> = {}, messages: Message[] = [{ role: "user", content: "go" }], tools: Parameters<typeof ask>[2] = []) => {
    const server = fakeServer([message(text(0, "Hi"), stopped("end_turn"), stop)]);
    await ask(connect(server.fetch, options), messages, tools);
    return server.received[0] ?? expect.fail("nothing was asked");
  };
  const add = { type: "function", function: { name: "add", description: "Adds", parameters: { type: "object", properties: {} } } } as const;

  test("sends the model, the tokens allowed and the messages, and nothing that nobody asked for", async () => {
    const { url, headers, body } = await request();
    expect(url).toBe("https://server.example/v1/messages");
    expect(Object.fromEntries(headers)).toEqual({ "x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json" });
    expect(body).toEqual({ model: "m", max_tokens: 8192, stream: true, messages: [{ role: "user", content: [{ type: "text", text: "go" }] }] });
    expect((await request({ stream: false, maxTokens: 9 })).body).toEqual({ model: "m", max_tokens: 9, messages: [{ role: "user", content: [{ type: "text", text: "go" }] }] });
  });

  test("has the tools in the API's shape, and the server's own after them", async () => {
    const search = { type: "web_search_20250305", name: "web_search" };
    const { text: body, body: { tools } } = await request({ body: { tools: [search] } }, undefined, [add]);
    checkMessages(body);
    expect(tools).toEqual([{ name: "add", description: "Adds", input_schema: { type: "object", properties: {} } }, search]);
  });

  test("takes the base with or without its version, and headers in place of its own", async () => {
    expect((await request({ baseURL: "https://server.example/v1/" })).url).toBe("https://server.example/v1/messages");
    const { headers } = await request({ headers: { "anthropic-version": "2024-01-01", "x-api-key": undefined, authorization: "Bearer t" } });
    expect(Object.fromEntries(headers)).toEqual({ "anthropic-version": "2024-01-01", authorization: "Bearer t", "content-type": "application/json" });
  });

  test("has system messages apart, pictures as blocks, and nothing empty", async () => {
    const { text: body, body: { system, messages } } = await request({ body: { system: "First." } }, [
      { role: "system", content: "Be short." },
      { role: "user", content: [{ type: "text", text: " " }, { type: "text", text: "What?" }, { type: "image_url", image_url: { url: "data:image/png;base64,AA" } }, { type: "image_url", image_url: { url: "https://x.example/cat.png" } }] },
      { role: "assistant", content: "A cat  ", tool_calls: [{ id: "a:1", function: { name: "look", arguments: "[1]" } }] },
      { role: "tool", tool_call_id: "a:1", content: [{ type: "text", text: "seen" }, { type: "image_url", image_url: "data:image/png;base64,BB" }] },
      { role: "developer", content: [{ type: "text", text: "Be kind." }] },
      { role: "user", content: "" },
      { role: "assistant", content: "" },
      { role: "user", content: "So?" },
    ]);
    checkMessages(body);
    const id = (messages[1]?.["content"] as { id: string }[])[1]?.id;
    expect(system).toEqual([{ type: "text", text: "First." }, { type: "text", text: "Be short." }, { type: "text", text: "Be kind." }]);
    expect(messages).toEqual([
      { role: "user", content: [{ type: "text", text: "What?" }, { type: "image", source: { type: "base64", media_type: "image/png", data: "AA" } }, { type: "image", source: { type: "url", url: "https://x.example/cat.png" } }] },
      { role: "assistant", content: [{ type: "text", text: "A cat" }, { type: "tool_use", id, name: "look", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: [{ type: "text", text: "seen" }, { type: "image", source: { type: "base64", media_type: "image/png", data: "BB" } }] }, { type: "text", text: "So?" }] },
    ]);
  });

  test("marks tools, system and the conversation for the cache, when asked to", async () => {
    const cached = { cache_control: { type: "ephemeral" } };
    const { text: body, body: { system, tools, messages } } = await request({ cache: true }, [{ role: "system", content: "s" }, { role: "user", content: "a" }, { role: "assistant", content: "b" }, { role: "user", content: "c" }], [add]);
    checkMessages(body);
    expect([system, tools]).toEqual([[{ type: "text", text: "s", ...cached }], [{ name: "add", description: "Adds", input_schema: { type: "object", properties: {} }, ...cached }]]);
    expect(messages).toEqual([{ role: "user", content: [{ type: "text", text: "a" }] }, { role: "assistant", content: [{ type: "text", text: "b" }] }, { role: "user", content: [{ type: "text", text: "c", ...cached }] }]);
  });
});
