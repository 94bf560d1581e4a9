import { AgentError, messageOf } from "./error.ts";
import type { Delta, Message, Reply } from "./message.ts";
import { errorIn, ModelError } from "./model-error.ts";
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

const MAX_BODY = 256 * 1024 * 1024;
const MAX_ERROR_BODY = 64 * 1024;
/** The longest that a server may ask to wait; beyond it the run ends, and can go on later. */
const MAX_WAIT = 60_000;

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
  for (const [field, value] of Object.entries(Object(options) as ServerOptions)) {
    const kind = KINDS[field];
    if (!kind) throw bad(`there is no option ${JSON.stringify(field)}; what the server takes goes into body`);
    const right = typeof value === kind && value !== null && (kind !== "number" || (value as number) > 0 || (value === 0 && field === "maxRetries"));
    if (value !== undefined && !right) throw bad(`${field} must be a${kind === "object" ? "n object" : kind === "number" ? " number above 0" : ` ${kind}`}`);
  }
  if (!options?.model) throw bad("model is missing: the model's name, as the server knows it");
  const given = options.baseURL ?? environment(`${env}_BASE_URL`) ?? base;
  let url: URL;
  try {
    url = new URL(given);
  } catch {
    throw bad("baseURL is no URL");
  }
  if (!/^https?:$/.test(url.protocol)) throw bad("baseURL must begin with https:// or http://");
  url.pathname = path(url.pathname.replace(/\/+$/, ""));
  const key = options.apiKey ?? environment(`${env}_API_KEY`);
  const headers = new Headers({ "content-type": "application/json" });
  // A key in the URL's own user part goes into a header: fetch refuses it there.
  const user = url.username || url.password ? { authorization: `Basic ${btoa(`${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`)}` } : {};
  for (const [name, value] of Object.entries({ ...(key ? auth(key) : {}), ...user, ...options.headers })) {
    try {
      if (value === undefined) headers.delete(name);
      else headers.set(name, value);
    } catch {
      throw bad(`the header ${JSON.stringify(name)}${value === key || value?.endsWith(` ${key}`) ? ", made of the apiKey," : ""} has a character that no header can have`);
    }
  }
  const secrets = [key, url.username, url.password, ...url.searchParams.values(), ...Object.values({ ...user, ...options.headers })];
  url.username = url.password = "";
  return { url, headers, options, stream: options.stream !== false, secrets: secrets.filter((secret) => secret !== undefined && secret.length >= 8) as string[] };
}

