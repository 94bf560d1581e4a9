// Lines that must and must not compile. `npm run typecheck` reads them; a `@ts-expect-error` that is none fails there.
import { agent, AgentError, type AgentRun, type Decision, type JsonSchema, type Message, pause, pending, type StandardSchema, type State, type Step, type Tool, tool } from "yieldagent";
import { subagent } from "yieldagent/subagent";
import { collect, script, toolCall } from "yieldagent/testing";
import { expect, test } from "vitest";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Same<A, B>): void => {};

declare const weather: StandardSchema<{ city: string; days?: string }, { city: string; days: number }>;
declare const json: JsonSchema;
interface TheirSchema { type?: string }
declare const theirs: TheirSchema;
const stream = async function* () { yield { type: "text", text: "h" }; return { role: "assistant", content: "h" }; };
declare const state: State;
const messages = [{ role: "user", content: "hi" }];
const call = async () => ({ role: "assistant", content: "hi" });

/** Compiled, never run. */
export async function compiles(): Promise<void> {
  // A fake needs no annotation, inline or not; neither do messages.
  agent({ call, messages });
  agent({ call: async () => ({ role: "assistant", content: "hi" }), messages: [{ role: "user", content: "hi" }] });
  agent({ call: async (sent, _, { step, signal }) => ({ role: "assistant", content: `${sent.length} ${step} ${signal.aborted}` }), messages });
  agent({ call: async function* () { yield { type: "text", text: "h" }; return { role: "assistant", content: "h" }; }, messages });
  agent({ call: stream, messages });
  tool({ parameters: weather, jsonSchema: theirs });
  tool<{ a: 1 }>({ parameters: theirs });
  agent({ call: script("hi", toolCall("x")), messages });
  // @ts-expect-error a reply has a role
  agent({ call: async () => ({ content: "hi" }), messages });
  // @ts-expect-error a call is needed
  agent({ messages });
  // @ts-expect-error a misspelt option
  agent({ call, messages, aprove: () => true });
  // @ts-expect-error a wrong option
  agent({ call, messages, maxSteps: "3" });

  // run's argument comes from the schema, ...
  const typed = tool({ parameters: weather, needsApproval: ({ days }) => days > 3, run: (args) => same<typeof args, { city: string; days: number }>(true) });
  // ... or is given, ...
  const given = tool<{ to: string }>({ parameters: json, run: (args, { id, key, signal }) => (same<typeof args, { to: string }>(true), `${id}${key}${signal.aborted}`) });
  // ... or is any JSON object.
  const plain = tool({ parameters: { type: "object" }, run: ({ city }) => same<typeof city, unknown>(true) });
  const human = tool({ description: "Ask the user", parameters: weather });
  // @ts-expect-error no such argument
  tool({ parameters: weather, run: ({ town }) => town });
  // @ts-expect-error a misspelt field
  tool({ needApproval: true, run: () => 1 });

  const run = agent({
    call, messages,
    tools: { typed, given, plain, human, inline: { parameters: weather, run: (args) => same<typeof args, { city: string; days: number }>(true) } },
  });
  for await (const step of run) {
    if (step.type === "tool-start" && step.tool === "typed") same<typeof step.args, { city: string; days?: string }>(true);
    if (step.type === "tool-start" && step.tool === "inline") same<typeof step.args, { city: string; days?: string }>(true);
    if (step.type === "tool-start" && step.tool === "given") same<typeof step.args, { to: string }>(true);
    if (step.type === "tool-start" && step.tool === "plain") same<typeof step.args, Record<string, unknown>>(true);
    // @ts-expect-error no such tool
    if (step.type === "tool-start" && step.tool === "nope") step.id;
    if (step.type === "tool-result") {
      if ("error" in step) same<typeof step.error, string>(true);
      else same<typeof step.result, unknown>(true);
      same<typeof step.decision, Decision | undefined>(true);
    }
    if (step.type === "approval-needed") {
      for (const waiting of step.pending) if (waiting.tool === "given") same<typeof waiting.args, { to: string }>(true);
      same<typeof step.state, State>(true);
    }
    if (step.type === "final") same<typeof step.text, string | null>(true);
    if (step.type === "text") same<typeof step.text, string>(true);
    // @ts-expect-error a message step has no text
    if (step.type === "message") step.text;
  }
  same<typeof run.state, State>(true);

  // A run of any tools is an AgentRun, its step a Step; tools can be put together.
  const any: AgentRun = run;
  const log = (step: Step): string => step.type;
  for await (const step of run) log(step);
  interface Letter { to: string }
  const byInterface = agent({ call, messages, tools: { letter: tool<Letter>({ run: ({ to }) => to }) } });
  const also: AgentRun = byInterface;
  for await (const step of byInterface) if (step.type === "tool-start") same<typeof step.args.to, string>(Boolean(log(step) && also) as true);
  const dynamic: Record<string, Tool> = { plain, given, typed };
  for await (const step of agent({ call, messages, tools: { ...dynamic, given } })) if (step.type === "tool-start" && step.tool === "given") step.args;
  same<Awaited<ReturnType<typeof collect<Step>>>, Step[]>(true);

  // Decisions.
  agent({ call, state, decisions: { a: true, b: { approved: true, args: { to: "x" } }, c: { approved: false, reason: "no" }, d: { result: null }, e: { rerun: true } } });
  // @ts-expect-error a truthy word is no decision
  agent({ call, state, decisions: { a: "yes" } });
  // @ts-expect-error an approval has no reason
  agent({ call, state, decisions: { a: { approved: true, reason: "ok" } } });
  agent({ call, state, approve: (name, args, { id, gated, messages: sent }) => (gated ? { approved: false, reason: `${name} ${id} ${sent.length} ${Object.keys(args)}` } : true) });
  agent({ call, state, save: async (next) => same<typeof next, State>(true) });

  // An agent as a tool: its arguments and those of the tools inside are inferred, and narrow outside, at any depth.
  const clerk = subagent({ call, tools: { typed, given }, parameters: weather, messages: (args) => (same<typeof args, { city: string; days: number }>(true), messages) });
  const lead = subagent<{ who: string }>({ call, messages: ({ who }) => [{ role: "user", content: who }] });
  const annotated = subagent({ call, tools: { given }, parameters: json, messages: ({ who }: { who: string }) => [{ role: "user", content: who }] });
  const boss = subagent({ call, tools: { clerk, human }, messages: (args) => (same<typeof args, Record<string, unknown>>(true), messages) });
  const team = agent({ call, messages, tools: { boss, lead, plain, annotated } });
  for await (const step of team) {
    if (step.type === "tool-start" && step.tool === "annotated") same<typeof step.args, { who: string }>(true);
    if (step.type === "tool-progress" && step.tool === "annotated" && step.value.type === "tool-start") same<typeof step.value.args, { to: string }>(true);
    if (step.type === "tool-start" && step.tool === "lead") same<typeof step.args, { who: string }>(true);
    if (step.type === "tool-progress" && step.tool === "plain") same<typeof step.value, unknown>(true);
    if (step.type === "tool-progress" && step.tool === "boss") {
      const { value } = step;
      // @ts-expect-error the end of an agent inside is its result
      if (value.type === "final") value;
      if (value.type === "tool-progress" && value.tool === "clerk" && value.value.type === "tool-start" && value.value.tool === "given") same<typeof value.value.args, { to: string }>(true);
    }
    if (step.type !== "approval-needed") continue;
    for (const waiting of step.pending) {
      if (waiting.tool === "given") same<typeof waiting.args, { to: string }>(true), same<typeof waiting.path, readonly ["boss", "clerk"] | readonly ["annotated"]>(true);
      if (waiting.tool === "human") same<typeof waiting.path, readonly ["boss"]>(true);
      if (waiting.tool === "lead") same<typeof waiting.path, undefined>(true);
      // @ts-expect-error no such tool anywhere
      if (waiting.tool === "nope") waiting;
    }
  }
  const anyTeam: AgentRun = team;
  for await (const step of team) log(step);
  const anyTool: Tool = boss;
  agent({ call, messages, tools: { anyTool } satisfies Record<string, Tool> });
  // @ts-expect-error messages are made of the arguments
  subagent({ call, messages: [] });
  // @ts-expect-error the run inside is the run's own
  subagent({ call, messages: () => messages, save: () => {} });
  // @ts-expect-error a misspelt field
  subagent({ call, messages: () => messages, needApproval: true });
  tool({ run: async function* (_, { data, decisions, recover, keep }) { yield 1; await keep([data, recover]); return decisions["a"] ? "b" : pause([{ id: "a", tool: "ask", args: {}, reason: "answer" }]); } });
  // @ts-expect-error a question has a reason
  pause([{ id: "a", tool: "ask", args: {} }]);

  // What is handed out is readonly.
  // @ts-expect-error
  state.revision = 1;
  // @ts-expect-error
  state.messages.push({ role: "user", content: "x" });
  const last: Message | undefined = state.messages.at(-1);
  same<(typeof last & object)["role"], Message["role"]>(true);
  for (const { id, reason } of pending(state)) same<typeof reason, "approval" | "answer" | "interrupted">(Boolean(id) as true);
  const error: unknown = anyTeam ?? any;
  if (error instanceof AgentError) same<typeof error.code, "bad-options" | "bad-state" | "bad-decision" | "bad-reply" | "in-flight">(true);
}

test("these lines compile, or don't, as they say", () => {
  expect(compiles).toBeTypeOf("function");
});
