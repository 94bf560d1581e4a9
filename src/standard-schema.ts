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

/**
 * What a schema has under `~standard`: `validate`, or `jsonSchema`, or both, for these are two specifications. A schema
 * may be a function: arktype's are.
 */
export function standardOf(schema: object | undefined): Partial<StandardSchema["~standard"]> | undefined {
  return (schema as Partial<StandardSchema> | undefined)?.["~standard"];
}

/** The issues in one line: `city: expected a string; days.0: too small`. */
export function issuesText(issues: readonly StandardIssue[]): string {
  const texts = Array.from(issues).slice(0, 10).map((issue) => {
    const where = Array.from(issue?.path ?? [], (part) => String(typeof part === "object" ? (part as { key: PropertyKey } | null)?.key : part)).join(".");
    return where ? `${where}: ${issue.message}` : String(issue?.message);
  });
  return texts.join("; ") || "its schema doesn't say why";
}
