// What can go wrong between an adapter and its server: what is tried again and when, what the error says, and what it never says.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { afterEach, describe, expect, test, vi } from "vitest";
import { agent, AgentError, type Message, tool } from "yieldagent";
import { anthropic, ModelError as AnthropicError } from "yieldagent/anthropic";
import { ModelError, openai, type OpenAIOptions } from "yieldagent/openai";
import { collect } from "yieldagent/testing";
import { type Answer, ask, callChunk, chunk, fakeServer, finish, sse } from "./wire.ts";

const HI = sse(chunk({ content: "Hi" }), finish("stop"), "[DONE]");
const connect = (fetch: typeof globalThis.fetch, options: Partial<OpenAIOptions> = {}) => openai({ model: "m", baseURL: "https://server.example/v1", apiKey: "k", fetch, ...options });

afterEach(() => void vi.useRealTimers());

/** Runs with a clock that only moves when something waits for it; gives how long was waited, in ms. */
async function waited<T>(what: () => Promise<T>): Promise<[T, number]> {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"], now: 1_700_000_000_000 });
  const begun = Date.now();
  let over = false;
  const result = what().finally(() => (over = true));
  result.catch(() => {});
  while (!over) await vi.advanceTimersToNextTimerAsync();
  expect(vi.getTimerCount()).toBe(0);
  return [await result, Date.now() - begun];
}

