import { agentLoop } from "@earendil-works/pi-agent-core";
import { createAssistantMessageEventStream } from "@earendil-works/pi-ai";
import { DESCRIPTION, QUESTION, SCHEMA } from "../work.mjs";

export const name = "pi agentLoop";
export const packages = ["@earendil-works/pi-agent-core"];
export const imports = "@earendil-works/pi-agent-core";
export const program = 'export { agentLoop } from "@earendil-works/pi-agent-core"; export { createAssistantMessageEventStream } from "@earendil-works/pi-ai";';

const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost };
const model = { id: "m", name: "m", api: "openai-completions", provider: "scripted", baseUrl: "", reasoning: false, input: ["text"], cost, contextWindow: 1e6, maxTokens: 1e6 };

export async function run(work) {
  const tool = {
    name: "double", label: "double", description: DESCRIPTION, parameters: SCHEMA,
    execute: async (_, args) => ({ content: [{ type: "text", text: JSON.stringify(await work.run(args)) }], details: undefined }),
  };
  const streamFn = (_, { messages }) => {
    const { calls, text } = work.next(messages.at(-1).content[0].text);
    const content = calls ? calls.map(({ id, n }) => ({ type: "toolCall", id, name: "double", arguments: { n } })) : [{ type: "text", text }];
    const message = { role: "assistant", content, api: model.api, provider: model.provider, model: model.id, usage, stopReason: calls ? "toolUse" : "stop", timestamp: 0 };
    const stream = createAssistantMessageEventStream();
    stream.push({ type: "start", partial: message });
    stream.push({ type: "done", reason: message.stopReason, message });
    stream.end(message);
    return stream;
  };
  const prompt = { role: "user", content: QUESTION, timestamp: 0 };
  const events = agentLoop([prompt], { messages: [], tools: [tool] }, { model, convertToLlm: (messages) => messages }, undefined, streamFn);
  let messages;
  for await (const event of events) if (event.type === "agent_end") messages = event.messages;
  return messages.at(-1).content[0].text;
}
