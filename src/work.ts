import { AgentError, messageOf, quote } from "./error.ts";
import { isStream } from "./delta.ts";
import { keep, MAX_DATA_DEPTH } from "./json.ts";
import type { Lifeline } from "./lifeline.ts";
import { attempt, isPromise, type Maybe } from "./maybe.ts";
import { questionsIn } from "./pause.ts";
import { done, paused, type Slot, type Update } from "./state.ts";
import type { Step } from "./step.ts";
import { type AnyTool, resultOf, type RunContext, type Valid } from "./tool.ts";

/** What all tools of a run are entered with. */
interface Terms {
  readonly runId: string;
  readonly recover: boolean;
  readonly onToolError: ((error: unknown, call: { tool: string; id: string }) => string | undefined) | undefined;
}

/** The calls that run. What they hand over waits here until the loop, whose consumer drives it, takes it. */
export class Work {
  /** How many run. */
  count = 0;
  /** What a tool was entered again with can't be taken: the run ends with it, when the others have finished. */
  refusal: AgentError | undefined;
  readonly #terms: Terms;
  readonly #life: Lifeline;
  #updates: Update[] = [];
  readonly #progress: { readonly step: Step; readonly taken: () => void }[] = [];
  /** Rejects for each tool that waits until what it handed over was taken. */
  readonly #waiting = new Set<() => void>();
  #wake = (): void => {};

  constructor(terms: Terms, life: Lifeline) {
    this.#terms = terms;
    this.#life = life;
  }

  /** Runs a tool; whatever becomes of it is an update. What `onToolError` throws ends the run. */
  enter(tool: AnyTool, open: Slot, input: Valid): void {
    this.count++;
    attempt(() => this.#run(tool, open, input), (update) => {
      // A resumable tool is entered again, and so a run that has ended hears nothing of how it took that.
      if (!(tool.resumable && this.#life.ended)) this.#put(update);
    }, (error) => this.#life.end(error));
  }

  /** When there is something to take. */
  news(): Maybe<void> {
    if (this.#updates.length + this.#progress.length === 0) return new Promise<void>((resolve) => (this.#wake = resolve));
  }

  /** What has changed since the last time: results, pauses, and what tools keep. */
  updates(): Update[] {
    const updates = this.#updates;
    this.#updates = [];
    for (const { change, refusal } of updates) {
      if (change.status) this.count--;
      this.refusal ??= refusal;
    }
    return updates;
  }

  progress(): { readonly step: Step; readonly taken: () => void } | undefined {
    return this.#progress.shift();
  }

  /** The run has ended: nobody takes anything any more. Returns what became of calls meanwhile. */
  close(): Update[] {
    for (const refuse of this.#waiting) refuse();
    return this.#updates.filter(({ change }) => change.status);
  }

  #put(update: Update): void {
    this.#updates.push(update);
    this.#wake();
  }

  /** Hands something over; waits until it was taken, by a run that goes on. */
  #hand(put: (taken: () => void) => void): Promise<void> {
    const handed = new Promise<void>((resolve, reject) => {
      const refuse = (): void => reject(this.#life.ended?.reason);
      if (this.#life.ended) return refuse();
      this.#waiting.add(refuse);
      put(() => {
        this.#waiting.delete(refuse);
        if (this.#life.ended) refuse();
        else resolve();
      });
      this.#wake();
    });
    handed.catch(() => {}); // a tool may not be waiting for it
    return handed;
  }

  #run(tool: AnyTool, open: Slot, input: Valid): Maybe<Update> {
    if ("error" in input) return done(open, { error: `not run: ${input.error}` });
    const { id, tool: name, data, decisions = {} } = open;
    const { runId, recover, onToolError } = this.#terms;
    let kept = false;
    let over = false;
    const context: RunContext = {
      id,
      // Ids come from the model: a slash in one must not make it the key of another run's call.
      key: `${runId}/${/[%/]/.test(id) ? id.replace(/[%/]/g, encodeURIComponent) : id}`,
      signal: this.#life.signal,
      data, decisions, recover,
      keep: (given) => {
        if (over) throw new Error(`the call ${quote(id)} has ended: nothing more can be kept for it`);
        const change = { data: keep(given, MAX_DATA_DEPTH), questions: undefined, decisions: undefined };
        kept = true;
        return this.#hand((taken) => this.#updates.push({ open, change, taken }));
      },
    };
    const failed = (error: unknown): Maybe<Update> => {
      over = true;
      // What an agent inside refuses before anything happened is the caller's to put right, as it is outside.
      const isEnteredAgain = !kept && (data !== undefined || open.decisions !== undefined);
      if (tool.resumable && isEnteredAgain && error instanceof AgentError && error.code !== "bad-reply") {
        const refusal = new AgentError(error.code, `in the call ${quote(id)} of ${name}: ${error.message}`);
        return { ...(open.questions ? paused(open, open.questions, open.decisions) : { open, change: { status: "ready" } }), refusal };
      }
      const said = (text: unknown): Update => done(open, { error: typeof text === "string" && text ? text : `the tool failed and may have taken effect: ${messageOf(error)}` });
      const text: unknown = onToolError?.(error, { tool: name, id });
      return isPromise(text) ? text.then(said) : said(text);
    };
    const ran = (value: unknown): Maybe<Update> => {
      if (value instanceof Error) return failed(value);
      over = true;
      const questions = questionsIn(value);
      return questions ? paused(open, questions, kept ? undefined : open.decisions) : done(open, resultOf(value));
    };
    return attempt(() => {
      const value: unknown = tool.run?.(input.value, context);
      return isStream(value) ? this.#drive(open, value) : value;
    }, ran, failed);
  }

  /** A tool that yields is asked for more when the consumer asks for more. */
  async #drive({ id, tool }: Slot, steps: AsyncGenerator<unknown>): Promise<unknown> {
    try {
      for (;;) {
        const next = await steps.next();
        if (next.done) return next.value;
        const step = Object.freeze({ type: "tool-progress", id, tool, value: keep(next.value) ?? null }) as Step;
        await this.#hand((taken) => this.#progress.push({ step, taken }));
      }
    } finally {
      await steps.return?.(undefined);
    }
  }
}