describe("a request that failed is sent again", () => {
  const tries = async (answers: Answer[], options: Partial<OpenAIOptions> = {}) => {
    const server = fakeServer(answers);
    const [asked, ms] = await waited(() => ask(connect(server.fetch, options)));
    return { asked, ms, count: server.received.length };
  };
  const failing = (status: number, headers: Record<string, string> = {}): Answer => ({ status, headers, body: '{"error":{"message":"no"}}' });

  test.each([408, 409, 429, 500, 502, 503, 504, 520, 529])("after %i", async (status) => {
    const { asked, count } = await tries([failing(status), failing(status), HI]);
    expect([asked.reply?.content, count]).toEqual(["Hi", 3]);
  });

  test.each([400, 401, 402, 403, 404, 413, 422, 498])("not after %i", async (status) => {
    const { asked, count } = await tries([failing(status), HI]);
    expect([asked.error?.status, asked.error?.retryable, count]).toEqual([status, false, 1]);
  });

  test("twice, or as often as was said", async () => {
    expect((await tries([failing(500), failing(500), failing(500), HI])).asked.error?.message).toBe("no");
    expect((await tries([failing(500), HI], { maxRetries: 0 })).count).toBe(1);
    expect((await tries([...Array<Answer>(5).fill(failing(500)), HI], { maxRetries: 5 })).count).toBe(6);
  });

  test("when no connection came about, or it broke before anything was handed on", async () => {
    const refused: Answer = () => Promise.reject(Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } }));
    const broken: Answer = () => new Response(new ReadableStream({ start: (controller) => controller.error(new TypeError("terminated")) }));
    const empty = "";
    const half = sse(callChunk({ index: 0, id: "c", function: { name: "add", arguments: '{"a"' } }));
    const { asked, count } = await tries([refused, broken, empty, half, HI], { maxRetries: 4 });
    expect([asked.reply?.content, count]).toEqual(["Hi", 5]);
  });

  test("never once anything was handed on", async () => {
    for (const size of [Infinity, 1]) {
      const server = fakeServer([sse(chunk({ content: "Hi" })), HI], size);
      const asked = await ask(connect(server.fetch));
      expect([asked.text, asked.error?.message, server.received.length]).toEqual(["Hi", "the answer ended before the reply was complete", 1]);
      const error = fakeServer([sse(chunk({ content: "Hi" }), { error: { message: "overloaded" } }), HI], size);
      expect([(await ask(connect(error.fetch))).text, error.received.length]).toEqual(["Hi", 1]);
    }
  });

  test("as the server says in x-should-retry", async () => {
    expect((await tries([failing(500, { "x-should-retry": "false" }), HI])).count).toBe(1);
    expect((await tries([failing(400, { "x-should-retry": "true" }), HI])).asked.reply?.content).toBe("Hi");
  });

  test("after half a second, then twice that, up to eight, less up to a quarter", async () => {
    const { ms } = await tries([failing(500), HI]);
    expect(ms).toBeGreaterThanOrEqual(375);
    expect(ms).toBeLessThanOrEqual(500);
    const { ms: eight } = await tries([...Array<Answer>(8).fill(failing(500)), HI], { maxRetries: 8 });
    const sum = 500 + 1000 + 2000 + 4000 + 4 * 8000;
    expect(eight).toBeGreaterThanOrEqual(sum * 0.75);
    expect(eight).toBeLessThanOrEqual(sum);
  });

  test.each<[string, Record<string, string>, number]>([
    ["milliseconds", { "retry-after-ms": "1234", "retry-after": "9" }, 1234],
    ["seconds", { "retry-after": "3" }, 3000],
    ["seconds where the milliseconds are 0", { "retry-after-ms": "0", "retry-after": "1" }, 1000],
    ["a date", { "retry-after": new Date(1_700_000_007_000).toUTCString() }, 7000],
    ["a minute, the longest", { "retry-after": "60" }, 60_000],
  ])("after the time the server asks for: %s", async (_, headers, expected) => {
    const { asked, ms } = await tries([failing(429, headers), HI]);
    expect([asked.reply?.content, ms]).toEqual(["Hi", expected]);
  });

  test("after the time that Gemini asks for in the body", async () => {
    const body = JSON.stringify([{ error: { code: 429, message: "Quota", status: "RESOURCE_EXHAUSTED", details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34s" }] } }]);
    expect((await tries([{ status: 429, body }, HI])).ms).toBe(34_000);
  });

  test("not if the server asks for more than a minute: the run ends, and can go on later", async () => {
    const { asked, ms, count } = await tries([failing(429, { "retry-after": "61" }), HI]);
    expect([asked.error?.status, asked.error?.retryable, ms, count]).toEqual([429, true, 0, 1]);
  });

  test("not if the money is spent", async () => {
    const quota: Answer = { status: 429, body: '{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}' };
    const limit: Answer = { status: 429, body: '{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}' };
    for (const answer of [quota, limit]) expect((await tries([answer, HI])).asked.error).toMatchObject({ status: 429, retryable: false });
  });

  test("not for a call that the server itself refuses, though asking again makes sense", async () => {
    const { asked, count } = await tries([{ status: 400, body: '{"error":{"message":"Failed to call a function","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"{}"}}' }, HI]);
    expect([asked.error?.code, asked.error?.retryable, count]).toEqual(["tool_use_failed", true, 1]);
  });

  test("unless the run was aborted, which ends the wait at once", async () => {
    const abort = new AbortController();
    const server = fakeServer([() => (queueMicrotask(() => setImmediate(() => abort.abort("enough"))), new Response("{}", { status: 500 })), HI]);
    await expect(ask(connect(server.fetch), undefined, undefined, abort.signal)).rejects.toBe("enough");
    expect(server.received.length).toBe(1);
  });
});

describe("the error says, in the server's words", () => {
  const errorOf = async (answer: Answer, options: Partial<OpenAIOptions> = {}): Promise<ModelError> =>
    (await ask(connect(fakeServer([answer]).fetch, { maxRetries: 0, ...options }))).error ?? expect.fail("no error");

  test.each<[string, unknown, string, Partial<ModelError>]>([
    ["OpenAI", { error: { message: "Bad model", type: "invalid_request_error", param: "model", code: "model_not_found" } }, "Bad model", { type: "invalid_request_error", code: "model_not_found" }],
    ["OpenRouter, with a number", { error: { code: 400, message: "No such model" }, user_id: "u" }, "No such model", { code: 400 }],
    ["OpenRouter, of the server behind it", { error: { code: 400, message: "Provider returned error", metadata: { raw: '{"error":{"message":"too long"}}', provider_name: "x" } } }, "Provider returned error: too long", { code: 400 }],
    ["Z.ai, with a number in words", { error: { code: "400", message: "bad token" } }, "bad token", { code: "400" }],
    ["Mistral, flat", { object: "error", message: "Invalid model", type: "invalid_model", code: "1500", raw_status_code: 400 }, "Invalid model", { type: "invalid_model", code: "1500" }],
    ["Mistral, of a validator", { object: "error", message: { detail: [{ type: "missing", loc: ["body", "model"], msg: "Field required", input: { messages: "SECRET PROMPT" } }] }, type: "invalid_request_error" }, "body.model: Field required", { type: "invalid_request_error", code: "invalid_request_error" }],
    ["FastAPI", { detail: "Unauthorized" }, "Unauthorized", {}],
    ["xAI", { code: "Client specified an invalid argument", error: "Incorrect model" }, "Incorrect model", { code: "Client specified an invalid argument" }],
    ["Venice", { error: "Model not found" }, "Model not found", {}],
    ["Doubleword", { code: 400, message: "no", type: "bad" }, "no", { code: 400, type: "bad" }],
    ["Anthropic", { type: "error", error: { type: "invalid_request_error", message: "max_tokens: Field required" }, request_id: "req_1" }, "max_tokens: Field required", { type: "invalid_request_error", code: "invalid_request_error", requestId: "req_1" }],
    ["Gemini", { error: { code: 400, message: "Unknown name", status: "INVALID_ARGUMENT" } }, "Unknown name", { code: 400 }],
    ["Gemini, in a list", [{ error: { code: 400, message: "Unknown name", status: "INVALID_ARGUMENT" } }], "Unknown name", { code: 400 }],
    ["a proxy that wraps JSON in a word", { error: '{"error":{"message":"inner","code":"x"}}' }, "inner", { code: "x" }],
  ])("of %s", async (_, body, message, facts) => {
    const error = await errorOf({ status: 400, body: JSON.stringify(body) });
    expect({ ...error, message: error.message }).toEqual({ name: "ModelError", message, status: 400, retryable: false, code: undefined, type: undefined, requestId: undefined, ...facts });
  });

  test("where it is no JSON: the text, or what a page is called, or at least the status", async () => {
    expect((await errorOf({ status: 404, body: "404 page not found\n" })).message).toBe("404 page not found");
    const page = await errorOf({ status: 502, body: "\n<html><head><title>\n502 Bad Gateway</title></head>" });
    expect([page.message, page.retryable]).toEqual(['https://server.example/v1/chat/completions answered with a web page, "502 Bad Gateway": is baseURL right?', true]);
    expect((await errorOf({ status: 500 })).message).toBe("https://server.example/v1/chat/completions answered 500");
  });

  test("where a redirect is no answer, and isn't followed", async () => {
    const error = await errorOf({ status: 308, headers: { location: "https://other.example/" } });
    expect([error.message, error.status, error.retryable]).toEqual(["https://server.example/v1/chat/completions redirects to elsewhere: set baseURL to where the API is", 308, false]);
  });

  test("with the id of the request", async () => {
    for (const name of ["x-request-id", "request-id"]) expect((await errorOf({ status: 400, headers: { [name]: "req_7" }, body: "{}" })).requestId).toBe("req_7");
  });

  test("at most 2,000 characters", async () => {
    const { message } = await errorOf({ status: 400, body: JSON.stringify({ error: { message: "x".repeat(5000) } }) });
    expect([message.length, message.at(-1)]).toEqual([2000, "…"]);
  });

  test("and an error body without end is read no further than that takes", async () => {
    let sent = 0;
    const error = await errorOf(() => new Response(new ReadableStream({ pull: (controller) => (sent++, controller.enqueue(new Uint8Array(10_000).fill(120))) }), { status: 500 }));
    expect(error.message.length).toBe(2000);
    expect(sent).toBeLessThan(20);
  });

  test("never the key, a header, a query or the prompt, wherever the server quotes them", async () => {
    const secrets = { key: "sk-canary-key-1", header: "canary-header-2", query: "canary-query-3", prompt: 'a canary "prompt" of 4' };
    const call = openai({ model: "m", apiKey: secrets.key, baseURL: `https://server.example/v1?key=${secrets.query}`, headers: { "x-secret": secrets.header }, maxRetries: 0, fetch: async (url, init) => new Response(JSON.stringify({ error: { message: `You sent ${String(url)} ${JSON.stringify(init)}` } }), { status: 400 }) });
    const failing = openai({ model: "m", apiKey: secrets.key, baseURL: `https://server.example/v1?key=${secrets.query}`, maxRetries: 0, fetch: async (url, init) => Promise.reject(new TypeError(`can't fetch ${String(url)} ${JSON.stringify(init)}`, { cause: new Error(JSON.stringify(init)) })) });
    for (const model of [call, failing]) {
      const run = agent({ call: model, messages: [{ role: "user", content: secrets.prompt }] });
      const error = await collect(run).catch((thrown: unknown) => thrown);
      const seen = inspect(error, { depth: 9, showHidden: true }) + String((error as Error).stack);
      expect(error).toBeInstanceOf(ModelError);
      for (const secret of ["canary-key", "canary-header", "canary-query", "canary"]) expect(seen).not.toContain(secret);
      expect(JSON.stringify({ ...run.state, messages: [] })).not.toContain("canary");
    }
  });

  test("and nothing of these in its other fields, in words of a header, a query as it is written, or at the limit of its length", async () => {
    const key = "sk-canary-key-1";
    for (const [options, body] of [
      [{ apiKey: key }, { error: { message: "no", code: key, type: key } }],
      [{ apiKey: "", headers: { authorization: `Bearer ${key}` } }, { error: { message: `Incorrect key: ${key}` } }],
      [{ baseURL: `https://server.example/v1?key=${encodeURIComponent("canary/+1")}` }, { error: { message: "?key=canary%2F%2B1" } }],
      [{ apiKey: key }, { error: { message: `${"x".repeat(1985)} ${key} y` } }],
    ] as [Partial<OpenAIOptions>, object][]) {
      const error = await errorOf({ status: 400, headers: { "x-request-id": key }, body: JSON.stringify(body) }, options);
      expect(inspect(error, { showHidden: true }).replaceAll(options.apiKey ? "" : key, "")).not.toContain("canary");
    }
    const messages: Message[] = [{ role: "user", content: [{ type: "text", text: "a canary part" }] }, { role: "assistant", content: null, tool_calls: [{ id: "c", function: { name: "f", arguments: '{"a":"canary"}' } }] }, { role: "tool", tool_call_id: "c", content: "the canary result" }];
    const server = fakeServer([{ status: 400, body: JSON.stringify({ error: { message: `${JSON.stringify(messages)} is wrong` } }) }]);
    expect((await ask(connect(server.fetch), messages)).error?.message).not.toContain("canary");
  });

  test("when the body of a refusal stalls, by what came of it", async () => {
    const stalls: Answer = () => new Response(new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode('{"error":{"message":"Incorrect key"}}')) }), { status: 401 });
    const [asked] = await waited(() => ask(connect(fakeServer([stalls]).fetch, { timeout: 5000 })));
    expect(asked.error).toMatchObject({ message: "Incorrect key", status: 401, retryable: false });
  });

  test("when it comes as an event", async () => {
    expect((await errorOf({ status: 400, body: 'data: {"error":{"message":"no"}}\n\n' })).message).toBe("no");
  });

  test("as one class, whichever adapter it comes from", () => {
    expect(AnthropicError).toBe(ModelError);
    expect(Object.assign(new Error("of another copy"), { name: "ModelError", retryable: false })).toBeInstanceOf(ModelError);
    expect(new Error("another")).not.toBeInstanceOf(ModelError);
  });
});

