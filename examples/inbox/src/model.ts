import { setTimeout as sleep } from "node:timers/promises";
import type { Args, Call, Delta, Message, Reply, ToolCall } from "yieldagent";
import { anthropic } from "yieldagent/anthropic";
import { openai } from "yieldagent/openai";
import type { Order } from "./tools.ts";

export const INSTRUCTIONS =
  "You work in the back office of a small shop. Look the order up before you propose anything. Refunds and emails wait for a person's approval; what a person rejects is not tried again. If you need to know something, ask a colleague. At the end say in a few sentences what was done and what was not.";

/** A real model where the environment has a key or a server for it, named by `MODEL`; else the stand-in. */
export function chooseModel({ OPENAI_API_KEY: key, OPENAI_BASE_URL: baseURL, ANTHROPIC_API_KEY: anthropicKey, MODEL, STAND_IN_DELAY }: Readonly<Record<string, string | undefined>>): { call: Call; name: string } {
  if (key || baseURL) {
    const name = MODEL || "gpt-4o-mini";
    return { call: openai({ model: name, apiKey: key || "", baseURL: baseURL || undefined }), name };
  }
  if (anthropicKey) {
    const name = MODEL || "claude-sonnet-4-5";
    return { call: anthropic({ model: name, apiKey: anthropicKey }), name };
  }
  return { call: standIn(Number(STAND_IN_DELAY ?? 60)), name: "a stand-in" };
}

/** Plays the model, word by word. Like one it knows the conversation and nothing else: the same messages give the same reply. */
function standIn(delay: number): Call {
  return async function* (messages): AsyncGenerator<Delta, Reply> {
    const reply = answer(messages);
    for (const text of String(reply.content).match(/\S+\s*/g) ?? []) {
      if (delay > 0) await sleep(delay);
      yield { type: "text", text };
    }
    return reply;
  };
}

interface Made {
  tool: string;
  args: Args;
  content: string;
}

function answer(messages: readonly Message[]): Reply {
  const request = String(messages.find(({ role }) => role === "user")?.content);
  const results = new Map(messages.map(({ tool_call_id: id, content }) => [id, String(content)]));
  const made = messages.flatMap(({ tool_calls: calls }) => calls ?? []).map(({ id, function: { name, arguments: args } }): Made => ({ tool: name, args: JSON.parse(args) as Args, content: results.get(id) ?? "" }));
  const said = (tool: string): Made | undefined => made.findLast((one) => one.tool === tool);
  const turn = messages.filter(({ role }) => role === "assistant").length;
  const ask = (content: string, ...calls: [string, Args][]): Reply => ({
    role: "assistant", content, finish_reason: "tool_calls",
    tool_calls: calls.map(([name, args], i): ToolCall => ({ id: `call_${turn + 1}_${i + 1}`, type: "function", function: { name, arguments: JSON.stringify(args) } })),
  });

  const found = said("findOrder");
  const asked = said("askColleague");
  const [order] = /\b[A-Z]-\d+\b/.exec(asked ? `${asked.content} ${request}` : request) ?? [];
  if (!order && !asked) return ask("The request names no order. I ask a colleague.", ["askColleague", { question: "Which order is this about? Orders look like A-17." }]);
  if (!order) return { role: "assistant", content: "Nobody could tell me which order this is about, so I did nothing.", finish_reason: "stop" };
  if (!found) return ask("I look the order up.", ["findOrder", { order }]);
  if (found.content.startsWith("Error: ")) return { role: "assistant", content: `I could not find the order ${order}, so I did nothing.`, finish_reason: "stop" };

  const { customer, email, item, paid, state } = JSON.parse(found.content) as Order;
  const name = customer.split(" ")[0] as string;
  const mail = said("sendEmail");
  if (!mail) {
    const letter = (text: string): [string, Args] => ["sendEmail", { to: email, subject: `Your order ${order}`, body: `Dear ${name},\n\n${text}\n\nKind regards,\nthe shop` }];
    if (!/refund|money back|torn|broken|damaged|wrong|late/i.test(request)) return ask(`The order is ${state}. I propose to tell ${name}.`, letter(`your ${item} is ${state}.`));
    return ask(
      `${name} paid €${paid.toFixed(2)} for the ${item}. I propose to pay that back and to tell ${name}.`,
      ["refund", { order, euros: paid, why: `the ${item} is not as ordered` }], letter(`we are sorry about your ${item}. We pay €${paid.toFixed(2)} back; it should arrive within three days.`),
    );
  }
  const lines = made.filter(({ tool }) => tool === "refund" || tool === "sendEmail").map(({ tool, content }) => {
    const what = tool === "refund" ? "The refund" : `The email to ${name}`;
    return content.startsWith("Error: ") ? `${what} was not made: ${content.slice(7)}.` : `${what} is on its way.`;
  });
  return { role: "assistant", content: lines.join(" "), finish_reason: "stop" };
}
