// A chat over many turns: one state, to which each message of the user is added. A question that still waits for a
// decision when the user writes on is closed, and the model is told so.
import { agent, type State, tool } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";

const tools = { order: tool<{ what: string }>({ needsApproval: true, run: ({ what }) => `ordered ${what}` }) };
const call = script("Hello! What can I do?", toolCall("order", { what: "tea" }, "c1"), "Fine, no tea.");

let state: State | undefined;
async function say(content: string): Promise<void> {
  const run = agent({ call, tools, messages: [{ role: "user", content }], ...(state && { state }) });
  for await (const step of run) {
    if (step.type === "approval-needed") console.log("waits:", step.pending.map(({ tool }) => tool).join());
    if (step.type === "tool-result" && "error" in step) console.log("closed:", step.error);
    if (step.type === "final") console.log("says:", step.text);
  }
  state = JSON.parse(JSON.stringify(run.state)) as State; // to a database, and back
}

await say("Hi.");
await say("Order some tea.");
await say("No, wait.");

// prints
// says: Hello! What can I do?
// waits: order
// closed: not run: the user went on without deciding
// says: Fine, no tea.
