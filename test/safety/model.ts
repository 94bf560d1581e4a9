// The reference: what may become of each call, written down a second time and by other means than src/. It knows the plan,
// the tools as the world has them, and what happened; every state that a run saves is checked against it, and in it every
// state that an agent inside keeps.
import type { Decision, OpenCall, PendingCall, State } from "yieldagent";
import { BOSSES, IDEMPOTENT, type Plan, type PlannedCall, plannedAt } from "./plan.ts";

type Decisions = Readonly<Record<string, Decision>>;

/** What a life was given, and what it has done so far. */
export interface Life {
  readonly decisions: Decisions;
  readonly interjects: boolean;
  /** The keys of the calls entered since they were started. */
  readonly entered: Set<string>;
  /** The keys of the agents inside that have kept something in this life. */
  readonly kept: Set<string>;
  /** Nothing has been saved in this life. */
  fresh: boolean;
}

/** Where a new call goes: `ready`, `done`, or to a person with this question. */
export function fate({ name, args }: PlannedCall, cut: boolean | undefined, policy: Plan["policy"]): string {
  if (cut || !/^\{"n":\d+\}$/.test(args) || ["missing", "constructor", "__proto__"].includes(name)) return "done";
  const n = JSON.parse(args).n as number;
  const gated = name === "gated" || name === "both" || name === "human" || BOSSES.includes(name) || (name === "cond" && n % 3 !== 0);
  const question = name === "human" ? "answer" : "approval";
  if (policy === "throws" || policy === "muddles" || (policy === "doubts-free" && name === "free")) return question;
  if (policy === "denies-free" && name === "free") return "done";
  if (policy === "approves") return name === "human" ? "answer" : "ready";
  return gated ? question : "ready";
}

/** A call's key, from that of the run it is of. */
export function keyOf(run: string, id: string): string {
  return `${run}/${encodeURIComponent(id)}`;
}

/** What waits for a person in a state and in the states inside of it, with the key of each, and what was planned of it. */
export interface Waiting extends PendingCall {
  readonly key: string;
  readonly planned: PlannedCall;
}

export function waiting(plan: Plan, state: State): Waiting[] {
  return state.calls.flatMap((open, i): Waiting[] => {
    if (open.status !== "pending") return [];
    const { id, tool, args, reason, data } = open;
    const key = keyOf(state.id, id);
    if (reason) return [{ id, tool, args, reason, key, planned: plannedAt(plan, state, i).call }];
    return waiting(plan.teams?.[tool] as Plan, data as State).map((each) => ({ ...each, id: `${id}/${each.id}`, path: [tool, ...(each.path ?? [])] }));
  });
}

/** The same as they are shown. */
export function shown({ id, tool, args, reason, path }: PendingCall): PendingCall {
  return { id, tool, args, reason, ...(path && { path }) };
}

/** An open call of a state or of one inside of it, by its key, with the calls that it is inside of, outermost first. */
export function locate(plan: Plan, state: State, key: string): { open: OpenCall; planned: PlannedCall; cut: boolean | undefined; policy: Plan["policy"]; around: OpenCall[] } | undefined {
  for (const [i, open] of state.calls.entries()) {
    const own = keyOf(state.id, open.id);
    if (own === key) return { open, planned: plannedAt(plan, state, i).call, cut: plannedAt(plan, state, i).cut, policy: plan.policy, around: [] };
    const inside = plan.teams?.[open.tool];
    if (!inside || open.data === undefined || !key.startsWith(`${own}/`)) continue;
    const found = locate(inside, open.data as State, key);
    return found && { ...found, around: [open, ...found.around] };
  }
  return undefined;
}

const text = (value: unknown): string => JSON.stringify(value) ?? "undefined";
const byId = (decisions: Decisions = {}): string => text(Object.entries(decisions).sort(([a], [b]) => (a < b ? -1 : 1)));
/** What of a call a tool's keeping and pausing changes. */
const without = ({ status: _, data: __, questions: ___, decisions: ____, message: _____, ...rest }: OpenCall): string => text(rest);
const inPlace = ({ messages, calls }: State): string => text([messages, calls.map(({ id }) => id)]);
/** The decisions on what is inside of the call `id`, by their ids there. */
const within = (decisions: Decisions, id: string): Decisions =>
  Object.fromEntries(Object.entries(decisions).filter(([each]) => each.startsWith(`${id}/`)).map(([each, said]) => [each.slice(id.length + 1), said]));

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
    before.calls.forEach((from, i) => {
      const to = after.calls[i] as OpenCall;
      if (to.id !== from.id || to.tool !== from.tool) wrong("a call keeps its id and tool");
      if (text(from) === text(to)) return;
      const { call, cut } = plannedAt(plan, before, i);
      if (to.status === "started" && from.status !== "started" && before.calls.some(({ status }) => status === "new")) wrong("a call starts only when all are classified");
      const inside = plan.teams?.[from.tool];
      const why = inside
        ? allowedTeam(from, to, fate(call, cut, plan.policy), inside, keyOf(before.id, from.id), life)
        : allowed(from, to, fate(call, cut, plan.policy), keyOf(before.id, from.id), life);
      if (why !== true) wrong(`call ${i} may not go from ${from.status} to ${to.status}${why ? `: ${why}` : ""}`);
    });
  }
}

