// What servers that speak Chat Completions send, each kind in small and written by hand in the shape that was seen of
// it; and what is sent to them, judged by the strictest of them.
import { describe, expect, test } from "vitest";
import { agent, type Message, type Reply, tool } from "yieldagent";
import { ModelError, openai, type OpenAIOptions } from "yieldagent/openai";
import { collect } from "yieldagent/testing";
import { checkChat, type Habits } from "./strict.ts";
import { type Answer, ask, callChunk, chunk, fakeServer, finish, sse } from "./wire.ts";

const DONE = "[DONE]";
const hi = chunk({ role: "assistant", content: "Hi" });
const call = (piece: object): object => ({ type: "function", ...piece });
const add = { id: "call_1", function: { name: "add", arguments: '{"a":1}' } };
const added = { id: "call_1", type: "function", function: { name: "add", arguments: '{"a":1}' } };
const mul = { id: "call_2", function: { name: "mul", arguments: "{}" } };
const multiplied = { id: "call_2", type: "function", function: { name: "mul", arguments: "{}" } };
/** A whole body with this message. */
const whole = (message: unknown, choice: object = {}, rest: object = {}): string =>
  JSON.stringify({ id: "chatcmpl-1", object: "chat.completion", choices: [{ index: 0, message, finish_reason: "stop", ...choice }], ...rest });

