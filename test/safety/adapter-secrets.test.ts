// The adapters' canaries: the key, headers, the URL's query and the prompt, against servers that quote the whole request
// wherever they can, and clients whose errors carry all of it.
import { inspect } from "node:util";
import { agent, type AgentRun, type Call, tool } from "yieldagent";
import { anthropic } from "yieldagent/anthropic";
import { ModelError, openai } from "yieldagent/openai";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { figure } from "./scale.ts";

const KEY = "sk-canary-key-5eC7e7";
const HEADER = "canary-header-9d1f";
const QUERY = "canary-query-77aa";
const PROMPT = 'canary: "my password is\nhunter2"';
const RESULT = "canary result of a tool";

const logs: string[] = [];
beforeEach(() => {
  logs.length = 0;
  for (const method of ["log", "info", "warn", "error", "debug", "trace"] as const) vi.spyOn(console, method).mockImplementation((...args) => void logs.push(inspect(args, { depth: 9 })));
  vi.spyOn(process, "emitWarning").mockImplementation((warning) => void logs.push(String(warning)));
});
afterEach(() => void vi.restoreAllMocks());

type Server = (quote: string) => Response | Promise<Response>;
const json = (body: unknown, status = 400, headers: Record<string, string> = {}): Response => new Response(JSON.stringify(body), { status, headers });
const events = (...all: unknown[]): Response => new Response(all.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));

/** Where a server can quote what it was sent. */
const SERVERS: Record<string, Server> = {
  "a message": (quote) => json({ error: { message: quote } }),
  "a code, a type and ids": (quote) => json({ error: { message: "no", code: quote, type: quote }, request_id: quote }, 400, { "x-request-id": KEY }),
  "a flat error": (quote) => json({ object: "error", message: quote, type: quote }),
  "a validator's complaint": (quote) => json({ detail: [{ loc: ["body", quote], msg: quote, input: quote }] }, 422),
  "a list": (quote) => json([{ error: { message: quote, status: quote } }]),
  "the error of the server behind": (quote) => json({ error: { message: "Provider returned error", metadata: { raw: JSON.stringify({ error: { message: quote } }) } } }),
  "JSON in JSON": (quote) => json({ error: JSON.stringify({ error: { message: quote } }) }),
  "plain text": (quote) => new Response(quote, { status: 500 }),
  "a web page's title": (quote) => new Response(`<html><title>${quote}</title>${quote}</html>`, { status: 200 }),
  "a redirect": (quote) => new Response(quote && "", { status: 307, headers: { location: `https://elsewhere.example/?key=${QUERY}` } }),
  "an event in the middle": (quote) => events({ choices: [{ index: 0, delta: { content: "Hi" } }] }, { type: "error", error: { message: quote, type: quote } }),
  "a field named error": (quote) => new Response(`error: ${JSON.stringify({ error: { message: quote } })}\n\n`),
  "a broken body": (quote) => new Response(`{"choices": ${quote}`),
  "what fetch throws": (quote) => Promise.reject(Object.assign(new TypeError(`can't fetch ${quote}`, { cause: Object.assign(new Error(quote), { code: "ECONNRESET", config: quote }) }), { request: quote })),
  "what a stream throws": (quote) => new Response(new ReadableStream({ start: (controller) => controller.error(new Error(quote)) })),
};

let quoted = 0;
afterAll(() => figure("quoted requests", quoted));

const ADAPTERS: Record<string, (fetch: typeof globalThis.fetch) => Call> = {
  openai: (fetch) => openai({ model: "m", apiKey: KEY, baseURL: `https://server.example/v1?key=${QUERY}`, headers: { "x-secret": HEADER, cookie: `a=1; s=${HEADER}` }, fetch, maxRetries: 0 }),
  anthropic: (fetch) => anthropic({ model: "m", apiKey: KEY, baseURL: `https://server.example?key=${QUERY}`, headers: { "x-secret": HEADER }, fetch, maxRetries: 0 }),
};

for (const [name, adapter] of Object.entries(ADAPTERS)) {
  describe(`with ${name}() a secret never reaches an error, a step, a state or a log, though the server quotes the request in`, () => {
    for (const [where, answer] of Object.entries(SERVERS)) {
      test(where, async () => {
        const call = adapter(async (url, init) => answer(`${String(url)} ${JSON.stringify(init?.headers)} ${String(init?.body)}`));
        const messages = [
          { role: "user", content: PROMPT },
          { role: "assistant", content: null, tool_calls: [{ id: "c", type: "function", function: { name: "t", arguments: `{"a":"${KEY}"}` } }] },
          { role: "tool", tool_call_id: "c", content: RESULT },
        ];
        const out: unknown[] = [];
        const run = agent({ call, tools: { t: tool({ run: () => 1 }) }, messages, id: "r", save: (state) => void out.push({ ...state, messages: state.messages.slice(3) }) }) as AgentRun;
        const thrown = await (async () => {
          for await (const step of run) out.push(step);
        })().catch((error: unknown) => error);
        expect(thrown).toBeInstanceOf(ModelError);
        const seen = [JSON.stringify(out), inspect(thrown, { depth: 9, showHidden: true }), String((thrown as Error).stack), ...logs].join("\n");
        for (const secret of [KEY, HEADER, QUERY, "canary", "hunter2", RESULT]) expect(seen).not.toContain(secret);
        expect(run.state.messages).toEqual(messages);
        quoted++;
      });
    }
  });
}
