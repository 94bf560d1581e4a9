// Each schema library as a tool's `parameters`: what the argument of `run` is typed as, what is validated, and the JSON
// Schema that the model gets. What is measured here is the table in the root README; UPDATE=1 writes it.
import { readFileSync, writeFileSync } from "node:fs";
import { Type as SinclairType, type Static as SinclairStatic } from "@sinclair/typebox";
import { toStandardJsonSchema } from "@valibot/to-json-schema";
import * as valibotJson from "@valibot/to-json-schema";
import { type } from "arktype";
import * as effect3 from "effect3";
import * as effect4 from "effect4";
import { type Static, Type } from "typebox";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { agent, AgentError, type Args, type Tool, tool } from "yieldagent";
import { collect, script, toolCall } from "yieldagent/testing";
import * as z from "zod";
import { zodToJsonSchema } from "zod-to-json-schema";
import * as z3 from "zod3";
import * as mini from "zod/mini";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Same<A, B>): void => {};

/** What `run` gets where the library has defaults and transforms: `unit` is filled in, `days` was a text. */
type Output = { city: string; unit: "c" | "f"; days?: number | undefined };
/** And what the model gives. */
type Input = { city: string; unit?: "c" | "f" | undefined; days?: string | undefined };
/** Where nothing is transformed. */
type Plain = { city: string; unit?: "c" | "f" };

const got: unknown[] = [];
const kept = (args: unknown): string => (got.push(args), "ok");

// One schema, said in the way of each library.
const zod4 = z.object({ city: z.string().describe("City name"), unit: z.enum(["c", "f"]).default("c"), days: z.string().transform(Number).optional() });
const zodMini = mini.object({ city: mini.string().check(mini.describe("City name")), unit: mini._default(mini.enum(["c", "f"]), "c"), days: mini.optional(mini.pipe(mini.string(), mini.transform(Number))) });
const zod3 = z3.object({ city: z3.string().describe("City name"), unit: z3.enum(["c", "f"]).default("c"), days: z3.string().transform(Number).optional() });
const valibot = v.object({ city: v.pipe(v.string(), v.description("City name")), unit: v.optional(v.picklist(["c", "f"]), "c"), days: v.optional(v.pipe(v.string(), v.transform(Number))) });
const arktype = type({ city: type("string").describe("City name"), unit: "'c' | 'f' = 'c'", "days?": "string.integer.parse" });
const struct3 = effect3.Schema.Struct({
  city: effect3.Schema.String.annotations({ description: "City name" }),
  unit: effect3.Schema.optionalWith(effect3.Schema.Literal("c", "f"), { default: () => "c" as const }),
  days: effect3.Schema.optional(effect3.Schema.NumberFromString),
});
const struct4 = effect4.Schema.Struct({
  city: effect4.Schema.String.annotate({ description: "City name" }),
  unit: effect4.Schema.Literals(["c", "f"]).pipe(effect4.Schema.withDecodingDefaultKey(effect4.Effect.succeed("c" as const))),
  days: effect4.Schema.optionalKey(effect4.Schema.NumberFromString),
});
const sinclair = SinclairType.Object({ city: SinclairType.String({ description: "City name" }), unit: SinclairType.Optional(SinclairType.Union([SinclairType.Literal("c"), SinclairType.Literal("f")])) });
const typebox = Type.Object({ city: Type.String({ description: "City name" }), unit: Type.Optional(Type.Union([Type.Literal("c"), Type.Literal("f")])) });
const plain = { type: "object", properties: { city: { type: "string", description: "City name" }, unit: { enum: ["c", "f"] } }, required: ["city"] };

const typeboxJson = { type: "object", properties: { city: { type: "string", description: "City name" }, unit: { anyOf: [{ type: "string", const: "c" }, { type: "string", const: "f" }] } }, required: ["city"] };

interface Row {
  library: string;
  /** The folder in node_modules that its version is read from. */
  package?: string;
  /** What a user writes so that the model gets a JSON Schema; undefined: just `parameters: schema`. */
  write?: string;
  /** What a user writes so that `run`'s argument is typed, if it isn't inferred. */
  types?: string;
  tool: unknown;
  /** The JSON Schema for the model, exactly. */
  json: object;
  /** What bad arguments are told; undefined: nothing is checked. */
  refuses?: string;
  /** Its schema as it is, and what agent() says of it. */
  alone?: [parameters: unknown, error: string];
}

