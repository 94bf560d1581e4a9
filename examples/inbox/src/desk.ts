import { randomUUID } from "node:crypto";
import { agent, type Call, type Decision, pending, type PendingReason, type State, type Step, type Tools } from "yieldagent";
import { INSTRUCTIONS } from "./model.ts";
import { type Case, Conflict, type Entry, type Store } from "./store.ts";

const MAX_STEPS = 20;

/** What the list shows of a run. */
export interface Summary {
  id: string;
  revision: number;
  request: string;
  askedBy: string;
  askedAt: number;
  changedAt: number;
  status: Status;
  /** The tools that wait for a person. */
  waiting: string[];
}
export type Status = "running" | "waiting" | "done" | "failed";

/** A run as it was at one moment. */
export interface View {
  found: Case;
  status: Status;
  /** Why it could not go on. */
  failure: string | undefined;
  /** Which news are in it, for `watch`. */
  seen: string;
}

/** What one person says of one call, as it was shown to them. */
export interface Said {
  who: string;
  call: string;
  reason: PendingReason;
  decision: Decision;
}

/** Somebody decided before, or the call is not what the person was shown. Nothing happened. */
export class AlreadyDecided extends Error {}

/** What a page is told while it is open: text as it streams in, and that there is something new to show. */
export type News = { kind: "text"; text: string } | { kind: "changed" };

/** One stretch of a run: from a start or a decision to the next pause or the end. */
interface Leg {
  /** The first save: from here on it survives everything. Rejects if it was refused. */
  saved: Promise<void>;
  /** Never rejects. */
  ended: Promise<void>;
  /** What the model has said since its last whole message. */
  text: string;
}

