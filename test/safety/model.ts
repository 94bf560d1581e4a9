// The reference: what may become of each call, written down a second time and by other means than src/. It knows the plan,
// the tools as the world has them, and what happened; every state that a run saves is checked against it.
import type { Decision, OpenCall, State } from "yieldagent";
import { IDEMPOTENT, type Plan, type PlannedCall } from "./plan.ts";

/** What a life was given, and what it has done so far. */
export interface Life {
  readonly decisions: Readonly<Record<string, Decision>>;
  readonly interjects: boolean;
  /** The ids of the calls entered since they were started. */
  readonly entered: Set<string>;
  /** Nothing has been saved in this life. */
  fresh: boolean;
}

/** Where a new call goes: `ready`, `done`, or to a person with this question. */
export function fate({ name, args }: PlannedCall, cut: boolean | undefined, policy: Plan["policy"]): string {
  if (cut || !/^\{"n":\d+\}$/.test(args) || ["missing", "constructor", "__proto__"].includes(name)) return "done";
  const n = JSON.parse(args).n as number;
  const gated = name === "gated" || name === "both" || name === "human" || (name === "cond" && n % 3 !== 0);
  const question = name === "human" ? "answer" : "approval";
  if (policy === "throws" || policy === "muddles" || (policy === "doubts-free" && name === "free")) return question;
  if (policy === "denies-free" && name === "free") return "done";
  if (policy === "approves") return name === "human" ? "answer" : "ready";
  return gated ? question : "ready";
}

const text = (value: unknown): string => JSON.stringify(value) ?? "undefined";

/** Throws unless `after` may follow `before` in this life. */
export function checkMove(plan: Plan, before: State, after: State, life: Life): void {
  const wrong = (what: string): never => {
    throw new Error(`reference: ${what}\n  before: ${text(before)}\n  after:  ${text(after)}`);
  };
  if (after.revision !== before.revision + 1) wrong("a change is one revision");
  if (after.id !== before.id || after.version !== 1) wrong("a run keeps its id");
  if (text(after.messages.slice(0, before.messages.length)) !== text(before.messages)) wrong("messages are only ever extended");
  const added = after.messages.slice(before.messages.length);
  if (before.calls.length === 0) {
    if (added.length === 0 || added.some(({ role }) => role === "tool")) wrong("with no calls open, something is said");
    if (after.calls.some(({ status }) => status !== "new")) wrong("the calls of a reply are new");
  } else if (after.calls.length === 0) {
    if (text(added) !== text(before.calls.map(({ status, message }) => status === "done" && message))) wrong("calls close when all are done, in their order");
  } else {
    if (added.length > 0 || after.calls.length !== before.calls.length) wrong("open calls stay as many");
    const reply = plan.replies[before.messages.filter(({ role }) => role === "assistant").length - 1];
    before.calls.forEach((from, i) => {
      const to = after.calls[i] as OpenCall;
      if (to.id !== from.id || to.tool !== from.tool) wrong("a call keeps its id and tool");
      if (text(from) === text(to)) return;
      const planned = reply?.calls[i] as PlannedCall;
      const said = Object.hasOwn(life.decisions, from.id) ? life.decisions[from.id] : undefined;
      if (to.status === "started" && before.calls.some(({ status }) => status === "new")) wrong("a call starts only when all are classified");
      const why = allowed(from, to, fate(planned, reply?.cut, plan.policy), said, life);
      if (why !== true) wrong(`call ${i} may not go from ${from.status} to ${to.status}${why ? `: ${why}` : ""}`);
    });
  }
}

/** Whether a call may move so; else why not. */
function allowed(from: OpenCall, to: OpenCall, fate: string, said: Decision | undefined, life: Life): true | string {
  const yes = said === true || (typeof said === "object" && ("rerun" in said || ("approved" in said && said.approved)));
  const same = text(from.args) === text(to.args);
  switch (`${from.status} ${to.status}`) {
    case "new ready": return (fate === "ready" && same) || `it is ${fate}`;
    case "new pending": return (fate === to.reason && same) || `it is ${fate}, not ${to.reason}`;
    case "new done": return (fate === "done" && same) || `it is ${fate}`;
    case "pending ready": {
      const wanted = typeof said === "object" && "args" in said ? said.args : from.args;
      return (yes && life.fresh && text(to.args) === text(wanted)) || "nobody said so";
    }
    case "pending done": return (same && ((said !== undefined && !yes && life.fresh) || (said === undefined && life.interjects))) || "nobody said so";
    case "ready started": return same || "its arguments changed";
    case "started done": return (same && life.entered.has(from.id)) || "it was not entered";
    case "started ready": return (same && (life.fresh ? IDEMPOTENT.includes(from.tool) : !life.entered.has(from.id))) || "it may have run";
    case "started pending": return (same && life.fresh && !IDEMPOTENT.includes(from.tool) && to.reason === "interrupted" && to.decision === undefined) || "only a crash interrupts";
    default: return "there is no such move";
  }
}
