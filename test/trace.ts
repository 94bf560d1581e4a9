import { agent, type AgentRun, type State, type Step } from "yieldagent";

type Options = Parameters<typeof agent>[0];

/** A step in a few words, so that a whole run reads as a list. */
export function line(step: Step): string {
  switch (step.type) {
    case "text": case "reasoning": return `${step.type} ${step.text}`;
    case "message": return "message";
    case "tool-start": return `start ${step.id}`;
    case "tool-progress": return `progress ${step.id}: ${JSON.stringify(step.value)}`;
    case "tool-result": return "error" in step ? `error ${step.id}: ${step.error}` : `result ${step.id}: ${JSON.stringify(step.result)}`;
    case "approval-needed": return `ask ${step.pending.map(({ id, reason }) => `${id} ${reason}`).join(", ")}`;
    case "final": return `final ${step.reason}: ${step.text}`;
  }
}

export interface Traced {
  lines: string[];
  steps: Step[];
  state: State;
  /** What was thrown, if something was. */
  thrown: unknown;
}

/** Drives a run to its end and returns all there is to see of it. */
export async function drive(run: AgentRun): Promise<Traced> {
  const steps: Step[] = [];
  let thrown: unknown;
  try {
    for await (const step of run) steps.push(step);
  } catch (error) {
    thrown = error;
  }
  return { lines: steps.map(line), steps, state: run.state, thrown };
}

/** `drive` of a run with these options; `messages` may be left out. */
export function trace(options: Options): Promise<Traced> {
  return drive(agent(options.state || options.messages ? options : { ...options, messages: [user] }) as AgentRun);
}

/** What another process reads of a state. */
export function stored(state: State): State {
  return JSON.parse(JSON.stringify(state)) as State;
}

/** The contents of the tool messages, by call id. */
export function toldTo(state: State): Record<string, unknown> {
  return Object.fromEntries(state.messages.flatMap((message) => (message.role === "tool" ? [[message.tool_call_id, message.content]] : [])));
}

export const user = { role: "user", content: "go" };
