/**
 * What went wrong, as a fixed word:
 * - `bad-options`: an option or a tool is wrong
 * - `bad-state`: a state, or the history in a conversation, is damaged; or the state is of another version
 * - `bad-decision`: a decision doesn't fit the call it is on
 * - `bad-reply`: `call` returned no assistant message
 * - `in-flight`: the state holds calls that another process may be running
 */
export type AgentErrorCode = "bad-options" | "bad-state" | "bad-decision" | "bad-reply" | "in-flight";

/**
 * Thrown for what the caller can put right. Nothing ran because of what it names, and the state is as it was.
 * Errors of `call`, `save` and the caller's `signal` are not wrapped: they are thrown as they are.
 */
export class AgentError extends Error {
  override readonly name = "AgentError";
  readonly code: AgentErrorCode;

  constructor(code: AgentErrorCode, message: string) {
    super(message);
    this.code = code;
  }

  /** A process may hold this class twice, as an ES module and as CommonJS: each knows the other's errors. */
  static override [Symbol.hasInstance](value: unknown): value is AgentError {
    return (value as AgentError | undefined)?.name === "AgentError" && "code" in (value as AgentError);
  }
}

/** A name or an id, as a message can show it: quoted, escaped, short. */
export function quote(value: unknown): string {
  return JSON.stringify(String(value).slice(0, 80));
}

/** The message of whatever was thrown. */
export function messageOf(thrown: unknown): string {
  try {
    const { message, name } = thrown as Error;
    return String(message || name || thrown) || "no message";
  } catch {
    return "no message";
  }
}
