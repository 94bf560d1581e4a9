import { type Call, type Delta, type Reply, tool, type Tools } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";

const sleep = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Emails that were "sent", to be looked at: this page has nobody to send them. */
export const sent: { key: string; to: string; body: string }[] = [];

export const tools: Tools<unknown, unknown> = {
  getWeather: tool<{ city: string }>({
    description: "Current weather for a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    idempotent: true, // it only looks: after a reload it may simply run again
    run: async ({ city }) => {
      await sleep(700);
      return { city, tempC: -4 };
    },
  }),
  sendEmail: tool<{ to: string; body: string }>({
    description: "Send an email",
    parameters: { type: "object", properties: { to: { type: "string" }, body: { type: "string" } }, required: ["to", "body"] },
    needsApproval: true, // can't be undone: a person decides
    run: async ({ to, body }, { key }) => {
      await sleep(1500);
      sent.push({ key, to, body });
      return `sent to ${to}`;
    },
  }),
};

export const request = "How cold is it in Oslo? Tell Ann.";

/** The model: a script that speaks word by word. Its replies go by the conversation, so that a reload finds the same ones. */
export const call: Call = async function* (messages, definitions, context): AsyncGenerator<Delta, Reply> {
  const reply = (await lines(messages, definitions, context)) as Reply;
  for (const text of String(reply.content).match(/\S+\s*/g) ?? []) {
    await sleep(90);
    yield { type: "text", text };
  }
  return reply;
};

const lines = script(
  { role: "assistant", content: "I look up the weather in Oslo.", tool_calls: [{ id: "c1", ...toolCall("getWeather", { city: "Oslo" }) }] },
  { role: "assistant", content: "It is -4 °C. Ann should hear of it.", tool_calls: [{ id: "c2", ...toolCall("sendEmail", { to: "ann@example.com", body: "It is -4 °C in Oslo. Take a coat." }) }] },
  (messages) => {
    const result = String(messages.at(-1)?.content);
    return result.startsWith("Error: ") ? `It is -4 °C in Oslo. Ann wasn't told: ${result.slice(7)}.` : "It is -4 °C in Oslo, and Ann knows.";
  },
);
