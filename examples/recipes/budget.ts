// A budget in tokens, or in money: the run ends before the model call that would go beyond it, and can go on later with
// a larger one. A wrapper of `call` is all it takes.
import { agent, type Call, tool } from "yieldagent";
import { collect, script, toolCall } from "yieldagent/testing";

class OverBudget extends Error {}

/** Counts what each reply has used, over all runs that use it. */
function budgeted(call: Call, euros: number, perMillion: { input: number; output: number }): Call {
  let spent = 0;
  return async function* (messages, tools, context) {
    if (spent >= euros) throw new OverBudget(`${spent.toFixed(2)} € of ${euros.toFixed(2)} € are spent`);
    const answer = await call(messages, tools, context);
    const reply = Symbol.asyncIterator in answer ? yield* answer : answer;
    spent += ((reply.usage?.prompt_tokens ?? 0) * perMillion.input + (reply.usage?.completion_tokens ?? 0) * perMillion.output) / 1e6;
    return reply;
  };
}

const look = { role: "assistant", tool_calls: [toolCall("look")], usage: { prompt_tokens: 100_000, completion_tokens: 10_000 } };
const model = script(look, look, "Found it.");
const tools = { look: tool({ run: () => "nothing yet" }) };

const run = agent({ call: budgeted(model, 0.5, { input: 2, output: 8 }), tools, messages: [{ role: "user", content: "Find it." }] });
try {
  await collect(run);
} catch (error) {
  if (!(error instanceof OverBudget)) throw error;
  console.log(error.message, run.state.usage);
}
for await (const step of agent({ call: budgeted(model, 1, { input: 2, output: 8 }), tools, state: run.state })) {
  if (step.type === "final") console.log(step.text);
}

// prints
// 0.56 € of 0.50 € are spent { prompt_tokens: 200000, completion_tokens: 20000, total_tokens: 0 }
// Found it.
