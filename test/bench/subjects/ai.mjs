import { generateText, jsonSchema, stepCountIs, tool } from "ai";
import { DESCRIPTION, QUESTION, SCHEMA } from "../work.mjs";

export const name = "ai generateText";
export const packages = ["ai"];
export const imports = "ai";
export const program = 'export { generateText, jsonSchema, stepCountIs, tool } from "ai";';

const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } };

/** The last result, as the model's prompt shows it. */
const seen = (prompt) => JSON.stringify(prompt.at(-1).content.at(-1));

export const scripted = (work) => ({
  specificationVersion: "v4", provider: "scripted", modelId: "m", supportedUrls: {},
  doGenerate: async ({ prompt }) => {
    const { calls, text } = work.next(seen(prompt));
    return {
      content: calls ? calls.map(({ id, n }) => ({ type: "tool-call", toolCallId: id, toolName: "double", input: `{"n":${n}}` })) : [{ type: "text", text }],
      finishReason: { unified: calls ? "tool-calls" : "stop", raw: undefined }, usage, warnings: [],
    };
  },
  doStream: async ({ prompt }) => {
    const { calls, text } = work.next(seen(prompt));
    const content = calls
      ? calls.map(({ id, n }) => ({ type: "tool-call", toolCallId: id, toolName: "double", input: `{"n":${n}}` }))
      : [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: text }, { type: "text-end", id: "t" }];
    const parts = [{ type: "stream-start", warnings: [] }, ...content, { type: "finish", finishReason: { unified: calls ? "tool-calls" : "stop", raw: undefined }, usage }];
    return { stream: new ReadableStream({ pull: (controller) => (parts.length > 0 ? controller.enqueue(parts.shift()) : controller.close()) }) };
  },
});

export const tools = (work, needsApproval) => ({ double: tool({ description: DESCRIPTION, inputSchema: jsonSchema(SCHEMA), execute: (args) => work.run(args), ...(needsApproval && { needsApproval }) }) });

const ask = (work, messages, gated) => generateText({ model: scripted(work), tools: tools(work, gated), messages, stopWhen: stepCountIs(Infinity) });

export const run = async (work) => (await ask(work, [{ role: "user", content: QUESTION }])).text;

export async function pause(work, history) {
  const { content, response } = await ask(work, history, true);
  const { approvalId } = content.find(({ type }) => type === "tool-approval-request");
  return { approvalId, messages: [...history, ...response.messages] };
}

export async function resume(work, { approvalId, messages }) {
  const approval = { role: "tool", content: [{ type: "tool-approval-response", approvalId, approved: true }] };
  return (await ask(work, [...messages, approval], true)).text;
}
