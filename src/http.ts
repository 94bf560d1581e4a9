import { AgentError } from "./error.ts";
import type { Delta, Message, Reply } from "./message.ts";
import { errorIn, isTemporary, ModelError, REFUSED_CALL } from "./model-error.ts";
import { SseReader } from "./sse.ts";

/** What every adapter takes. */
export interface ServerOptions {
  /** The model's name, as the server knows it. */
  model: string;
  /** Where the API is, with or without a slash at the end; a query is kept. */
  baseURL?: string | undefined;
  /** The key; `""` sends none. */
  apiKey?: string | undefined;
  /** `false` asks for the reply in one piece, and gives no deltas. Default `true`. */
  stream?: boolean | undefined;
  /** Headers to add to each request, or to replace; `undefined` leaves one out. */
  headers?: Readonly<Record<string, string | undefined>> | undefined;
  /** Fields to add to each request's body, or to replace; `undefined` leaves one out. `tools` are added to the agent's. */
  body?: Readonly<Record<string, unknown>> | undefined;
  /** Default: the global one. */
  fetch?: typeof globalThis.fetch | undefined;
  /** How often a request that failed is sent again: after errors of the connection, 408, 409, 429 and from 500 on. Default 2. */
  maxRetries?: number | undefined;
  /** How long nothing may come from the server, in ms, before the headers and between any two pieces. Default 600,000. */
  timeout?: number | undefined;
  /** How long one event of a stream may be. Default 8 MiB. */
  maxEventBytes?: number | undefined;
}

/** Where requests go, and how. */
export interface Server {
  readonly url: URL;
  readonly headers: Headers;
  readonly options: ServerOptions;
  readonly stream: boolean;
  /** What must not be in a message. */
  readonly secrets: readonly string[];
}

const KINDS: Readonly<Record<string, string>> = {
  model: "string", baseURL: "string", apiKey: "string", stream: "boolean", headers: "object", body: "object", fetch: "function",
  maxRetries: "number", timeout: "number", maxEventBytes: "number", maxTokens: "number", cache: "boolean",
};

/**
 * Checks an adapter's options and makes a server of them. `env` is how the environment's variables begin, `path` what
 * the base's path becomes, `auth` the headers with the key. Throws `AgentError` `bad-options`.
 */
export function server(
  adapter: string, options: ServerOptions, env: string, base: string, path: (base: string) => string, auth: (key: string) => Record<string, string>,
): Server {
  const bad = (what: string): AgentError => new AgentError("bad-options", `${adapter}: ${what}`);
  for (const [field, value] of Object.entries({ ...({ model: undefined } as object), ...options })) {
    if (!Object.hasOwn(KINDS, field)) throw bad(`there is no option ${field}; what the server takes goes into body`);
    if (field === "model" ? !value : value !== undefined && (typeof value !== KINDS[field] || value === null || (value as number) < 0 || value !== value)) throw bad(`${field} must be a ${KINDS[field]}`);
  }
  const variable = (name: string): string | undefined => {
    try {
      return (globalThis as { process?: { env?: Record<string, string> } }).process?.env?.[`${env}_${name}`] || undefined;
    } catch {
      return undefined; // reading it isn't allowed
    }
  };
  const key = options.apiKey ?? variable("API_KEY");
  const headers = new Headers({ "content-type": "application/json" });
  for (const [name, value] of Object.entries({ ...(key && auth(key)), ...options.headers })) {
    try {
      if (value === undefined) headers.delete(name);
      else headers.set(name, value);
    } catch {
      throw bad(`the apiKey, or the header ${name}, has a character that no header can have`);
    }
  }
  let url: URL;
  try {
    url = new URL(options.baseURL ?? variable("BASE_URL") ?? base);
    url.pathname = path(url.pathname.replace(/\/+$/, ""));
    JSON.stringify(options.body);
  } catch {
    throw bad("baseURL must be a URL, and body plain JSON");
  }
  if (!/^https?:$/.test(url.protocol) || url.username) throw bad("baseURL must begin with http:// or https://, and hold no password: that goes into headers");
  const secrets = [key, ...url.searchParams.values(), ...Object.values({ ...options.headers })];
  return { url, headers, options, stream: options.stream !== false, secrets: secrets.filter((secret) => secret && secret.length >= 8) as string[] };
}

/** Makes a reply of what a server sends. Nothing that is sent makes it throw anything but a `ModelError`. */
export interface ReplyReader<T = Reply> {
  /** Takes an event of a stream, and adds to `deltas` what of it is to be handed on. */
  event(event: unknown, deltas: Delta[]): void;
  /** `[DONE]` came. */
  done(): void;
  /** Takes the whole reply, sent as one JSON body. */
  whole(body: unknown, deltas: Delta[]): void;
  /** Nothing is missing that matters, though more may come. */
  readonly complete: boolean;
  /** Nothing more will come. */
  readonly ended: boolean;
  reply(): T;
}