const isYes = (said: Decision | undefined): boolean => said === true || (typeof said === "object" && ("rerun" in said || ("approved" in said && said.approved)));
const sameArgs = (from: OpenCall, to: OpenCall): boolean => text(from.args) === text(to.args);

/** Whether a decision lets a call run, with just the arguments that it says. */
function granted(from: OpenCall, to: OpenCall, said: Decision | undefined): boolean {
  return isYes(said) && text(to.args) === text(typeof said === "object" && "args" in said ? said.args : from.args);
}

/** Whether a call of a tool that isn't an agent may move so; else why not. */
function allowed(from: OpenCall, to: OpenCall, fate: string, key: string, life: Life): true | string {
  const said = Object.hasOwn(life.decisions, from.id) ? life.decisions[from.id] : undefined;
  const same = sameArgs(from, to);
  if (to.data !== undefined || to.questions !== undefined || to.decisions !== undefined) return "its tool keeps nothing and asks nothing";
  switch (`${from.status} ${to.status}`) {
    case "new ready": return (fate === "ready" && same) || `it is ${fate}`;
    case "new pending": return (fate === to.reason && same) || `it is ${fate}, not ${to.reason}`;
    case "new done": return (fate === "done" && same) || `it is ${fate}`;
    case "pending ready": return (life.fresh && granted(from, to, said)) || "nobody said so";
    case "pending done": return (same && ((said !== undefined && !isYes(said) && life.fresh) || (said === undefined && life.interjects))) || "nobody said so";
    case "ready started": return same || "its arguments changed";
    case "started done": return (same && life.entered.has(key)) || "it was not entered";
    case "started ready": return (same && (life.fresh ? IDEMPOTENT.includes(from.tool) : !life.entered.has(key))) || "it may have run";
    case "started pending": return (same && life.fresh && !IDEMPOTENT.includes(from.tool) && to.reason === "interrupted" && to.decision === undefined) || "only a crash interrupts";
    default: return "there is no such move";
  }
}

/** The same of a call of an agent, with what is inside of it. */
function allowedTeam(from: OpenCall, to: OpenCall, fate: string, inside: Plan, key: string, life: Life): true | string {
  const same = without(from) === without(to) && text(from.data) === text(to.data);
  const asIs = same && text([from.questions, from.decisions]) === text([to.questions, to.decisions]);
  switch (`${from.status} ${to.status}`) {
    case "pending ready": {
      if (from.reason) return allowed(from, to, fate, key, life);
      const given = within(life.decisions, from.id);
      return (same && life.fresh && Object.keys(given).length > 0 && text(to.questions) === text(from.questions) && byId(to.decisions) === byId({ ...from.decisions, ...given })) || "nobody said so";
    }
    case "pending done": return from.reason ? allowed(from, to, fate, key, life) : (same && life.interjects && waiting(inside, from.data as State).every(({ id }) => !Object.hasOwn(life.decisions, `${from.id}/${id}`))) || "nobody said so";
    case "ready started": return asIs || "it is something else";
    case "started started": {
      if (!life.entered.has(key)) return "it was not entered";
      if (to.questions !== undefined || to.decisions !== undefined || without(from) !== without(to)) return "what was kept stands in the place of what was asked and decided";
      return kept(inside, from.data as State | undefined, to.data as State, from.decisions ?? {}, key, life);
    }
    case "started pending": case "started done": return (same && life.entered.has(key) && settled(inside, to)) || "it was not entered, or that is not what is inside of it";
    case "started ready": return (asIs && (life.fresh || !life.entered.has(key))) || "it runs";
    default: return allowed(from, to, fate, key, life);
  }
}

/** Whether what became of an agent's call is what became of it inside. */
function settled(inside: Plan, { status, data, questions, decisions, reason, message, edited, args }: OpenCall): boolean {
  const state = data as State;
  if (status === "pending") return reason === undefined && decisions === undefined && text(questions) === text(waiting(inside, state).map(shown));
  const said = `${state.messages.at(-1)?.content}${edited ? `\n\n(The arguments were changed to ${text(args)})` : ""}`;
  return state.calls.length === 0 && state.messages.at(-1)?.role === "assistant" && message?.content === said && questions === undefined && decisions === undefined;
}