/** Each kind: what the server sends, and the right reading of it: the reply's fields (role is `assistant`, `finish_reason` `stop` if not named). */
const KINDS: Record<string, [body: string, reply: Partial<Reply>, deltas?: string[]]> = {
  // A. Framing
  "comment lines between events": [`: OPENROUTER PROCESSING\n\n: keep-alive\n${sse(hi)}: ping - now\n\n${sse(finish("stop"), DONE)}`, { content: "Hi" }],
  "lines that end in CRLF": [sse(hi, finish("stop"), DONE).replaceAll("\n", "\r\n"), { content: "Hi" }],
  "lines that end in CR": [sse(hi, finish("stop"), DONE).replaceAll("\n", "\r"), { content: "Hi" }],
  "a byte order mark, and no space after the colon": [`\uFEFF${sse(hi, finish("stop"), DONE).replaceAll("data: ", "data:")}`, { content: "Hi" }],
  "no [DONE] at the end": [sse(hi, finish("stop")), { content: "Hi" }],
  "[DONE] and no finish reason": [sse(hi, DONE), { content: "Hi" }],
  "[DONE] and no finish reason after a call": [sse(callChunk({ index: 0, ...add }), DONE), { tool_calls: [added], finish_reason: "tool_calls" }],
  "no blank line after the last event": [sse(hi, finish("stop")).trimEnd(), { content: "Hi" }],
  "no blank line after [DONE]": [sse(hi, DONE).trimEnd(), { content: "Hi" }],
  "a cut usage chunk after the finish reason": [`${sse(hi, finish("stop"))}data: {"choices":[],"usa`, { content: "Hi" }],
  "an event over several data lines, with id and retry": [`id: 1\nretry: 3000\nevent: message\n${JSON.stringify(hi, null, 1).replace(/^/gm, "data: ")}\n\n${sse(finish("stop"))}`, { content: "Hi" }],
  "a byte order mark that is text": [sse(chunk({ content: "a\uFEFF世" }), chunk({ content: "\uFEFF" }), finish("stop"), DONE), { content: "a\uFEFF世\uFEFF" }],
  "text of several bytes a character": [sse(chunk({ content: "Grüße, 世界 👋🏽" }), finish("stop"), DONE), { content: "Grüße, 世界 👋🏽" }],
  "blank lines, for minutes, and then the whole reply": [`\n\n\n\n${whole({ role: "assistant", content: "Hi" })}`, { content: "Hi" }],
  "events with empty data": [`data:\n\n${sse(hi, "", finish("stop"), DONE)}`, { content: "Hi" }],
  "a JSON body though a stream was asked for": [whole({ role: "assistant", content: "Hi" }), { content: "Hi" }],

  // B. Chunks
  "a first chunk without choices, and a last one with the usage": [
    sse({ choices: [], id: "", model: "", prompt_filter_results: [] }, hi, finish("stop"), { choices: [], usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 } }, DONE),
    { content: "Hi", usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 } },
  ],
  "usage: null after the usage": [sse(hi, finish("stop", { usage: { total_tokens: 4 } }), { choices: [], usage: null }, DONE), { content: "Hi", usage: { total_tokens: 4 } }],
  "chunks without choices, and with choices: null": [sse({ id: "x" }, hi, { choices: null }, finish("stop"), DONE), { content: "Hi" }],
  "an empty finish reason in every chunk": [sse(chunk({ content: "H" }, { finish_reason: "" }), chunk({ content: "i" }, { finish_reason: "" }), finish("stop"), DONE), { content: "Hi" }],
  "the finish reason twice": [sse(hi, finish("stop"), finish("stop", { usage: { total_tokens: 2 } }), DONE), { content: "Hi", usage: { total_tokens: 2 } }],
  "a finish reason with every call, and null at last": [
    sse(chunk({ tool_calls: [{ index: 0, ...add }] }, { finish_reason: "tool_calls" }), chunk({ tool_calls: [{ index: 1, ...mul }] }, { finish_reason: "tool_calls" }), finish(null), DONE),
    { tool_calls: [added, multiplied], finish_reason: "tool_calls" },
  ],
  "the finish reason stop beside calls": [sse(callChunk({ index: 0, ...add }), finish("stop"), DONE), { tool_calls: [added], finish_reason: "stop" }],
  "the finish reason tool_calls without calls": [whole({ role: "assistant", content: "Hi" }, { finish_reason: "tool_calls" }), { content: "Hi", finish_reason: "tool_calls" }],
  "an unknown finish reason": [sse(hi, finish("eos"), DONE), { content: "Hi", finish_reason: "eos" }],
  "max_tokens for length": [sse(hi, finish("max_tokens"), DONE), { content: "Hi", finish_reason: "length" }],
  "model_length for length": [whole({ role: "assistant", content: "Hi" }, { finish_reason: "model_length" }), { content: "Hi", finish_reason: "length" }],
  "no role in any delta": [sse(chunk({ content: "H" }), chunk({ content: "i" }), finish("stop"), DONE), { content: "Hi" }],
  "the role in every delta": [sse(chunk({ role: "assistant", content: "H" }), chunk({ role: "assistant", content: "i" }), finish("stop"), DONE), { content: "Hi" }],
  "a cumulative message beside each delta": [sse(chunk({ content: "H" }, { message: { content: "H" } }), chunk({ content: "i" }, { message: { content: "Hi" }, finish_reason: "stop" })), { content: "Hi" }],
  "thinking as parts of the content, and then plain text": [
    sse(chunk({ content: [{ type: "thinking", thinking: [{ type: "text", text: "Hm" }] }] }), chunk({ content: [{ type: "thinking", thinking: [{ type: "text", text: "m." }] }] }), chunk({ content: [{ type: "text", text: "H" }] }), chunk({ content: "i" }), finish("stop"), DONE),
    { content: [{ type: "thinking", thinking: [{ type: "text", text: "Hmm." }] }, { type: "text", text: "Hi" }], source: "server.example/v1" },
    ["reasoning:Hmm.", "text:Hi"],
  ],
  "reasoning as a summary in parts, whole": [
    whole({ role: "assistant", content: [{ type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }] }, { type: "text", text: "Hi" }] }),
    { content: [{ type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }] }, { type: "text", text: "Hi" }], source: "server.example/v1" },
    ["reasoning:Hm.", "text:Hi"],
  ],
  "a choice without a message": [JSON.stringify({ choices: [{ index: 0, finish_reason: "content_filter" }] }), { finish_reason: "content_filter" }],
  "delta: null": [sse(hi, chunk(null, { finish_reason: "content_filter" }), DONE), { content: "Hi", finish_reason: "content_filter" }],
  "a refusal": [sse(chunk({ content: null, refusal: "I " }), chunk({ refusal: "won't." }), finish("stop"), DONE), { content: null, refusal: "I won't." }, ["text:I won't."]],
  "two choices, one after the other in turn": [sse({ choices: [{ index: 1, delta: { content: "no" } }] }, hi, { choices: [{ index: 1, delta: {}, finish_reason: "length" }] }, finish("stop"), DONE), { content: "Hi" }],
  "a choice without an index": [sse({ choices: [{ delta: { content: "Hi" }, finish_reason: "stop" }] }), { content: "Hi" }],
  "no answer at all, the budget spent on hidden reasoning": [sse(chunk({ role: "assistant", content: "" }), finish("length"), DONE), { content: "", finish_reason: "length" }, []],
  "<think> in the text, which stays": [whole({ role: "assistant", content: "<think>Hm</think>Hi" }), { content: "<think>Hm</think>Hi" }],
  "reasoning_content": [sse(chunk({ reasoning_content: "H" }), chunk({ reasoning_content: "m", content: null }), hi, finish("stop"), DONE), { reasoning_content: "Hm", content: "Hi", source: "server.example/v1" }, ["reasoning:Hm", "text:Hi"]],
  "the same reasoning in two fields": [sse(chunk({ reasoning_content: "Hm", reasoning: "Hm" }), hi, finish("stop"), DONE), { reasoning_content: "Hm", reasoning: "Hm", content: "Hi", source: "server.example/v1" }, ["reasoning:Hm", "text:Hi"]],
  "reasoning_details with the signature in a delta of its own": [
    sse(
      chunk({ content: "", reasoning: "H", reasoning_details: [{ type: "reasoning.text", text: "H", index: 0, format: "anthropic-claude-v1" }] }),
      chunk({ content: "", reasoning: "m", reasoning_details: [{ type: "reasoning.text", text: "m", index: 0, format: "anthropic-claude-v1" }] }),
      chunk({ content: "", reasoning: null, reasoning_details: [{ type: "reasoning.text", signature: "sig", index: 0, format: "anthropic-claude-v1" }] }),
      callChunk({ index: 0, ...add }), finish("tool_calls"), DONE,
    ),
    { content: "", reasoning: "Hm", reasoning_details: [{ type: "reasoning.text", text: "Hm", index: 0, format: "anthropic-claude-v1", signature: "sig" }], tool_calls: [added], finish_reason: "tool_calls", source: "server.example/v1" },
    ["reasoning:Hm"],
  ],
  "encrypted reasoning_details, one for each call": [
    sse(
      chunk({ reasoning_details: [{ type: "reasoning.encrypted", data: "AA", id: "call_1", index: 0 }], tool_calls: [{ index: 0, ...add }] }),
      chunk({ reasoning_details: [{ type: "reasoning.encrypted", data: "BB", id: "call_2", index: 0 }], tool_calls: [{ index: 1, ...mul }] }), finish("tool_calls"), DONE,
    ),
    { reasoning_details: [{ type: "reasoning.encrypted", data: "AA", id: "call_1", index: 0 }, { type: "reasoning.encrypted", data: "BB", id: "call_2", index: 0 }], tool_calls: [added, multiplied], finish_reason: "tool_calls", source: "server.example/v1" },
    [],
  ],
  "reasoning_details whole, without indexes": [
    whole({ role: "assistant", content: "Hi", reasoning_details: [{ type: "reasoning.text", text: "H", signature: "1" }, { type: "reasoning.text", text: "m", signature: "2" }] }),
    { content: "Hi", reasoning_details: [{ type: "reasoning.text", text: "H", signature: "1" }, { type: "reasoning.text", text: "m", signature: "2" }], source: "server.example/v1" },
    ["reasoning:Hm", "text:Hi"],
  ],
  "the call repeated in the text": [whole({ role: "assistant", content: '<tool_call>{"name":"add"}</tool_call>', tool_calls: [added] }, { finish_reason: "tool_calls" }), { content: '<tool_call>{"name":"add"}</tool_call>', tool_calls: [added], finish_reason: "tool_calls" }],
  "reasoning as a text, and then in the same field as a list": [
    sse(chunk({ reasoning: "Hm" }), chunk({ reasoning: [{ type: "reasoning.text", text: "m." }] }), chunk({ reasoning_details: [{ type: "x" }] }), chunk({ reasoning_details: "y" }), hi, finish("stop"), DONE),
    { reasoning: "Hm", reasoning_details: [{ type: "x" }], content: "Hi", source: "server.example/v1" }, ["reasoning:Hmm.y", "text:Hi"],
  ],
  "sources beside the text": [sse(hi, chunk({ annotations: [{ type: "url_citation" }] }), finish("stop"), DONE), { content: "Hi", annotations: [{ type: "url_citation" }] }],

  // C. Calls
  "arguments split at every character": [
    sse(chunk({ role: "assistant", content: null, tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "add", arguments: "" } }] }), ...[...'{"a":1}'].map((piece) => callChunk({ index: 0, function: { arguments: piece } })), finish("tool_calls"), DONE),
    { content: null, tool_calls: [added], finish_reason: "tool_calls" },
  ],
  "several calls in one delta, with finish reason and usage": [
    sse(chunk({ content: "", tool_calls: [{ index: 0, ...add }, { index: 1, ...mul }] }, { finish_reason: "tool_calls" }, { usage: { total_tokens: 9 } }), DONE),
    { content: "", tool_calls: [added, multiplied], finish_reason: "tool_calls", usage: { total_tokens: 9 } },
  ],
  "calls without an index": [sse(callChunk(call(add)), callChunk(call(mul)), finish("stop"), DONE), { tool_calls: [added, multiplied], finish_reason: "stop" }],
  "calls without an index and with empty ids": [
    sse(callChunk({ id: "", function: { name: "add", arguments: "{}" } }), callChunk({ id: "", function: { name: "mul", arguments: "{}" } }), finish("stop"), DONE),
    { tool_calls: [{ id: "", type: "function", function: { name: "add", arguments: "{}" } }, { id: "", type: "function", function: { name: "mul", arguments: "{}" } }] },
  ],
  "pieces of a call without an index": [sse(callChunk({ id: "call_1", function: { name: "add", arguments: "" } }), callChunk({ function: { arguments: '{"a"' } }), callChunk({ function: { arguments: ":1}" } }), finish("tool_calls")), { tool_calls: [added], finish_reason: "tool_calls" }],
  "the same index for different calls": [sse(callChunk({ index: 0, ...add }), callChunk({ index: 0, ...mul }), finish("tool_calls"), DONE), { tool_calls: [added, multiplied], finish_reason: "tool_calls" }],
  "a first index of 1": [sse(callChunk({ index: 1, ...add }), callChunk({ index: 2, ...mul }), finish("tool_calls"), DONE), { tool_calls: [added, multiplied], finish_reason: "tool_calls" }],
  "later deltas with empty ids and names": [
    sse(callChunk({ index: 0, id: "call_1", function: { name: "add", arguments: "" } }), callChunk({ index: 0, id: "", function: { name: "", arguments: '{"a"' } }), callChunk({ index: 0, id: null, function: { name: null, arguments: ":1}" } }), finish("tool_calls"), DONE),
    { tool_calls: [added], finish_reason: "tool_calls" },
  ],
  "id and name repeated in every delta": [
    sse(...['{"a"', ":1}"].map((args) => callChunk({ index: 0, id: "call_1", type: "function", function: { name: "add", arguments: args } })), finish("tool_calls"), DONE),
    { tool_calls: [added], finish_reason: "tool_calls" },
  ],
  "no arguments in the first delta": [sse(callChunk({ index: 0, id: "call_1", function: { name: "add" } }), callChunk({ index: 0, function: { arguments: '{"a":1}' } }), finish("tool_calls"), DONE), { tool_calls: [added], finish_reason: "tool_calls" }],
  "the name after the id": [sse(callChunk({ index: 0, id: "call_1" }), callChunk({ index: 0, function: { name: "add", arguments: '{"a":1}' } }), finish("tool_calls"), DONE), { tool_calls: [added], finish_reason: "tool_calls" }],
  "no arguments at all": [sse(callChunk({ index: 0, id: "call_2", function: { name: "mul", arguments: "" } }), finish("tool_calls"), DONE), { tool_calls: [multiplied], finish_reason: "tool_calls" }],
  "no arguments at all, cut off": [
    sse(callChunk({ index: 0, id: "call_2", function: { name: "mul", arguments: "" } }), finish("length"), DONE),
    { tool_calls: [{ id: "call_2", type: "function", function: { name: "mul", arguments: "" } }], finish_reason: "length" },
  ],
  "no arguments at all, the context full": [
    sse(callChunk({ index: 0, id: "call_2", function: { name: "mul", arguments: "" } }), finish("model_context_window_exceeded"), DONE),
    { tool_calls: [{ id: "call_2", type: "function", function: { name: "mul", arguments: "" } }], finish_reason: "model_context_window_exceeded" },
  ],
  "arguments that are a list, which the loop refuses": [whole({ role: "assistant", content: null, tool_calls: [{ id: "call_1", function: { name: "add", arguments: ["x"] } }] }), { content: null, tool_calls: [{ id: "call_1", type: "function", function: { name: "add", arguments: '["x"]' } }] }],
  "a call that is none after the last": [sse(callChunk({ index: 0, ...add }), callChunk({ index: 1, id: "", function: { name: "", arguments: "" } }), finish("tool_calls"), DONE), { tool_calls: [added], finish_reason: "tool_calls" }],
  "pieces of two calls in turn, both with the index 0, id and name in each": [
    sse(
      callChunk({ index: 0, id: "call_1", function: { name: "add", arguments: '{"a"' } }), callChunk({ index: 0, id: "call_2", function: { name: "mul", arguments: "{" } }),
      callChunk({ index: 0, id: "call_1", function: { name: "add", arguments: ":1}" } }), callChunk({ index: 0, id: "call_2", function: { name: "mul", arguments: "}" } }), finish("tool_calls"), DONE,
    ),
    { tool_calls: [added, multiplied], finish_reason: "tool_calls" },
  ],
  "fields that no object may have": [sse(chunk({ content: "Hi" })).replace('"content"', '"__proto__":{"x":1},"content"') + sse(finish("stop"), DONE), { content: "Hi" }],
  "[DONE] after two spaces": ["data:  [DONE]\n\n".replace(/^/, sse(hi)), { content: "Hi" }],
  "cut arguments after a whole call": [
    sse(callChunk({ index: 0, ...add }), callChunk({ index: 1, id: "call_2", function: { name: "mul", arguments: '{"b":' } }), finish("length"), DONE),
    { tool_calls: [added, { id: "call_2", type: "function", function: { name: "mul", arguments: '{"b":' } }], finish_reason: "length" },
  ],
  "arguments that are an object": [whole({ role: "assistant", content: null, tool_calls: [{ id: "call_1", function: { name: "add", arguments: { a: 1 } } }] }), { content: null, tool_calls: [added] }],
  "arguments that are JSON in JSON": [whole({ role: "assistant", content: null, tool_calls: [{ id: "call_1", function: { name: "add", arguments: '"{\\"a\\":1}"' } }] }), { content: null, tool_calls: [added] }],
  "calls with an index in a whole message, and fields of the server's": [
    whole({ role: "assistant", content: "", tool_calls: [{ index: 0, custom: { input: "", name: "" }, ...add }, { index: 0, ...mul }], function_call: { name: "", arguments: "" }, audio: null, refusal: "" }),
    { content: "", tool_calls: [{ custom: { input: "", name: "" }, ...added }, multiplied] },
  ],
  "a thought signature beside the call": [
    sse(callChunk({ index: 0, extra_content: { google: { thought_signature: "s" } }, ...add }), finish("tool_calls"), DONE),
    { tool_calls: [{ extra_content: { google: { thought_signature: "s" } }, ...added }], finish_reason: "tool_calls", source: "server.example/v1" },
  ],
  "a thought signature in a delta of its own": [
    sse(callChunk({ index: 0, ...add }), chunk({ extra_content: { google: { thought_signature: "s" } } }), finish("tool_calls"), DONE),
    { tool_calls: [added], extra_content: { google: { thought_signature: "s" } }, finish_reason: "tool_calls", source: "server.example/v1" },
  ],

  // D. Usage
  "usage three times, which is not added up": [sse(chunk({ content: "H" }, {}, { usage: { total_tokens: 2 } }), chunk({ content: "i" }, {}, { usage: { total_tokens: 3 } }), finish("stop", { usage: { total_tokens: 3 } }), DONE), { content: "Hi", usage: { total_tokens: 3 } }],
  "counts that are null but once": [sse(chunk({ content: "Hi" }, {}, { usage: { prompt_tokens: 2, completion_tokens: null } }), finish("stop", { usage: { prompt_tokens: 2, completion_tokens: 1 } }), DONE), { content: "Hi", usage: { prompt_tokens: 2, completion_tokens: 1 } }],
  "usage inside the choice": [sse(hi, chunk({}, { finish_reason: "stop", usage: { total_tokens: 3 } }), DONE), { content: "Hi", usage: { total_tokens: 3 } }],

  // E. What is no error
  "error: null and error: '' in healthy chunks": [sse({ ...hi, error: null }, { ...finish("stop"), error: "" }, DONE), { content: "Hi" }],
};

