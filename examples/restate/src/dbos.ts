// The same on DBOS, which keeps its journal in your PostgreSQL: `DBOS.send(id, decision, call)` decides.
import { DBOS, Error as DBOSErrors } from "@dbos-inc/dbos-sdk";
import type { Decision } from "yieldagent";
import { refundAgent } from "./agent.ts";
import { askModel, refund } from "./world.ts";

const MONTH = 30 * 24 * 60 * 60;

export const refunds = DBOS.registerWorkflow(async (request: string): Promise<string | null> =>
  refundAgent(DBOS.workflowID ?? "", request, {
    askModel: (messages, step) => DBOS.runStep(() => askModel(messages), { name: `model ${step}` }),
    refund: (args, key) => DBOS.runStep(() => refund(args, key), { name: `refund ${key}` }),
    decisions: async (pending) => {
      await DBOS.setEvent("pending", pending);
      const decisions: Record<string, Decision> = {};
      for (const { id } of pending) decisions[id] = (await DBOS.recv<Decision>(id, MONTH)) ?? { approved: false, reason: "nobody decided within a month" };
      await DBOS.setEvent("pending", []);
      return decisions;
    },
    isEngines: (error) => error instanceof DBOSErrors.DBOSWorkflowCancelledError,
  }), { name: "refunds" });
