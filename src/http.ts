import { AgentError } from "./error.ts";
import { isObject } from "./json.ts";
import type { Delta, Message, Reply } from "./message.ts";
import { errorIn, isTemporary, ModelError, parsed, REFUSED_CALL } from "./model-error.ts";
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
  maxRetries: "number", timeout: "number", maxEventBytes: "number",
};

/**
 * Checks an adapter's options and makes a server of them. `own` are the options that only it has, `path` says what the
 * base's path becomes, `auth` which headers hold the key. Throws `AgentError` `bad-options`.
 */
export function server(
  adapter: string, options: ServerOptions, own: Readonly<Record<string, string>>, base: string, path: (base: string) => string, auth: (key: string) => Record<string, string>,
): Server {
  const bad = (what: string): AgentError => new AgentError("bad-options", `${adapter}: ${what}`);
  const kinds = { ...KINDS, ...own };
  for (const [field, value] of Object.entries({ ...({ model: undefined } as object), ...options })) {
    const kind = Object.hasOwn(kinds, field) && kinds[field];
    if (!kind) throw bad(`there is no option ${field}; what the server takes goes into body`);
    const isRight = typeof value === kind && (kind === "number" ? (value as number) >= 0 : Boolean(value) || field !== "model");
    if (value === null || (!isRight && (value !== undefined || field === "model"))) throw bad(`${field} must be a ${kind}`);
  }
  const variable = (name: string): string | undefined => {
    try {
      return (globalThis as { process?: { env?: Record<string, string> } }).process?.env?.[`${adapter.toUpperCase()}_${name}`] || undefined;
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
  // Of a header like "Bearer …" the words, of the query as it is written and as it is meant.
  const secrets = [key ?? "", ...url.search.split(/[?&=]/), ...url.searchParams.values(), ...Object.values({ ...options.headers }).flatMap((value) => value?.split(" ") ?? [])];
  return { url, headers, options, stream: options.stream !== false, secrets };
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
  /** The answer's body has ended; what is left of it may be cut off. */
  ended?: boolean;
  /** The reply is complete, and nothing more of the body is wanted. */
  over?: boolean;
  /** What the server asks in a body to wait, in ms. */
  asked?: number;
}

const MAX_BODY = 256 * 1024 * 1024;
const MAX_ERROR_BODY = 64 * 1024;
/** The longest message that is taken from a server, in UTF-16 code units. */
const MAX_MESSAGE = 2000;
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
        let failure: ModelError | undefined;
        try {
          for (const data of events) {
            const event = parsed(data);
            if (event !== undefined) reading[known.whole ? "whole" : "event"](event, deltas);
            else if (/^\s*\[DONE]/.test(data)) reading.done();
            else if (data !== "" && !(known.ended && reading.complete)) throw new ModelError("the server's answer is broken or was cut off: it is no JSON", { retryable: true });
            if (reading.ended) break;
          }
        } catch (error) {
          failure = error as ModelError;
        }
        // What came before a failure has come, however the network cut it.
        for (const delta of server.stream ? deltas : []) {
          handed = true;
          yield delta;
        }
        if (signal.aborted) throw signal.reason;
        if (failure) throw failure;
        if (reading.ended) {
          known.over = true;
          break;
        }
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

/** Sends the request and gives the events of the answer as they come, or its one JSON text. */
async function* receive({ url, headers, options }: Server, body: string, signal: AbortSignal, known: Try): AsyncGenerator<readonly string[]> {
  const { timeout = 600_000, fetch = globalThis.fetch } = options;
  const place = url.origin + url.pathname;
  const sse = new SseReader(options.maxEventBytes ?? 8 * 1024 * 1024);
  // (A byte order mark goes with the blanks at the start.)
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const abort = new AbortController();
  let source: ReadableStreamDefaultReader<Uint8Array> | undefined;
  let bytes = 0;
  let stalled = false;
  let asked: Promise<Response> | undefined;
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
    // No character goes on after an ASCII byte: what ends in one is decoded as a whole, which engines do several times faster.
    return decoder.decode(piece.value, { stream: !((piece.value.at(-1) as number) < 0x80) });
  };
  signal.addEventListener("abort", stop);
  try {
    if (signal.aborted) throw signal.reason;
    wait();
    try {
      // A redirect isn't followed: it would take the key and the prompt to where nobody sent them.
      asked = fetch(url.href, { method: "POST", headers: Object.fromEntries(headers), body, signal: abort.signal, redirect: "manual" });
      known.response = await Promise.race([asked, new Promise<never>((_, reject) => (interrupt = reject))]);
    } catch (error) {
      throw silence(error);
    }
    source = known.response.body?.getReader();
    let text = "";
    for (;;) {
      wait();
      let piece: ReadableStreamReadResult<Uint8Array> | undefined;
      let more: string | undefined;
      try {
        piece = await source?.read();
        more = take(piece);
      } catch (error) {
        // Of an answer that is an error anyway, what came so far will do.
        if (known.response.ok || signal.aborted) throw error instanceof ModelError ? error : silence(error);
      }
      if (!known.response.ok || text[0] === "<") {
        text += more ?? "";
        if (more === undefined || text.length > MAX_ERROR_BODY) throw refusal(known, place, text);
        continue;
      }
      if (more === undefined) break;
      // What an answer is shows in its first character: its content-type may be wrong, and blank lines may come first for minutes.
      if (known.whole === undefined) {
        more = more.trimStart();
        if (more === "") continue;
        if (more[0] === "<") text = more;
        else known.whole = more[0] === "{" || more[0] === "[";
      }
      if (known.whole) text += more;
      else if (known.whole === false) {
        const events = sse.push(more);
        if (events.length > 0) yield events;
      }
    }
    known.ended = true;
    // Some servers leave out the blank line after the last event.
    const last = known.whole ? text : sse.end();
    if (last !== undefined) yield [last];
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    // Nobody reads on: the connection is given up, so that nothing more is generated, and paid; but if the reply has
    // come, the body is about to end, and then the connection serves the next request.
    const drop = (): unknown => source?.cancel().catch(() => {});
    if (known.over) {
      const late = setTimeout(drop, 100);
      void source?.read().then(({ done }) => done || drop()).catch(drop).finally(() => clearTimeout(late));
    } else drop();
    if (!source) {
      abort.abort();
      // A fetch that doesn't heed its signal may answer later.
      asked?.then(({ body }) => body?.cancel()).catch(() => {});
    }
  }
}

/** The error that an answer tells of which has a bad status, or is a web page. */
function refusal(known: Try, place: string, body: string): ModelError {
  const text = body.trim();
  const { status, headers } = known.response as Response;
  const [, title = ""] = /<title[^>]*>\s*([^<]*)/i.exec(text) ?? [];
  const error = errorIn(parsed(text.replace(/^data: ?/, ""))) ?? new ModelError(
    text.startsWith("<") ? `${place} answered with a web page, ${JSON.stringify(title.trim())}: is baseURL right?`
    : status < 400 ? `${place} redirects to elsewhere: set baseURL to where the API is`
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
function told({ message, status, code, type, retryable, requestId }: ModelError, { response }: Try, { secrets }: Server, messages: readonly Message[]): ModelError {
  // Some servers quote the request: as it is, in a JSON text, or in one that is itself in JSON.
  const said = messages.flatMap(({ content, tool_calls: calls }) => [...[content].flat(), ...(calls ?? []).map((call) => call.function.arguments)]);
  const hidden = [...secrets, ...said].map((value) => (isObject(value) ? value["text"] : value)).filter((value) => typeof value === "string" && value.length >= 8) as string[];
  const shown = <T>(value: T): T => {
    let text: unknown = value;
    for (let secret of typeof text === "string" ? hidden : []) {
      for (let depth = 0; depth < 3; depth++) {
        text = String(text).split(secret).join("…");
        secret = JSON.stringify(secret).slice(1, -1);
      }
    }
    return (typeof text === "string" && text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE - 1)}…` : text) as T;
  };
  const id = ["x-request-id", "request-id", "x-generation-id", "mistral-correlation-id", "x-ds-trace-id"].map((name) => response?.headers.get(name)).find(Boolean);
  return new ModelError(shown(message), { status: status ?? response?.status, code: shown(code), type: shown(type), retryable, requestId: shown(requestId ?? id ?? undefined) });
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
    signal.addEventListener("abort", stop, { once: true });
  });
}
