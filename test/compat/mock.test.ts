// Whole conversations with @copilotkit/aimock, a mock of model servers that others wrote, over HTTP: the loop with both
// adapters, streamed and not. What aimock can't do (an answer that ends too early but cleanly, a 429 without
// `Retry-After`, a web page, …) comes from a small server of our own; the names of these tests say so.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type FixtureMatch, type FixtureOpts, type FixtureFileResponse, LLMock } from "@copilotkit/aimock";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { agent, type AgentRun, type Call, type Decision, type Message, type State, type Step, tool } from "yieldagent";
import { anthropic } from "yieldagent/anthropic";
import { ModelError, openai, type OpenAIOptions } from "yieldagent/openai";
import { drive, line, stored, toldTo } from "../trace.ts";

const mock = new LLMock({ port: 0, chunkSize: 6, logLevel: "silent" });
beforeAll(() => mock.start());
afterAll(() => mock.stop());
beforeEach(() => mock.reset());

const KEY = "sk-of-nobody-0123456789";
type Options = Partial<OpenAIOptions>;

const ADAPTERS = {
  openai: (origin: string, options: Options): Call => openai({ model: "gpt-5-mini", baseURL: `${origin}/v1`, apiKey: KEY, maxRetries: 0, ...options }),
  anthropic: (origin: string, options: Options): Call => anthropic({ model: "claude-sonnet-4-5", baseURL: origin, apiKey: KEY, maxRetries: 0, ...options }),
};
type Api = keyof typeof ADAPTERS;
const apis = Object.keys(ADAPTERS) as Api[];

/** What a run did, and what was sent for it. */
interface Ran {
  /** The steps as `line` of `trace.ts` has them; deltas that follow each other are one, however the network cut them. */
  lines: string[];
  steps: Step[];
  state: State;
  error: ModelError | undefined;
  /** How often a text or reasoning came. */
  deltas: number;
  /** The messages of each request, as they were sent. */
  sent: Record<string, unknown>[][];
  /** The tools that ran, with their arguments. */
  done: string[];
}

interface Way extends Options {
  api: Api;
  origin?: string;
  state?: State;
  decisions?: Record<string, Decision>;
  messages?: Message[];
}

/** Runs the loop against a server, aimock if no other is named. What is thrown must be a `ModelError`. */
async function run({ api, origin = mock.url, state, decisions, messages = [{ role: "user", content: "go" }], ...options }: Way): Promise<Ran> {
  const sent: Ran["sent"] = [];
  const done: string[] = [];
  const recording: typeof fetch = (url, init) => {
    sent.push((JSON.parse(String(init?.body)) as { messages: Ran["sent"][number] }).messages);
    return fetch(url, init);
  };
  const did = (what: string) => (args: object): string => {
    done.push(`${what} ${JSON.stringify(args)}`);
    return `${what} ok`;
  };
  const city = { type: "object", properties: { city: { type: "string" } } };
  const tools = {
    weather: tool({ description: "The weather.", parameters: city, run: did("weather") }),
    time: tool({ description: "The time.", run: did("time") }),
    book: tool({ description: "Books a trip.", parameters: city, needsApproval: true, run: did("book") }),
  };
  const start = state ? { state, ...(decisions && { decisions }) } : { messages };
  const { steps, thrown, state: end } = await drive(agent({ call: ADAPTERS[api](origin, { fetch: recording, ...options }), tools, ...start }) as unknown as AgentRun);
  if (thrown !== undefined && !(thrown instanceof ModelError)) throw thrown;
  const lines: string[] = [];
  for (const step of steps) {
    const isDelta = step.type === "text" || step.type === "reasoning";
    if (isDelta && lines.at(-1)?.startsWith(`${step.type} `)) lines.push(`${lines.pop()}${step.text}`);
    else lines.push(line(step));
  }
  return { lines, steps, state: end, error: thrown, deltas: steps.filter(({ type }) => type === "text" || type === "reasoning").length, sent, done };
}

/** What aimock answers: to the first request, to the second with the tools' results, and so on. */
function answers(...turns: (FixtureFileResponse | [FixtureFileResponse, FixtureOpts])[]): void {
  for (const [turnIndex, turn] of turns.entries()) on({ turnIndex }, turn);
}