test("a character in three pieces, with empty ones between", async () => {
  const bytes = new TextEncoder().encode(sse(chunk({ content: "世" }), finish("stop"), "[DONE]"));
  const at = bytes.findIndex((byte) => byte > 0x7f);
  const pieces = [[0, at + 1], [0, 0], [at + 1, at + 2], [0, 0], [at + 2]].map(([from, to]) => bytes.subarray(from, to));
  const body = new ReadableStream<Uint8Array>({ start: (controller) => (pieces.forEach((piece) => controller.enqueue(piece)), controller.close()) });
  expect((await ask(connect(fakeServer([() => new Response(body)]).fetch))).reply?.content).toBe("世");
});

describe("a server that says nothing", () => {
  const never = new Promise<never>(() => {});
  const open = (...pieces: string[]): Response => new Response(new ReadableStream({ start: (controller) => pieces.forEach((piece) => controller.enqueue(new TextEncoder().encode(piece))) }));

  test("before the headers is given up after the timeout, though fetch doesn't heed its signal", async () => {
    const server = fakeServer([() => never]);
    const [asked, ms] = await waited(() => ask(connect(server.fetch, { timeout: 5000, maxRetries: 0 })));
    expect(ms).toBe(5000);
    expect(asked.error).toMatchObject({ message: "https://server.example sent nothing for 5 s", retryable: true, code: "timeout", status: undefined });
  });

  test("in the middle of a stream is given up, and of its half reply nothing is kept", async () => {
    const server = fakeServer([() => open(sse(chunk({ content: "Hi" })))]);
    const [asked, ms] = await waited(() => ask(connect(server.fetch, { timeout: 5000 })));
    expect([asked.text, asked.reply, asked.error?.message, ms]).toEqual(["Hi", undefined, "https://server.example sent nothing for 5 s", 5000]);
  });

  test("after the finish reason has said all", async () => {
    const server = fakeServer([() => open(sse(chunk({ content: "Hi" }), finish("stop")))]);
    const [asked] = await waited(() => ask(connect(server.fetch, { timeout: 5000 })));
    expect(asked.reply?.content).toBe("Hi");
  });

  test("is tried again when it had handed on nothing", async () => {
    const server = fakeServer([() => never, () => open(": keep-alive\n\n"), HI]);
    const [asked] = await waited(() => ask(connect(server.fetch, { timeout: 5000 })));
    expect(asked.reply?.content).toBe("Hi");
  });

  test("but keeps on with comments or blank lines is waited for", async () => {
    for (const alive of [": keep-alive\n\n", "\n"]) {
      let sent = 0;
      const slow: Answer = () => new Response(new ReadableStream({
        async pull(controller) {
          await new Promise((resolve) => setTimeout(resolve, 4000));
          controller.enqueue(new TextEncoder().encode(sent++ < 100 ? alive : HI));
          if (sent > 100) controller.close();
        },
      }, { highWaterMark: 0 }));
      const [asked, ms] = await waited(() => ask(connect(fakeServer([slow]).fetch, { timeout: 5000 })));
      expect([asked.reply?.content, ms]).toEqual(["Hi", 404_000]);
      vi.useRealTimers();
    }
  });

  test("is not blamed while nobody reads", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
    const pieces = [sse(chunk({ content: "a" })), sse(chunk({ content: "b" }), finish("stop"), "[DONE]")];
    const call = connect(fakeServer([() => new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new TextEncoder().encode(pieces.shift())) }, { highWaterMark: 0 }))]).fetch, { timeout: 5000 });
    const types: string[] = [];
    for await (const step of agent({ call, messages: [{ role: "user", content: "go" }] })) {
      types.push(step.type);
      await vi.advanceTimersByTimeAsync(60_000);
      expect(vi.getTimerCount()).toBe(0);
    }
    expect(types).toEqual(["text", "text", "message", "final"]);
  });
});