/** Adds a piece of text to what is to be handed on. What arrives together is handed on together. */
export function hand(deltas: Delta[], type: "text" | "reasoning", text: unknown): void {
  if (typeof text !== "string" || text === "") return;
  const last = deltas.at(-1);
  if (last?.type === type) last.text += text;
  else deltas.push({ type, text });
}

/** What becomes known of a try. */
interface Try {
  response?: Response;
  /** The answer is one JSON text, not a stream of events. */
  whole?: boolean;
  /** The server couldn't be heard, or not to the end. */
  lost?: boolean;
  /** The answer has ended; what is left of it may be cut off. */
  ended?: boolean;
  /** What the server asks in a body to wait, in ms. */
  asked?: number;
}

const MAX_BODY = 256 * 1024 * 1024;
const MAX_ERROR_BODY = 64 * 1024;
/** The longest that a server may ask to wait; beyond it the run ends, and can go on later. */
const MAX_WAIT = 60_000;

/**
 * Asks the server: sends the body, reads what comes, hands the deltas on and returns the reply. Sent again after a
 * failure that may pass, but never once anything was handed on, for that can't be taken back. Throws `ModelError`, or
 * the signal's reason. `revise` is told of a failure: true says that the body is another one now, to be sent at once.
 */
export async function* ask<T>(
  server: Server, body: () => string, reader: () => ReplyReader<T>, messages: readonly Message[], signal: AbortSignal, revise?: (error: ModelError) => boolean,
): AsyncGenerator<Delta, T> {
  let handed = false;
  for (let retry = 0; ; retry++) {
    const reading = reader();
    const known: Try = {};
    try {
      for await (const events of receive(server, body(), signal, known)) {
        const deltas: Delta[] = [];
        let failure: unknown;
        try {
          for (const data of events) {
            if (data.startsWith("[DONE]")) reading.done();
            else if (data !== "") {
              const event = json(data);
              if (event !== undefined) reading[known.whole ? "whole" : "event"](event, deltas);
              else if (!known.ended || !reading.complete) throw new ModelError("the server's answer is broken or was cut off: it is no JSON", { retryable: true });
            }
            if (reading.ended) break;
          }
        } catch (error) {
          failure = error;
        }
        // What came before a failure has come, however the network cut it.
        for (const delta of server.stream ? deltas : []) {
          handed = true;
          yield delta;
        }
        if (failure) throw failure;
        if (reading.ended) break;
      }
      if (reading.complete) return reading.reply();
      throw new ModelError("the answer ended before the reply was complete", { retryable: true });
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (!(error instanceof ModelError)) throw error;
      // What was still to come would have changed nothing that matters.
      if (reading.complete && known.lost) return reading.reply();
      if (!handed && revise?.(error)) continue;
      const wait = handed || retry >= (server.options.maxRetries ?? 2) ? undefined : waitFor(error, known, retry);
      if (wait === undefined) throw told(error, known, server, messages);
      await sleep(wait, signal);
    }
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Sends the request and gives the events of the answer as they come, or its one JSON text. */
async function* receive({ url, headers, options }: Server, body: string, signal: AbortSignal, known: Try): AsyncGenerator<readonly string[]> {
  const { timeout = 600_000, fetch = globalThis.fetch } = options;
  const place = url.origin + url.pathname;
  const sse = new SseReader(options.maxEventBytes ?? 8 * 1024 * 1024);
  const decoder = new TextDecoder();
  const abort = new AbortController();
  let source: ReadableStreamDefaultReader<Uint8Array> | undefined;
  let bytes = 0;
  let stalled = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** Since when the server has been waited for; undefined while nobody waits. */
  let since: number | undefined;
  let interrupt = (_?: unknown): void => {};

  const stop = (): void => {
    abort.abort(signal.reason);
    interrupt();
    // A read that waits ends with this, whatever the stream is made of.
    source?.cancel().catch(() => {});
  };
  // The timer is set anew when it has run down, not for each piece.
  const look = (): void => {
    const left = since === undefined ? 0 : since + timeout - Date.now();
    timer = left > 0 ? setTimeout(look, Math.min(left, 2 ** 31 - 1)) : undefined;
    if (since === undefined || left > 0) return;
    stalled = true;
    stop();
  };
  const wait = (): void => {
    since = Date.now();
    if (timer === undefined) look();
  };
  /** Why the server can't be heard. What fetch says of it may hold the URL: only the system's code is taken. */
  const silence = (error?: unknown): unknown => {
    if (signal.aborted) return signal.reason;
    known.lost = true;
    if (stalled) return new ModelError(`${url.origin} sent nothing for ${timeout / 1000} s`, { code: "timeout", retryable: true });
    const { code, cause } = Object(error) as { code?: unknown; cause?: { code?: unknown } };
    const system = [cause?.code, code].find((one) => /^[A-Z][A-Z0-9_]+$/.test(String(one))) as string | undefined;
    return new ModelError(`${known.response ? "the connection broke off" : "no connection"}: ${url.origin}${system ? ` (${system})` : ""}`, { code: system, retryable: true });
  };
  /** A piece of the answer as text; undefined at its end. */
  const take = (piece: { value?: Uint8Array | undefined } | undefined): string | undefined => {
    since = undefined;
    if (stalled || signal.aborted) throw silence();
    if (!piece?.value) return decoder.decode() || undefined;
    bytes += piece.value.byteLength;
    if (bytes > MAX_BODY) throw new ModelError("the answer is larger than 256 MiB");
    return decoder.decode(piece.value, { stream: true });
  };
  signal.addEventListener("abort", stop);
  try {
    if (signal.aborted) throw signal.reason;
    wait();
    try {
      // A redirect isn't followed: it would take the key and the prompt to where nobody sent them.
      const asked = fetch(url.href, { method: "POST", headers: Object.fromEntries(headers), body, signal: abort.signal, redirect: "manual" });
      known.response = await Promise.race([asked, new Promise<never>((_, reject) => (interrupt = reject))]);
    } catch (error) {
      throw silence(error);
    }
    source = known.response.body?.getReader();
    let text = "";
    for (;;) {
      wait();
      let piece: ReadableStreamReadResult<Uint8Array> | undefined;
      try {
        piece = await source?.read();
      } catch (error) {
        if (known.response.ok) throw silence(error);
      }
      let more = take(piece);
      if (!known.response.ok || text[0] === "<") {
        text += more ?? "";
        if (more === undefined || text.length > MAX_ERROR_BODY) throw refusal(known, place, text);
        continue;
      }
      if (more === undefined) break;
      if (known.whole !== false) {
        text += more;
        // What an answer is shows in its first character: its content-type may be wrong, and blank lines may come first for minutes.
        if (known.whole === undefined) text = text.trimStart();
        if (text !== "") known.whole ??= /[{[]/.test(text.charAt(0));
        if (known.whole !== false || text[0] === "<") continue;
        more = text;
      }
      const events = sse.push(more);
      if (events.length > 0) yield events;
    }
    known.ended = true;
    // Some servers leave out the blank line after the last event.
    const last = known.whole ? text : sse.end();
    if (last !== undefined) yield [last];
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    // Nobody reads on: the connection is given up, so that nothing more is generated, and paid.
    source?.cancel().catch(() => {});
    if (!source) abort.abort();
  }
}

/** The error that an answer tells of which has a bad status, or is a web page. */
function refusal(known: Try, place: string, body: string): ModelError {
  const text = body.trim();
  const { status, headers } = known.response as Response;
  const [, title = ""] = /<title[^>]*>\s*([^<]*)/i.exec(text) ?? [];
  const error = errorIn(json(text)) ?? new ModelError(
    text.startsWith("<") ? `${place} answered with a web page, ${JSON.stringify(title.trim())}: is baseURL right?`
    : status >= 300 && status < 400 ? `${place} redirects to elsewhere: set baseURL to where the API is`
    : text || `${place} answered ${status}`);
  known.asked = Number(/"retryDelay":\s*"([\d.]+)s"/.exec(text)?.[1]) * 1000;
  const said = headers.get("x-should-retry");
  return new ModelError(error.message, { ...error, status, retryable: said ? said === "true" : isTemporary(error, status) && !text.includes("enforced_spend_limit") });
}

/** How long to wait before the next try, in ms; undefined: there is none. */
function waitFor(error: ModelError, { response, asked = 0 }: Try, retry: number): number | undefined {
  if (!error.retryable || error.code === REFUSED_CALL) return undefined;
  const header = (name: string): string => response?.headers.get(name) ?? "";
  const after = header("retry-after");
  const ms = [Number(header("retry-after-ms")), Number(after) * 1000, Date.parse(after) - Date.now(), asked].find((time) => time > 0);
  // Healthy answers have a retry-after too.
  if (ms !== undefined && !response?.ok) return ms <= MAX_WAIT ? ms : undefined;
  return Math.min(500 * 2 ** retry, 8000) * (1 - Math.random() / 4);
}

/** The error as it may be shown: with what is known of the answer, and without what nobody may see. */
function told(error: ModelError, { response }: Try, { secrets }: Server, messages: readonly Message[]): ModelError {
  let { message } = error;
  // Some servers quote the request.
  for (const hidden of [...secrets, ...messages.map(({ content }) => content)]) {
    if (typeof hidden !== "string" || hidden.length < 8) continue;
    // As it is, in a JSON text, or in one that is itself in JSON.
    let text = hidden;
    for (let depth = 0; depth < 3; depth++) {
      message = message.split(text).join("…");
      text = JSON.stringify(text).slice(1, -1);
    }
  }
  const id = ["x-request-id", "request-id", "x-generation-id"].map((name) => response?.headers.get(name)).find(Boolean);
  return new ModelError(message, { ...error, status: error.status ?? response?.status, requestId: error.requestId ?? id ?? undefined });
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop);
  });
}
