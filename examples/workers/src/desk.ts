// Where people are, at a terminal: `npm run desk` lists what waits,
//
//   npm run desk -- ask <order>                   starts a run
//   npm run desk -- approve|reject <run> <call>   decides
import { randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import { Pool } from "pg";
import { show } from "yieldagent/show";
import { Runs } from "./runs.ts";
import { PAYMENTS } from "./shop.ts";

async function main([what, ...rest]: string[]): Promise<void> {
  const db = new Pool({ connectionString: process.env["DATABASE_URL"] });
  const runs = new Runs(db, 10_000);
  await runs.createTables(PAYMENTS);
  const [run = "", call = ""] = rest;
  if (what === "ask") await runs.start(randomUUID(), [{ role: "user", content: `Pay back order ${rest.join(" ") || "A-17"}` }]);
  else if (what === "approve" || what === "reject") console.log((await runs.decide(run, { id: call, reason: "approval" }, { approved: what === "approve" }, userInfo().username)) ? "taken" : "already decided");
  else for (const { run, pending } of await runs.waiting()) for (const { id, tool, args, reason } of pending) console.log(`${run} ${id} (${reason})\n${show({ tool, args })}`);
  await db.end();
}

main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