describe("the end of a run from outside", () => {
  const stream = (onCancel: () => void): Response => new Response(new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode(sse(chunk({ content: "Hi" })))), cancel: onCancel }));

  test("an abort before the headers, in the middle, and before the start is thrown as its reason, and ends the connection", async () => {
    for (const when of ["before", "headers", "middle"]) {
      const abort = new AbortController();
      const seen: string[] = [];
      const reason = { reason: when };
      if (when === "before") abort.abort(reason);
      const server = fakeServer([(init) => {
        init.signal?.addEventListener("abort", () => seen.push("signal"));
        if (when === "headers") {
          queueMicrotask(() => abort.abort(reason));
          return new Promise<never>(() => {});
        }
        return stream(() => seen.push("cancelled"));
      }]);
      const run = async (): Promise<void> => {
        const answer = connect(server.fetch)([{ role: "user", content: "go" }], [], { signal: abort.signal, step: 1 }) as AsyncGenerator;
        for await (const _ of answer) if (when === "middle") queueMicrotask(() => abort.abort(reason));
      };
      await expect(run()).rejects.toBe(reason);
      expect(seen).toEqual({ before: [], headers: ["signal"], middle: ["signal", "cancelled"] }[when]);
    }
  });

  test("an abort while the consumer looks at a delta is thrown before anything more comes", async () => {
    const abort = new AbortController();
    const call = connect(fakeServer([HI]).fetch)([{ role: "user", content: "go" }], [], { signal: abort.signal, step: 1 }) as AsyncGenerator;
    await call.next();
    abort.abort("enough");
    await expect(call.next()).rejects.toBe("enough");
  });

  test("an answer that comes after all, from a fetch that doesn't heed its signal, is let go", async () => {
    const abort = new AbortController();
    let answer: (response: Response) => void = () => {};
    let begun: () => void = () => {};
    const isAsked = new Promise<void>((resolve) => (begun = resolve));
    const call = connect(() => (begun(), new Promise((resolve) => (answer = resolve))));
    const asked = ask(call, undefined, undefined, abort.signal);
    asked.catch(() => {});
    await isAsked;
    abort.abort("enough");
    await expect(asked).rejects.toBe("enough");
    await new Promise<void>((cancel) => answer(stream(cancel)));
  });

  test("a consumer that goes away ends the connection", async () => {
    let cancelled = 0;
    const server = fakeServer([() => stream(() => cancelled++)]);
    for await (const step of agent({ call: connect(server.fetch), messages: [{ role: "user", content: "go" }] })) {
      expect(step.type).toBe("text");
      break;
    }
    expect(cancelled).toBe(1);
  });

  test("leaves no listener on the signal", async () => {
    const abort = new AbortController();
    let listeners = 0;
    for (const [name, change] of [["addEventListener", 1], ["removeEventListener", -1]] as const) {
      const method = abort.signal[name].bind(abort.signal) as (...args: unknown[]) => void;
      abort.signal[name] = (...args: unknown[]) => ((listeners += change), method(...args));
    }
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
    const server = fakeServer([{ status: 500 }, HI]);
    const asked = ask(connect(server.fetch), undefined, undefined, abort.signal);
    await vi.advanceTimersToNextTimerAsync();
    await vi.advanceTimersToNextTimerAsync();
    expect((await asked).reply?.content).toBe("Hi");
    expect([listeners, vi.getTimerCount()]).toEqual([0, 0]);
  });
});

