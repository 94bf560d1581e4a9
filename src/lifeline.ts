import { copied } from "./json.ts";
import type { State } from "./state.ts";

/**
 * A run has one end, whoever brings it: the caller's signal, a consumer that went away, or an error. Then nothing new
 * starts, what runs is told by `signal`, and nobody waits for it any longer.
 */
export class Lifeline {
  /** Why the run has ended early, once it has. */
  ended: { readonly reason: unknown } | undefined;
  /** The consumer went away: no error, and nobody to tell one. */
  left = false;
  readonly #controller: AbortController = new AbortController();
  /** Rejects what is being waited for. */
  #interrupt: (reason: unknown) => void = () => {};

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(reason: unknown): void {
    if (this.ended) return;
    this.ended = { reason };
    this.#controller.abort(reason);
    this.#interrupt(reason);
  }

  leave(): void {
    this.left ||= !this.ended;
    this.end(Object.assign(new Error("nobody reads the run any more"), { name: "AbortError" }));
  }

  /** Throws if the run has ended. */
  check(): void {
    if (this.ended) throw this.ended.reason;
  }

  /** Waits for work that isn't ours to hurry, but not past the run's end. */
  until<T>(work: PromiseLike<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#interrupt = reject;
      work.then(resolve, reject);
      if (this.ended) reject(this.ended.reason);
    });
  }
}

/**
 * The loop as its consumer has it: with the state beside it, and an end that doesn't wait until its turn comes.
 * (A class, since engines free a generator late that was given properties of its own.)
 */
export class Run<S> implements AsyncIterator<S, void, undefined>, AsyncIterable<S, void, undefined> {
  readonly #steps: AsyncGenerator<S, void, undefined>;
  readonly #life: Lifeline;
  readonly #ledger: { readonly state: State };

  constructor(steps: AsyncGenerator<S, void, undefined>, life: Lifeline, ledger: { readonly state: State }) {
    this.#steps = steps;
    this.#life = life;
    this.#ledger = ledger;
  }

  get state(): State {
    const { state } = this.#ledger;
    copied(state.messages); // a tool that has this run inside may keep it
    return state;
  }

  next(): Promise<IteratorResult<S, void>> {
    return this.#steps.next();
  }

  return(): Promise<IteratorResult<S, void>> {
    this.#life.leave();
    return this.#steps.return();
  }

  throw(error: unknown): Promise<IteratorResult<S, void>> {
    this.#life.end(error);
    return this.#steps.throw(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  static {
    // What engines' own generators have, where the engine knows `await using`.
    const { asyncDispose } = Symbol as { asyncDispose?: symbol };
    if (asyncDispose) Object.defineProperty(this.prototype, asyncDispose, { value(this: Run<unknown>) { return this.return().then(() => {}); } });
  }
}
