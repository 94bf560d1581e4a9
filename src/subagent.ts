import { agent, type AgentOptions } from "./agent.ts";
import { AgentError } from "./error.ts";
import type { Args } from "./json.ts";
import type { Message } from "./message.ts";
import { pause } from "./pause.ts";
import type { State } from "./state.ts";
import type { Inward, Step } from "./step.ts";
import type { Tool } from "./tool.ts";

/** What the tool is to the agent outside, and what the agent inside works with: each as in `Tool` and in `AgentOptions`. */
export interface SubagentOptions<Output, Input, InnerInput, InnerOutput, Inner> extends
  Pick<Tool<Output, Input>, "description" | "parameters" | "jsonSchema" | "needsApproval">,
  Pick<AgentOptions<InnerInput, InnerOutput, Inner>, "call" | "tools" | "approve" | "maxSteps" | "concurrency" | "onToolError"> {
  /** The conversation that the agent inside starts from, made of the call's arguments. */
  messages: (args: Output) => readonly Message[];
}

/**
 * An agent as a tool. Its result is the text of the last reply. Its steps come up as `tool-progress`; what waits for a
 * person inside waits outside too, and is decided there; what is done inside is in the outer state before it happens,
 * so that a crash loses and repeats nothing. `maxSteps` reached is an error, as is what `call` throws.
 *
 * Throws `AgentError` `bad-options` for wrong options.
 */
export function subagent<Output = Args, Input = Output, InnerInput = object, InnerOutput = object, Inner = object>(
  options: SubagentOptions<Output, Input, InnerInput, InnerOutput, Inner>,
): Tool<Output, Input, Step<InnerInput, Inner>> {
  const { description, parameters, jsonSchema, needsApproval, messages, ...inside } = options;
  if (typeof messages !== "function") throw new AgentError("bad-options", "options.messages must be a function of the call's arguments");
  agent({ ...inside, messages: [] }); // checks the options, and runs nothing
  return {
    description, parameters, jsonSchema, needsApproval,
    resumable: true,
    run: async function* (args: Output, { key, signal, data, decisions, recover, keep }): AsyncGenerator<Inward<Step<InnerInput, Inner>>, unknown> {
      const from = data === undefined ? { messages: messages(args), id: key } : { state: data as State, decisions, recover };
      const run = agent({ ...inside, ...from, signal });
      let kept: State | undefined;
      for await (const step of run) {
        // Before anybody hears of it: what is announced has not happened yet, and what has happened was kept.
        if (run.state !== kept) await keep((kept = run.state));
        if (step.type === "approval-needed") return pause(step.pending);
        if (step.type !== "final") yield step as Inward<Step<InnerInput, Inner>>;
        else if (step.reason === "max-steps") throw new Error(`it reached its limit of ${inside.maxSteps ?? 10} model calls without an answer`);
        else return step.text;
      }
      return null;
    },
  };
}
