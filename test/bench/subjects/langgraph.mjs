import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Command, interrupt, MemorySaver } from "@langchain/langgraph";
import { createAgent, tool } from "langchain";
import { DESCRIPTION, QUESTION, SCHEMA } from "../work.mjs";

export const name = "langgraph createAgent";
export const packages = ["langchain"];
export const imports = "langchain";
export const program = 'export { createAgent, tool } from "langchain";';

class Scripted extends BaseChatModel {
  constructor(work) {
    super({});
    this.work = work;
  }
  _llmType() {
    return "scripted";
  }
  bindTools() {
    return this;
  }
  async _generate(messages) {
    const { calls, text } = this.work.next(messages.at(-1).content);
    const message = new AIMessage(calls ? { content: "", tool_calls: calls.map(({ id, n }) => ({ id, name: "double", args: { n }, type: "tool_call" })) } : { content: text });
    return { generations: [{ text: text ?? "", message }] };
  }
}

const agentOf = (work, checkpointer, gated) => createAgent({
  model: new Scripted(work), checkpointer,
  tools: [tool((args) => (gated && interrupt("May it run?") !== true ? "no" : work.run(args)), { name: "double", description: DESCRIPTION, schema: SCHEMA })],
});
const config = { recursionLimit: 1e9, configurable: { thread_id: "t" } };
const textOf = ({ messages }) => messages.at(-1).content;

export const run = async (work) => textOf(await agentOf(work).invoke({ messages: [new HumanMessage(QUESTION)] }, config));

/** Its store is a checkpointer. */
export async function saving(work, save) {
  const saver = new MemorySaver();
  for (const method of ["put", "putWrites"]) {
    const original = saver[method].bind(saver);
    saver[method] = async (...args) => {
      await save(args[1]);
      return original(...args);
    };
  }
  return textOf(await agentOf(work, saver).invoke({ messages: [new HumanMessage(QUESTION)] }, config));
}

export const history = (messages) => messages.map(({ role, content }) => (role === "user" ? new HumanMessage(content) : new AIMessage(content)));
export async function pause(work, messages) {
  const saver = new MemorySaver();
  await agentOf(work, saver, true).invoke({ messages }, config);
  return saver;
}
// What the checkpointer holds, bytes and all.
const BYTES = "bytes in base64:";
export const write = ({ storage, writes }) => JSON.stringify({ storage, writes }, (_, value) => (value instanceof Uint8Array ? BYTES + Buffer.from(value).toString("base64") : value));
export const read = (text) => Object.assign(new MemorySaver(), JSON.parse(text, (_, value) => (typeof value === "string" && value.startsWith(BYTES) ? new Uint8Array(Buffer.from(value.slice(BYTES.length), "base64")) : value)));
export const resume = async (work, saver) => textOf(await agentOf(work, saver, true).invoke(new Command({ resume: true }), config));
