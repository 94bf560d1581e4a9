// A worker: DATABASE_URL says where the runs are. Start as many as you like, and kill any of them: another goes on.
import { Client, Pool } from "pg";
import { agent, AgentError, type Call, type Tools } from "yieldagent";
import { type Claim, Lost, Runs } from "./runs.ts";
import { PAYMENTS, shopModel, shopTools } from "./shop.ts";

async function main({ DATABASE_URL: connectionString, LEASE = "10000", SLOTS = "1", MOMENT = "20" }: NodeJS.ProcessEnv): Promise<void> {
  const db = new Pool({ connectionString });
  const runs = new Runs(db, Number(LEASE));
  await runs.createTables(PAYMENTS);
  const [call, tools] = [shopModel(Number(MOMENT)), shopTools(db)];

  // NOTIFY wakes whoever sleeps. It may be missed, as while a connection is away, so that nobody sleeps for long.
  let wake = (): void => {};
  const ears = new Client({ connectionString });
  await ears.connect();
  ears.on("notification", () => wake());
  await ears.query("LISTEN ready");
  console.log("at work");
  await Promise.all(Array.from({ length: Number(SLOTS) }, async () => {
    for (;;) {
      const news = new Promise<void>((resolve) => {
        const before = wake;
        wake = () => (before(), resolve());
        setTimeout(resolve, runs.leaseTime / 2);
      });
      const claim = await runs.claim();
      if (claim) await goOn(runs, claim, call, tools);
      else await news;
    }
  }));
}

/** One stretch of a run: to its next pause, or its end. */
async function goOn(runs: Runs, claim: Claim, call: Call, tools: Tools<unknown, unknown>): Promise<void> {
  const lost = new AbortController();
  const beat = setInterval(() => {
    runs.renew(claim).then((alive) => alive || lost.abort(new Lost()), () => {}); // a lost connection is told by the next save
  }, runs.leaseTime / 3);
  let stored = claim.state.messages.length;
  try {
    const run = agent({
      call, tools, state: claim.state, decisions: claim.decisions, signal: lost.signal,
      recover: true, // who holds the lease is alone with the run: what was started has died with its worker
      save: async (state) => {
        await runs.save(claim, state, stored);
        stored = state.messages.length;
      },
    });
    let done = false;
    for await (const step of run) done = step.type === "final";
    await runs.release(claim, done);
  } catch (error) {
    // Another worker has it now.
    if (error instanceof Lost) return;
    // A decision that the tool's schema refuses must be told to whoever made it; here it ends up in the log.
    console.error(claim.state.id, error instanceof AgentError ? error.code : error);
    // Kept until the lease ends, and tried again then: a model that is down isn't asked all the time.
  } finally {
    clearInterval(beat);
  }
}

main(process.env).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