/** A variable of the environment, where there is one, and where reading it is allowed. */
function environment(name: string): string | undefined {
  try {
    return (globalThis as { process?: { env?: Record<string, string> } }).process?.env?.[name] || undefined;
  } catch {
    return undefined;
  }
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

/**
 * Asks the server: sends the body, reads what comes, hands the deltas on and returns the reply. Sent again after a
 * failure that may pass, but never once anything was handed on, for that can't be taken back. Throws `ModelError`, or
 * the signal's reason.
 */
export async function* ask<T>(
  server: Server, body: () => string, reader: () => ReplyReader<T>, messages: readonly Message[], signal: AbortSignal,
  /** Told of a failure; true: the body is another one now, to be sent at once. */
  revise?: (error: ModelError) => boolean,
): AsyncGenerator<Delta, T> {
  const deltas: Delta[] = [];
  let handed = false;
  for (let retry = 0; ; retry++) {
    const exchange = new Exchange(server, signal);
    const reading = reader();
    let failure: unknown;
    try {
      await exchange.send(body());
      for (let events; !reading.ended && (events = await exchange.events()); ) {
        for (const data of events) {
          if (reading.ended) break;
          if (exchange.whole) reading.whole(json(data), server.stream ? deltas : []);
          else if (data.startsWith("[DONE]")) reading.done();
          else if (data !== "") reading.event(json(data), deltas);
          if (deltas.length === 0) continue;
          handed = true;
          for (const delta of deltas) yield delta;
          deltas.length = 0;
        }
      }
      if (!reading.complete) throw new ModelError("the answer ended before the reply was complete", { retryable: true });
      return reading.reply();
    } catch (error) {
      failure = error;
    } finally {
      exchange.close();
    }
    if (signal.aborted) throw signal.reason;
    if (!(failure instanceof ModelError)) throw failure;
    // What was still to come would have changed nothing that matters.
    if (reading.complete && exchange.lost) return reading.reply();
    if (!handed && revise?.(failure)) continue;
    const wait = handed || retry >= (server.options.maxRetries ?? 2) ? undefined : exchange.wait(failure, retry);
    if (wait === undefined) throw told(failure, exchange, server, messages);
    await sleep(wait, signal);
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ModelError("the server's answer is broken or was cut off: it is no JSON", { retryable: true });
  }
}

/** The error as it may be shown: with what is known of the answer, and without what nobody may see. */
function told({ message, ...facts }: ModelError, { response }: Exchange, { secrets }: Server, messages: readonly Message[]): ModelError {
  // Some servers quote the request.
  const prompts = messages.map(({ content }) => content).filter((content) => typeof content === "string" && content.length >= 16) as string[];
  for (const secret of [...secrets, ...prompts]) {
    for (const text of [secret, JSON.stringify(secret).slice(1, -1)]) if (message.includes(text)) message = message.split(text).join("…");
  }
  return new ModelError(message, { status: response?.status, requestId: requestId(response), ...defined(facts) });
}

function defined(facts: object): object {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}

function requestId(response: Response | undefined): string | undefined {
  const names = ["x-request-id", "request-id", "x-generation-id", "mistral-correlation-id", "x-ds-trace-id", "apim-request-id"];
  for (const name of names) {
    const id = response?.headers.get(name);
    if (id) return id;
  }
  return undefined;
}

/** One try: the request, the answer, and the clock that watches over both. */
class Exchange {
  response: Response | undefined;
  /** The answer is one JSON text, not a stream of events. */
  whole = false;
  /** The server couldn't be heard, or not to the end. */
  lost = false;
  readonly #server: Server;
  readonly #signal: AbortSignal;
  readonly #abort = new AbortController();
  readonly #sse: SseReader;
  readonly #decoder = new TextDecoder();
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Since when the server has been waited for; undefined while nobody waits. */
  #since: number | undefined;
  #bytes = 0;
  #begun = false;
  #ended = false;
  #stalled = false;
  /** What the server asks in a body to wait, in ms. */
  #asked = 0;
  /** Ends what waits for the headers. */
  #end: (reason?: unknown) => void = () => {};

  constructor(server: Server, signal: AbortSignal) {
    this.#server = server;
    this.#signal = signal;
    this.#sse = new SseReader(server.options.maxEventBytes ?? 8 * 1024 * 1024);
    signal.addEventListener("abort", this.#stop);
  }

  readonly #stop = (): void => {
    this.#abort.abort(this.#signal.reason);
    this.#end();
    // A read that is waiting ends with this, whatever the stream is made of.
    this.#reader?.cancel().catch(() => {});
  };

  get #timeout(): number {
    return this.#server.options.timeout ?? 600_000;
  }

  /** From now on the server is waited for. The timer is set anew only when it has run down, not for each piece. */
  #waits(): void {
    this.#since = Date.now();
    this.#timer ??= setTimeout(this.#look, Math.min(this.#timeout, 2 ** 31 - 1));
  }

  readonly #look = (): void => {
    this.#timer = undefined;
    if (this.#since === undefined) return;
    const left = this.#since + this.#timeout - Date.now();
    if (left > 0) this.#timer = setTimeout(this.#look, Math.min(left, 2 ** 31 - 1));
    else {
      this.#stalled = true;
      this.#stop();
    }
  };

  /** Sends the request and waits for the headers. An answer that isn't 2xx is thrown as the error it tells of. */
  async send(body: string): Promise<void> {
    const { url, headers, options } = this.#server;
    const fetch = options.fetch ?? globalThis.fetch;
    this.#waits();
    try {
      const ended = new Promise<never>((_, reject) => (this.#end = reject));
      ended.catch(() => {});
      // A redirect isn't followed: it would take the key and the prompt to where nobody sent them.
      this.response = await Promise.race([fetch(url.href, { method: "POST", headers: Object.fromEntries(headers), body, signal: this.#abort.signal, redirect: "manual" }), ended]);
    } catch (error) {
      throw this.#lost(error);
    } finally {
      this.#end = () => {};
      this.#since = undefined;
    }
    this.#reader = this.response.body?.getReader();
    if (!this.response.ok) throw await this.#refusal(this.response);
  }

  /** The events that came since, at least one; or the whole body; undefined at the end. */
  async events(): Promise<readonly string[] | undefined> {
    if (this.#ended) return undefined;
    let whole = "";
    for (;;) {
      const text = await this.#text();
      if (text === undefined) break;
      if (!this.#begun || this.whole) {
        whole += text;
        if (this.whole) continue;
        // What the answer is shows in its first character; its content-type is often wrong. Blank lines may come first for minutes.
        const first = whole.trimStart()[0];
        if (first === undefined) continue;
        this.#begun = true;
        if (first === "<") throw this.#noApi(whole);
        this.whole = first === "{" || first === "[";
        if (this.whole) continue;
      }
      try {
        const events = this.#sse.push(whole || text);
        if (events.length > 0) return events;
      } catch (error) {
        throw new ModelError(messageOf(error));
      }
      whole = "";
    }
    this.#ended = true;
    // Some servers leave out the blank line after the last event.
    const last = this.whole ? whole : this.#sse.end();
    return last === undefined ? undefined : [last];
  }

  /** The next piece of the body; undefined at its end. */
  async #text(): Promise<string | undefined> {
    this.#waits();
    let piece: ReadableStreamReadResult<Uint8Array> | undefined;
    try {
      piece = await this.#reader?.read();
    } catch (error) {
      throw this.#lost(error);
    }
    this.#since = undefined;
    if (this.#stalled || this.#signal.aborted) throw this.#lost(undefined);
    if (!piece || piece.done) {
      const rest = this.#decoder.decode();
      return rest === "" ? undefined : rest;
    }
    this.#bytes += piece.value.byteLength;
    if (this.#bytes > MAX_BODY) throw new ModelError("the answer is larger than 256 MiB");
    return this.#decoder.decode(piece.value, { stream: true });
  }

  /** Why the server can't be heard. What fetch says of it may hold the URL: only the system's code is taken. */
  #lost(error: unknown): unknown {
    if (this.#signal.aborted) return this.#signal.reason;
    this.lost = true;
    const { origin } = this.#server.url;
    if (this.#stalled) return new ModelError(`${origin} sent nothing for ${this.#timeout / 1000} s`, { code: "timeout", retryable: true });
    const { code, cause } = Object(error) as { code?: unknown; cause?: { code?: unknown } };
    const known = [cause?.code, code].find((one) => typeof one === "string" && /^[A-Z][A-Z0-9_]+$/.test(one)) as string | undefined;
    const what = this.response ? "the connection broke off" : "no connection";
    return new ModelError(`${what}: ${origin}${known ? ` (${known})` : ""}`, { code: known, retryable: true });
  }

  #noApi(text: string): ModelError {
    const title = /<title[^>]*>([^<]*)/i.exec(text)?.[1]?.trim();
    return new ModelError(`${this.#server.url.origin}${this.#server.url.pathname} answered with a web page${title ? `, ${JSON.stringify(title)}` : ""}: is baseURL right?`, { retryable: this.#passes() });
  }

  /** Whether the status is one of those that pass. */
  #passes(): boolean {
    const status = this.response?.status ?? 0;
    const said = this.response?.headers.get("x-should-retry");
    return said === "true" || (said !== "false" && (status >= 500 || [408, 409, 429].includes(status)));
  }

  /** The error that an answer with a bad status tells of. */
  async #refusal({ status, headers }: Response): Promise<ModelError> {
    let text = "";
    try {
      for (let more; text.length < MAX_ERROR_BODY && (more = await this.#text()) !== undefined; ) text += more;
    } catch {
      // What came so far will do.
    }
    if (this.#signal.aborted) throw this.#signal.reason;
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      if (text.trimStart().startsWith("<")) return this.#noApi(text);
    }
    const { origin, pathname } = this.#server.url;
    const error = errorIn(body) ?? new ModelError(typeof body === "string" ? body : (body === undefined && text.trim()) || (status < 400
      ? `${origin}${pathname} redirects${headers.get("location") ? ` to ${place(headers.get("location"), origin)}` : ""}: set baseURL to where the API is`
      : `${origin}${pathname} answered ${status}`));
    this.#asked = Number(/"retryDelay":\s*"([\d.]+)s"/.exec(text)?.[1]) * 1000;
    return new ModelError(error.message, { ...error, status, retryable: error.code === "tool_use_failed" || (this.#passes() && !/insufficient_quota|enforced_spend_limit/.test(text)) });
  }

  /** How long to wait before the next try, in ms; undefined: there is none. */
  wait(error: ModelError, retry: number): number | undefined {
    // A model that made a call its server refuses is asked again by the run, if its owner likes.
    if (!error.retryable || error.code === "tool_use_failed") return undefined;
    const header = (name: string): string => this.response?.headers.get(name) ?? "";
    const after = header("retry-after");
    const asked = [Number(header("retry-after-ms")), Number(after) * 1000, Date.parse(after) - Date.now(), this.#asked].find((ms) => ms > 0);
    // Healthy answers have a retry-after too.
    if (asked !== undefined && !this.response?.ok) return asked <= MAX_WAIT ? asked : undefined;
    return Math.min(500 * 2 ** retry, 8000) * (1 - Math.random() / 4);
  }

  /** Nothing is read any more; the connection is given up, so that nothing more is generated and billed. */
  close(): void {
    this.#since = undefined;
    clearTimeout(this.#timer);
    this.#signal.removeEventListener("abort", this.#stop);
    this.#reader?.cancel().catch(() => {});
    if (!this.response) this.#abort.abort();
  }
}

/** Where a redirect leads, without its query. */
function place(location: string | null, origin: string): string {
  try {
    const { origin: to, pathname } = new URL(location ?? "", origin);
    return to + pathname;
  } catch {
    return "elsewhere";
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      if (signal.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
