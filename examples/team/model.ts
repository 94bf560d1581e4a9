import type { Call, Reply } from "yieldagent";
import { ask, call, callsIn, type Made, say } from "../terminal/model.ts";
import { brief } from "./team.ts";

/**
 * A stand-in for the model of all three, so that the example runs without a key: a function of the messages, of which
 * the first says whom it plays. It streams, as a server does.
 */
export const standIn: Call = async function* (messages) {
  const play = (["lead", "researcher", "clerk"] as const).find((role) => brief(role, "")[0]?.content === messages[0]?.content) ?? "lead";
  const order = /\b[A-Z]-\d+\b/.exec(String(messages[1]?.content))?.[0] ?? "";
  const reply = PLAY[play](order, callsIn(messages));
  for (const text of String(reply.content).match(/\S+\s*/g) ?? []) yield { type: "text", text };
  return reply;
};

const PLAY: Record<"lead" | "researcher" | "clerk", (order: string, made: readonly Made[]) => Reply> = {
  lead: (order, made) => {
    if (made.length > 0) return say(["This is what became of it.", ...made.map((one) => `- ${one.tool}: ${outcome(one)}`)].join("\n"));
    if (!order) return say("The letter names no order.");
    return ask("The clerk makes it good, and the researcher finds out why.", [
      call("clerk", { task: `What came with order ${order} is broken: make it good.` }),
      call("researcher", { task: `What came with order ${order} is broken: why?` }),
    ]);
  },

  researcher: (order, made) => {
    const { batch } = orderIn(order, made);
    const searches = made.filter(({ tool }) => tool === "search");
    if (searches.length === 0) return ask("I look for the order.", [call("search", { text: order })]);
    if (!batch) return say(`I find no order ${order}.`);
    if (searches.length === 1) return ask(`It is of ${batch}. I look for the rest of that.`, [call("search", { text: batch })]);
    const broken = linesIn(made.slice(1)).filter((line) => line.startsWith("complaints.csv")).length;
    const asked = made.find(({ tool }) => tool === "askWarehouse");
    if (!asked) return ask("The warehouse may know more.", [call("askWarehouse", { question: `${broken} of ${batch} came broken. What happened to it?` })]);
    return say(`${broken} of ${batch} came broken. ${asked.error === undefined ? `The warehouse says: ${outcome(asked)}` : `The warehouse gave no answer (${outcome(asked)}).`}`);
  },

  clerk: (order, made) => {
    const { name, email, paid } = orderIn(order, made);
    const [refund, letter] = ["refund", "sendEmail"].map((tool) => made.find((one) => one.tool === tool));
    if (made.length === 0) return ask("I look the order up.", [call("search", { text: order })]);
    if (!paid) return say(`I find no order ${order}.`);
    if (!refund) return ask(`${name} paid ${paid}.`, [call("refund", { order, amount: Number(paid) })]);
    if (refund.error !== undefined) return say(`No refund for ${order}: ${refund.error}.`);
    const amount = Number(refund.args["amount"]).toFixed(2);
    if (!letter) return ask("Now the letter.", [call("sendEmail", { to: email, text: `Dear ${name}, we are sorry. ${amount} are on their way to you.` })]);
    return say(`Refunded ${amount} for ${order}. ${letter.error === undefined ? `Wrote to ${letter.args["to"]}.` : `No letter: ${letter.error}.`}`);
  },
};

function outcome({ result, error }: Made): string {
  return error ?? (typeof result === "string" ? result : JSON.stringify(result));
}

function linesIn(made: readonly Made[]): string[] {
  return made.flatMap(({ tool, result }) => (tool === "search" && Array.isArray(result) ? result.map(String) : []));
}

/** What the papers say of the order; nothing, if it isn't there. */
function orderIn(order: string, made: readonly Made[]): Record<"name" | "email" | "batch" | "paid", string | undefined> {
  const [, name, email, , batch, paid] = linesIn(made).find((line) => line.startsWith(`orders.csv: ${order},`))?.split(",") ?? [];
  return { name, email, batch, paid };
}
