import { randomUUID } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { tool, type Tools } from "yieldagent";
import { z } from "zod";
import { putWhole } from "./whole.ts";

export interface Order {
  order: string;
  customer: string;
  email: string;
  item: string;
  paid: number;
  state: string;
}

const CUSTOMERS = [["Ann Berg", "ann@example.com"], ["Bo Lind", "bo@example.com"], ["Carla Ruiz", "carla@example.com"], ["Dev Patel", "dev@example.com"]] as const;
const ITEMS = [["rain coat", 89.9], ["desk lamp", 34.5], ["tea pot", 27], ["wool blanket", 64], ["chess set", 41.2]] as const;
const STATES = ["delivered on Monday", "on its way, expected on Friday", "packed, leaves tomorrow"];

/**
 * The tools of a small shop's back office. `folder` holds what they did: payments and an outbox stand for the payment
 * provider and the mail server, a file for each thing they did. `delay` is how long those take.
 */
export function shopTools(folder: string, delay: number): Tools<unknown, unknown> {
  return {
    findOrder: tool({
      description: "Looks an order up by its number, such as A-17.",
      parameters: z.object({ order: z.string() }),
      idempotent: true, // it only reads: after a crash it may simply run again
      run: ({ order }) => {
        const number = Number(/^[A-Z]-(\d{1,9})$/.exec(order)?.[1]);
        const [customer, email] = CUSTOMERS[number % CUSTOMERS.length] ?? [];
        const [item, paid] = ITEMS[number % ITEMS.length] ?? [];
        if (!customer) throw new Error(`there is no order ${JSON.stringify(order)}`);
        return { order, customer, email, item, paid, state: STATES[number % STATES.length] };
      },
    }),

    refund: tool({
      description: "Pays money back to the customer of an order.",
      parameters: z.object({ order: z.string(), euros: z.number().positive().max(500), why: z.string() }),
      needsApproval: true,
      idempotent: true, // the provider takes each key once, so that running it again is safe
      run: async ({ order, euros, why }, { key }) => {
        await sleep(delay);
        const payments = join(folder, "payments");
        await mkdir(payments, { recursive: true });
        const file = join(payments, `${encodeURIComponent(key)}.json`);
        await putWhole(file, JSON.stringify({ key, order, euros, why }));
        return JSON.parse(await readFile(file, "utf8")) as unknown;
      },
    }),

    sendEmail: tool({
      description: "Sends an email to a customer.",
      parameters: z.object({ to: z.email(), subject: z.string().min(1), body: z.string().min(1) }),
      needsApproval: true,
      // Mail servers know no keys: if the process dies in the middle, a person must say what now.
      run: async ({ to, subject, body }, { key }) => {
        await sleep(delay);
        const outbox = join(folder, "outbox");
        await mkdir(outbox, { recursive: true });
        await putWhole(join(outbox, `${Date.now()}-${randomUUID()}.json`), JSON.stringify({ key, to, subject, body }));
        return `sent to ${to}`;
      },
    }),

    askColleague: tool({
      description: "Asks a colleague what neither the request nor the order says. The answer comes from a person and may take hours.",
      parameters: z.object({ question: z.string() }),
    }),
  };
}
