import { AgentError } from "./error.ts";
import { isObject } from "./json.ts";
import type { Lifeline } from "./lifeline.ts";
import type { Delta, Reply } from "./message.ts";

export function isStream(answer: unknown): answer is AsyncGenerator<Delta, Reply> {
  const { next, [Symbol.asyncIterator]: iterate } = (answer ?? {}) as Partial<AsyncGenerator>;
  return typeof next === "function" && typeof iterate === "function";
}

/** The deltas of a streaming call, checked, and then its reply. */
export async function* deltas(stream: AsyncGenerator<Delta, Reply>, life: Lifeline): AsyncGenerator<{ type: "text" | "reasoning"; text: string }, Reply> {
  let reading = false;
  try {
    for (;;) {
      life.check();
      reading = true;
      const { done, value } = await life.until(stream.next());
      if (done) return value;
      reading = false;
      if (!isObject(value) || (value.type !== "text" && value.type !== "reasoning") || typeof value.text !== "string") {
        const error = new AgentError("bad-reply", 'a streaming call must yield { type: "text" | "reasoning", text }');
        life.end(error);
        throw error;
      }
      yield { type: value.type, text: value.text } as { type: "text" | "reasoning"; text: string };
    }
  } finally {
    // A stream that is being read closes when its read ends, which may be never. A run that has ended early waits for nothing.
    const closed = (async () => stream.return?.(undefined as never))().catch(() => {});
    if (!reading && (life.left || !life.ended)) await closed;
  }
}
