import { agent } from "yieldagent";
import { openai } from "yieldagent/openai";
import { subagent } from "yieldagent/subagent";
import { DESCRIPTION, QUESTION, SCHEMA } from "../work.mjs";

export const name = "yieldagent";
export const packages = ["yieldagent"];
export const imports = "yieldagent";
export const program = 'export { agent } from "yieldagent";';

const tools = (work, needsApproval = false) => ({ double: { description: DESCRIPTION, parameters: SCHEMA, needsApproval, run: (args) => work.run(args) } });
const call = (work) => async (messages) => work.chat(messages);

async function last(steps) {
  let last;
  for await (const step of steps) last = step;
  return last;
}

export const saving = async (work, save) => (await last(agent({ call: call(work), tools: tools(work), messages: [{ role: "user", content: QUESTION }], maxSteps: Infinity, save }))).text;
export const run = (work) => saving(work);

export async function inside(work) {
  const worker = subagent({ call: call(work), tools: tools(work), messages: () => [{ role: "user", content: QUESTION }], maxSteps: Infinity });
  const lead = async ({ length, [length - 1]: last }) => last.role === "tool" ? { role: "assistant", content: last.content } : { role: "assistant", content: null, tool_calls: [{ id: "w", type: "function", function: { name: "worker", arguments: "{}" } }] };
  return (await last(agent({ call: lead, tools: { worker }, messages: [{ role: "user", content: QUESTION }] }))).text;
}

export const pause = async (work, history) => (await last(agent({ call: call(work), tools: tools(work, true), messages: history }))).state;
export const resume = async (work, state) => (await last(agent({ call: call(work), tools: tools(work, true), state, decisions: { c0: true } }))).text;

const { signal } = new AbortController();

export async function stream(response) {
  const model = openai({ model: "m", baseURL: "http://localhost/v1", apiKey: "k", fetch: async () => response, maxEventBytes: 1e9 });
  const deltas = model([{ role: "user", content: "Go." }], [], { signal, step: 1 });
  let text = "";
  for (;;) {
    const { done, value } = await deltas.next();
    if (!done) text += value.text;
    else return text || value.tool_calls[0].function.arguments;
  }
}

export const client = (fetch) => {
  const model = openai({ model: "m", baseURL: "http://localhost/v1", apiKey: "k", stream: false, fetch });
  return (messages, definitions) => model(messages, definitions, { signal, step: 1 });
};
