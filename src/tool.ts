import type { Decision } from "./decision.ts";
import { AgentError, messageOf, quote } from "./error.ts";
import { type Args, check, keep, keepChecked, MAX_RESULT, thaw, wellFormed } from "./json.ts";
import type { Message, ToolDefinition } from "./message.ts";
import { issuesText, standardOf, type StandardResult, type StandardSchema } from "./standard-schema.ts";
import { attempt, type Maybe } from "./maybe.ts";
import type { Outcome } from "./state.ts";

/** A JSON Schema (https://json-schema.org): `{ type: "object", properties: { … } }`. Of any type, since libraries have their own for it. */
export type JsonSchema = object;

/** What a tool's `run` is told beside its arguments. */
export interface RunContext {
  /** The call's id. */
  id: string;
  /**
   * `run id/call id`, a slash or percent sign in the call id escaped: unique across runs, the same at every attempt. Pass it
   * on as the idempotency key.
   */
  key: string;
  /** Aborts when the run ends early. */
  signal: AbortSignal;
  /** What the call has kept, when it is entered again: after a crash, or after its `pause`. Frozen. Default `undefined`. */
  data: unknown;
  /** What was decided of the questions of its `pause`, by their own ids. Frozen. Default `{}`. */
  decisions: Readonly<Record<string, Decision>>;
  /** The run's `recover`: what `data` tells of may have been cut off anywhere. */
  recover: boolean;
  /**
   * Puts plain JSON under the call in the state, in the place of what was there and of `decisions`, and returns when the
   * run's `save` has it. Throws a TypeError for what JSON can't hold, and an Error once the call has ended; rejects with
   * the run's end when that comes first.
   */
  keep(data: unknown): Promise<void>;
}

/** What `needsApproval` is told beside the arguments. */
export interface ApprovalContext {
  /** The call's id. */
  id: string;
  /** The conversation so far. */
  messages: readonly Message[];
}

/**
 * Something the model can ask for. `Output` is what `run` gets: what the schema makes of the model's arguments, which
 * are `Input`. With a JSON Schema both are the arguments as they came, unchecked.
 */
export interface Tool<Output = Args, Input = Output, Inner = unknown> {
  /** For the model. */
  description?: string | undefined;
  /** A JSON Schema, or any Standard Schema: then arguments are validated and typed. Absent: no arguments. */
  parameters?: StandardSchema<Input, Output> | JsonSchema | undefined;
  /** The JSON Schema for the model, for a Standard Schema that can't give one. */
  jsonSchema?: JsonSchema | undefined;
  /**
   * `true`: a person must approve each call. A function decides call by call, and only an explicit `false` lets the
   * call run: anything else, a throw too, means that a person must decide.
   */
  needsApproval?: boolean | Callback<Output, ApprovalContext, boolean | Promise<boolean>> | undefined;
  /** `true`: after a crash a call that may have run is simply run again, with the same `key`. */
  idempotent?: boolean | undefined;
  /**
   * `true`: after a crash a call that may have run is entered again with what it kept, and takes care itself of what is
   * inside. What it can't take, it throws as an `AgentError` before it keeps anything: then the run throws that, and the
   * call is as it was.
   */
  resumable?: boolean | undefined;
  /**
   * Returns the result: anything JSON can hold (at most 16 MiB of it), `undefined` counts as null; or a `pause`. What it
   * throws is told to the model. As an async generator it may also yield JSON, each handed over as a step
   * `tool-progress`. Absent: a person (or the client) supplies the result.
   */
  run?: Callback<Output, RunContext, unknown> | undefined;
  /** Never set: carries the type of the arguments as the model gives them. */
  readonly "~input"?: Input;
  /** Never set: carries the type of the steps of an agent inside. */
  readonly "~inner"?: Inner;
}

/** A function, compared as methods are, so that a `Record<string, Tool>` may hold tools of all kinds. */
type Callback<A, Context, Result> = { of(args: A, context: Context): Result }["of"];

/** A tool whose types nobody needs to know. */
export type AnyTool = Tool<unknown, unknown>;

/** Gives a tool its types: the arguments are inferred from a Standard Schema, or given as `tool<Args>({ … })`. */
export function tool<Output = Args, Input = Output, Inner = unknown>(definition: Tool<Output, Input, Inner>): Tool<Output, Input, Inner> {
  return definition;
}

/** The tools of a run, checked: by their own names, and as the model is told of them. */
export interface Toolbox {
  readonly byName: ReadonlyMap<string, AnyTool>;
  readonly definitions: readonly ToolDefinition[];
}

