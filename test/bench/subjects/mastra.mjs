import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { InMemoryStore } from "@mastra/core/storage";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import { DESCRIPTION, QUESTION } from "../work.mjs";
import { scripted } from "./ai.mjs";

export const name = "mastra generate";
export const packages = ["@mastra/core"];
export const imports = "@mastra/core/agent";
export const program = 'export { Agent } from "@mastra/core/agent"; export { createTool } from "@mastra/core/tools";';

const double = (work, requireApproval) => createTool({ id: "double", description: DESCRIPTION, inputSchema: z.object({ n: z.number() }), requireApproval, execute: async (args) => work.run(args) });
const agentOf = (work, gated = false) => new Agent({ id: "doubler", name: "doubler", instructions: "", model: scripted(work), tools: { double: double(work, gated) } });

export const run = async (work) => (await agentOf(work).generate(QUESTION, { maxSteps: 1_000_000 })).text;

function stored(work) {
  const storage = new InMemoryStore();
  const agent = agentOf(work, true);
  new Mastra({ agents: { doubler: agent }, storage, logger: false });
  return { agent, storage };
}

/** What waits is in its store, as the snapshot of a workflow. */
export async function pause(work, history) {
  const { agent, storage } = stored(work);
  const { runId, toolCallId } = await agent.generate(history, { maxSteps: 1_000_000 }).then(({ runId, suspendPayload }) => ({ runId, toolCallId: suspendPayload?.toolCallId }));
  const workflows = await storage.getStore("workflows");
  const { runs } = await workflows.listWorkflowRuns();
  return { runId, toolCallId, runs };
}

export async function resume(work, { runId, toolCallId, runs }) {
  const { agent, storage } = stored(work);
  const workflows = await storage.getStore("workflows");
  for (const { workflowName, runId, snapshot } of runs) await workflows.persistWorkflowSnapshot({ workflowName, runId, snapshot });
  return (await agent.approveToolCallGenerate({ runId, toolCallId })).text;
}