describe("wrong options are refused before anything is asked", () => {
  test.each<[string, object, string]>([
    ["no model", {}, "openai: model must be a string"],
    ["an unknown option", { model: "m", temperature: 0 }, "openai: there is no option temperature; what the server takes goes into body"],
    ["a wrong type", { model: "m", stream: "yes" }, "openai: stream must be a boolean"],
    ["a negative number", { model: "m", maxRetries: -1 }, "openai: maxRetries must be a number"],
    ["a base that is no URL", { model: "m", baseURL: "localhost:11434/v1" }, "openai: baseURL must begin with http:// or https://, and hold no password: that goes into headers"],
    ["no URL at all", { model: "m", baseURL: "/v1" }, "openai: baseURL must be a URL, and body plain JSON"],
    ["a password in the base", { model: "m", baseURL: "https://ann:secret@server.example/v1" }, "openai: baseURL must begin with http:// or https://, and hold no password: that goes into headers"],
    ["a body that is no JSON", { model: "m", body: { seed: 1n } }, "openai: baseURL must be a URL, and body plain JSON"],
    ["a key with a line break", { model: "m", apiKey: "sk-secret\nx" }, "openai: the apiKey, or the header authorization, has a character that no header can have"],
  ])("%s", (_, options, message) => {
    expect(() => openai(options as OpenAIOptions)).toThrow(new AgentError("bad-options", message));
  });
});