const connect = (fetch: typeof globalThis.fetch, options: Partial<OpenAIOptions> = {}) => openai({ model: "m", baseURL: "https://server.example/v1", apiKey: "k", maxRetries: 0, fetch, ...options });

describe("a server that sends", () => {
  for (const [kind, [body, reply, deltas]] of Object.entries(KINDS)) {
    for (const size of [Infinity, 64, 7, 1]) {
      test(`${kind}, ${size === Infinity ? "whole" : `cut every ${size} bytes`}`, async () => {
        const asked = await ask(connect(fakeServer([body], size).fetch));
        expect(asked.error).toBeUndefined();
        expect(asked.reply).toEqual({ role: "assistant", finish_reason: "stop", ...reply });
        const text = typeof reply.content === "string" ? reply.content : "";
        expect(joined(asked.deltas)).toEqual(deltas ?? (text ? [`text:${text}`] : []));
      });
    }
  }

  test("a reply whole gives no deltas when no stream was asked for", async () => {
    const server = fakeServer([whole({ role: "assistant", reasoning: "Hm", content: "Hi" })]);
    const asked = await ask(connect(server.fetch, { stream: false }));
    expect(asked).toEqual({ deltas: [], text: "", reasoning: "", error: undefined, reply: { role: "assistant", reasoning: "Hm", content: "Hi", finish_reason: "stop", source: "server.example/v1" } });
    expect(server.received[0]?.body).toEqual({ model: "m", messages: [{ role: "user", content: "go" }] });
  });

  test("a stream though none was asked for is read as one", async () => {
    expect((await ask(connect(fakeServer([sse(hi, finish("stop"), DONE)]).fetch, { stream: false }))).reply).toEqual({ role: "assistant", content: "Hi", finish_reason: "stop" });
  });

  test("nothing after [DONE] keeps the call waiting", async () => {
    let cancelled: () => void = () => {};
    const gone = new Promise<void>((resolve) => (cancelled = resolve));
    const open = (): Response => new Response(new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode(sse(hi, DONE))),
      cancel: cancelled,
    }));
    expect((await ask(connect(fakeServer([open]).fetch))).reply?.content).toBe("Hi");
    await gone;
  });

  test("a text a piece at a time is handed on a piece at a time", async () => {
    const pieces = ["Once ", "upon ", "a time"];
    let sent = 0;
    const server: Answer = () => new Response(new ReadableStream({
      pull(controller) {
        const piece = pieces[sent++];
        controller.enqueue(new TextEncoder().encode(piece === undefined ? sse(finish("stop"), DONE) : sse(chunk({ content: piece }))));
      },
    }, { highWaterMark: 0 }));
    const deltas: string[] = [];
    for await (const step of agent({ call: connect(fakeServer([server]).fetch), messages: [{ role: "user", content: "go" }] })) {
      if (step.type === "text") deltas.push(`${step.text}|${sent}`);
    }
    expect(deltas).toEqual(["Once |1", "upon |2", "a time|3"]);
  });
});

