import { isObject } from "./json.ts";

/** What a `ModelError` says beside its message. */
export interface ModelErrorFacts {
  status?: number | undefined;
  code?: string | number | undefined;
  type?: string | undefined;
  retryable?: boolean | undefined;
  requestId?: string | undefined;
}

/**
 * A model server refused a request, failed, or couldn't be reached; or what it sent is no whole reply. The message is in
 * the server's own words where it had some, at most 2,000 characters; it never holds the key, a header or a prompt.
 */
export class ModelError extends Error {
  override readonly name = "ModelError";
  /** The HTTP status; none if no answer came. An error in the middle of a stream has 200. */
  readonly status: number | undefined;
  /** The server's code for it, such as `context_length_exceeded`; its type if it gave no code. */
  readonly code: string | number | undefined;
  /** The server's type of it, such as `invalid_request_error`. */
  readonly type: string | undefined;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** The server's id of the request, for its support. */
  readonly requestId: string | undefined;

  constructor(message: string, { status, code, type, retryable = false, requestId }: ModelErrorFacts = {}) {
    super(message);
    this.status = status;
    this.code = code ?? type;
    this.type = type;
    this.retryable = retryable;
    this.requestId = requestId;
  }

  /** A process may hold this class twice, as an ES module and as CommonJS: each knows the other's errors. */
  static override [Symbol.hasInstance](value: unknown): value is ModelError {
    return (value as ModelError | undefined)?.name === "ModelError" && "retryable" in (value as ModelError);
  }
}

export const WORDLESS = "the server sent an error without words";

/**
 * The error that a server's body, or an event of its stream, tells of; undefined for one that tells of none. Servers
 * have some ten shapes for it: the text is the first of `error.message`, `error`, `message` and `detail`.
 */
export function errorIn(body: unknown): ModelError | undefined {
  const outer = Object(Array.isArray(body) ? body[0] : body) as Record<string, unknown>;
  // A text may be the JSON of the error itself. Healthy events have `"error": null`, or `""`.
  const error = unwrapped(outer["error"] || outer);
  const inner = Object(error) as Record<string, unknown>;
  const scalar = (value: unknown): string | undefined => (typeof value === "string" || typeof value === "number" ? (value as string) : undefined) || undefined;
  const code = scalar(inner["code"] ?? outer["code"]);
  const type = scalar(inner["type"] ?? outer["type"]);
  const said = words(typeof error === "string" ? error : (inner["message"] ?? inner["error"] ?? inner["detail"] ?? (Array.isArray(error) ? error : undefined)));
  if (!outer["error"] && !said) return undefined;
  // A gateway's own words say little; what the server behind it said is beside them.
  const raw = words((inner["metadata"] as Record<string, unknown> | undefined)?.["raw"]);
  const message = [said || String(type ?? code ?? WORDLESS), raw].filter(Boolean).join(": ");
  return new ModelError(message, { code, type, requestId: scalar(outer["request_id"]), retryable: isTemporary({ code, type }) });
}

/** A model's call that its own server refuses: asked again, it may do better, but that is for the run's owner to say. */
export const REFUSED_CALL = "tool_use_failed";

/** Whether what a server tells of may pass: by the status, or else by its own words for it. */
export function isTemporary({ code, type }: ModelErrorFacts, status = 0): boolean {
  if (code === REFUSED_CALL) return true;
  const kind = `${code} ${type}`;
  if (kind.includes("insufficient_quota")) return false;
  const known = status || Number(code);
  return known >= 100 ? known >= 500 || [408, 409, 429].includes(known) : !/invalid|auth|permission|not_found|billing|filter|too_large|context/.test(kind);
}

/** JSON, or undefined for a text that is none. What no object may have as a key is left out. */
export function parsed(text: unknown): unknown {
  if (typeof text !== "string") return undefined;
  try {
    return JSON.parse(text, text.includes("__proto__") ? (key, value: unknown) => (key === "__proto__" ? undefined : value) : undefined);
  } catch {
    return undefined;
  }
}

/** What a text holds that is JSON itself, as some proxies hand errors on. */
function unwrapped(value: unknown): unknown {
  const json = parsed(value);
  return typeof json === "object" && json !== null ? ((json as { error?: unknown }).error ?? json) : value;
}

/** The text in a message, which may be an object, or a list of a validator's complaints. Inputs that are quoted there are left out. */
function words(message: unknown): string {
  const value = unwrapped(message);
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map((item: unknown) => (isObject(item) && Array.isArray(item["loc"]) ? `${item["loc"].join(".")}: ` : "") + words(item)).filter(Boolean).join("; ");
  return isObject(value) ? words(value["message"] ?? value["msg"] ?? value["detail"] ?? value["error"]) : "";
}
