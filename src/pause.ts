import { type PendingReason, REASONS } from "./decision.ts";
import { AgentError, type AgentErrorCode, messageOf, quote } from "./error.ts";
import { check, isObject } from "./json.ts";
import { keepArguments } from "./message.ts";
import type { PendingCall } from "./state.ts";

/** Nothing that a model or a server says can pass for a pause: JSON has no symbols. The same in every copy of the package. */
const QUESTIONS: unique symbol = Symbol.for("yieldagent.pause");

/** What `pause` returns, for a tool's `run` to return. */
export interface Pause {
  readonly [QUESTIONS]: readonly PendingCall[];
}

/**
 * Returned by a tool's `run`: its call waits for people, with these questions. Each stands in `approval-needed` and in
 * `pending(state)` under the id `call id/question id`, its `path` longer by the tool's name. Once some are decided, the
 * tool is entered again with the same `key`, and with the decisions by the questions' own ids as `decisions`.
 *
 * The questions have the shape of `pending`'s: `{ id, tool, args, reason, path? }`, at least one, with ids of their own.
 * Throws `AgentError` `bad-options` for any other. Their type in `approval-needed` is that of `tool`'s third parameter.
 */
export function pause(pending: readonly PendingCall[]): Pause {
  return Object.freeze({ [QUESTIONS]: readQuestions("bad-options", "pending", pending) });
}

/** The questions, if what a tool returned is a pause. */
export function questionsIn(value: unknown): readonly PendingCall[] | undefined {
  return isObject(value) && QUESTIONS in value ? (value as unknown as Pause)[QUESTIONS] : undefined;
}

/** A frozen copy of questions that came from outside, checked. */
export function readQuestions(code: AgentErrorCode, where: string, given: unknown): readonly PendingCall[] {
  if (!Array.isArray(given) || given.length === 0) throw new AgentError(code, `${where} must be an array of at least one question`);
  const ids = new Set<string>(["__proto__"]); // which decisions can't be keyed by
  return Object.freeze(given.map((question: unknown, i): PendingCall => {
    const at = `${where}[${i}]`;
    check(code, at, question, { id: "a string, not empty", tool: "a string", args: "an object", reason: "a string", path: "an array?" }, false);
    const { id, tool, args, reason, path = [] } = question as unknown as PendingCall;
    if (ids.has(id)) throw new AgentError(code, `${at}.id is ${quote(id)}, which is no id of its own`);
    ids.add(id);
    if (!(REASONS as readonly string[]).includes(reason)) throw new AgentError(code, `${at}.reason must be one of ${REASONS.join(", ")}`);
    if (!path.every((name) => typeof name === "string")) throw new AgentError(code, `${at}.path must be an array of tools' names`);
    try {
      return Object.freeze({ id, tool, args: keepArguments(args), reason: reason as PendingReason, ...(path.length > 0 && { path: Object.freeze([...path]) }) });
    } catch (error) {
      throw new AgentError(code, `${at}.args can't be taken: ${messageOf(error)}`);
    }
  }));
}
