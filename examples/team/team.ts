import { agent, type AgentRun, type Call, type Message, tool } from "yieldagent";
import { ModelError } from "yieldagent/openai";
import { subagent } from "yieldagent/subagent";
import type { Going } from "../terminal/converse.ts";
import { fields } from "../terminal/fields.ts";
import { find, post } from "./shop.ts";

/** What a specialist, or the lead, starts from. */
export function brief(role: keyof typeof ROLES, task: string): Message[] {
  return [{ role: "system", content: ROLES[role] }, { role: "user", content: task }];
}

const ROLES = {
  lead: "You lead a lamp shop's office. A customer's letter comes in: have the clerk make it good, and at the same time the researcher find out why it happened. Then tell the owner what was done, and what was not and why.",
  researcher: "You find out why something went wrong in a lamp shop. Search the papers for the order and its batch, ask the warehouse, and answer in one or two sentences.",
  clerk: "You make things good with a lamp shop's customer. Search for the order, refund it, and once that is done write to the customer. A person decides on each refund and email; what they reject stays undone. Then say what was done, and what was not and why.",
};

/** The team at work in a shop's folder. One model plays all three. */
export function team(folder: string, call: Call, going: Going): AgentRun {
  const search = tool({
    description: "Lines of the shop's orders and complaints that hold a text, such as an order's number",
    parameters: fields<{ text: string }>({ text: "string" }),
    idempotent: true,
    run: ({ text }) => find(folder, text),
  });
  const askWarehouse = tool({ // without `run`: a person gives the answer
    description: "Asks the people in the warehouse",
    parameters: fields<{ question: string }>({ question: "string" }),
  });
  const sendEmail = tool({
    description: "Sends an email",
    parameters: fields<{ to: string; text: string }>({ to: "string", text: "string" }),
    needsApproval: true,
    run: ({ to, text }, { key }) => post(folder, "outbox.jsonl", { to, text }, key),
  });
  const refund = tool({
    description: "Pays money back to the customer of an order",
    parameters: fields<{ order: string; amount: number }>({ order: "string", amount: "number" }),
    needsApproval: true,
    run: ({ order, amount }, { key }) => post(folder, "refunds.jsonl", { order, amount }, key),
  });

  const task = fields<{ task: string }>({ task: "string" });
  const researcher = subagent({
    description: "Finds out why something happened. Changes nothing",
    parameters: task,
    messages: ({ task }) => brief("researcher", task),
    call,
    tools: { search, askWarehouse },
  });
  const clerk = subagent({
    description: "Makes things good with a customer: refunds, and writes to them",
    parameters: task,
    messages: ({ task }) => brief("clerk", task),
    call,
    tools: { search, refund, sendEmail },
  });
  return agent({ call, tools: { researcher, clerk }, onToolError, ...going });
}

/** A specialist whose model gives no answer ends the run, as the lead does: the next start goes on right there. */
function onToolError(error: unknown): string {
  if (error instanceof ModelError) throw error;
  return `it failed, and may have done a part: ${(error as Error).message}`;
}
