import { AgentError, messageOf, quote } from "./error.ts";
import { type Args, check, isObject, keep, MAX_RESULT } from "./json.ts";
import { keepArguments } from "./message.ts";

/**
 * What a person, or the caller's policy, says of one call:
 * - `true` or `{ approved: true }`: run it as shown; with `args`, run it with these instead
 * - `false` or `{ approved: false }`: don't run it; the model is told the `reason`
 * - `{ result }`: don't run it, this is its result (of an interrupted call: it did run, and this is its result)
 * - `{ rerun: true }`: run an interrupted call again
 */
export type Decision =
  | boolean
  | { readonly approved: true; readonly args?: Readonly<Args> }
  | { readonly approved: false; readonly reason?: string | undefined }
  | { readonly result: unknown }
  | { readonly rerun: true };

/** `approval`: may it run? `answer`: what is its result? `interrupted`: it may or may not have run, what now? */
export type PendingReason = "approval" | "answer" | "interrupted";
export const REASONS: readonly PendingReason[] = ["approval", "answer", "interrupted"];

/**
 * Checks a decision on the call `id`, which waits for `reason`, and returns a frozen copy. Presence counts, never
 * truthiness: `{ result: null }` is an answer, `{ approved: "false" }` a mistake. Whether edited arguments fit the
 * tool's schema is asked later, since schemas may be asynchronous.
 */
export function checkDecision(id: string, reason: PendingReason | undefined, given: unknown): Decision {
  const where = `the decision on call ${quote(id)}`;
  const wrong = (what: string): AgentError => new AgentError("bad-decision", `${where} ${what}`);
  const said = typeof given === "boolean" ? { approved: given } : given;
  const has = (field: string): boolean => isObject(said) && Object.hasOwn(said, field);
  if (!isObject(said) || !(has("approved") || has("result") || has("rerun"))) throw wrong("must be true, false, { approved, args | reason }, { result } or { rerun: true }");
  const yes = has("approved") && said["approved"] === true;
  if (yes) check("bad-decision", where, said, { approved: "true", args: "an object?" }, false);
  else if (has("approved")) check("bad-decision", where, said, { approved: "a boolean", reason: "a string?" }, false);
  else if (has("result")) check("bad-decision", where, said, { result: "anything" }, false);
  else check("bad-decision", where, said, { rerun: "true" }, false);

  if (yes && reason === "interrupted") throw wrong("can't approve it: it may have run already; say { rerun: true }, { result } or { approved: false }");
  if (yes && reason === "answer") throw wrong("can't approve it: its tool has no run; say { result } or { approved: false }");
  if (has("rerun") && reason !== "interrupted") throw wrong("can't rerun it: it never ran");
  // Somebody meant to change the arguments: to run it as shown would not be what was decided.
  if (has("args") && said["args"] === undefined) throw wrong("has args that are undefined; leave them out to run it as shown");
  try {
    if (has("args")) keepArguments(said["args"]);
    const decision = keep(given) as Args;
    if (has("result") && decision["result"] === undefined) throw new TypeError("its result is nothing that JSON can hold; for no result say null");
    if (JSON.stringify(decision).length > MAX_RESULT) throw new RangeError("it is larger than 16 MiB");
    return decision as Decision;
  } catch (error) {
    throw wrong(`can't be taken: ${messageOf(error)}`);
  }
}