/** The runs, and the people they wait for. Each run has at most one leg at a time; between two it is only in the store. */
export class Desk {
  readonly #store: Store;
  readonly #call: Call;
  readonly tools: Tools<unknown, unknown>;
  readonly #summaries = new Map<string, Summary>();
  readonly #legs = new Map<string, Leg>();
  /** Why a run could not go on; gone after a restart, which tries again. */
  readonly #failures = new Map<string, string>();
  readonly #watchers = new Map<string, Set<(news: News) => void>>();
  /** How often something new was told of each run, and with "" of all, since this desk began. */
  readonly #told = new Map<string, number>();
  readonly #begun: string = randomUUID();
  #opened = (): void => {};
  /** Until then nothing is known of any run. */
  readonly ready: Promise<void> = new Promise((resolve) => (this.#opened = resolve));

  constructor(store: Store, call: Call, tools: Tools<unknown, unknown>) {
    this.#store = store;
    this.#call = call;
    this.tools = tools;
  }

  /** Reads what is there, and goes on with what was running when the last process ended, a few at a time. */
  async open(): Promise<void> {
    const cut: string[] = [];
    for await (const found of this.#store.all()) if (this.#note(found) === "running") cut.push(found.state.id);
    this.#opened();
    const next = async (): Promise<void> => {
      for (let id = cut.pop(); id !== undefined; id = cut.pop()) {
        await this.retry(id);
        await this.#legs.get(id)?.ended;
      }
    };
    for (let i = 0; i < 8; i++) void next();
  }

  /** By status, the oldest first. */
  list(status: Status): Summary[] {
    return [...this.#summaries.values()].filter((one) => one.status === status).sort((a, b) => a.askedAt - b.askedAt);
  }

  /** Never older than what was told of it: a slow read is made again. */
  async load(id: string): Promise<Case | undefined> {
    for (;;) {
      if (!this.#summaries.has(id)) return undefined;
      const found = await this.#store.load(id);
      if (!found || found.state.revision >= (this.#summaries.get(id)?.revision ?? 0)) return found;
    }
  }

  /** All that a page shows, of one and the same state: the store may be ahead of what was told, for as long as a save takes to return. */
  async view(id: string): Promise<View | undefined> {
    const seen = this.seen(id); // before it is read: what happens meanwhile is news
    const found = await this.load(id);
    return found && { found, status: this.#statusOf(found.state), failure: this.#failures.get(id), seen };
  }

  /** What has been told until now of a run, or with "" of all. */
  seen(id: string): string {
    return `${this.#begun}.${this.#told.get(id) ?? 0}`;
  }

  /** A new run. It is in the store before anything happens. */
  async start(request: string, askedBy: string): Promise<string> {
    const now = Date.now();
    const messages = [{ role: "system", content: INSTRUCTIONS }, { role: "user", content: request }];
    const { state } = agent({ call: this.#call, tools: this.tools, messages, id: randomUUID() });
    const first: Case = { state, request, askedBy, askedAt: now, changedAt: now, audit: [] };
    await this.#store.save(first);
    this.#note(first);
    this.#begin(first);
    return state.id;
  }

  /**
   * Takes a decision; resolves once it is saved, and the run goes on by itself. A call that was decided meanwhile, or
   * that waits for something else now, is `AlreadyDecided`.
   */
  async decide(id: string, said: Said): Promise<void> {
    for (;;) {
      const found = await this.load(id);
      const open = found && pending(found.state).find(({ id, reason }) => id === said.call && reason === said.reason);
      if (!found || !open) throw new AlreadyDecided();
      const leg = this.#legs.get(id);
      if (!leg) {
        const { tool, args, reason } = open;
        const entry: Entry = { at: Date.now(), who: said.who, call: open.id, tool, args, reason, decision: said.decision };
        try {
          return await this.#begin({ ...found, audit: [...found.audit, entry] }, { [open.id]: said.decision }).saved;
        } catch (error) {
          if (error instanceof Conflict) continue; // was it this call, or another of the run?
          throw error;
        }
      }
      // Another call of this reply was decided, and runs. This one has its turn then; if it is this very call, it is not pending any more.
      await leg.saved.catch(() => {});
      const now = await this.load(id);
      if (now && pending(now.state).some(({ id }) => id === said.call)) await leg.ended;
    }
  }

  /** Begins to go on with a run that was cut off or has failed. */
  async retry(id: string): Promise<void> {
    const found = await this.load(id);
    if (found && !this.#legs.has(id)) this.#begin(found);
  }

  /**
   * Hears of one run, or with "" of all: first whether there is more than it has `seen`, and what the model is saying
   * right now. Returns what ends it.
   */
  watch(id: string, seen: string | null, listener: (news: News) => void): () => void {
    if (seen !== this.seen(id)) listener({ kind: "changed" });
    const text = this.#legs.get(id)?.text;
    if (text) listener({ kind: "text", text });
    const all = this.#watchers.get(id) ?? new Set();
    this.#watchers.set(id, all.add(listener));
    return () => {
      all.delete(listener);
      if (all.size === 0 && this.#watchers.get(id) === all) this.#watchers.delete(id);
    };
  }

  #begin(from: Case, decisions: Record<string, Decision> = {}): Leg {
    const { id } = from.state;
    let [accept, refuse] = [(): void => {}, (_: unknown): void => {}];
    const saved = new Promise<void>((resolve, reject) => ([accept, refuse] = [resolve, reject]));
    saved.catch(() => {}); // nobody may be waiting for it
    const leg: Leg = { saved, ended: Promise.resolve(), text: "" };
    let last = from;
    const save = async (state: State): Promise<void> => {
      const next = { ...from, state, changedAt: Date.now() };
      await this.#store.save(next);
      last = next;
      leg.text = ""; // whatever was said is in the conversation now
      accept();
      this.#note(next);
    };
    this.#legs.set(id, leg);
    if (this.#failures.delete(id)) this.#note(from);
    // What is in this desk's store and has no leg is run by nobody: its process is gone.
    leg.ended = this.#run(id, leg, { state: from.state, decisions, recover: true, save }).then(accept, (error: Error) => {
      refuse(error);
      // A refused decision has changed nothing. Anything else that ends a run must be seen.
      const refused = error instanceof Conflict || (error as { code?: string }).code === "bad-decision";
      if (!refused) this.#failures.set(id, error.message);
    }).then(() => {
      this.#legs.delete(id);
      if (this.#failures.has(id)) this.#note(last);
    });
    return leg;
  }

  async #run(id: string, leg: Leg, options: { state: State; decisions: Record<string, Decision>; recover: true; save: (state: State) => Promise<void> }): Promise<void> {
    for await (const step of agent({ call: this.#call, tools: this.tools, maxSteps: MAX_STEPS, ...options }) as AsyncIterable<Step>) {
      if (step.type !== "text") continue; // every other step is in the state that was just saved, and the page is made from that
      leg.text += step.text;
      this.#tell(id, { kind: "text", text: step.text });
    }
  }

  /** The one place where anything changes that a page shows: whoever watches is told. */
  #note({ state, request, askedBy, askedAt, changedAt }: Case): Status {
    const { id, revision } = state;
    const status = this.#statusOf(state);
    this.#summaries.set(id, { id, revision, request, askedBy, askedAt, changedAt, status, waiting: pending(state).map(({ tool }) => tool) });
    for (const whose of [id, ""]) {
      this.#told.set(whose, (this.#told.get(whose) ?? 0) + 1);
      this.#tell(whose, { kind: "changed" });
    }
    return status;
  }

  #statusOf(state: State): Status {
    return this.#failures.has(state.id) ? "failed" : statusOf(state);
  }

  #tell(id: string, news: News): void {
    for (const listener of this.#watchers.get(id) ?? []) listener(news);
  }
}

/** With calls that wait for people and none that could go on, a run waits; with its last word said, it is done. */
function statusOf({ calls, messages, steps }: State): Status {
  if (calls.some(({ status }) => status === "pending") && calls.every(({ status }) => status === "pending" || status === "done")) return "waiting";
  return calls.length === 0 && (messages.at(-1)?.role === "assistant" || steps >= MAX_STEPS) ? "done" : "running";
}
