// Servers and clients for the tests of the adapters: what a server sends, cut as networks cut it, and what comes of it.
import type { Call, Message, Reply, ToolDefinition } from "yieldagent";
import { ModelError } from "yieldagent/openai";

/** A body that arrives in pieces of `size` bytes. */
export function inPieces(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  let from = 0;
  return new ReadableStream({
    pull(controller) {
      if (from >= bytes.length) controller.close();
      else controller.enqueue(bytes.subarray(from, (from += Math.min(size, bytes.length))));
    },
  });
}

/** What came of a call to a model. */
export interface Asked {
  /** The deltas, as `text:…` and `reasoning:…`. */
  deltas: string[];
  text: string;
  reasoning: string;
  reply: Reply | undefined;
  error: ModelError | undefined;
}

/** Asks a model to the end. Throws what is thrown and is no `ModelError`. */
export async function ask(call: Call, messages: Message[] = [{ role: "user", content: "go" }], tools: readonly ToolDefinition[] = [], signal: AbortSignal = new AbortController().signal): Promise<Asked> {
  const asked: Asked = { deltas: [], text: "", reasoning: "", reply: undefined, error: undefined };
  try {
    const answer = await call(messages, tools, { signal, step: 1 });
    if (!(Symbol.asyncIterator in answer)) asked.reply = answer as Reply;
    else {
      const stream = answer as AsyncGenerator<{ type: string; text: string }, Reply>;
      for (;;) {
        const { done, value } = await stream.next();
        if (done) {
          asked.reply = value;
          break;
        }
        asked.deltas.push(`${value.type}:${value.text}`);
        asked[value.type as "text" | "reasoning"] += value.text;
      }
    }
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    asked.error = error;
  }
  return asked;
}

/** Events as a stream has them: an object as JSON, a string as it is. */
export function sse(...events: unknown[]): string {
  return events.map((event) => `data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`).join("");
}

/** A chunk of Chat Completions: a delta, and what else its choice and the chunk have. */
export function chunk(delta: unknown, choice: object = {}, rest: object = {}): object {
  return { id: "chatcmpl-1", object: "chat.completion.chunk", model: "m", choices: [{ index: 0, delta, ...choice }], ...rest };
}

/** A chunk with one piece of a call. */
export function callChunk(piece: object): object {
  return chunk({ tool_calls: [piece] });
}

/** The last chunk of a reply. */
export function finish(reason: string | null, rest: object = {}): object {
  return chunk({}, { finish_reason: reason }, rest);
}

/** A request as it came to a server that stands in for a real one. */
export interface Received {
  url: string;
  headers: Headers;
  text: string;
  body: Record<string, unknown> & { messages: Record<string, unknown>[] };
}

export interface FakeServer {
  fetch: typeof fetch;
  readonly received: Received[];
}

/** What a fake server answers: a body, a status and headers with it, or whatever a function does. */
export type Answer = string | { status?: number; headers?: Record<string, string>; body?: string } | ((init: RequestInit) => Response | Promise<Response>);

/** A `fetch` that gives the answers in turn, their bodies in pieces of `size` bytes, and notes what it was asked. One ask too many is an error. */
export function fakeServer(answers: readonly Answer[], size: number = Infinity): FakeServer {
  const received: Received[] = [];
  return {
    received,
    fetch: async (url: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
      const text = String(init.body);
      received.push({ url: String(url), headers: new Headers(init.headers), text, body: JSON.parse(text) });
      const answer = answers[received.length - 1];
      if (answer === undefined) throw new Error(`the server was asked ${received.length} times`);
      if (typeof answer === "function") return answer(init);
      const { status = 200, headers = {}, body = "" } = typeof answer === "string" ? { body: answer } : answer;
      return new Response(inPieces(new TextEncoder().encode(body), size), { status, headers });
    },
  };
}
