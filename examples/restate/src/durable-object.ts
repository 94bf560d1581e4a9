// The same in a Cloudflare Durable Object. It needs no journal, since the state is one: an object runs one thing at a time,
// `save` puts the state into its storage, and an alarm goes on with it, after a crash too.
import type { DurableObjectState } from "@cloudflare/workers-types";
import { agent, type Call, type Decision, pending, type State, type Tools } from "yieldagent";

export class RefundRun {
  readonly #ctx: DurableObjectState;
  readonly #call: Call;
  readonly #tools: Tools<unknown, unknown>;

  constructor(ctx: DurableObjectState, { call, tools }: { call: Call; tools: Tools<unknown, unknown> }) {
    this.#ctx = ctx;
    this.#call = call;
    this.#tools = tools;
  }

  async start(request: string): Promise<void> {
    const { state } = agent({ call: this.#call, tools: this.#tools, id: this.#ctx.id.toString(), messages: [{ role: "user", content: request }] });
    await this.#ctx.storage.put("state", JSON.stringify(state));
    await this.#ctx.storage.setAlarm(Date.now());
  }

  async decide(call: string, decision: Decision): Promise<boolean> {
    const state = JSON.parse((await this.#ctx.storage.get<string>("state")) ?? '{"calls":[]}') as State;
    const decisions = (await this.#ctx.storage.get<Record<string, Decision>>("decisions")) ?? {};
    if (call in decisions || !pending(state).some(({ id }) => id === call)) return false; // already decided
    await this.#ctx.storage.put("decisions", { ...decisions, [call]: decision });
    await this.#ctx.storage.setAlarm(Date.now());
    return true;
  }

  /** Comes again until it has come to its end, so that it also goes on with what a crash has cut off. */
  async alarm(): Promise<void> {
    const { storage } = this.#ctx;
    const state = JSON.parse((await storage.get<string>("state")) ?? "null") as State;
    const all = (await storage.get<Record<string, Decision>>("decisions")) ?? {};
    const decisions = Object.fromEntries(pending(state).filter(({ id }) => id in all).map(({ id }) => [id, all[id] as Decision]));
    const save = async (state: State): Promise<void> => {
      const open = pending(state).map(({ id }) => id);
      // Decision and state in one write: what was taken is gone with the save that it led to.
      const left = Object.entries((await storage.get<Record<string, Decision>>("decisions")) ?? {}).filter(([id]) => open.includes(id) && !(id in decisions));
      await storage.put<unknown>({ state: JSON.stringify(state), decisions: Object.fromEntries(left) });
    };
    for await (const _ of agent({ call: this.#call, tools: this.#tools, state, decisions, recover: true, save }));
  }
}
