// The same on Temporal: the file of a workflow. `askModel` and `refund` are its activities; worker and client as in any Temporal program.
import { condition, defineQuery, defineSignal, isCancellation, proxyActivities, setHandler, workflowInfo } from "@temporalio/workflow";
import type { Decision, PendingCall } from "yieldagent";
import { refundAgent } from "./agent.ts";
import type * as activities from "./world.ts";

const { askModel, refund } = proxyActivities<Pick<typeof activities, "askModel" | "refund">>({ startToCloseTimeout: "5 minutes" });

export const decide = defineSignal<[call: string, decision: Decision]>("decide");
export const pending = defineQuery<readonly PendingCall[]>("pending");

export async function refunds(request: string): Promise<string | null> {
  let waiting: readonly PendingCall[] = [];
  const decided = new Map<string, Decision>();
  setHandler(pending, () => waiting.filter(({ id }) => !decided.has(id)));
  setHandler(decide, (call, decision) => {
    if (!decided.has(call)) decided.set(call, decision); // the first one counts
  });
  return await refundAgent(workflowInfo().workflowId, request, {
    askModel,
    refund,
    decisions: async (pending) => {
      waiting = pending;
      await condition(() => pending.every(({ id }) => decided.has(id)));
      return Object.fromEntries(pending.map(({ id }) => [id, decided.get(id) as Decision]));
    },
    isEngines: isCancellation,
  });
}
