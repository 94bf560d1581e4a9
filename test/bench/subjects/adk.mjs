import { BaseLlm, createEvent, FunctionTool, InMemoryRunner, LlmAgent, LogLevel, setLogLevel } from "@google/adk";
import { DESCRIPTION, QUESTION } from "../work.mjs";

export const name = "adk InMemoryRunner";
export const packages = ["@google/adk"];
export const imports = "@google/adk";
export const program = 'export { BaseLlm, FunctionTool, InMemoryRunner, LlmAgent } from "@google/adk";';

setLogLevel?.(LogLevel.ERROR);

class Scripted extends BaseLlm {
  constructor(work) {
    super({ model: "m" });
    this.work = work;
  }
  async *generateContentAsync({ contents }) {
    const { calls, text } = this.work.next(JSON.stringify(contents.at(-1).parts.at(-1)));
    yield { content: { role: "model", parts: calls ? calls.map(({ id, n }) => ({ functionCall: { id, name: "double", args: { n } } })) : [{ text }] } };
  }
}

const parameters = { type: "OBJECT", properties: { n: { type: "NUMBER" } }, required: ["n"] };
const runnerOf = (work, requireConfirmation) => new InMemoryRunner({
  appName: "bench",
  agent: new LlmAgent({ name: "doubler", model: new Scripted(work), tools: [new FunctionTool({ name: "double", description: DESCRIPTION, parameters, execute: (args) => work.run(args), requireConfirmation })] }),
});
const address = { appName: "bench", userId: "u", sessionId: "s" };

async function told(runner, newMessage) {
  let last;
  for await (const event of runner.runAsync({ userId: "u", sessionId: "s", newMessage, runConfig: { maxLlmCalls: 1_000_000 } })) last = event;
  return last;
}

export async function run(work) {
  const runner = runnerOf(work);
  await runner.sessionService.createSession(address);
  return (await told(runner, { role: "user", parts: [{ text: QUESTION }] })).content.parts.at(-1).text;
}

const CONFIRMATION = "adk_request_confirmation";

async function withEvents(runner, events) {
  const session = await runner.sessionService.createSession(address);
  for (const event of events) await runner.sessionService.appendEvent({ session, event: createEvent(event) });
}

export const history = (messages) => messages.map(({ role, content }) => ({ author: role === "user" ? "user" : "doubler", content: { role: role === "user" ? "user" : "model", parts: [{ text: content }] } }));
export async function pause(work, events) {
  const runner = runnerOf(work, true);
  await withEvents(runner, events.slice(0, -1));
  await told(runner, events.at(-1).content);
  return runner.sessionService.getSession(address);
}
export async function resume(work, session) {
  const runner = runnerOf(work, true);
  await withEvents(runner, session.events);
  const [{ id }] = session.events.flatMap(({ content }) => content?.parts ?? []).map(({ functionCall }) => functionCall).filter((call) => call?.name === CONFIRMATION);
  return (await told(runner, { role: "user", parts: [{ functionResponse: { id, name: CONFIRMATION, response: { confirmed: true } } }] })).content.parts.at(-1).text;
}