/** Deltas of one kind in a row joined: where a network cuts is nobody's business. */
function joined(deltas: readonly string[]): string[] {
  const all: string[] = [];
  for (const delta of deltas) {
    const type = delta.slice(0, delta.indexOf(":") + 1);
    if (all.at(-1)?.startsWith(type)) all[all.length - 1] += delta.slice(type.length);
    else all.push(delta);
  }
  return all;
}

/** What a server sends that is no reply. */
const FAILURES: Record<string, [body: string, message: string, facts?: Partial<ModelError>]> = {
  "an error event after half an answer": [`${sse(hi)}event: error\n${sse({ error: { message: "Tool choice is required", type: "invalid_request_error", code: "tool_use_failed", failed_generation: "x", status_code: 400 } })}`, "Tool choice is required", { code: "tool_use_failed", type: "invalid_request_error", retryable: true }],
  "a field named error:": [`${sse(hi)}error: {"error":{"message":"failed to decode","code":500}}\n\n`, "failed to decode", { code: 500, retryable: true }],
  "a field named error: with plain words": [`${sse(hi)}error: out of memory\n\n`, "out of memory", { retryable: true }],
  "an error in a chunk that has all else, after a finish reason, and then [DONE]": [sse(hi, { ...finish("length"), error: { code: 502, message: "Upstream failed" }, usage: { total_tokens: 1 } }, DONE), "Upstream failed", { code: 502, retryable: true }],
  "an error without choices, and then [DONE]": [sse(hi, { choices: [], error: { message: "overloaded", type: "overloaded_error" } }, DONE), "overloaded", { code: "overloaded_error", type: "overloaded_error", retryable: true }],
  "an error that is a word": [sse(hi, { error: "upstream timed out" }, DONE), "upstream timed out", { retryable: true }],
  "an error without words": [sse(hi, { error: { code: 502 } }, DONE), "502", { code: 502, retryable: true }],
  "an error without anything": [sse(hi, { error: {} }, finish("stop"), DONE), "the server sent an error without words", { retryable: true }],
  "an error without words after a finish reason": [sse(hi, finish("stop"), { error: { type: "overloaded" } }, DONE), "overloaded", { code: "overloaded", type: "overloaded", retryable: true }],
  "a flat error": [sse(hi, { object: "error", message: "engine died", type: "InternalServerError", code: 500 }, DONE), "engine died", { code: 500, type: "InternalServerError", retryable: true }],
  "a list of errors": [sse(hi, { error: [{ message: "one" }, { message: "two" }] }, DONE), "one; two", { retryable: true }],
  "an error within the choice": [whole(null, { finish_reason: "error", error: { code: 429, message: "Slow down" } }), "Slow down", { code: 429, retryable: true }],
  "the end of its money in the middle": [sse(hi, { error: { message: "You exceeded your current quota", type: "insufficient_quota", code: "insufficient_quota" } }), "You exceeded your current quota", { code: "insufficient_quota", type: "insufficient_quota", retryable: false }],
  "an end in the middle": [sse(hi), "the answer ended before the reply was complete", { retryable: true }],
  "an end inside an event": [`${sse(hi)}data: {"choices":[{"index":0,"delta":{"content":"th`, "the server's answer is broken or was cut off: it is no JSON", { retryable: true }],
  "an end inside the arguments of a call": [sse(callChunk({ index: 0, id: "c", function: { name: "add", arguments: '{"a":1}' } })), "the answer ended before the reply was complete", { retryable: true }],
  "nothing": ["", "the answer ended before the reply was complete", { retryable: true }],
  "only [DONE]": [sse(DONE), "the answer ended before the reply was complete", { retryable: true }],
  "choices: null and an error": [JSON.stringify({ choices: null, error: { message: "no provider", code: 503 } }), "no provider", { code: 503, retryable: true }],
  "choices: null and no error": [JSON.stringify({ choices: null }), "the answer has no choices: is baseURL that of a Chat Completions API?", { retryable: false }],
  "half a JSON body": [whole({ role: "assistant", content: "Hi" }).slice(0, 60), "the server's answer is broken or was cut off: it is no JSON", { retryable: true }],
  "a web page": ["<!DOCTYPE html><html><head><title>Sign in</title></head></html>", "https://server.example/v1/chat/completions answered with a web page, \"Sign in\": is baseURL right?", { retryable: false }],
  "an endless line": [`data: ${"x".repeat(2000)}`, "an event is larger than 1000 bytes", { retryable: false }],
  "an endless event": ["data: xxxxxxxxxx\n".repeat(200), "an event is larger than 1000 bytes", { retryable: false }],
};

