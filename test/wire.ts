// Servers and clients for the tests of the adapters: what a server sends, cut as networks cut it, and what comes of it.
import type { Call, Message, Reply, ToolDefinition } from "yieldagent";
import { ModelError } from "yieldagent/openai";

/** A body that arrives in pieces of `size` bytes. */
export function inPieces(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  let from = 0;
  return new ReadableStream({
    pull(controller) {
      if (from >= bytes.length) controller.close();
      else controller.enqueue(bytes.subarray(from, (from += Math.min(size, bytes.length))));
    },
  });
}

/** What came of a call to a model. */
export interface Asked {
  /** The deltas, as `text:…` and `reasoning:…`. */
  deltas: string[];
  text: string;
  reasoning: string;
  reply: Reply | undefined;
  error: ModelError | undefined;
}

/** Asks a model to the end. Throws what is thrown and is no `ModelError`. */
export async function ask(call: Call, messages: Message[] = [{ role: "user", content: "go" }], tools: readonly ToolDefinition[] = [], signal: AbortSignal = new AbortController().signal): Promise<Asked> {
  const asked: Asked = { deltas: [], text: "", reasoning: "", reply: undefined, error: undefined };
  try {
    const answer = await call(messages, tools, { signal, step: 1 });
    if (!(Symbol.asyncIterator in answer)) asked.reply = answer as Reply;
    else {
      const stream = answer as AsyncGenerator<{ type: string; text: string }, Reply>;
      for (;;) {
        const { done, value } = await stream.next();
        if (done) {
          asked.reply = value;
          break;
        }
        asked.deltas.push(`${value.type}:${value.text}`);
        asked[value.type as "text" | "reasoning"] += value.text;
      }
    }
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    asked.error = error;
  }
  return asked;
}
