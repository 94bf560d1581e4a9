import { agent, type Decision, type Message, type PendingCall, type Reply, type State, tool } from "yieldagent";

/** What an engine keeps: each answer once, whatever dies in between; and people's decisions, however long they take. */
export interface Engine {
  askModel(messages: Message[], step: number): Promise<Reply>;
  refund(args: Refund, key: string): Promise<string>;
  /** Tells people what waits, and waits for them. */
  decisions(pending: readonly PendingCall[]): Promise<Record<string, Decision>>;
  /** An error that is the engine's own, such as that somebody has cancelled the run: it must not be told to the model. */
  isEngines(error: unknown): boolean;
}

export interface Refund {
  order: string;
  euros: number;
}

/**
 * The agent, for any engine that replays: after a crash it runs again from the top, and is given what it had been given
 * before. So nothing here may differ from one time to the next; the loop has no clock and no randomness but the id.
 */
export async function refundAgent(id: string, request: string, engine: Engine): Promise<string | null> {
  const options = {
    call: (messages: Message[], _: unknown, { step }: { step: number }) => engine.askModel(messages, step),
    tools: {
      refund: tool<Refund>({
        parameters: { type: "object", properties: { order: { type: "string" }, euros: { type: "number" } }, required: ["order", "euros"] },
        needsApproval: true,
        run: ({ order, euros }, { key }) => engine.refund({ order, euros }, key),
      }),
    },
    // Engines number what is asked of them, so that it must come in the same order every time.
    concurrency: 1,
    onToolError: (error: unknown): string => {
      if (engine.isEngines(error)) throw error;
      return `the refund failed and may have taken effect: ${(error as Error).message}`;
    },
  };
  let from: { messages: Message[]; id: string } | { state: State; decisions: Record<string, Decision> } = { messages: [{ role: "user", content: request }], id };
  for (;;) {
    for await (const step of agent({ ...options, ...from })) {
      if (step.type === "final") return step.text;
      if (step.type === "approval-needed") from = { state: step.state, decisions: await engine.decisions(step.pending) };
    }
  }
}
