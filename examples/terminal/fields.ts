import type { StandardSchema } from "yieldagent";

/**
 * A schema by hand, since these examples have no dependency; with a library it is `z.object({ path: z.string() })`. It
 * refuses wrong arguments before a person is asked about them, and a person's wrong edits before they have an effect.
 */
export function fields<T>(kinds: Record<keyof T & string, "string" | "string?" | "number" | "number?">): StandardSchema<T> {
  const all = Object.entries<string>(kinds).map(([name, kind]) => ({ name, type: kind.replace("?", ""), optional: kind.endsWith("?") }));
  const problems = (value: Record<string, unknown>): string[] => [
    ...all.filter(({ name, type, optional }) => !(optional && value[name] === undefined) && typeof value[name] !== type).map(({ name, type }) => `${name} must be a ${type}`),
    ...Object.keys(value).filter((name) => !Object.hasOwn(kinds, name)).map((name) => `there is no ${JSON.stringify(name)}`),
  ];
  return {
    "~standard": {
      version: 1,
      vendor: "example",
      validate: (value) => {
        const issues = problems(value as Record<string, unknown>).map((message) => ({ message }));
        return issues.length > 0 ? { issues } : { value: value as T };
      },
      jsonSchema: {
        input: () => ({
          type: "object",
          properties: Object.fromEntries(all.map(({ name, type }) => [name, { type }])),
          required: all.filter(({ optional }) => !optional).map(({ name }) => name),
          additionalProperties: false,
        }),
      },
    },
  };
}
