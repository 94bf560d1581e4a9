/** What may be there already: most tools and schemas are synchronous, and waiting for each would cost more than they do. */
export type Maybe<T> = T | PromiseLike<T>;

export function isPromise<T>(value: Maybe<T>): value is PromiseLike<T> {
  return typeof (value as Partial<PromiseLike<T>> | null | undefined)?.then === "function";
}

/** `next` of what `work` returns, at once if it is there; `failed` of what it throws or rejects with. */
export function attempt<T, U>(work: () => Maybe<T>, next: (value: T) => Maybe<U>, failed: (error: unknown) => Maybe<U>): Maybe<U> {
  let value: Maybe<T>;
  try {
    value = work();
    if (isPromise(value)) return Promise.resolve(value).then(next, failed);
  } catch (error) {
    return failed(error);
  }
  return next(value);
}
