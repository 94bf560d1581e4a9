import { checkDecision, type Decision, type PendingReason } from "./decision.ts";
import { AgentError, quote } from "./error.ts";
import { type Args, isObject, thaw } from "./json.ts";
import type { Lifeline } from "./lifeline.ts";
import type { Maybe } from "./maybe.ts";
import type { Message } from "./message.ts";
import { standardOf } from "./standard-schema.ts";
import { asked, done, type Ledger, type Slot, type Update } from "./state.ts";
import { type AnyTool, resultOf, type Toolbox, validate } from "./tool.ts";

/**
 * The caller's policy, asked about every call. `true` has no objection, a `Decision` as an object decides on the spot,
 * and anything else, a throw too, leaves the call to a person. `gated`: the tool itself asks for a person.
 */
export type Approve = (
  tool: string,
  args: Args,
  context: { id: string; messages: readonly Message[]; gated: boolean },
) => boolean | Decision | Promise<boolean | Decision>;

/**
 * Who decides on a new call. It may run undecided only if its tool waives a person and the caller's policy has no
 * objection; what can't run is answered at once, so that nobody is asked about it.
 */
export function classify(open: Slot, { byName, definitions }: Toolbox, approve: Approve | undefined, ledger: Ledger, life: Lifeline): Maybe<Update> {
  if (open.error) return done(open, { error: open.error });
  const tool = byName.get(open.tool);
  if (!tool) {
    const names = definitions.map((definition) => definition.function.name).join(", ");
    return done(open, { error: `not run: there is no tool ${quote(open.tool)}; the tools are: ${names || "none"}` });
  }
  const nothingToConsult = !approve && typeof tool.needsApproval !== "function" && !standardOf(tool.parameters)?.validate;
  return nothingToConsult ? judged(open, tool, isGated(tool, tool.needsApproval)) : consult(open, tool, approve, ledger, life);
}

async function consult(open: Slot, tool: AnyTool, approve: Approve | undefined, ledger: Ledger, life: Lifeline): Promise<Update> {
  const valid = await validate(tool, open.args);
  life.check(); // nobody is asked for a run that has ended meanwhile
  if ("error" in valid) return done(open, { error: `not run: ${valid.error}` });
  const { id, args } = open;
  const { messages } = ledger.state;
  const { needsApproval } = tool;
  const answer = typeof needsApproval === "function" ? await ask(() => needsApproval(valid.value, { id, messages })) : needsApproval;
  const gated = isGated(tool, answer);
  life.check();
  const verdict = approve ? await ask(() => approve(open.tool, thaw(args), { id, messages, gated })) : true;
  if (!isObject(verdict)) return judged(open, tool, gated || verdict !== true);
  try {
    return await decide(open, checkDecision(id, reasonOf(tool), verdict), tool);
  } catch {
    return judged(open, tool, true);
  }
}

/** Asks the caller's code; if it throws, it has waived nothing. */
async function ask(question: () => unknown): Promise<unknown> {
  try {
    return await question();
  } catch {
    return null;
  }
}

/** Whether a tool asks for a person, from what its `needsApproval` says: only a false, or none at all, waives one. */
function isGated({ run, needsApproval }: AnyTool, says: unknown): boolean {
  return !run || (needsApproval !== undefined && says !== false);
}

function judged(open: Slot, tool: AnyTool, gated: boolean): Update {
  return { open, change: gated ? { status: "pending", reason: reasonOf(tool) } : { status: "ready" } };
}

/** What a person is asked about a call of the tool. */
function reasonOf({ run }: AnyTool): PendingReason {
  return run ? "approval" : "answer";
}

