// The scripted work, the same for every subject, and the checks that it was done.

/** The tool's JSON Schema, for those that take one. */
export const SCHEMA = { type: "object", properties: { n: { type: "number" } }, required: ["n"], additionalProperties: false };
export const DESCRIPTION = "Doubles a number";
export const QUESTION = "Double them.";

/**
 * A model that asks for `calls` calls of the tool `double` in each of `steps` replies and then says "done", and the tool.
 * Each subject puts `next()` into its own words for a reply, and hands it what its model reads of the last result.
 */
export class Work {
  /** How many tools ran at once, at most. */
  most = 0;
  #steps;
  #calls;
  #ms;
  #asked = 0;
  #made = 0;
  #ran = 0;
  #sum = 0;
  #running = 0;

  /** `ms`: how long each tool sleeps; with 0 it returns at once, no promise. */
  constructor({ steps = 1, calls = 1, ms = 0 } = {}) {
    this.#steps = steps;
    this.#calls = calls;
    this.#ms = ms;
  }

  /** What the model says next: `calls`, or else `text`. */
  next(seen) {
    if (this.#asked > 0 && seen !== `{"value":${2 * (this.#made - 1)}}` && !String(seen).includes(`"value":${2 * (this.#made - 1)}`)) {
      throw new Error(`the model was shown ${String(seen).slice(0, 200)}, not the result of call ${this.#made - 1}`);
    }
    if (this.#asked++ === this.#steps) return { text: "done" };
    const calls = [];
    for (let i = 0; i < this.#calls; i++) calls.push({ id: `c${this.#made}`, n: this.#made++ });
    return { calls };
  }

  /** The same as an assistant message of Chat Completions. */
  chat(messages) {
    const { calls, text } = this.next(messages[messages.length - 1].content);
    if (!calls) return { role: "assistant", content: text };
    return { role: "assistant", content: null, tool_calls: calls.map(({ id, n }) => ({ id, type: "function", function: { name: "double", arguments: `{"n":${n}}` } })) };
  }

  /** The tool. */
  run({ n }) {
    this.#ran++;
    this.#sum += n;
    if (this.#ms === 0) return { value: 2 * n };
    this.most = Math.max(this.most, ++this.#running);
    return new Promise((resolve) => setTimeout(() => resolve({ value: 2 * n }, this.#running--), this.#ms));
  }

  /** Throws if the work was not done whole. */
  check(text) {
    const calls = this.#steps * this.#calls;
    if (text !== "done" || this.#ran !== calls || this.#sum !== (calls * (calls - 1)) / 2 || this.#asked !== this.#steps + 1) {
      throw new Error(`the work isn't done: ${JSON.stringify({ text, steps: this.#steps, calls, asked: this.#asked, ran: this.#ran, sum: this.#sum })}`);
    }
  }
}

/** A conversation of `n` messages with about 133 bytes of text each, which a user's question ends. */
export function conversation(n) {
  const words = "the quick brown fox jumps over the lazy dog and sleeps in the shade of an old tree until the evening comes and it is cool again now";
  return Array.from({ length: n }, (_, i) => ({ role: (n - i) % 2 ? "user" : "assistant", content: `${i} ${words}` }));
}

const ID = "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT";
const chunk = (delta, finish_reason = null) => `data: ${JSON.stringify({ id: ID, object: "chat.completion.chunk", created: 1741569952, model: "gpt-4o-mini-2024-07-18", service_tier: "default", system_fingerprint: "fp_06737a9306", choices: [{ index: 0, delta, logprobs: null, finish_reason }], usage: null })}\n\n`;

/**
 * The bytes of a Chat Completions stream, and the message that they say: a text, or one call's arguments. `bytes` is the
 * length of the stream, or of the arguments if `letters` says how many of them a delta has; `size` that of a network piece.
 */
export function recording({ kind, bytes, letters, size }) {
  const pieces = [];
  const isText = kind === "text";
  const tool = (more, args) => ({ tool_calls: [{ index: 0, ...more, function: { ...(more.id && { name: "double" }), arguments: args } }] });
  let length = 0;
  const add = (event) => {
    pieces.push(event);
    length += event.length;
  };
  let said = isText ? "" : '{"text":"';
  add(chunk({ role: "assistant", content: isText ? "" : null }));
  if (!isText) add(chunk(tool({ id: "call_1", type: "function" }, said)));
  const word = letters ? "abcdefg ".repeat(letters / 8) : " word's";
  const event = chunk(isText ? { content: word } : tool({}, word));
  const count = letters ? Math.floor(bytes / letters) : Math.floor((bytes - length) / event.length);
  for (let i = 0; i < count; i++) add(event);
  said += word.repeat(count);
  if (!isText) {
    said += '"}';
    add(chunk(tool({}, '"}')));
  }
  add(chunk({}, isText ? "stop" : "tool_calls"));
  add("data: [DONE]\n\n");
  const all = new TextEncoder().encode(pieces.join(""));
  const chunks = [];
  for (let from = 0; from < all.length; from += size) chunks.push(all.subarray(from, from + size));
  return { chunks, said, bytes: all.length, events: pieces.length };
}

/** What `fetch` would answer, from memory. */
export function answer(chunks) {
  let i = 0;
  const body = new ReadableStream({
    pull(controller) {
      if (i < chunks.length) controller.enqueue(chunks[i++]);
      else controller.close();
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}
