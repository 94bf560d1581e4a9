// A tool with its own timeout: what takes too long is told to the model, and the run goes on. The work itself is told to
// stop; if it may have taken effect all the same, the model is told that too.
import { agent, tool, type Tool } from "yieldagent";
import { collect, script, toolCall } from "yieldagent/testing";

function within<Args>(ms: number, { run, ...rest }: Tool<Args>): Tool<Args> {
  return {
    ...rest,
    async run(args, context) {
      const abort = new AbortController();
      const stop = (): void => abort.abort(context.signal.reason);
      context.signal.addEventListener("abort", stop);
      const timer = setTimeout(() => abort.abort(new Error(`it took longer than ${ms} ms`)), ms);
      try {
        const late = new Promise<never>((_, reject) => abort.signal.addEventListener("abort", () => reject(abort.signal.reason)));
        return await Promise.race([run?.(args, { ...context, signal: abort.signal }), late]);
      } finally {
        clearTimeout(timer);
        context.signal.removeEventListener("abort", stop);
      }
    },
  };
}

const tools = { slow: within(20, tool<{ file: string }>({ run: ({ file }) => new Promise(() => console.log(`reading ${file}`)) })) };
const call = script(toolCall("slow", { file: "a" }), (messages) => `I read: ${messages.at(-1)?.content}`);
const last = (await collect(agent({ call, tools, messages: [{ role: "user", content: "Read a." }] }))).at(-1);
console.log(last?.type === "final" && last.text);

// prints
// reading a
// I read: Error: the tool failed and may have taken effect: it took longer than 20 ms