const NAME = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;
const FIELDS = {
  description: "a string?",
  parameters: "a JSON Schema or a Standard Schema (of effect 3: Schema.standardSchemaV1(schema); of effect 4: Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema)))?",
  jsonSchema: "an object?",
  needsApproval: "a boolean or a function?",
  idempotent: "a boolean?",
  resumable: "a boolean?",
  run: "a function?",
} as const;

/** Checks the tools; what is wrong is a `bad-options` that names the tool and the field. */
export function toolbox(tools: object = {}): Toolbox {
  const byName = new Map<string, AnyTool>();
  const definitions = Object.entries(tools).map(([name, given]: [string, unknown]): ToolDefinition => {
    const where = `tools.${name}`;
    if (!NAME.test(name)) throw new AgentError("bad-options", `the tool name ${quote(name)} must match ${NAME.source}, or servers refuse it`);
    check("bad-options", where, given, FIELDS, false);
    const tool = given as AnyTool;
    byName.set(name, tool);
    const description = tool.description === undefined ? {} : { description: tool.description };
    return Object.freeze({ type: "function", function: Object.freeze({ name, ...description, parameters: modelSchema(where, tool) }) });
  });
  return { byName, definitions: Object.freeze(definitions) };
}

/** The JSON Schema that the model is given: a Standard Schema's own, in the newest draft that it knows. */
function modelSchema(where: string, { parameters = { type: "object", properties: {} }, jsonSchema }: AnyTool): Args {
  const standard = standardOf(parameters);
  let schema = jsonSchema ?? (standard ? undefined : parameters);
  let problem = "";
  for (const target of ["draft-2020-12", "draft-07"] as const) {
    try {
      schema ??= standard?.jsonSchema?.input({ target });
    } catch (error) {
      problem = ` (${messageOf(error)})`;
    }
  }
  if (!schema) {
    const vendor = standard?.vendor ?? "";
    const hint = (!problem && HINTS[vendor]) || "{ … }";
    throw new AgentError("bad-options", `${where}: ${vendor} gives no JSON Schema for the model${problem}; add jsonSchema: ${hint}`);
  }
  const { $schema: _, ...rest } = keepChecked("bad-options", `${where}.parameters`, schema) as Args;
  if ((rest["type"] ?? "object") !== "object") throw new AgentError("bad-options", `${where}.parameters.type must be "object"`);
  return Object.freeze(rest);
}

/** How to get a JSON Schema, of what goes in, out of the libraries whose schemas don't have it under `~standard` themselves. */
const HINTS: Record<string, string> = {
  zod: 'z.toJSONSchema(schema, { io: "input" }), or with zod 3 zodToJsonSchema(schema), from zod-to-json-schema',
  valibot: 'toJsonSchema(schema, { typeMode: "input" }), from @valibot/to-json-schema',
  arktype: "schema.in.toJsonSchema()",
  effect: "JSONSchema.make(schema), or with effect 4 let parameters be Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema))",
};

/** A tool's input, or why its schema refuses it. */
export type Valid = { readonly value: unknown } | { readonly error: string };

/** What the tool's schema makes of a call's arguments, or why it refuses them. */
export function validate({ parameters }: AnyTool, args: Readonly<Args>): Maybe<Valid> {
  const standard = standardOf(parameters);
  // A copy each time: a schema, or the tool, may change its input in place.
  if (!standard?.validate) return { value: thaw(args) };
  const refused = (problem: string): Valid => ({ error: `its arguments don't fit: ${problem}` });
  const read = (result: StandardResult<unknown> | undefined): Valid => (result && !result.issues ? result : refused(issuesText(result?.issues ?? [])));
  return attempt(() => standard.validate?.(thaw(args)), read, (error) => refused(messageOf(error)));
}

/** A tool's result as the state can hold it. The tool has run, so it is never run again for a result that can't be kept. */
export function resultOf(value: unknown): Outcome {
  try {
    let result: unknown = typeof value === "string" ? wellFormed(value) : (keep(value) ?? null);
    let text = typeof result === "string" ? result : JSON.stringify(result);
    if (text.length > MAX_RESULT) throw new RangeError("it is larger than 16 MiB");
    // JSON.stringify writes unpaired surrogates, and nothing else, as escapes from \ud800 on.
    if (typeof result !== "string" && text.includes("\\ud")) {
      text = text.replace(/\\(ud[89a-f]..|.)/g, (escape, code: string) => (code[1] ? "\uFFFD" : escape));
      result = keep(JSON.parse(text));
    }
    return { result, text };
  } catch (error) {
    return { error: `the tool ran, but its result can't be kept: ${messageOf(error)}` };
  }
}