/** What aimock answers to the same request, the first time, the second, and so on. */
function tries(...turns: (FixtureFileResponse | [FixtureFileResponse, FixtureOpts])[]): void {
  for (const [sequenceIndex, turn] of turns.entries()) on({ sequenceIndex }, turn);
}

function on(match: FixtureMatch, answer: FixtureFileResponse | [FixtureFileResponse, FixtureOpts]): void {
  const [response, options] = Array.isArray(answer) ? answer : [answer];
  mock.on({ userMessage: "go", ...match }, response, options);
}

const refusal = (status: number, message: string, more: { type?: string; code?: string; retryAfter?: number } = {}): FixtureFileResponse => {
  const { retryAfter, ...error } = more;
  return { error: { message, ...error }, status, ...(retryAfter !== undefined && { retryAfter }) };
};

/** When the requests came to aimock. */
const times = (): number[] => mock.getRequests().map(({ timestamp }) => timestamp);

const servers: ReturnType<typeof createServer>[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** A server of our own, whose first answer is the first of `answers`, and so on. */
async function serve(...answers: ((response: ServerResponse, request: IncomingMessage) => void)[]): Promise<string> {
  let count = 0;
  const server = createServer((request, response) => request.resume().on("end", () => answers[Math.min(count++, answers.length - 1)]?.(response, request)));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The events of an answer that says `texts`, each API's own, without those that end it. */
const BEGINNING: Record<Api, (...texts: string[]) => string> = {
  openai: (...texts) => texts.map((content) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { role: "assistant", content } }] })}\n\n`).join(""),
  anthropic: (...texts) => [
    { type: "message_start", message: { type: "message", role: "assistant", content: [], usage: { input_tokens: 1, output_tokens: 1 } } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    ...texts.map((text) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })),
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""),
};
const END: Record<Api, string> = {
  openai: 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
  anthropic: 'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n',
};

const events = (text: string) => (response: ServerResponse): void => {
  response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
};
const body = (status: number, text: string, headers: Record<string, string> = { "content-type": "application/json" }) => (response: ServerResponse): void => {
  response.writeHead(status, headers).end(text);
};

/** The run failed before anything of a reply was kept; the same state, as another process reads it, goes on when the server is back. */
async function goesOn(ran: Ran, way: Way, text = "back"): Promise<void> {
  expect(ran.state.messages).toEqual([{ role: "user", content: "go" }]);
  expect(ran.done).toEqual([]);
  mock.reset();
  answers({ content: text });
  const again = await run({ ...way, origin: mock.url, state: stored(ran.state) });
  expect(again.lines.at(-1)).toBe(`final stop: ${text}`);
  expect(again.sent).toEqual([[{ role: "user", content: way.api === "openai" ? "go" : [{ type: "text", text: "go" }] }]]);
}

describe.each(apis.flatMap((api) => [{ api, stream: true }, { api, stream: false }]))("$api, stream: $stream", ({ api, stream }) => {
  const way = { api, stream };
  /** Deltas come of streams only. */
  const streamed = (...lines: string[]): string[] => (stream ? lines : []);

  test("a text is the answer, with its usage", async () => {
    answers([{ content: "Hello there, this is one text.", usage: { prompt_tokens: 10, completion_tokens: 5, input_tokens: 10, output_tokens: 5 } }, { latency: 10 }]);
    const ran = await run(way);
    expect(ran.lines).toEqual([...streamed("text Hello there, this is one text."), "message", "final stop: Hello there, this is one text."]);
    expect(ran.steps.find(({ type }) => type === "message")).toMatchObject({ usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } });
    // aimock waits between its pieces, so they can't have come as one.
    if (stream) expect(ran.deltas).toBeGreaterThan(1);
  });

  test("a call runs once and its result goes back", async () => {
    answers({ toolCalls: [{ id: "c1", name: "weather", arguments: { city: "Tromsø and Oslo" } }] }, { content: "Sunny." });
    const ran = await run(way);
    expect(ran.lines).toEqual(["message", "start c1", 'result c1: "weather ok"', ...streamed("text Sunny."), "message", "final stop: Sunny."]);
    expect(ran.done).toEqual(['weather {"city":"Tromsø and Oslo"}']);
    expect(ran.sent[1]).toEqual(api === "openai"
      ? [
        { role: "user", content: "go" },
        expect.objectContaining({ role: "assistant", tool_calls: [{ id: "c1", type: "function", function: { name: "weather", arguments: '{"city":"Tromsø and Oslo"}' } }] }),
        { role: "tool", tool_call_id: "c1", content: "weather ok" },
      ]
      : [
        { role: "user", content: [{ type: "text", text: "go" }] },
        { role: "assistant", content: [{ type: "tool_use", id: "c1", name: "weather", input: { city: "Tromsø and Oslo" } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "weather ok" }] },
      ]);
  });

  test("parallel calls run together and their results go back together, in order", async () => {
    answers({ toolCalls: [{ id: "c1", name: "weather", arguments: { city: "Oslo" } }, { id: "c2", name: "time", arguments: {} }, { id: "c3", name: "weather", arguments: { city: "Rome" } }] }, { content: "All done." });
    const ran = await run(way);
    expect(ran.lines).toEqual([
      "message", "start c1", "start c2", "start c3", 'result c1: "weather ok"', 'result c2: "time ok"', 'result c3: "weather ok"',
      ...streamed("text All done."), "message", "final stop: All done.",
    ]);
    expect(ran.done).toEqual(['weather {"city":"Oslo"}', "time {}", 'weather {"city":"Rome"}']);
    const results = ran.sent[1]?.slice(2) ?? [];
    if (api === "openai") expect(results.map(({ tool_call_id: id }) => id)).toEqual(["c1", "c2", "c3"]);
    else expect(results.map(({ content }) => (content as { tool_use_id: string }[]).map(({ tool_use_id: id }) => id))).toEqual([["c1", "c2", "c3"]]);
  });

  test("a text before a call is handed on and kept", async () => {
    answers({ content: "I will look.", toolCalls: [{ id: "c1", name: "weather", arguments: { city: "Oslo" } }] }, { content: "Sunny." });
    const ran = await run(way);
    expect(ran.lines).toEqual([...streamed("text I will look."), "message", "start c1", 'result c1: "weather ok"', ...streamed("text Sunny."), "message", "final stop: Sunny."]);
    expect(ran.sent[1]?.[1]).toMatchObject(api === "openai" ? { content: "I will look.", tool_calls: [{ id: "c1" }] } : { content: [{ type: "text", text: "I will look." }, { type: "tool_use", id: "c1" }] });
  });

  test("a call before a text is read as well", async () => {
    answers({ blocks: [{ type: "toolCall", id: "c1", name: "weather", arguments: { city: "Oslo" } }, { type: "text", text: "I am looking." }] }, { content: "Sunny." });
    const ran = await run(way);
    expect(ran.lines).toEqual([...streamed("text I am looking."), "message", "start c1", 'result c1: "weather ok"', ...streamed("text Sunny."), "message", "final stop: Sunny."]);
  });

  test("reasoning is handed on beside the text", async () => {
    answers({ content: "Forty-two.", reasoning: "let me think about it" });
    expect((await run(way)).lines).toEqual([...streamed("reasoning let me think about it", "text Forty-two."), "message", "final stop: Forty-two."]);
  });

  test("reasoning before a call goes back with the results, unchanged and first", async () => {
    answers({ reasoning: "let me look", reasoningSignature: "c2lnbmVk", redactedThinking: ["aGlkZGVu"], toolCalls: [{ id: "c1", name: "weather", arguments: { city: "Oslo" } }] }, { content: "Sunny." });
    const ran = await run(way);
    expect(ran.lines).toEqual([...streamed("reasoning let me look"), "message", "start c1", 'result c1: "weather ok"', ...streamed("text Sunny."), "message", "final stop: Sunny."]);
    expect(ran.sent[1]?.[1]).toMatchObject(api === "openai"
      ? { role: "assistant", reasoning_content: "let me look", tool_calls: [{ id: "c1" }] }
      : { role: "assistant", content: [{ type: "redacted_thinking", data: "aGlkZGVu" }, { type: "thinking", thinking: "let me look", signature: "c2lnbmVk" }, { type: "tool_use", id: "c1", name: "weather", input: { city: "Oslo" } }] });
  });

  test("the run pauses for an approval, and another process goes on from JSON", async () => {
    answers({ toolCalls: [{ id: "c1", name: "book", arguments: { city: "Oslo" } }, { id: "c2", name: "time", arguments: {} }], reasoning: "both" }, { content: "Booked." });
    const paused = await run(way);
    expect(paused.lines).toEqual([...streamed("reasoning both"), "message", "start c2", 'result c2: "time ok"', "ask c1 approval"]);
    expect(paused.done).toEqual(["time {}"]);
    const resumed = await run({ ...way, state: stored(paused.state), decisions: { c1: true } });
    expect(resumed.lines).toEqual(["start c1", 'result c1: "book ok"', ...streamed("text Booked."), "message", "final stop: Booked."]);
    expect(resumed.done).toEqual(['book {"city":"Oslo"}']);
    expect(toldTo(resumed.state)).toEqual({ c1: "book ok", c2: "time ok" });
    expect(mock.getRequests().length).toBe(2);
  });

  test("a refused approval runs nothing, and the model reads why", async () => {
    answers({ toolCalls: [{ id: "c1", name: "book", arguments: { city: "Oslo" } }] }, { content: "Then not." });
    const paused = await run(way);
    const resumed = await run({ ...way, state: stored(paused.state), decisions: { c1: { approved: false, reason: "too far" } } });
    expect(resumed.lines.at(-1)).toBe("final stop: Then not.");
    expect([...paused.done, ...resumed.done]).toEqual([]);
    expect(JSON.stringify(resumed.sent[0]?.at(-1))).toContain("too far");
    if (api === "anthropic") expect(resumed.sent[0]?.at(-1)).toMatchObject({ content: [{ type: "tool_result", tool_use_id: "c1", is_error: true }] });
  });

  // Of a cut input aimock makes {} where it doesn't stream: that call doesn't run either.
  test("a call that the token limit cut off doesn't run, and what goes back is whole", async () => {
    answers({ toolCalls: [{ id: "c1", name: "weather", arguments: '{"city": "Os' }], finishReason: "length" }, { content: "Shorter." });
    const ran = await run(way);
    expect(ran.done).toEqual([]);
    expect(ran.lines[1]).toMatch(/^error c1: /);
    expect(ran.lines.at(-1)).toBe("final stop: Shorter.");
    expect(ran.sent[1]?.[1]).toMatchObject(api === "openai" ? { tool_calls: [{ function: { arguments: "{}" } }] } : { content: [{ type: "tool_use", input: {} }] });
  });

  test("a 429 is asked again after the time it asks for", async () => {
    tries(refusal(429, "slow down", { retryAfter: 1 }), { content: "Now." });
    expect((await run({ ...way, maxRetries: 1 })).lines.at(-1)).toBe("final stop: Now.");
    const [first, second] = times() as [number, number];
    // Half a second is what it would be without.
    expect(second - first).toBeGreaterThan(950);
  });

  test("a 429 that asks for an hour ends the run at once, and the state goes on later", async () => {
    tries(refusal(429, "come back tomorrow", { type: "rate_limit_error", retryAfter: 3600 }), { content: "never asked" });
    const ran = await run({ ...way, maxRetries: 2 });
    expect(ran.error).toMatchObject({ message: "come back tomorrow", status: 429, type: "rate_limit_error", retryable: true });
    expect(times().length).toBe(1);
    await goesOn(ran, way);
  });

  test("a 500 is asked again, and the second answer is the answer", async () => {
    tries(refusal(500, "it hurts", { type: "server_error" }), { content: "Better." });
    const ran = await run({ ...way, maxRetries: 1 });
    expect(ran.lines.at(-1)).toBe("final stop: Better.");
    expect(ran.sent[1]).toEqual(ran.sent[0]);
    expect(times().length).toBe(2);
  });

  test("a 500 that stays is an error in the server's words, after as many tries as were asked for", async () => {
    answers(refusal(500, "it hurts", { type: "server_error" }));
    const ran = await run({ ...way, maxRetries: 1 });
    expect(ran.error).toMatchObject({ message: "it hurts", status: 500, type: "server_error", retryable: true });
    expect(times().length).toBe(2);
    await goesOn(ran, way);
  });

  test("headers that come late but in time are waited for; later than that is an error", async () => {
    answers([{ content: "Slow." }, { chaos: { latencyMs: 300 } }]);
    expect((await run({ ...way, timeout: 5000 })).lines.at(-1)).toBe("final stop: Slow.");
    const ran = await run({ ...way, timeout: 100 });
    expect(ran.error).toMatchObject({ code: "timeout", retryable: true, status: undefined });
    expect(ran.error?.message).toBe(`${mock.url} sent nothing for 0.1 s`);
    await goesOn(ran, way);
  });

  test("a connection that the server drops before an answer is an error that may pass", async () => {
    answers([{ content: "lost" }, { chaos: { disconnectRate: 1 } }]);
    const ran = await run(way);
    expect(ran.error).toMatchObject({ retryable: true, status: undefined });
    expect(ran.error?.message).toContain(`no connection: ${mock.url}`);
    await goesOn(ran, way);
  });

  test("an answer that is no JSON is an error that may pass", async () => {
    answers([{ content: "lost" }, { chaos: { malformedRate: 1 } }]);
    const ran = await run(way);
    expect(ran.error).toMatchObject({ status: 200, retryable: true });
    await goesOn(ran, way);
  });

  test.each([
    [400, "this model's maximum context length is 8 tokens", { type: "invalid_request_error", code: "context_length_exceeded" }],
    [401, "incorrect API key", { type: "authentication_error", code: "invalid_api_key" }],
    [403, "not for you", { type: "permission_error", code: "forbidden" }],
    [404, "no such model", { type: "not_found_error", code: "model_not_found" }],
    [413, "too large", { type: "request_too_large", code: "too_large" }],
  ])("a %i is told in the server's words and not asked again", async (status, message, more) => {
    answers(refusal(status, message, more));
    const ran = await run({ ...way, maxRetries: 2 });
    expect(ran.error).toMatchObject({ message, status, type: more.type, code: api === "openai" ? more.code : more.type, retryable: false });
    expect(times().length).toBe(1);
    await goesOn(ran, way);
  });

  test("a server that quotes the key gives nothing of it away", async () => {
    answers(refusal(401, `incorrect API key ${KEY}: find yours elsewhere`));
    const { error } = await run(way);
    expect(error?.message).toBe("incorrect API key …: find yours elsewhere");
  });

  test.each([
    ["a text", [{ role: "user", content: "go to my secret island" }], []],
    ["a text in parts", [{ role: "user", content: [{ type: "text", text: "go to my secret island" }] }], []],
    ["a tool's result in parts", [{ role: "user", content: "go" }, { role: "assistant", content: null, tool_calls: [{ id: "c0", type: "function", function: { name: "time", arguments: "{}" } }] }, { role: "tool", tool_call_id: "c0", content: [{ type: "text", text: "to my secret island" }] }], []],
    ["a call's arguments", [{ role: "user", content: "go" }], [{ toolCalls: [{ id: "c1", name: "weather", arguments: { city: "to my secret island" } }] }]],
  ] as [string, Message[], FixtureFileResponse[]][])("a server that quotes the conversation gives nothing of it away: %s", async (_, messages, before) => {
    const quoting = refusal(400, `invalid: ${messages.length + before.length === 1 ? "go to my secret island" : '{"city":"to my secret island"}'}`);
    if (before[0]) answers(before[0], quoting);
    else answers(quoting, quoting);
    const { error } = await run({ ...way, messages });
    expect(error).toMatchObject({ status: 400, message: expect.stringMatching(/^invalid: /) });
    expect(error?.message).not.toContain("secret");
  });

  test("a baseURL where nothing is, is an error in the server's words (a server of our own)", async () => {
    const origin = await serve(body(404, "<!doctype html><html><head><title>Nothing here</title></head></html>", { "content-type": "text/html" }), body(200, "<html><title>Welcome</title></html>", { "content-type": "text/html" }));
    const missing = await run({ ...way, origin });
    expect(missing.error).toMatchObject({ status: 404, retryable: false });
    expect(missing.error?.message).toContain("Nothing here");
    const welcome = await run({ ...way, origin });
    expect(welcome.error).toMatchObject({ status: 200, retryable: false });
    expect(welcome.error?.message).toContain("Welcome");
    await goesOn(welcome, way);
  });

  test.each([
    ["a flat one", '{"object":"error","message":"no such thing","type":"invalid","code":3051}', "no such thing", 3051],
    ["a list of one", '[{"error":{"code":400,"message":"no such field","status":"INVALID_ARGUMENT"}}]', "no such field", 400],
    ["a text", '{"error":"no such word"}', "no such word", undefined],
    ["a detail", '{"detail":"no such way"}', "no such way", undefined],
    ["a gateway's, with what the server behind it said", '{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"no such model"}}}', "Provider returned error: no such model", 400],
    ["no JSON", "upstream connect error", "upstream connect error", undefined],
  ])("an error body of another shape is read: %s (a server of our own)", async (_, text, message, code) => {
    const ran = await run({ ...way, origin: await serve(body(400, text)) });
    expect(ran.error).toMatchObject({ message, code, status: 400, retryable: false });
  });

  test("a 429 without Retry-After is asked again all the same, but not at once (a server of our own)", async () => {
    const came: number[] = [];
    const origin = await serve(
      (response) => (came.push(Date.now()), body(429, '{"error":{"message":"slow down","type":"rate_limit_error"}}')(response)),
      (response) => (came.push(Date.now()), stream ? events(BEGINNING[api]("Now.") + END[api])(response) : whole(api, "Now.")(response)),
    );
    const ran = await run({ ...way, origin, maxRetries: 1 });
    expect(ran.lines.at(-1)).toBe("final stop: Now.");
    const [first, second] = came as [number, number];
    expect(second - first).toBeGreaterThan(350);
  });
});

/** A whole answer of each API that says a text. */
const whole = (api: Api, text: string) => body(200, JSON.stringify(api === "openai"
  ? { choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }] }
  : { type: "message", role: "assistant", content: [{ type: "text", text }], stop_reason: "end_turn", usage: { input_tokens: 1, output_tokens: 1 } }));

describe.each(apis)("%s, a stream that breaks", (api) => {
  test("a connection cut in the middle of a text is an error; what came was handed on, nothing is kept, and nothing is asked again", async () => {
    tries([{ content: "Half of an answer that never ends" }, { latency: 10, truncateAfterChunks: 6 }], { content: "never asked" });
    const ran = await run({ api, maxRetries: 2 });
    expect(ran.error).toMatchObject({ retryable: true, status: 200 });
    expect(ran.error?.message).toContain(`the connection broke off: ${mock.url}`);
    expect(ran.lines).toEqual([expect.stringMatching(/^text Half of/)]);
    expect(times().length).toBe(1);
    await goesOn(ran, { api });
  });

  test("a connection cut in the middle of a call is asked again, for nothing of it was handed on, and the tool runs once", async () => {
    tries(
      [{ toolCalls: [{ id: "c1", name: "weather", arguments: { city: "a city with a long name" } }] }, { latency: 10, truncateAfterChunks: 4 }],
      { toolCalls: [{ id: "c2", name: "weather", arguments: { city: "Oslo" } }] },
      { content: "Sunny." },
    );
    const ran = await run({ api, maxRetries: 1 });
    expect(ran.lines).toEqual(["message", "start c2", 'result c2: "weather ok"', "text Sunny.", "message", "final stop: Sunny."]);
    expect(ran.done).toEqual(['weather {"city":"Oslo"}']);
    expect(times().length).toBe(3);
  });

  test("a connection cut in the middle of a call runs no tool, if it isn't to be asked again", async () => {
    answers([{ toolCalls: [{ id: "c1", name: "weather", arguments: { city: "a city with a long name" } }] }, { latency: 10, truncateAfterChunks: 4 }]);
    const ran = await run({ api });
    expect(ran.error).toMatchObject({ retryable: true });
    expect(ran.lines).toEqual([]);
    await goesOn(ran, { api });
  });

  test("a connection cut in the second answer leaves the first tool's result in the state, and it doesn't run again", async () => {
    answers({ toolCalls: [{ id: "c1", name: "weather", arguments: { city: "Oslo" } }] }, [{ content: "Half of an answer that never ends" }, { latency: 10, truncateAfterChunks: 6 }]);
    const ran = await run({ api });
    expect(ran.error).toMatchObject({ retryable: true });
    expect(ran.lines).toEqual(["message", "start c1", 'result c1: "weather ok"', expect.stringMatching(/^text Half of/)]);
    mock.reset();
    answers({ content: "never asked" }, { content: "Sunny." });
    const again = await run({ api, state: stored(ran.state) });
    expect(again.lines).toEqual(["text Sunny.", "message", "final stop: Sunny."]);
    expect(again.done).toEqual([]);
  });

  test("a body that stalls is an error once nothing came for the timeout; what came was handed on", async () => {
    const pauses = api === "openai" ? [0] : [0, 0];
    answers([{ content: "Half of an answer" }, { recordedTimings: { ttftMs: 0, interChunkDelaysMs: [...pauses, 20_000], totalDurationMs: 20_000 } }]);
    const ran = await run({ api, timeout: 300 });
    expect(ran.error).toMatchObject({ code: "timeout", retryable: true, status: 200 });
    expect(ran.error?.message).toBe(`${mock.url} sent nothing for 0.3 s`);
    expect(ran.lines).toEqual(["text Half o"]);
    await goesOn(ran, { api });
  });

  test("a stream slower than the timeout as a whole, but never silent for so long, is read to its end", async () => {
    answers([{ content: "word ".repeat(12) }, { latency: 120 }]);
    const ran = await run({ api, timeout: 1000 });
    expect(ran.lines.at(-1)).toBe(`final stop: ${"word ".repeat(12)}`);
    expect(ran.deltas).toBeGreaterThan(3);
  });

  test("a body that ends cleanly in the middle of a text is no answer (a server of our own)", async () => {
    const ran = await run({ api, origin: await serve(events(BEGINNING[api]("Half of ", "an answer"))) });
    expect(ran.error).toMatchObject({ retryable: true, status: 200, message: "the answer ended before the reply was complete" });
    expect(ran.lines).toEqual(["text Half of an answer"]);
    await goesOn(ran, { api });
  });

  test("a body that ends in the middle of an event is no answer (a server of our own)", async () => {
    const ran = await run({ api, origin: await serve(events(BEGINNING[api]("Half of ", "an answer").slice(0, -25))) });
    expect(ran.error).toMatchObject({ retryable: true, status: 200 });
    expect(ran.lines).toEqual(["text Half of "]);
    await goesOn(ran, { api });
  });

  test("an error event after half an answer is told in the server's words (a server of our own)", async () => {
    const ran = await run({ api, maxRetries: 2, origin: await serve(events(`${BEGINNING[api]("Half of ")}event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n`)) });
    expect(ran.error).toMatchObject({ message: "Overloaded", type: "overloaded_error", status: 200 });
    expect(ran.lines).toEqual(["text Half of "]);
    await goesOn(ran, { api });
  });

  test("a line without end is an error, and the server's connection is closed (a server of our own)", async () => {
    let closed = (): void => {};
    const isClosed = new Promise<void>((resolve) => (closed = resolve));
    const ran = await run({
      api, maxEventBytes: 100_000,
      origin: await serve((response) => {
        response.on("close", closed).writeHead(200, { "content-type": "text/event-stream" });
        const more = (): void => {
          while (!response.destroyed && response.write("data: ".padEnd(16_384, "x")));
        };
        response.on("drain", more);
        more();
      }),
    });
    expect(ran.error).toMatchObject({ message: "an event is larger than 100000 bytes", retryable: false });
    await isClosed;
    await goesOn(ran, { api });
  });

  test("comments alone keep a stream alive (a server of our own)", async () => {
    const ran = await run({
      api, timeout: 1000,
      origin: await serve((response) => {
        response.writeHead(200, { "content-type": "text/event-stream" }).write(BEGINNING[api]("Slow."));
        let left = 8;
        const alive = setInterval(() => {
          if (left-- > 0) return void response.write(": keep-alive\n\n");
          clearInterval(alive);
          response.end(END[api]);
        }, 150);
      }),
    });
    expect(ran.lines).toEqual(["text Slow.", "message", "final stop: Slow."]);
  });

  test("who stops iterating, or aborts, closes the server's connection (a server of our own)", async () => {
    for (const stop of ["break", "abort"]) {
      let closed = (): void => {};
      const isClosed = new Promise<void>((resolve) => (closed = resolve));
      const origin = await serve((response) => response.on("close", closed).writeHead(200, { "content-type": "text/event-stream" }).write(BEGINNING[api]("Half")));
      const abort = new AbortController();
      const steps: string[] = [];
      const reason = new Error("enough");
      try {
        for await (const step of agent({ call: ADAPTERS[api](origin, {}), messages: [{ role: "user", content: "go" }], signal: abort.signal })) {
          steps.push(line(step as Step));
          if (stop === "break") break;
          abort.abort(reason);
        }
      } catch (error) {
        expect(error).toBe(reason);
        steps.push("thrown");
      }
      expect(steps).toEqual(stop === "break" ? ["text Half"] : ["text Half", "thrown"]);
      await isClosed;
    }
  });
});
