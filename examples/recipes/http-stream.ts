// Steps as server-sent events, from a handler of plain `Request` and `Response` (Deno, Bun, workers, Hono, Next; Node with
// an adapter). A browser that goes away ends the run: its signal aborts, the saved state can be gone on from.
import { agent, type State, tool } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";

const tools = { search: tool<{ words: string }>({ run: ({ words }) => `found ${words}` }) };
const call = script(toolCall("search", { words: "coats" }), "I found coats.");
const states = new Map<string, State>(); // stands for a table

export function handler(request: Request): Response {
  const messages = [{ role: "user", content: new URL(request.url).searchParams.get("q") ?? "" }];
  const run = agent({ call, tools, messages, id: "run-1", signal: request.signal, save: (state) => void states.set(state.id, state) });
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value: step } = await run.next();
      if (done) return controller.close();
      // States and whole conversations stay on the server.
      const { state: _, messages: __, ...shown } = step as typeof step & { state?: unknown; messages?: unknown };
      controller.enqueue(encoder.encode(`data: ${JSON.stringify(shown)}\n\n`));
    },
    cancel: async () => void (await run.return()),
  }, { highWaterMark: 0 });
  return new Response(body, { headers: { "content-type": "text/event-stream", "cache-control": "no-store" } });
}

const response = handler(new Request("http://localhost/?q=coats"));
console.log(await response.text());

// prints
// data: {"type":"message","message":{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"search","arguments":"{\"words\":\"coats\"}"},"id":"call_1_1"}]}}
//
// data: {"type":"tool-start","id":"call_1_1","tool":"search","args":{"words":"coats"}}
//
// data: {"type":"tool-result","id":"call_1_1","tool":"search","args":{"words":"coats"},"result":"found coats"}
//
// data: {"type":"message","message":{"role":"assistant","content":"I found coats."}}
//
// data: {"type":"final","text":"I found coats.","reason":"stop"}
