// Another model when one is down: each is asked only if those before it failed in a way that may pass, and never once
// anything of an answer was handed on.
import { agent, type Call } from "yieldagent";
import { ModelError } from "yieldagent/openai";
import { collect, script } from "yieldagent/testing";

function firstOf(...calls: Call[]): Call {
  return async function* (messages, tools, context) {
    for (const [i, call] of calls.entries()) {
      let handed = false;
      try {
        const answer = await call(messages, tools, context);
        if (!(Symbol.asyncIterator in answer)) return answer;
        for (;;) {
          const { done, value } = await answer.next();
          if (done) return value;
          handed = true;
          yield value;
        }
      } catch (error) {
        if (handed || i === calls.length - 1 || !(error instanceof ModelError) || !error.retryable) throw error;
        console.log(`model ${i + 1}: ${error.message}`);
      }
    }
    throw new Error("there is no model");
  };
}

// openai({ model: "…" }), openai({ model: "…", baseURL: "…" }) or anthropic({ model: "…" }): what only one of them understands
// goes back to none but it.
const call = firstOf(script(new ModelError("overloaded", { status: 529, retryable: true })), script("Hello from the second."));
const steps = await collect(agent({ call, messages: [{ role: "user", content: "Hi." }] }));
const last = steps.at(-1);
console.log(last?.type === "final" && last.text);

// prints
// model 1: overloaded
// Hello from the second.