describe("the environment gives", () => {
  afterEach(() => vi.unstubAllEnvs());

  test("the key and the base, if the options don't", async () => {
    vi.stubEnv("OPENAI_API_KEY", "from-env");
    vi.stubEnv("OPENAI_BASE_URL", "http://env.example/v1/");
    vi.stubEnv("ANTHROPIC_API_KEY", "ant-env");
    vi.stubEnv("ANTHROPIC_BASE_URL", "http://ant.example");
    const server = fakeServer([HI, HI, { status: 400 }, { status: 400 }]);
    await ask(openai({ model: "m", fetch: server.fetch }));
    await ask(openai({ model: "m", fetch: server.fetch, apiKey: "", baseURL: "http://localhost:11434/v1" }));
    await ask(anthropic({ model: "m", fetch: server.fetch }));
    vi.unstubAllEnvs();
    await ask(anthropic({ model: "m", fetch: server.fetch, baseURL: "https://x.example/v1" }));
    expect(server.received.map(({ url, headers }) => [url, headers.get("authorization"), headers.get("x-api-key")])).toEqual([
      ["http://env.example/v1/chat/completions", "Bearer from-env", null],
      ["http://localhost:11434/v1/chat/completions", null, null],
      ["http://ant.example/v1/messages", null, "ant-env"],
      ["https://x.example/v1/messages", null, null],
    ]);
  });
});

