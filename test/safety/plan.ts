// What a run will meet: the model's replies, what a person will say of each call, and the caller's policy. All of it is
// fixed before the run starts, so that a run is a pure function of its plan and of the faults that happen to it.
import type { Decision, Message, Reply } from "yieldagent";
import fc from "fast-check";

export interface PlannedCall {
  readonly name: string;
  /** The arguments' text as the model sends it. */
  readonly args: string;
  readonly id: string | undefined;
  /** What the person says when the call waits for an approval or an answer. */
  readonly verdict: "approve" | "reject" | "edit" | "answer" | "later" | "interject";
  /** What the person says when it was interrupted; `truth`: they look whether it took effect. */
  readonly after: "truth" | "rerun" | "answer" | "leave";
}

export interface Plan {
  readonly replies: readonly { readonly calls: readonly PlannedCall[]; readonly cut?: boolean; readonly streams?: boolean }[];
  readonly policy: Policy;
  readonly concurrency?: number | undefined;
  /** Tools that are agents themselves, by name, and what happens inside of each. Those in `BOSSES` need approval. */
  readonly teams?: Readonly<Record<string, Plan>> | undefined;
}

/** The caller's policy: none, no objection, what it does to some calls, or what is no answer at all. */
export type Policy = "none" | "agrees" | "approves" | "denies-free" | "doubts-free" | "throws" | "muddles";

export const NAMES = ["free", "gated", "human", "idem", "both", "fails", "slow", "cond", "typed", "missing", "constructor", "__proto__"] as const;
export const IDEMPOTENT: readonly string[] = ["idem", "both"];
export const BOSSES: readonly string[] = ["boss"];
const VERDICTS = ["approve", "reject", "edit", "answer", "later", "interject"] as const;

/** A call that fits in a list of calls, with arguments that say which it is. */
export function planned(name: string, n: number, more: Partial<PlannedCall> = {}): PlannedCall {
  return { name, args: `{"n":${n}}`, id: `c${n}`, verdict: "approve", after: "truth", ...more };
}

export function plans(names: readonly string[] = NAMES, verdicts: readonly PlannedCall["verdict"][] = VERDICTS, replies = 3): fc.Arbitrary<Plan> {
  const call = fc.record({
    name: fc.constantFrom(...names),
    kind: fc.oneof({ weight: 8, arbitrary: fc.constant("good") }, { weight: 1, arbitrary: fc.constant("bad") }, { weight: 1, arbitrary: fc.constant("cut") }),
    id: fc.constantFrom("", "a", "b", undefined, "a/b", "toString", "__proto__"),
    verdict: fc.constantFrom(...verdicts),
    after: fc.constantFrom("truth", "rerun", "answer", "leave"),
  });
  const reply = fc.record({
    calls: fc.array(call, { maxLength: 4 }),
    cut: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    streams: fc.boolean(),
  });
  return fc.record({
    replies: fc.array(reply, { minLength: 1, maxLength: replies }).map((list) =>
      list.map((each, i) => ({ ...each, calls: each.calls.map(({ kind, ...rest }, j) => ({ ...rest, args: { good: `{"n":${i * 10 + j}}`, bad: `[${i}]`, cut: `{"n":${i}` }[kind] as string })) })),
    ),
    policy: fc.constantFrom<Policy>("none", "none", "agrees", "approves", "denies-free", "doubts-free", "throws", "muddles"),
    concurrency: fc.constantFrom(undefined, undefined, 1, 2),
  });
}

/**
 * Such plans inside of agents that are tools, two or three deep: a reply of the outermost has at least one of them, and
 * often some in parallel, one of which needs approval, beside calls of the other kinds.
 */
export function nested(names: readonly string[] = NAMES, verdicts: readonly PlannedCall["verdict"][] = VERDICTS, replies = 2): fc.Arbitrary<Plan> {
  const around = (inside: fc.Arbitrary<Plan>, most: number): fc.Arbitrary<Plan> =>
    fc.tuple(plans([...names, "team", "team", "boss", "other"], verdicts, most), inside, plans(names, verdicts, 1), fc.constantFrom("", "a", "b", "t/e%am", undefined), fc.constantFrom(...verdicts))
      .map(([outer, team, other, id, verdict]) => ({
        ...outer,
        replies: outer.replies.map((reply, i) => (i > 0 ? reply : { ...reply, cut: false, calls: [{ name: "team", args: '{"n":9}', id, verdict, after: "truth" as const }, ...reply.calls.slice(0, 2)] })),
        teams: { team, boss: team, other },
      }));
  const two = around(plans(names, verdicts, Math.min(replies, 2)), 2);
  return fc.oneof(two, around(around(plans(names, verdicts, 1), 1), 1));
}

/** The plan with each of its calls, at every depth, changed. */
export function everyCall(plan: Plan, change: (call: PlannedCall) => PlannedCall): Plan {
  const replies = plan.replies.map((reply) => ({ ...reply, calls: reply.calls.map(change) }));
  return { ...plan, replies, ...(plan.teams && { teams: Object.fromEntries(Object.entries(plan.teams).map(([name, inside]) => [name, everyCall(inside, change)])) }) };
}

/** What was planned of the i-th open call of a state, and the reply that it is of. */
export function plannedAt(plan: Plan, { messages }: { readonly messages: readonly Message[] }, i: number): { call: PlannedCall; cut: boolean | undefined } {
  const reply = plan.replies[messages.filter(({ role }) => role === "assistant").length - 1];
  const call = reply?.calls[i];
  if (!call) throw new Error(`no plan for call ${i}`);
  return { call, cut: reply.cut };
}

/** The model: the n-th reply of the plan for a conversation with n - 1 assistant messages, then a text. */
export function modelOf({ replies }: Plan): (messages: readonly Message[]) => Reply & { streams: boolean } {
  return (messages) => {
    const turn = messages.filter(({ role }) => role === "assistant").length;
    const { calls, cut, streams = false } = replies[turn] ?? { calls: [] };
    if (calls.length === 0) return { role: "assistant", content: `text ${turn}`, streams };
    const toolCalls = calls.map(({ name, args, id }) => ({ id, type: "function", function: { name, arguments: args } }));
    return { role: "assistant", content: null, tool_calls: toolCalls, finish_reason: cut ? "length" : "tool_calls", streams };
  };
}

/** What the policy says of a call. */
export function policyOf({ policy }: Plan): ((tool: string) => boolean | Decision) | undefined {
  switch (policy) {
    case "none": return undefined;
    case "agrees": return () => true;
    case "approves": return () => ({ approved: true });
    case "denies-free": return (tool) => tool !== "free" || { approved: false, reason: "policy" };
    case "doubts-free": return (tool) => (tool === "free" ? ("yes" as never) : true);
    case "muddles": return () => ({ approved: "true" }) as never;
    case "throws": return () => { throw new Error("policy down"); };
  }
}
