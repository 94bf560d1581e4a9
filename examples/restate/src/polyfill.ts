// Restate's SDK wants a Node that knows it: 22. On 20 this is all that is missing.
(Promise as { withResolvers?: unknown }).withResolvers ??= function <T>() {
  let [resolve, reject] = [(_: T): void => {}, (_: unknown): void => {}];
  const promise = new Promise<T>((yes, no) => ([resolve, reject] = [yes, no]));
  return { promise, resolve, reject };
};
