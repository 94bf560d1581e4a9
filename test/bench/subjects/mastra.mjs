import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import { DESCRIPTION, QUESTION } from "../work.mjs";
import { scripted } from "./ai.mjs";

export const name = "mastra generate";
export const packages = ["@mastra/core"];
export const imports = "@mastra/core/agent";
export const program = 'export { Agent } from "@mastra/core/agent"; export { createTool } from "@mastra/core/tools";';

export async function run(work) {
  const double = createTool({ id: "double", description: DESCRIPTION, inputSchema: z.object({ n: z.number() }), execute: async (args) => work.run(args) });
  const agent = new Agent({ id: "doubler", name: "doubler", instructions: "", model: scripted(work), tools: { double } });
  return (await agent.generate(QUESTION, { maxSteps: 1_000_000 })).text;
}
