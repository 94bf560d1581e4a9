// The agent as a Restate workflow: model calls and tools are journaled, a decision is a durable promise.
import "./polyfill.ts";
import * as restate from "@restatedev/restate-sdk";
import type { Decision, PendingCall } from "yieldagent";
import { refundAgent } from "./agent.ts";
import { askModel, refund } from "./world.ts";

const refunds = restate.workflow({
  name: "refunds",
  handlers: {
    run: (ctx: restate.WorkflowContext, request: string): Promise<string | null> =>
      refundAgent(ctx.key, request, {
        askModel: (messages, step) => ctx.run(`model ${step}`, () => askModel(messages)),
        refund: (args, key) => ctx.run(`refund ${key}`, () => refund(args, key)),
        decisions: async (pending) => {
          ctx.set("pending", [...pending]);
          const decisions: Record<string, Decision> = {};
          for (const { id } of pending) decisions[id] = await ctx.promise<Decision>(id);
          ctx.clear("pending");
          return decisions;
        },
        isEngines: (error) => error instanceof restate.CancelledError,
      }),
    pending: async (ctx: restate.WorkflowSharedContext): Promise<PendingCall[]> => (await ctx.get<PendingCall[]>("pending")) ?? [],
    // Of two who decide the first counts: a promise is resolved once. What doesn't fit must not get there, since it stays.
    decide: async (ctx: restate.WorkflowSharedContext, { call, decision }: { call: string; decision: Decision }): Promise<string> => {
      const open = ((await ctx.get<PendingCall[]>("pending")) ?? []).some(({ id }) => id === call);
      if (!open || (await ctx.promise<Decision>(call).peek()) !== undefined) return "already decided";
      if (typeof decision !== "boolean" && typeof (decision as { approved?: unknown } | null)?.approved !== "boolean") throw new restate.TerminalError("say { approved: true } or { approved: false }", { errorCode: 400 });
      await ctx.promise<Decision>(call).resolve(decision);
      return "taken";
    },
  },
});

const port = Number(process.env["PORT"] ?? 9080);
void restate.serve({ services: [refunds], port }).then(() => console.log(`at work on port ${port}`));