/** Whether `run`'s argument is known without being told. The compiler refuses the other word. */
type Inferred<T> = T extends Tool<infer O, infer _> ? (Same<O, Args> extends true ? "given" : "inferred") : never;
const row = <T>(library: string, it: T, types: Inferred<T>, more: Omit<Row, "library" | "tool">): Row => ({ library, tool: it, ...(types === "inferred" && { types }), ...more });
const needs = (vendor: string, hint: string): string => `tools.weather: ${vendor} gives no JSON Schema for the model; add jsonSchema: ${hint}`;

const rows: Row[] = [
  row("zod 4", tool({ parameters: zod4, run: (args) => (same<typeof args, Output>(true), kept(args)) }), "inferred", {
    package: "zod",
    json: { type: "object", properties: { city: { type: "string", description: "City name" }, unit: { default: "c", type: "string", enum: ["c", "f"] }, days: { type: "string" } }, required: ["city"] },
    refuses: "city: Invalid input: expected string, received number",
  }),
  row("zod/mini 4", tool({ parameters: zodMini, jsonSchema: mini.toJSONSchema(zodMini, { io: "input" }), run: (args) => (same<typeof args, Output>(true), kept(args)) }), "inferred", {
    package: "zod", write: 'jsonSchema: z.toJSONSchema(schema, { io: "input" })',
    json: { type: "object", properties: { city: { type: "string", description: "City name" }, unit: { default: "c", type: "string", enum: ["c", "f"] }, days: { type: "string" } }, required: ["city"] },
    refuses: "city: Invalid input: expected string, received number",
    alone: [zodMini, needs("zod", 'z.toJSONSchema(schema, { io: "input" }), or with zod 3 zodToJsonSchema(schema), from zod-to-json-schema')],
  }),
  row("zod 3", tool({ parameters: zod3, jsonSchema: zodToJsonSchema(zod3 as never), run: (args) => (same<typeof args, Output>(true), kept(args)) }), "inferred", {
    package: "zod3", write: "jsonSchema: zodToJsonSchema(schema), from zod-to-json-schema",
    json: { type: "object", properties: { city: { type: "string", description: "City name" }, unit: { type: "string", enum: ["c", "f"], default: "c" }, days: { type: "string" } }, required: ["city"], additionalProperties: false },
    refuses: "city: Expected string, received number",
    alone: [zod3, needs("zod", 'z.toJSONSchema(schema, { io: "input" }), or with zod 3 zodToJsonSchema(schema), from zod-to-json-schema')],
  }),
  row("valibot", tool({ parameters: toStandardJsonSchema(valibot), run: (args) => (same<typeof args, Output>(true), kept(args)) }), "inferred", {
    package: "valibot", write: "parameters: toStandardJsonSchema(schema), from @valibot/to-json-schema",
    json: { type: "object", properties: { city: { type: "string", description: "City name" }, unit: { enum: ["c", "f"], type: "string", default: "c" }, days: { type: "string" } }, required: ["city"] },
    refuses: "city: Invalid type: Expected string but received 1",
    alone: [valibot, needs("valibot", 'toJsonSchema(schema, { typeMode: "input" }), from @valibot/to-json-schema')],
  }),
  row("arktype", tool({ parameters: arktype, run: (args) => (same<typeof args, Output>(true), kept(args)) }), "inferred", {
    package: "arktype",
    json: { type: "object", properties: { city: { type: "string", description: "City name" }, days: { type: "string", pattern: "^(?:(?!^-0$)-?(?:(?:0|[1-9]\\d*)))$" }, unit: { enum: ["c", "f"] } }, required: ["city"] },
    refuses: "city: city must be City name (was a number)",
  }),
  row("effect 3", tool({ parameters: effect3.Schema.standardSchemaV1(struct3), jsonSchema: effect3.JSONSchema.make(struct3), run: (args) => (same<typeof args, Readonly<Output>>(true), kept(args)) }), "inferred", {
    package: "effect3", write: "parameters: Schema.standardSchemaV1(schema), jsonSchema: JSONSchema.make(schema)",
    json: {
      $defs: { NumberFromString: { type: "string", description: "a string to be decoded into a number" } },
      type: "object", properties: { city: { type: "string", description: "City name" }, unit: { type: "string", enum: ["c", "f"] }, days: { $ref: "#/$defs/NumberFromString" } }, required: ["city"], additionalProperties: false,
    },
    refuses: "city: Expected string, actual 1",
    alone: [effect3.Schema.standardSchemaV1(struct3), needs("effect", "JSONSchema.make(schema), or with effect 4 let parameters be Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema))")],
  }),
  row("effect 4", tool({ parameters: effect4.Schema.toStandardJSONSchemaV1(effect4.Schema.toStandardSchemaV1(struct4)), run: (args) => (same<typeof args, Readonly<Output>>(true), kept(args)) }), "inferred", {
    package: "effect4", write: "parameters: Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema))",
    json: { type: "object", properties: { city: { type: "string", description: "City name" }, unit: { type: "string", enum: ["c", "f"] }, days: { type: "string" } }, required: ["city"], additionalProperties: true },
    refuses: "city: Expected string",
    alone: [effect4.Schema.toStandardSchemaV1(struct4), needs("effect", "JSONSchema.make(schema), or with effect 4 let parameters be Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema))")],
  }),
  row("TypeBox 0.34", tool({ parameters: sinclair, run: (args) => (same<typeof args, Args>(true), kept(args)) }), "given", {
    package: "@sinclair/typebox", types: "tool<Static<typeof schema>>({ … })",
    json: typeboxJson,
  }),
  row("TypeBox 1", tool({ parameters: typebox, run: (args) => (same<typeof args, Args>(true), kept(args)) }), "given", {
    package: "typebox", types: "tool<Static<typeof schema>>({ … })",
    json: typeboxJson,
  }),
  row("JSON Schema", tool({ parameters: plain, run: (args) => (same<typeof args, Args>(true), kept(args)) }), "given", {
    types: "tool<Args>({ … })",
    json: plain,
  }),
];

