import { appendFileSync, readFileSync } from "node:fs";
import { appendFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Message, Reply } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";
import type { Refund } from "./agent.ts";

const LEDGER = process.env["LEDGER"] ?? "ledger.txt";

/** The model; a script here. It must be asked once for each step, so that it is told of in the ledger. */
export async function askModel(messages: Message[]): Promise<Reply> {
  await appendFile(LEDGER, "model\n");
  return (await lines(messages, [], { signal: new AbortController().signal, step: 1 })) as Reply;
}

const lines = script(
  toolCall("refund", { order: "A-17", euros: 40 }),
  toolCall("refund", { order: "A-18", euros: 60 }),
  (messages) => `Both are settled: ${messages.filter(({ role }) => role === "tool").map(({ content }) => content).join("; ")}`,
);

/** The payment provider: it may be asked twice, and pays once for each key. Its line in the ledger is the payment, so that no kill comes between. */
export async function refund({ order, euros }: Refund, key: string): Promise<string> {
  await appendFile(LEDGER, `asked ${key}\n`);
  await sleep(Number(process.env["MOMENT"] ?? 1500));
  const paid = `paid ${key}: `;
  if (!readFileSync(LEDGER, "utf8").includes(`\n${paid}`)) appendFileSync(LEDGER, `${paid}${order}, ${euros} €\n`);
  return `${order}: ${euros} € paid back`;
}
