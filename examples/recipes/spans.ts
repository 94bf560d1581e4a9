// OpenTelemetry spans from steps: one for the run, one for each model call and each tool. `Tracer` is the part of
// @opentelemetry/api that it takes; hand it `trace.getTracer("agent")`.
import { agent, type AgentRun, type Call, type Step, tool } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";

interface Span {
  setAttributes(attributes: Record<string, string | number>): unknown;
  recordException(error: string | Error): void;
  end(): void;
}
interface Tracer {
  startSpan(name: string): Span;
}

/** A span around each model call. Names are those of OpenTelemetry's conventions for generative AI. */
function tracedCall(call: Call, tracer: Tracer): Call {
  return async function* (messages, tools, context) {
    const span = tracer.startSpan("chat");
    try {
      const answer = await call(messages, tools, context);
      const reply = Symbol.asyncIterator in answer ? yield* answer : answer;
      span.setAttributes({ "gen_ai.response.finish_reason": reply.finish_reason ?? "", "gen_ai.usage.output_tokens": reply.usage?.completion_tokens ?? 0 });
      return reply;
    } catch (error) {
      span.recordException(error as Error);
      throw error;
    } finally {
      span.end();
    }
  };
}

/** The same steps, with a span around the run and around each tool. */
async function* tracedRun(run: AgentRun, tracer: Tracer): AsyncGenerator<Step> {
  const whole = tracer.startSpan("invoke_agent");
  const tools = new Map<string, Span>();
  try {
    for await (const step of run) {
      if (step.type === "tool-start") tools.set(step.id, tracer.startSpan(`execute_tool ${step.tool}`));
      if (step.type === "tool-result") {
        const span = tools.get(step.id); // a call that was refused has none
        if ("error" in step) span?.recordException(step.error);
        span?.end();
        tools.delete(step.id);
      }
      yield step;
    }
  } catch (error) {
    whole.recordException(error as Error);
    throw error;
  } finally {
    for (const span of [...tools.values(), whole]) span.end();
  }
}

const tracer: Tracer = { startSpan: (name) => (console.log("start", name), { setAttributes: () => {}, recordException: (error) => console.log("error", error), end: () => console.log("end", name) }) };
const call = tracedCall(script([toolCall("add", { a: 1, b: 2 }), toolCall("divide")], "3."), tracer);
const tools = { add: tool<{ a: number; b: number }>({ run: ({ a, b }) => a + b }), divide: tool({ run: () => { throw new Error("by zero"); } }) };
for await (const step of tracedRun(agent({ call, tools, messages: [{ role: "user", content: "1 + 2?" }] }) as AgentRun, tracer)) {
  if (step.type === "final") console.log(step.text);
}

// prints
// start invoke_agent
// start chat
// end chat
// start execute_tool add
// start execute_tool divide
// end execute_tool add
// error the tool failed and may have taken effect: by zero
// end execute_tool divide
// start chat
// end chat
// 3.
// end invoke_agent
