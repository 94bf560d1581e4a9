import { Agent, Runner, RunState, setTracingDisabled, tool, Usage } from "@openai/agents";
import { DESCRIPTION, QUESTION, SCHEMA } from "../work.mjs";

export const name = "openai-agents run";
export const packages = ["@openai/agents"];
export const imports = "@openai/agents";
export const program = 'export { Agent, Runner, RunState, tool } from "@openai/agents";';

setTracingDisabled(true);

function scripted(work) {
  return {
    getResponse: async ({ input }) => {
      const last = Array.isArray(input) ? input.at(-1) : {};
      const { calls, text } = work.next(last.output?.text ?? last.output);
      const output = calls
        ? calls.map(({ id, n }) => ({ type: "function_call", callId: id, name: "double", arguments: `{"n":${n}}`, status: "completed" }))
        : [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text }] }];
      return { usage: new Usage(), output };
    },
  };
}

function agentOf(work, needsApproval = false) {
  const double = tool({ name: "double", description: DESCRIPTION, parameters: SCHEMA, strict: true, needsApproval, execute: (args) => work.run(args) });
  return new Agent({ name: "doubler", model: scripted(work), tools: [double] });
}

const runner = new Runner({ tracingDisabled: true });
const ask = (agent, input) => runner.run(agent, input, { maxTurns: null });

export const run = async (work) => (await ask(agentOf(work), QUESTION)).finalOutput;

export const history = (messages) => messages.map(({ role, content }) => (role === "user" ? { role, content } : { role, status: "completed", content: [{ type: "output_text", text: content }] }));
export const pause = async (work, items) => (await ask(agentOf(work, true), items)).state;
export const write = (state) => state.toString();
export const read = (text, work) => RunState.fromString(agentOf(work, true), text);
export async function resume(_, state) {
  for (const interruption of state.getInterruptions()) state.approve(interruption);
  return (await ask(state._currentAgent, state)).finalOutput;
}
