// What nobody has decided within a day is rejected, with the reason. A job does it; the loop has no clock.
import { agent, pending, type State, tool } from "yieldagent";
import { collect, script, toolCall } from "yieldagent/testing";

const tools = { publish: tool({ needsApproval: true, run: () => "published" }) };
const call = script(toolCall("publish"), (messages) => `I read: ${messages.at(-1)?.content}`);
const DAY = 24 * 60 * 60 * 1000;
const waiting = new Map<string, { since: number; state: State }>(); // stands for a table

const run = agent({ call, tools, messages: [{ role: "user", content: "Publish it." }] });
await collect(run);
waiting.set(run.state.id, { since: Date.now(), state: run.state });

async function expire(now: number): Promise<void> {
  for (const [id, { since, state }] of waiting) {
    if (now - since < DAY) continue;
    const decisions = Object.fromEntries(pending(state).map((call) => [call.id, { approved: false, reason: "nobody decided within a day" }]));
    waiting.delete(id);
    for await (const step of agent({ call, tools, state, decisions })) if (step.type === "final") console.log(step.text);
  }
}

await expire(Date.now());
await expire(Date.now() + DAY);

// prints
// I read: Error: not run: it was rejected: nobody decided within a day