describe("half a reply is never a reply:", () => {
  for (const [kind, [body, message, facts]] of Object.entries(FAILURES)) {
    for (const size of [Infinity, 7, 1]) {
      test(`${kind}, ${size === Infinity ? "whole" : `cut every ${size} bytes`}`, async () => {
        let ran = 0;
        const tools = { add: tool({ run: () => ran++ }) };
        const run = agent({ call: connect(fakeServer([body], size).fetch, { maxEventBytes: 1000 }), tools, messages: [{ role: "user", content: "go" }], id: "r" });
        const before = run.state;
        const error = await collect(run).then(() => undefined, (thrown: ModelError) => thrown);
        expect(error).toBeInstanceOf(ModelError);
        expect(error?.message).toBe(message);
        expect({ status: error?.status, retryable: error?.retryable, code: error?.code, type: error?.type }).toEqual({ status: 200, retryable: false, code: undefined, type: undefined, ...facts });
        expect(ran).toBe(0);
        expect(run.state).toEqual(before);

        // The same state goes on when the server is back.
        const steps = await collect(agent({ call: connect(fakeServer([sse(hi, finish("stop"), DONE)]).fetch), tools, state: run.state }));
        expect(steps.map(({ type }) => type).join(" ")).toBe("text message final");
      });
    }
  }
});

