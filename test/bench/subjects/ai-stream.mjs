import { stepCountIs, streamText } from "ai";
import { QUESTION } from "../work.mjs";
import { scripted, tools } from "./ai.mjs";

export const name = "ai streamText";

export async function run(work) {
  const result = streamText({ model: scripted(work), tools: tools(work), prompt: QUESTION, stopWhen: stepCountIs(Infinity) });
  for await (const part of result.fullStream) if (part.type === "error") throw part.error;
  return result.text;
}