/** Whether an agent inside may keep `after` when it has kept `before`: it keeps at each step, between which a call may move on by some moves. */
function kept(plan: Plan, before: State | undefined, after: State, decisions: Decisions, key: string, life: Life): true | string {
  const at = `in ${key}, `;
  const first = !life.kept.has(key);
  life.kept.add(key);
  const from = before ?? ({ version: 1, id: key, revision: 0, messages: [{ role: "user", content: "go" }], calls: [], steps: 0 } as unknown as State);
  if (after.id !== key || after.version !== 1 || after.revision < from.revision) return `${at}a run keeps its id, and its revision grows`;
  if (text({ ...after, usage: 0 }) !== text({ ...from, usage: 0 }) && after.revision === from.revision) return `${at}a change is a revision`;
  if (text(after.messages.slice(0, from.messages.length)) !== text(from.messages)) return `${at}messages are only ever extended`;
  const added = after.messages.slice(from.messages.length);
  if (inPlace(from) !== inPlace(after)) {
    const results = from.calls.map(({ status, message }) => status === "done" && message);
    if (text(added.slice(0, results.length)) !== text(results)) return `${at}calls close when all are done, in their order`;
    const reply = added.slice(results.length);
    if (reply.length > 1 || (reply[0] && reply[0].role !== "assistant")) return `${at}a reply is said`;
    if (after.calls.some(({ status }) => status !== "new") || (!reply[0] && after.calls.length > 0)) return `${at}the calls of a reply are new`;
    return true;
  }
  for (const [i, call] of from.calls.entries()) {
    const to = after.calls[i] as OpenCall;
    const { call: planned, cut } = plannedAt(plan, from, i);
    const why = text(call) === text(to) || (call.tool === to.tool && moved(call, to, fate(planned, cut, plan.policy), plan.teams?.[call.tool], decisions, keyOf(key, call.id), life, first));
    if (why !== true) return `${at}call ${i} may not go from ${call.status} to ${to.status}${why ? `: ${why}` : ""}`;
  }
  return true;
}

/** Whether a call inside may move so between two times of keeping. `first`: of the first time in this life, when what a crash left is seen to. */
function moved(from: OpenCall, to: OpenCall, fate: string, inside: Plan | undefined, decisions: Decisions, key: string, life: Life, first: boolean): true | string {
  const said = Object.hasOwn(decisions, from.id) ? decisions[from.id] : undefined;
  const given = within(decisions, from.id);
  const same = without(from) === without(to) && text(from.data) === text(to.data);
  if (!inside && (to.data !== undefined || to.questions !== undefined || to.decisions !== undefined)) return "its tool keeps nothing and asks nothing";
  switch (`${from.status} ${to.status}`) {
    case "new ready": case "new started": return (fate === "ready" && sameArgs(from, to)) || `it is ${fate}`;
    case "new pending": return (fate === to.reason && sameArgs(from, to)) || `it is ${fate}, not ${to.reason}`;
    case "new done": return (fate === "done" && sameArgs(from, to)) || `it is ${fate}`;
    case "pending ready": case "pending started":
      if (from.reason) return granted(from, to, said) || "nobody said so";
      return (same && Object.keys(given).length > 0 && byId(to.decisions) === byId({ ...from.decisions, ...given })) || "nobody said so";
    case "pending done": return (from.reason !== undefined && sameArgs(from, to) && said !== undefined && !isYes(said)) || "nobody said so";
    case "ready started": return (same && text(from.decisions) === text(to.decisions)) || "it is something else";
    case "started ready": return (same && first && (inside !== undefined || IDEMPOTENT.includes(from.tool))) || "it may have run";
    case "started started": case "started pending": case "started done": {
      if (to.reason === "interrupted") return (!inside && first && !IDEMPOTENT.includes(from.tool) && sameArgs(from, to) && to.decision === undefined) || "only a crash interrupts";
      if (!life.entered.has(key)) return "it was not entered";
      if (!inside) return (to.status === "done" && sameArgs(from, to)) || "there is no such move";
      const why = text(from.data) === text(to.data) || kept(inside, from.data as State | undefined, to.data as State, from.decisions ?? {}, key, life);
      if (why !== true) return why;
      if (without(from) !== without(to) || to.decisions !== undefined) return "what was kept stands in the place of what was asked and decided";
      return to.status === "started" ? to.questions === undefined || "it has asked" : settled(inside, to) || "that is not what is inside of it";
    }
    default: return "there is no such move";
  }
}