/** Runs an agent whose first reply is `first`, through JSON into another process, and gives the bodies of both requests. */
async function secondTurn(first: string, given: { baseURL?: string; next?: string; model?: string; messages?: Message[] } = {}): Promise<{ text: string; messages: Record<string, unknown>[] }> {
  const { baseURL = "https://server.example/v1", model = "m", messages = [{ role: "user", content: "go" }] } = given;
  const here = fakeServer([first]);
  const there = fakeServer([sse(hi, finish("stop"), DONE)]);
  const tools = { add: tool({ needsApproval: true, parameters: { type: "object", properties: { a: { type: "number" } } }, run: () => 3 }), mul: tool({ run: () => "" }) };
  const run = agent({ call: connect(here.fetch, { baseURL, model }), tools, messages, id: "r" });
  await collect(run);
  const state = JSON.parse(JSON.stringify(run.state)) as typeof run.state;
  const decisions = Object.fromEntries(state.calls.filter(({ status }) => status === "pending").map(({ id }) => [id, true]));
  await collect(agent({ call: connect(there.fetch, { baseURL: given.next ?? baseURL, model }), tools, state, decisions, ...(state.calls.length === 0 && { messages: [{ role: "user", content: "And now?" }] }) }));
  const request = there.received[0];
  return { text: request?.text ?? "", messages: request?.body.messages ?? [] };
}

const called = (message: object = {}): string => whole({ role: "assistant", content: null, tool_calls: [added], ...message }, { finish_reason: "tool_calls" });