describe("over real HTTP", () => {
  let server: Server | undefined;
  afterEach(() => void server?.close());
  const listen = async (listener: Parameters<typeof createServer>[1]): Promise<string> => {
    server = createServer(listener as never);
    await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  };

  test("a stream is read, a run pauses and goes on", async () => {
    let asked = 0;
    const baseURL = await listen((request, response) => {
      request.resume().on("end", () => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        const body = asked++ === 0 ? sse(callChunk({ index: 0, id: "c", function: { name: "act", arguments: "{}" } }), finish("tool_calls"), "[DONE]") : HI;
        for (let i = 0; i < body.length; i += 7) response.write(body.slice(i, i + 7));
        response.end();
      });
    });
    const options = { call: openai({ model: "m", baseURL }), tools: { act: tool({ needsApproval: true, run: () => "done" }) } };
    const run = agent({ ...options, messages: [{ role: "user", content: "go" }] });
    expect((await collect(run)).map(({ type }) => type).join(" ")).toBe("message approval-needed");
    const steps = await collect(agent({ ...options, state: JSON.parse(JSON.stringify(run.state)), decisions: { c: true } }));
    expect(steps.map(({ type }) => type).filter((type, i, all) => type !== all[i - 1]).join(" ")).toBe("tool-start tool-result text message final");
  });

  test("no server, a connection that breaks, and a body that ends too early are errors of their own", async () => {
    const nowhere = await ask(openai({ model: "m", baseURL: "http://127.0.0.1:9/v1", maxRetries: 0 }));
    expect(nowhere.error?.message).toMatch(/^no connection: http:\/\/127\.0\.0\.1:9( \(ECONNREFUSED\))?$/);
    const baseURL = await listen((request, response) => {
      request.resume().on("end", () => {
        response.writeHead(200, { "content-length": "9999" });
        response.write(sse(chunk({ content: "Hi" })), () => response.destroy());
      });
    });
    const broken = await ask(openai({ model: "m", baseURL, maxRetries: 0 }));
    expect([broken.text, broken.error?.message, broken.error?.retryable]).toEqual(["Hi", expect.stringMatching(/^the connection broke off: http:\/\/127\.0\.0\.1:\d+( \([A-Z_]+\))?$/), true]);
  });

  test("connections serve more than one request", async () => {
    const sockets = new Set<unknown>();
    const baseURL = await listen((request, response) => {
      sockets.add(request.socket);
      request.resume().on("end", () => {
        response.write(sse(callChunk({ index: 0, function: { name: "act", arguments: "{}" } }), finish("tool_calls"), "[DONE]"), () => setImmediate(() => response.end()));
      });
    });
    const run = agent({ call: openai({ model: "m", baseURL }), tools: { act: tool({ run: () => "done" }) }, maxSteps: 5, messages: [{ role: "user", content: "go" }] });
    await collect(run);
    // The second request may come before the first answer has quite ended.
    expect(run.state.steps).toBe(5);
    expect(sockets.size).toBeLessThanOrEqual(2);
  });

  test("a broken off consumer closes the socket", async () => {
    let closed: () => void = () => {};
    const gone = new Promise<void>((resolve) => (closed = resolve));
    const baseURL = await listen((request, response) => {
      response.on("close", closed);
      request.resume().on("end", () => response.write(sse(chunk({ content: "Hi" }))));
    });
    for await (const step of agent({ call: openai({ model: "m", baseURL }), messages: [{ role: "user", content: "go" }] })) {
      expect(step.type).toBe("text");
      break;
    }
    await gone;
  });
});
