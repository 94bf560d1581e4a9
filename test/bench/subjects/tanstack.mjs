import { chat, maxIterations, toolDefinition } from "@tanstack/ai";
import { DESCRIPTION, QUESTION, SCHEMA } from "../work.mjs";

export const name = "tanstack chat";
export const packages = ["@tanstack/ai"];
export const imports = "@tanstack/ai";
export const program = 'export { chat, maxIterations, toolDefinition } from "@tanstack/ai";';

function scripted(work) {
  return {
    kind: "text", name: "scripted", model: "m",
    async *chatStream({ messages }) {
      const { calls, text } = work.next(messages.at(-1).content);
      const ids = { threadId: "t", runId: "r" };
      yield { type: "RUN_STARTED", ...ids };
      for (const { id, n } of calls ?? []) {
        yield { type: "TOOL_CALL_START", toolCallId: id, toolCallName: "double", toolName: "double" };
        yield { type: "TOOL_CALL_ARGS", toolCallId: id, delta: `{"n":${n}}` };
        yield { type: "TOOL_CALL_END", toolCallId: id };
      }
      if (text) {
        yield { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" };
        yield { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: text };
        yield { type: "TEXT_MESSAGE_END", messageId: "m" };
      }
      yield { type: "RUN_FINISHED", ...ids, finishReason: calls ? "tool_calls" : "stop" };
    },
  };
}

async function last(work, options, needsApproval = false) {
  const double = toolDefinition({ name: "double", description: DESCRIPTION, inputSchema: SCHEMA, needsApproval }).server((args) => work.run(args));
  let text = "";
  let messages;
  let interrupts;
  for await (const event of chat({ adapter: scripted(work), tools: [double], agentLoopStrategy: maxIterations(Infinity), ...options })) {
    if (event.type === "RUN_ERROR") throw new Error(event.message);
    if (event.type === "TEXT_MESSAGE_CONTENT") text += event.delta;
    if (event.type === "MESSAGES_SNAPSHOT") messages = event.messages;
    if (event.type === "RUN_FINISHED") interrupts = event.outcome?.interrupts;
  }
  return { text, messages, interrupts };
}

export const run = async (work) => (await last(work, { messages: [{ role: "user", content: QUESTION }] })).text;

export async function pause(work, messages) {
  const { messages: held, interrupts } = await last(work, { messages, threadId: "t", runId: "r1" }, true);
  return { messages: held, interrupts };
}
export async function resume(work, { messages, interrupts }) {
  const resume = interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved: true } }));
  return (await last(work, { messages, resume, threadId: "t", runId: "r2", parentRunId: "r1" }, true)).text;
}