describe("the second turn", () => {
  /** What comes from which server, what goes back to it, and by which judge. */
  const ECHOES: Record<string, [from: string, reply: object, assistant: object, habits?: Habits & { model?: string }]> = {
    "content that was null stays null": ["https://api.openai.com/v1", { content: null }, { content: null }],
    "content that was absent stays absent": ["https://api.groq.com/openai/v1", { content: undefined }, {}],
    "content that was empty stays empty": ["https://api.mistral.ai/v1", { content: "", tool_calls: [{ ...added, id: "abcDEF123" }] }, { content: "", tool_calls: [{ ...added, id: "abcDEF123" }] }, { empty: [""], ids: /^[a-zA-Z0-9]{9}$/ }],
    "Ollama never gets null": ["http://localhost:11434/v1", { content: null }, { content: "" }, { empty: [""] }],
    "DeepSeek gets its reasoning back": ["https://api.deepseek.com", { content: "", reasoning_content: "Hm" }, { content: "", reasoning_content: "Hm" }, { fields: ["reasoning_content"], everyTurn: "reasoning_content", empty: [""] }],
    "Kimi gets its reasoning back": ["https://api.moonshot.ai/v1", { content: "", reasoning_content: "Hm" }, { content: "", reasoning_content: "Hm" }, { fields: ["reasoning_content"], everyTurn: "reasoning_content" }],
    "the first R1 gets none back": ["https://host.example/v1", { reasoning_content: "Hm" }, { content: null }, { model: "deepseek-ai/DeepSeek-R1" }],
    "Groq gets reasoning in its own field": ["https://api.groq.com/openai/v1", { content: undefined, reasoning: "Hm" }, { reasoning: "Hm" }, { fields: ["reasoning"] }],
    "of the same reasoning in two fields one goes back": ["https://avian.example/v1", { reasoning_content: "Hm", reasoning: "Hm" }, { content: null, reasoning_content: "Hm" }, { fields: ["reasoning_content"] }],
    "OpenRouter gets reasoning_details back as they were": [
      "https://openrouter.ai/api/v1", { reasoning: "Hm", reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: "s", index: 0 }] },
      { content: null, reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: "s", index: 0 }] }, { fields: ["reasoning_details"] },
    ],
    "Gemini gets the thought signature of a call back": [
      "https://generativelanguage.googleapis.com/v1beta/openai", { tool_calls: [{ ...added, extra_content: { google: { thought_signature: "s" } } }] },
      { content: null, tool_calls: [{ ...added, extra_content: { google: { thought_signature: "s" } } }] }, { callFields: ["extra_content"] },
    ],
    "Gemini gets the thought signature of a message back": [
      "https://generativelanguage.googleapis.com/v1beta/openai", { extra_content: { google: { thought_signature: "s" } }, thought_signature: "s" },
      { content: null, extra_content: { google: { thought_signature: "s" } }, thought_signature: "s" }, { fields: ["extra_content", "thought_signature"] },
    ],
    "Mistral gets its thinking back in the content": [
      "https://api.mistral.ai/v1", { content: [{ type: "thinking", thinking: [{ type: "text", text: "Hm" }] }], tool_calls: [{ ...added, id: "abcDEF123" }] },
      { content: [{ type: "thinking", thinking: [{ type: "text", text: "Hm" }] }], tool_calls: [{ ...added, id: "abcDEF123" }] }, { fields: ["content[]"], ids: /^[a-zA-Z0-9]{9}$/ },
    ],
    "fields that nobody needs stay at home": [
      "https://api.openai.com/v1", { refusal: null, annotations: [{ type: "url_citation" }], audio: null, function_call: null, padding: "x", tool_calls: [{ index: 0, custom: {}, ...added }] },
      { content: null },
    ],
  };
  for (const [what, [from, reply, assistant, { model, ...habits } = {}]] of Object.entries(ECHOES)) {
    test(`at the same server: ${what}`, async () => {
      const { text, messages } = await secondTurn(called(reply), { baseURL: from, ...(model && { model }) });
      checkChat(text, habits);
      const calls = ((assistant as Message).tool_calls ?? [added]) as { id: string }[];
      expect(messages).toEqual([
        { role: "user", content: "go" },
        { role: "assistant", tool_calls: calls, ...assistant },
        { role: "tool", tool_call_id: calls[0]?.id, content: "3" },
      ]);
    });
  }

  test("DeepSeek's thinking model gets the field in the turns of another model, too", async () => {
    const { text } = await secondTurn(called({ content: "" }), { next: "https://api.deepseek.com", model: "deepseek-reasoner" });
    checkChat(text, { fields: ["reasoning_content"], everyTurn: "reasoning_content", empty: [""] });
  });

  test("a tool that the model made up is named in letters that servers take", async () => {
    const { text, messages } = await secondTurn(called({ tool_calls: [{ ...added, function: { name: "multi_tool_use.parallel", arguments: "{}" } }, { ...multiplied, function: { name: "add", arguments: "{}" } }] }));
    checkChat(text);
    expect((messages[1] as unknown as Message).tool_calls?.map((one) => one.function.name)).toEqual(["multi_tool_use_parallel", "add"]);
  });

  test("at another server nothing of the first one's own is sent", async () => {
    const reply = called({ content: [{ type: "thinking", thinking: "Hm" }, { type: "text", text: "I add." }], reasoning_content: "Hm", reasoning: "Hm", reasoning_details: [{ type: "reasoning.text", text: "Hm" }], extra_content: { google: {} }, tool_calls: [{ ...added, extra_content: { google: {} } }] });
    for (const next of ["https://api.groq.com/openai/v1", "https://api.deepseek.com", "https://openrouter.ai/api/v1", "https://server.example/v2"]) {
      const { text, messages } = await secondTurn(reply, { next });
      checkChat(text);
      expect(messages[1]).toEqual({ role: "assistant", content: "I add.", tool_calls: [added] });
    }
  });

  test("Mistral gets ids of nine letters and digits for those that another server gave, the same in call and answer", async () => {
    const { text, messages } = await secondTurn(called(), { next: "https://api.mistral.ai/v1" });
    checkChat(text, { ids: /^[a-zA-Z0-9]{9}$/, empty: [""] });
    expect(messages[2]?.["tool_call_id"]).toBe((messages[1] as unknown as Message).tool_calls?.[0]?.id);
  });

  test("OpenAI gets no id longer than it takes", async () => {
    const { text } = await secondTurn(called({ tool_calls: [{ ...added, id: `functions.add:0${"-".repeat(60)}` }] }), { next: "https://api.openai.com/v1" });
    checkChat(text);
  });

  test("Gemini 3 gets its word for a call that another model made", async () => {
    const { text, messages } = await secondTurn(called({ tool_calls: [added, multiplied] }), { next: "https://generativelanguage.googleapis.com/v1beta/openai", model: "gemini-3-pro" });
    checkChat(text, { callFields: ["extra_content"] });
    expect((messages[1] as unknown as Message).tool_calls).toEqual([{ ...added, extra_content: { google: { thought_signature: "skip_thought_signature_validator" } } }, multiplied]);
  });

  test("once DeepSeek thinks, every assistant turn has the field", async () => {
    const before: Message[] = [{ role: "user", content: "a" }, { role: "assistant", content: "b" }, { role: "user", content: "go" }];
    const { text, messages } = await secondTurn(called({ content: "", reasoning_content: "Hm" }), { baseURL: "https://api.deepseek.com", messages: before });
    checkChat(text, { fields: ["reasoning_content"], everyTurn: "reasoning_content", empty: [""] });
    expect(messages[1]).toEqual({ role: "assistant", content: "b", reasoning_content: "" });
  });

  test("an answer without a word is left out, and a refusal is said again", async () => {
    const empty = await secondTurn(whole({ role: "assistant", content: "" }));
    checkChat(empty.text);
    expect(empty.messages).toEqual([{ role: "user", content: "go" }, { role: "user", content: "And now?" }]);
    const refused = await secondTurn(whole({ role: "assistant", content: null, refusal: "I won't." }));
    checkChat(refused.text);
    expect(refused.messages[1]).toEqual({ role: "assistant", content: "I won't." });
  });

  test("several results come in the order of the calls, and a call that was cut off is told of", async () => {
    const { text, messages } = await secondTurn(sse(callChunk({ index: 0, ...mul }), callChunk({ index: 1, ...add }), finish("tool_calls"), DONE));
    checkChat(text);
    expect(messages.slice(2).map((message) => message["tool_call_id"])).toEqual(["call_2", "call_1"]);
    const cut = await ask2(sse(callChunk({ index: 0, id: "c", function: { name: "mul", arguments: '{"b":' } }), finish("length"), DONE));
    checkChat(cut.text);
    expect(cut.body.messages.slice(1)).toEqual([
      { role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "mul", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "c", content: expect.stringMatching(/^Error: not run: .*cut off/) },
    ]);
  });
});

/** The second request of a run that goes on by itself. */
async function ask2(first: string): Promise<{ text: string; body: { messages: unknown[] } }> {
  const server = fakeServer([first, sse(hi, finish("stop"), DONE)]);
  await collect(agent({ call: connect(server.fetch), tools: { mul: tool({ run: () => 1 }) }, messages: [{ role: "user", content: "go" }] }));
  return server.received[1] ?? { text: "", body: { messages: [] } };
}

