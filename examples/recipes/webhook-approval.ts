// A person approves from elsewhere: a chat message with two buttons, and the button's webhook.
// The state stays here; the button carries a run's id, a call's id, and nothing that could change what runs.
import { agent, pending, type Decision, type State, tool } from "yieldagent";
import { show, suspicious } from "yieldagent/show";
import { script, toolCall } from "yieldagent/testing";

const tools = { refund: tool<{ order: string; euros: number }>({ needsApproval: true, run: ({ order, euros }) => `${order}: ${euros} € paid back` }) };
const call = script(toolCall("refund", { order: "A-17", euros: 40 }, "c1"), "It is paid back.");
const runs = new Map<string, State>(); // stands for a table

async function goOn(start: Parameters<typeof agent>[0]): Promise<void> {
  for await (const step of agent({ ...start, save: (state) => void runs.set(state.id, state) })) {
    if (step.type === "approval-needed") {
      for (const { id, tool, args } of step.pending) post(`May I?\n${show({ tool, args })}`, suspicious(args), { run: step.state.id, call: id });
    }
    if (step.type === "final") console.log(step.text);
  }
}

/** Stands for the chat's API. */
function post(text: string, warnings: string[], button: { run: string; call: string }): void {
  console.log(text, warnings.length > 0 ? warnings : "", button);
}

/** The webhook. Check the chat's signature before this; who pressed the button goes into your own records. */
async function pressed(button: { run: string; call: string }, decision: Decision): Promise<string> {
  const state = runs.get(button.run);
  if (!state || !pending(state).some(({ id }) => id === button.call)) return "already decided";
  await goOn({ call, tools, state, decisions: { [button.call]: decision } });
  return "done";
}

await goOn({ call, tools, messages: [{ role: "user", content: "Pay back A-17." }], id: "run-1" });
console.log(await pressed({ run: "run-1", call: "c1" }, true));
console.log(await pressed({ run: "run-1", call: "c1" }, true)); // pressed twice

// prints
// May I?
// {
//   "tool": "refund",
//   "args": {
//     "order": "A-17",
//     "euros": 40
//   }
// }  { run: 'run-1', call: 'c1' }
// It is paid back.
// done
// already decided
