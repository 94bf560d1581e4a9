import { appendFile, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** A lamp shop's papers to try the example on. */
export const SAMPLE: Readonly<Record<string, string>> = {
  "letter.txt": "Dear shop,\nthe lamp of my order A-17 came broken. Please make it good.\nAnn Berg\n",
  "orders.csv": "order,name,email,item,batch,paid\nA-16,Jo Lind,jo@example.com,lamp,batch-7,59.00\nA-17,Ann Berg,ann@example.com,lamp,batch-7,59.00\nA-18,Kim Roy,kim@example.com,clock,batch-2,35.00\n",
  "complaints.csv": "order,batch,what\nA-12,batch-7,the shade was broken\nA-16,batch-7,the shade was broken\nA-17,batch-7,broken\n",
};

/** The lines of the shop's papers that hold a text, each behind its file's name. */
export async function find(folder: string, text: string): Promise<string[]> {
  const found: string[] = [];
  for (const file of (await readdir(folder)).filter((name) => name.endsWith(".csv")).sort()) {
    const lines = (await readFile(join(folder, file), "utf8")).split("\n");
    found.push(...lines.filter((line) => line.toLowerCase().includes(text.toLowerCase())).map((line) => `${file}: ${line}`));
  }
  return found.slice(0, 50);
}

/** Stands for whoever pays or mails: one line a time, with the key by which they would know a second attempt from a new one. */
export async function post(folder: string, file: "refunds.jsonl" | "outbox.jsonl", what: object, key: string): Promise<object> {
  await appendFile(join(folder, file), `${JSON.stringify({ ...what, key })}\n`);
  return what;
}
