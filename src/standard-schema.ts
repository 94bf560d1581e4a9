/**
 * The Standard Schema interface (https://standardschema.dev, spec 1.1), as far as it is used here: what zod, valibot,
 * arktype and others put under `~standard`. Written out, since the specification asks to be copied, not depended on.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    /** Standard JSON Schema: only some libraries have it. */
    readonly jsonSchema?: { readonly input: (options: { readonly target: "draft-2020-12" | "draft-07" }) => Record<string, unknown> } | undefined;
  };
}

export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export function isStandardSchema(value: unknown): value is StandardSchema {
  // Some libraries' schemas are functions.
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  const standard = (value as { "~standard"?: { validate?: unknown } })["~standard"];
  return typeof standard?.validate === "function";
}

/** The issues in one line: `city: expected a string; days.0: too small`. */
export function issuesText(issues: readonly StandardIssue[]): string {
  const texts = Array.from(issues).slice(0, 10).map((issue) => {
    const where = Array.from(issue?.path ?? [], (part) => String(typeof part === "object" ? (part as { key: PropertyKey } | null)?.key : part)).join(".");
    return where ? `${where}: ${issue.message}` : String(issue?.message);
  });
  return texts.join("; ") || "its schema doesn't say why";
}