/** Runs one call and tells what came of it. */
async function ran({ tool: weather }: Row, args: object): Promise<{ got: unknown; error: string | undefined; json: unknown }> {
  got.length = 0;
  const call = script(toolCall("weather", args, "c"), "done");
  const steps = await collect(agent({ call, tools: { weather: weather as Tool }, messages: [{ role: "user", content: "go" }] }));
  const result = steps.find((step) => step.type === "tool-result");
  return { got: got[0], error: result && "error" in result ? result.error : undefined, json: call.requests[0]?.tools[0]?.function.parameters };
}

describe.each(rows)("$library", (it) => {
  test("tells the model its JSON Schema, of what goes in", async () => {
    expect((await ran(it, { city: "Oslo" })).json).toEqual(it.json);
  });

  test(it.refuses ? "applies defaults and transforms" : "hands on arguments as they came", async () => {
    expect(await ran(it, { city: "Oslo", days: "3" })).toMatchObject({ got: it.refuses ? { city: "Oslo", unit: "c", days: 3 } : { city: "Oslo", days: "3" }, error: undefined });
  });

  test(it.refuses ? "refuses bad arguments in words for the model, and the tool doesn't run" : "checks nothing", async () => {
    const { got: gotten, error } = await ran(it, { city: 1 });
    expect(error).toBe(it.refuses && `not run: its arguments don't fit: ${it.refuses}`);
    expect(gotten).toEqual(it.refuses ? undefined : { city: 1 });
  });
});

test.each(rows.filter(({ alone }) => alone))("a schema of $library that gives no JSON Schema is refused at once, and what to write is said", ({ alone }) => {
  expect(() => agent({ call: script("done"), tools: { weather: { parameters: alone?.[0] } as Tool }, messages: [{ role: "user", content: "go" }] })).toThrow(new AgentError("bad-options", String(alone?.[1])));
});

test.each([["effect 3", struct3], ["effect 4", struct4]])("a schema of %s that wasn't made a Standard Schema is refused at once, and what to write is said", (_, parameters) => {
  expect(() => agent({ call: script("done"), tools: { weather: { parameters } as Tool }, messages: [{ role: "user", content: "go" }] }))
    .toThrow(new AgentError("bad-options", "tools.weather.parameters must be a JSON Schema or a Standard Schema (of effect 3: Schema.standardSchemaV1(schema); of effect 4: Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema)))"));
});

test("what is said to write for a JSON Schema is right, where the table says another way", async () => {
  const json = async (parameters: unknown, jsonSchema: object): Promise<unknown> => (await ran({ tool: { parameters, jsonSchema } } as Row, {})).json;
  expect(await json(valibot, valibotJson.toJsonSchema(valibot, { typeMode: "input" }))).toEqual(rows.find(({ library }) => library === "valibot")?.json);
  // Of arktype before 2.1.28, which had no `~standard.jsonSchema`; this one gives both, and they agree.
  expect(await json(arktype, arktype.in.toJsonSchema())).toEqual(rows.find(({ library }) => library === "arktype")?.json);
});

