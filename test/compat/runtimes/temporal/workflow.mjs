// The loop as a Temporal workflow: the model and the tools are activities, a person's decisions come as signals. It is bundled
// into the sandbox, which has no `structuredClone`, `AbortSignal`, `crypto` or `queueMicrotask`, and whose history is replayed.
import { condition, defineSignal, proxyActivities, setHandler, workflowInfo } from "@temporalio/workflow";
import { agent } from "yieldagent";

const { model, lookup, pay } = proxyActivities({ startToCloseTimeout: "1 minute" });
export const decide = defineSignal("decide");

export async function run(messages) {
  const decisions = {};
  setHandler(decide, (id, decision) => void (decisions[id] = decision));
  const tools = {
    lookup: { run: (args, { key }) => lookup(args, key) },
    pay: { needsApproval: true, run: (args, { key }) => pay(args, key) },
  };
  const options = { call: (sent) => model(sent), tools };
  const steps = [];
  for (let state; ; ) {
    const run = agent(state ? { ...options, state, decisions } : { ...options, messages, id: workflowInfo().workflowId });
    for await (const step of run) {
      steps.push(step.type);
      if (step.type === "final") return { steps, text: step.text };
    }
    state = run.state;
    await condition(() => state.calls.some(({ id, status }) => status === "pending" && decisions[id] !== undefined));
  }
}
