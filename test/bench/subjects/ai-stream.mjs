import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { jsonSchema, stepCountIs, streamText, tool } from "ai";
import { QUESTION } from "../work.mjs";
import { scripted, tools } from "./ai.mjs";

export const name = "ai streamText";

export async function run(work) {
  const result = streamText({ model: scripted(work), tools: tools(work), prompt: QUESTION, stopWhen: stepCountIs(Infinity) });
  for await (const part of result.fullStream) if (part.type === "error") throw part.error;
  return result.text;
}

/** Read by its own provider, for Chat Completions. */
export async function stream(response) {
  const provider = createOpenAICompatible({ name: "local", baseURL: "http://localhost/v1", fetch: async () => response });
  const result = streamText({ model: provider("m"), prompt: QUESTION, tools: { double: tool({ inputSchema: jsonSchema({ type: "object" }) }) } });
  let text = "";
  let args = "";
  for await (const part of result.fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") text += part.text;
    if (part.type === "tool-input-delta") args += part.delta;
  }
  return text || args;
}