describe("a request", () => {
  const request = async (options: Partial<OpenAIOptions> = {}, messages: Message[] = [{ role: "user", content: "go" }], tools: Parameters<typeof ask>[2] = []) => {
    const server = fakeServer([sse(hi, finish("stop"), DONE)]);
    await ask(connect(server.fetch, options), messages, tools);
    return server.received[0] ?? expect.fail("nothing was asked");
  };
  const add = { type: "function", function: { name: "add", description: "Adds", parameters: { type: "object", properties: {} } } } as const;

  test("sends the model, the messages and the wish for a stream with usage, and nothing that nobody asked for", async () => {
    const { url, headers, body } = await request();
    expect(url).toBe("https://server.example/v1/chat/completions");
    expect(Object.fromEntries(headers)).toEqual({ authorization: "Bearer k", "content-type": "application/json" });
    expect(body).toEqual({ model: "m", stream: true, stream_options: { include_usage: true }, messages: [{ role: "user", content: "go" }] });
  });

  test("has the tools when there are some, and those of the body after them", async () => {
    expect((await request({}, undefined, [add])).body["tools"]).toEqual([add]);
    expect((await request({ body: { tools: [{ type: "web_search" }] } }, undefined, [add])).body["tools"]).toEqual([add, { type: "web_search" }]);
  });

  test("takes fields and headers of the caller's, in place of its own too", async () => {
    const { body, headers } = await request({ body: { temperature: 0, model: "other", stream_options: undefined }, headers: { "api-key": "x", Authorization: undefined, "Content-Type": "application/json; charset=utf-8" } });
    expect(body).toEqual({ model: "other", stream: true, temperature: 0, messages: [{ role: "user", content: "go" }] });
    expect(Object.fromEntries(headers)).toEqual({ "api-key": "x", "content-type": "application/json; charset=utf-8" });
  });

  test("has tool_choice and parallel_tool_calls only beside tools", async () => {
    const options = { body: { tool_choice: "required", parallel_tool_calls: false } };
    checkChat((await request(options)).text);
    expect((await request(options, undefined, [add])).body).toMatchObject(options.body);
  });

  test("keeps a query of the base, and takes it with or without slashes at the end", async () => {
    expect((await request({ baseURL: "https://server.example/v1//" })).url).toBe("https://server.example/v1/chat/completions");
    expect((await request({ baseURL: "https://x.example/openai/deployments/d/?api-version=2024-10-21" })).url).toBe("https://x.example/openai/deployments/d/chat/completions?api-version=2024-10-21");
  });

  test("of the conversation has what servers take: text as a string, no fields of the app's, no unpaired surrogate", async () => {
    const { text, body } = await request({}, [
      { role: "developer", content: [{ type: "text", text: "Be " }, { type: "text", text: "short." }] },
      { role: "user", content: [{ type: "text", text: "What is it?" }, { type: "image_url", image_url: { url: "data:image/png;base64,AA" } }], createdAt: 3 },
      { role: "assistant", content: [{ type: "text", text: "A \ud83c cat" }], id: "m1", tool_calls: [{ id: "c", function: { name: "look", arguments: "[1]" } }] },
      { role: "tool", tool_call_id: "c", content: [{ type: "text", text: "seen" }, { type: "image_url", image_url: { url: "https://x.example/cat.png" } }], name: "look" },
      { role: "user", content: "So?", name: "ann" },
    ]);
    checkChat(text);
    expect(body.messages).toEqual([
      { role: "system", content: "Be short." },
      { role: "user", content: [{ type: "text", text: "What is it?" }, { type: "image_url", image_url: { url: "data:image/png;base64,AA" } }] },
      { role: "assistant", content: "A \ufffd cat", tool_calls: [{ id: "c", type: "function", function: { name: "look", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "c", content: "seen" },
      { role: "user", content: [{ type: "image_url", image_url: { url: "https://x.example/cat.png" } }] },
      { role: "user", content: "So?", name: "ann" },
    ]);
  });

  test("keeps the developer's role where it is known", async () => {
    expect((await request({ baseURL: "https://api.openai.com/v1" }, [{ role: "developer", content: "Be short." }])).body.messages[0]?.["role"]).toBe("developer");
  });

  test("doesn't ask Mistral for the usage, and no other server that refused to be asked", async () => {
    expect("stream_options" in (await request({ baseURL: "https://api.mistral.ai/v1" })).body).toBe(false);
    const server = fakeServer([{ status: 422, body: '{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted","input":{"include_usage":true}}]}' }, sse(hi, finish("stop"), DONE), sse(hi, finish("stop"), DONE)]);
    const model = connect(server.fetch);
    expect((await ask(model)).reply?.content).toBe("Hi");
    expect((await ask(model)).reply?.content).toBe("Hi");
    expect(server.received.map(({ body }) => "stream_options" in body)).toEqual([true, false, false]);
  });

  test("is the same text whether its parts were kept from the request before or not", async () => {
    const server = fakeServer(Array<string>(7).fill(sse(callChunk({ index: 0, function: { name: "add", arguments: "{}" } }), finish("tool_calls"), DONE)));
    const options = { tools: { add: tool({ run: () => "x" }) }, maxSteps: 7 };
    const run = agent({ call: connect(server.fetch), messages: [{ role: "system", content: "s" }, { role: "user", content: "go" }], ...options });
    const steps = await collect(run);
    const anew = fakeServer([sse(hi, finish("stop"), DONE)]);
    await ask(connect(anew.fetch), run.state.messages.slice(0, -2), [{ type: "function", function: { name: "add", parameters: { type: "object", properties: {} } } }]);
    expect(steps.at(-1)?.type).toBe("final");
    expect(server.received[6]?.text).toBe(anew.received[0]?.text);
    // A conversation that was changed in its middle is written anew.
    const frozen = run.state.messages.map((message) => Object.freeze(message));
    const other = fakeServer(Array<string>(2).fill(sse(hi, finish("stop"), DONE)));
    const model = connect(other.fetch);
    await ask(model, frozen);
    await ask(model, frozen.map((message, i) => (i === 1 ? Object.freeze({ role: "user", content: "other" }) : message)));
    expect(other.received[0]?.body.messages.slice(2)).toEqual(other.received[1]?.body.messages.slice(2));
    expect(other.received[1]?.body.messages[1]).toEqual({ role: "user", content: "other" });
  });
});