/** Compiled, never run. */
export async function compiles(): Promise<void> {
  const messages = [{ role: "user", content: "go" }];
  // @ts-expect-error zod 4: no such argument
  tool({ parameters: zod4, run: ({ town }) => town });
  // @ts-expect-error zod/mini: no such argument
  tool({ parameters: zodMini, run: ({ town }) => town });
  // @ts-expect-error zod 3: no such argument
  tool({ parameters: zod3, run: ({ town }) => town });
  // @ts-expect-error valibot: no such argument
  tool({ parameters: valibot, run: ({ town }) => town });
  // @ts-expect-error arktype: no such argument
  tool({ parameters: arktype, run: ({ town }) => town });
  // @ts-expect-error effect 3: no such argument
  tool({ parameters: effect3.Schema.standardSchemaV1(struct3), run: ({ town }) => town });
  // @ts-expect-error effect 4: no such argument
  tool({ parameters: effect4.Schema.toStandardSchemaV1(struct4), run: ({ town }) => town });
  // @ts-expect-error TypeBox 0.34: no such argument
  tool<SinclairStatic<typeof sinclair>>({ parameters: sinclair, run: ({ town }) => town });
  // @ts-expect-error TypeBox 1: no such argument
  tool<Static<typeof typebox>>({ parameters: typebox, run: ({ town }) => town });
  tool<SinclairStatic<typeof sinclair>>({ parameters: sinclair, run: (args) => same<typeof args, Plain>(true) });
  tool<Static<typeof typebox>>({ parameters: typebox, run: (args) => same<typeof args, Plain>(true) });

  // Steps and pending calls hold what the model gave; needsApproval and run get what the schema made of it. Inline too.
  const run = agent({
    call: script("done"), messages,
    tools: {
      zod4: tool({ parameters: zod4, needsApproval: ({ days }) => same<typeof days, number | undefined>(true) as unknown as boolean, run: () => 1 }),
      inline: { parameters: zod4, run: (args) => same<typeof args, Output>(true) },
      mini: tool({ parameters: zodMini }), zod3: tool({ parameters: zod3 }), valibot: tool({ parameters: valibot }), arktype: tool({ parameters: arktype }),
      effect3: tool({ parameters: effect3.Schema.standardSchemaV1(struct3) }), effect4: tool({ parameters: effect4.Schema.toStandardSchemaV1(struct4) }),
      typebox: tool<Static<typeof typebox>>({ parameters: typebox }),
    },
  });
  for await (const step of run) {
    if (step.type !== "tool-start") continue;
    if (step.tool === "zod4") same<typeof step.args, Input>(true);
    if (step.tool === "inline") same<typeof step.args, Input>(true);
    if (step.tool === "mini") same<typeof step.args, Input>(true);
    if (step.tool === "zod3") same<typeof step.args, Input>(true);
    if (step.tool === "valibot") same<typeof step.args, Input>(true);
    if (step.tool === "arktype") same<typeof step.args, Input>(true);
    if (step.tool === "effect3") same<typeof step.args, Readonly<Input>>(true);
    if (step.tool === "effect4") same<typeof step.args, Readonly<Input>>(true);
    if (step.tool === "typebox") same<typeof step.args, Plain>(true);
    // @ts-expect-error a model gives a text
    if (step.tool === "zod4") step.args.days?.toFixed();
  }
}

test("the README's table of libraries is what was measured here", async () => {
  const readme = new URL("../../README.md", import.meta.url);
  const measured = await Promise.all(rows.map(async (it) => {
    const version = it.package ? (JSON.parse(readFileSync(new URL(`node_modules/${it.package}/package.json`, import.meta.url), "utf8")) as { version: string }).version : "";
    const json = it.write ? `\`${it.write}\`` : it.refuses ? "from it" : "it is one";
    return `| ${it.library} | ${version} | ${it.types === "inferred" ? "inferred" : `\`${it.types}\``} | ${(await ran(it, { city: 1 })).error ? "yes" : "no"} | ${json} |`;
  }));
  const table = ["| library | tested | types of arguments | validates | JSON Schema for the model |", "|---|---|---|---|---|", ...measured].join("\n");
  const between = /(?<=<!-- schemas -->\n).*?(?=\n<!-- \/schemas -->)/s;
  const text = readFileSync(readme, "utf8");
  if (process.env["UPDATE"]) writeFileSync(readme, text.replace(between, () => table));
  else expect(between.exec(text)?.[0]).toBe(table);
});
