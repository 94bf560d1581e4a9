import { Agent, Message, Model, NullConversationManager, TextBlock, tool } from "@strands-agents/sdk";
import { DESCRIPTION, QUESTION, SCHEMA } from "../work.mjs";

export const name = "strands invoke";
export const packages = ["@strands-agents/sdk"];
export const imports = "@strands-agents/sdk";
export const program = 'export { Agent, Model, tool } from "@strands-agents/sdk";';

class Scripted extends Model {
  constructor(work) {
    super();
    this.work = work;
  }
  updateConfig() {}
  getConfig() {
    return { modelId: "m" };
  }
  async *stream(messages) {
    const { calls, text } = this.work.next(JSON.stringify(messages.at(-1).content.at(-1)));
    yield { type: "modelMessageStartEvent", role: "assistant" };
    for (const { id, n } of calls ?? []) {
      yield { type: "modelContentBlockStartEvent", start: { type: "toolUseStart", name: "double", toolUseId: id } };
      yield { type: "modelContentBlockDeltaEvent", delta: { type: "toolUseInputDelta", input: `{"n":${n}}` } };
      yield { type: "modelContentBlockStopEvent" };
    }
    if (text) {
      yield { type: "modelContentBlockStartEvent" };
      yield { type: "modelContentBlockDeltaEvent", delta: { type: "textDelta", text } };
      yield { type: "modelContentBlockStopEvent" };
    }
    yield { type: "modelMessageStopEvent", stopReason: calls ? "toolUse" : "endTurn" };
  }
}

// By default it forgets all but the last 40 messages, which would be less work than the others do.
function agentOf(work, gated) {
  const callback = (args, context) => (gated && context.interrupt({ name: "may-it-run" }) !== true ? "no" : work.run(args));
  const double = tool({ name: "double", description: DESCRIPTION, inputSchema: SCHEMA, callback });
  return new Agent({ model: new Scripted(work), tools: [double], printer: false, conversationManager: new NullConversationManager() });
}
const textOf = ({ lastMessage }) => lastMessage.content.at(-1).text;

export const run = async (work) => textOf(await agentOf(work).invoke(QUESTION));

export const history = (messages) => messages.map(({ role, content }) => new Message({ role, content: [new TextBlock(content)] }));
export async function pause(work, messages) {
  const agent = agentOf(work, true);
  agent.messages.push(...messages.slice(0, -1));
  const { interrupts } = await agent.invoke(messages.at(-1).content[0].text);
  return { id: interrupts[0].id, snapshot: agent.takeSnapshot({ preset: "session" }) };
}
export async function resume(work, { id, snapshot }) {
  const agent = agentOf(work, true);
  agent.loadSnapshot(snapshot);
  return textOf(await agent.invoke([{ interruptResponse: { interruptId: id, response: true } }]));
}