/** What a checked decision makes of a call. Throws `bad-decision` if the tool's schema refuses the edited arguments. */
export async function decide(open: Slot, decision: Decision, tool: AnyTool): Promise<Update> {
  const said = isObject(decision) ? decision : { approved: decision };
  if ("result" in said) return done(open, resultOf(said.result), decision);
  if ("rerun" in said) return { open, change: { status: "ready", decision } };
  if (said.approved === false) {
    const what = open.reason === "interrupted" ? `${UNKNOWN} a person chose not to run it again` : "not run: it was rejected";
    return done(open, { error: "reason" in said && said.reason ? `${what}: ${said.reason}` : what }, decision);
  }
  const args = "args" in said ? said.args : undefined;
  if (!args) return { open, change: { status: "ready", decision } };
  const valid = await validate(tool, args);
  if ("error" in valid) throw new AgentError("bad-decision", `the decision on call ${quote(open.id)} can't be taken: ${valid.error}`);
  return { open, change: { status: "ready", decision, args, edited: JSON.stringify(args) !== JSON.stringify(open.args) || undefined } };
}

const UNKNOWN = "the outcome is unknown: it may or may not have run, and";

/** A call that was running when its process died may have taken effect: it runs again by itself only where its tool says that it may. */
export function recovered(open: Slot, tool: AnyTool): Update {
  return { open, change: tool.idempotent || tool.resumable ? { status: "ready" } : { status: "pending", reason: "interrupted", decision: undefined } };
}

/** A pending call that nobody decided before the conversation went on. */
export function undecided(open: Slot): Update {
  const what = open.reason === "interrupted" ? UNKNOWN : open.reason ? "not run:" : "it had begun and is left where it was:";
  return done(open, { error: `${what} the user went on without deciding` });
}

/** What was decided of a pending call: of itself, or of what its tool has asked. */
export type Decided = { readonly open: Slot } & ({ readonly decision: Decision } | { readonly decisions: Readonly<Record<string, Decision>> });

/** What the decisions make of a call. A tool that has asked is entered again, and takes them itself. */
export async function resumed(decided: Decided, tool: AnyTool): Promise<Update> {
  const { open } = decided;
  return "decision" in decided ? decide(open, decided.decision, tool) : { open, change: { status: "ready", decisions: { ...open.decisions, ...decided.decisions } } };
}

/**
 * Whether a run can go on from its state with these tools and decisions; what can't is refused before anything changed.
 * Returns the decisions beside the calls they are on.
 */
export function checkResume(ledger: Ledger, { byName }: Toolbox, decisions: Readonly<Args>, recover: boolean | undefined): Decided[] {
  const started = ledger.in("started");
  if (started.length && !recover) {
    const names = started.map(({ id, tool }) => `${tool} ${quote(id)}`).join(", ");
    throw new AgentError("in-flight", `another process may be running ${names}; if that process is gone, go on with recover: true`);
  }
  const waiting = ledger.in("pending").map((open) => ({ open, questions: asked(open) }));
  const ids = waiting.flatMap(({ questions }) => questions.map(({ id }) => id));
  for (const id of Object.keys(decisions)) {
    if (ids.includes(id)) continue;
    throw new AgentError("bad-decision", `the call ${quote(id)} is not pending in the state (it may have been decided already); pending: ${ids.map(quote).join(", ") || "none"}`);
  }
  const decided: Decided[] = [];
  for (const { open, questions } of waiting) {
    const given = questions.filter(({ id }) => Object.hasOwn(decisions, id)).map(({ id, reason }): [string, Decision] => [id, checkDecision(id, reason, decisions[id])]);
    if (!given[0]) continue;
    if (open.reason) decided.push({ open, decision: given[0][1] });
    else decided.push({ open, decisions: Object.fromEntries(given.map(([id, decision]) => [id.slice(open.id.length + 1), decision])) });
  }
  for (const open of [...started, ...ledger.in("ready"), ...decided.map(({ open }) => open)]) {
    const tool = byName.get(open.tool);
    if (tool?.run || (tool && open.reason === "answer")) continue;
    throw new AgentError("bad-options", `tools has no ${quote(open.tool)} that can run, for the call ${quote(open.id)} of the state`);
  }
  return decided;
}
