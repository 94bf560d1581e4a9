import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import { type Call, tool, type Tools } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";

export const PAYMENTS = "CREATE TABLE IF NOT EXISTS payments (key text NOT NULL, euros numeric NOT NULL, at timestamptz NOT NULL DEFAULT now());";

/** What the agent may do. `payments` stands for a provider that knows no keys, so that a payment made twice would show. */
export function shopTools(db: Pool): Tools<unknown, unknown> {
  return {
    findOrder: tool<{ order: string }>({ idempotent: true, run: ({ order }) => ({ order, euros: order.length * 10 }) }),
    refund: tool<{ order: string; euros: number }>({
      needsApproval: true,
      run: async ({ order, euros }, { key }) => {
        await sleep(20);
        await db.query("INSERT INTO payments (key, euros) VALUES ($1, $2)", [key, euros]);
        await sleep(20);
        return `${order}: ${euros} € paid back`;
      },
    }),
  };
}

/** Stands for a model that takes a moment. */
export function shopModel(moment: number): Call {
  const lines = script(
    (messages) => toolCall("findOrder", { order: /\S+$/.exec(String(messages[0]?.content))?.[0] }),
    (messages) => toolCall("refund", JSON.parse(String(messages.at(-1)?.content))),
    (messages) => `Done: ${messages.at(-1)?.content}`,
  );
  return async (...asked) => {
    await sleep(moment);
    return await lines(...asked);
  };
}
