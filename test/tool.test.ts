import { agent, type StandardSchema, type State, tool } from "yieldagent";
import { script, toolCall } from "yieldagent/testing";
import { describe, expect, test } from "vitest";
import { stored, toldTo, trace, user } from "./trace.ts";

type Result = { value: unknown; issues?: undefined } | { issues: { message: string; path?: (PropertyKey | { key: PropertyKey })[] }[] };

/** A Standard Schema made by hand. */
function schema(validate: (value: unknown) => Result | Promise<Result>, jsonSchema?: (target: string) => unknown, vendor = "test"): StandardSchema {
  return { "~standard": { version: 1, vendor, validate, ...(jsonSchema && { jsonSchema: { input: ({ target }: { target: string }) => jsonSchema(target) } }) } } as StandardSchema;
}
const object = () => ({ type: "object" });
const one = (t: object, args: unknown, ...rest: [object?]) => trace({ call: script(toolCall("t", args, "a"), "ok"), tools: { t } as never, ...rest[0] });

describe("tools are checked when they are given", () => {
  const call = script();
  test.each([
    ["has space", {}, 'the tool name "has space" must match ^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$, or servers refuse it'],
    ["x".repeat(65), {}, `the tool name "${"x".repeat(65)}" must match`],
    ["1st", {}, 'the tool name "1st" must match'],
    ["t", null, "tools.t must be an object"],
    ["t", () => 1, "tools.t must be an object"],
    ["t", { run: "x" }, "tools.t.run must be a function"],
    ["t", { needApproval: true }, 'tools.t has no field "needApproval", only description, parameters, jsonSchema, needsApproval, idempotent, resumable, run'],
    ["t", { description: 1 }, "tools.t.description must be a string"],
    ["t", { idempotent: "yes" }, "tools.t.idempotent must be a boolean"],
    ["t", { parameters: [] }, "tools.t.parameters must be a JSON Schema or a Standard Schema (of effect 3: Schema.standardSchemaV1(schema); of effect 4: Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema)))"],
    ["t", { parameters: () => 1 }, "tools.t.parameters must be a JSON Schema or a Standard Schema (of effect 3: Schema.standardSchemaV1(schema); of effect 4: Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema)))"],
    ["t", { parameters: { type: "string" } }, 'tools.t.parameters.type must be "object"'],
    ["t", { parameters: { type: "object", default: 1n } }, "tools.t.parameters must be plain JSON: JSON can't hold a BigInt"],
    ["t", { parameters: schema((value) => ({ value }), undefined, "zod") }, "tools.t: zod gives no JSON Schema for the model; add jsonSchema: z.toJSONSchema(schema, { io: \"input\" }), or with zod 3 zodToJsonSchema(schema), from zod-to-json-schema"],
    ["t", { parameters: schema((value) => ({ value }), undefined, "valibot") }, "tools.t: valibot gives no JSON Schema for the model; add jsonSchema: toJsonSchema(schema, { typeMode: \"input\" }), from @valibot/to-json-schema"],
    ["t", { parameters: schema((value) => ({ value }), undefined, "arktype") }, "tools.t: arktype gives no JSON Schema for the model; add jsonSchema: schema.in.toJsonSchema()"],
    ["t", { parameters: schema((value) => ({ value }), undefined, "effect") }, "tools.t: effect gives no JSON Schema for the model; add jsonSchema: JSONSchema.make(schema), or with effect 4 let parameters be Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema))"],
    ["t", { parameters: schema((value) => ({ value }), undefined, "other") }, "tools.t: other gives no JSON Schema for the model; add jsonSchema: { … }"],
    ["t", { parameters: schema((value) => ({ value }), () => { throw new Error("a Date"); }, "zod") }, "tools.t: zod gives no JSON Schema for the model (a Date); add jsonSchema: { … }"],
  ])("%s: %o is bad-options", (name, t, message) => {
    expect(() => agent({ call, messages: [user], tools: { [name]: t } as never })).toThrow(expect.objectContaining({ code: "bad-options", message: expect.stringContaining(message) as string }) as Error);
  });

  test("a JSON Schema that names no type is one of an object", async () => {
    const call = script("ok");
    await trace({ call, tools: { t: { parameters: { properties: {} }, run: () => 1 } } });
    expect(call.requests[0]?.tools[0]?.function.parameters).toEqual({ properties: {} });
  });

  test("a Standard Schema's own JSON Schema is asked for in draft 2020-12, else in draft 07, without $schema", async () => {
    const asked: string[] = [];
    const newest = schema((value) => ({ value }), (target) => (asked.push(target), { $schema: target, type: "object", title: "new" }));
    const older = schema((value) => ({ value }), (target) => {
      if (target !== "draft-07") throw new Error("unknown target");
      return { $schema: target, type: "object", title: "old" };
    });
    const script1 = script("ok");
    await trace({ call: script1, tools: { newest: { parameters: newest, run: () => 1 }, older: { parameters: older, run: () => 1 }, own: { parameters: newest, jsonSchema: { type: "object", title: "own" }, run: () => 1 } } });
    expect(script1.requests[0]?.tools.map((definition) => definition.function.parameters)).toEqual([{ type: "object", title: "new" }, { type: "object", title: "old" }, { type: "object", title: "own" }]);
    expect(asked).toEqual(["draft-2020-12"]);
  });

  test("a schema that only gives JSON Schema is shown to the model, and checks nothing", async () => {
    const only = { "~standard": { version: 1, vendor: "test", jsonSchema: { input: () => ({ type: "object", title: "shown" }) } } };
    const call = script(toolCall("t", { any: 1 }, "a"), "ok");
    const { lines } = await trace({ call, tools: { t: { parameters: only, run: (args: unknown) => args } } });
    expect(call.requests[0]?.tools[0]?.function.parameters).toEqual({ type: "object", title: "shown" });
    expect(lines).toContain('result a: {"any":1}');
  });

  test("a schema that is a function, as some libraries' are, works like any other", async () => {
    const callable = Object.assign(() => 1, schema(() => ({ value: { x: 1 } }), object));
    expect((await one({ parameters: callable, run: ({ x }: { x: number }) => x + 1 }, {})).lines).toContain("result a: 2");
  });
});

describe("a Standard Schema", () => {
  test("is applied once to what was approved; run gets the output, the state and the person the input", async () => {
    const plusOne = schema((value) => ({ value: { n: (value as { n: number }).n + 1 } }), object);
    const got: unknown[] = [];
    const t = { parameters: plusOne, needsApproval: (args: unknown) => (got.push(args), true), run: (args: unknown) => (got.push(args), "ok") };
    const paused = await one(t, { n: 1 });
    expect(paused.steps.at(-1)).toMatchObject({ pending: [{ args: { n: 1 } }] });
    const { steps } = await trace({ call: script("", "ok"), tools: { t } as never, state: stored(paused.state), decisions: { a: true } });
    expect(steps[0]).toMatchObject({ type: "tool-start", args: { n: 1 } });
    expect(got).toEqual([{ n: 2 }, { n: 2 }]);
  });

  test("that changes its input in place changes only its own copy", async () => {
    const mutating = schema((value) => {
      (value as { n: number }).n += 1;
      return { value };
    }, object);
    const { steps, state } = await one({ parameters: mutating, run: ({ n }: { n: number }) => n }, { n: 1 });
    expect(steps.slice(1, 3)).toMatchObject([{ args: { n: 1 } }, { args: { n: 1 }, result: 2 }]);
    expect(state.messages[1]?.tool_calls?.[0]?.function.arguments).toBe('{"n":1}');
  });

  test.each([
    ["refuses", schema(() => ({ issues: [{ message: "too small", path: ["list", { key: 0 }] }, { message: "odd" }] }), object), "list.0: too small; odd"],
    ["refuses in its own time", schema(async () => ({ issues: [{ message: "unknown city" }] }), object), "unknown city"],
    ["throws", schema(() => { throw new Error("schema bug"); }, object), "schema bug"],
    ["gives nothing", schema(() => undefined as never, object), "its schema doesn't say why"],
    ["gives no issues", schema(() => ({ issues: [] }), object), "its schema doesn't say why"],
    ["gives odd issues", schema(() => ({ issues: [null, {}, { path: [{}, null], message: 1 }] as never }), object), "undefined; undefined; undefined.undefined: 1"],
    ["gives many issues", schema(() => ({ issues: Array.from({ length: 12 }, (_, i) => ({ message: `${i}` })) }), object), "0; 1; 2; 3; 4; 5; 6; 7; 8; 9"],
    ["rejects", schema(() => Promise.reject(new Error("no database")), object), "no database"],
  ])("that %s arguments: an error result, nobody is asked, nothing runs", async (_, parameters, problem) => {
    let touched = 0;
    const { lines } = await one({ parameters, needsApproval: () => (touched++, true), run: () => touched++ }, { n: 1 }, { approve: () => (touched++, true) });
    expect(lines).toEqual(["message", `error a: not run: its arguments don't fit: ${problem}`, "message", "final stop: ok"]);
    expect(touched).toBe(0);
  });

  test("that takes its time beside one that doesn't: both calls get what their schema made", async () => {
    const got: unknown[] = [];
    const make = (parameters: StandardSchema) => tool({ parameters, run: (args) => void got.push(args) });
    const both = { slow: make(schema(async () => ({ value: "slow" }), object)), quick: make(schema(() => ({ value: "quick" }), object)) };
    await trace({ call: script([toolCall("slow"), toolCall("quick")], "ok"), tools: both });
    expect(got).toEqual(["slow", "quick"]);
  });

  test("is asked again when the call runs: what has become wrong meanwhile does not run", async () => {
    let open = true;
    let runs = 0;
    const t = { parameters: schema((value) => (open ? { value } : { issues: [{ message: "shop closed" }] }), object), needsApproval: true, run: () => runs++ };
    const { state } = await one(t, {});
    open = false;
    const { lines } = await trace({ call: script("", "ok"), tools: { t } as never, state, decisions: { a: true } });
    expect(lines.slice(0, 2)).toEqual(["start a", "error a: not run: its arguments don't fit: shop closed"]);
    expect(runs).toBe(0);
  });

  test("checks edited arguments too, and the state holds the edit as the person wrote it", async () => {
    const trimmed = schema(async (value) => ({ value: { to: (value as { to: string }).to.trim() } }), object);
    const got: unknown[] = [];
    const t = { parameters: trimmed, needsApproval: true, run: (args: unknown) => got.push(args) };
    const { state } = await one(t, { to: "ann" });
    const { steps } = await trace({ call: script("", "ok"), tools: { t } as never, state, decisions: { a: { approved: true, args: { to: " bob " } } } });
    expect(steps[0]).toMatchObject({ args: { to: " bob " } });
    expect(got).toEqual([{ to: "bob" }]);
  });
});

describe("arguments from the model", () => {
  const nested = (depth: number): string => `${'{"a":'.repeat(depth - 1)}{}${"}".repeat(depth - 1)}`;
  let runs = 0;
  const t = { needsApproval: () => (runs++, true), run: () => runs++ };

  test.each([
    ["no JSON", "{", "are not a JSON object"], ["empty", "", "are not a JSON object"], ["an array", "[1]", "are not a JSON object"], ["a string", '"{}"', "are not a JSON object"],
    ["null", "null", "are not a JSON object"], ["two objects", "{}{}", "are not a JSON object"], ["a trailing comma", '{"a":1,}', "are not a JSON object"],
    ["a number no JSON can say again", '{"n":1e999}', "can't be taken: JSON can't hold Infinity"],
    ["a key __proto__", '{"a":{"__proto__":{"admin":true}}}', "can't be taken: it has a key __proto__"],
    ["too deep", nested(65), "can't be taken: it is nested too deep, or contains itself"],
    ["far too deep", nested(100_000), "can't be taken: it is nested too deep, or contains itself"],
    ["too large", JSON.stringify({ s: "x".repeat(1024 * 1024) }), "can't be taken: the arguments are larger than 1 MiB"],
  ])("that are %s: an error result, nobody is asked, nothing runs, the history is clean", async (_, text, problem) => {
    runs = 0;
    const { lines, state } = await one(t, text);
    expect(lines).toEqual(["message", `error a: not run: its arguments ${problem}`, "message", "final stop: ok"]);
    expect(state.messages[1]?.tool_calls?.[0]?.function.arguments).toBe("{}");
    expect(runs).toBe(0);
  });

  test("are taken up to 64 levels and 1 MiB", async () => {
    for (const text of [nested(64), JSON.stringify({ s: "x".repeat(1024 * 1024 - 8) })]) expect((await one({ run: () => 1 }, text)).lines).toContain("result a: 1");
  });

  test.each([["numbers", `{"a":[${Array(200_000).fill("1e20").join()}]}`], ["half characters", `{"a":"${"\ud800".repeat(200_000)}"}`]])("of %s that are longer when they are saved can be resumed all the same", async (_, text) => {
    const gated = { t: tool({ needsApproval: true, run: () => "did" }) };
    const { state } = await trace({ call: script(toolCall("t", text, "a")), tools: gated });
    const { lines } = await trace({ call: script("", "ok"), tools: gated, state: stored(state), decisions: { a: true } });
    expect(lines).toEqual(["start a", 'result a: "did"', "message", "final stop: ok"]);
  });

  test.each([{ n: 1 }, ['{"n":1}'], 7, null, undefined])("that are no text at all, but %j, are not guessed", async (value) => {
    const reply = { role: "assistant", content: null, tool_calls: [{ id: "a", type: "function", function: { name: "t", arguments: value as never } }] };
    const { lines } = await trace({ call: script(reply, "ok"), tools: { t: { run: () => 1 } } });
    expect(lines[1]).toBe("error a: not run: its arguments are not a JSON object");
  });

  test("an id that holds a slash, a percent sign or half a character has a key all the same", async () => {
    const keys: string[] = [];
    const ids = ["a/b", "a%2Fb", "%\ud800", "functions.add:0", "/"];
    const t = tool({ run: (_, { key }) => void keys.push(key) });
    await trace({ call: script(ids.map((id) => toolCall("t", {}, id)), "ok"), tools: { t }, id: "r" });
    expect(keys).toEqual(["r/a%2Fb", "r/a%252Fb", "r/%25\ud800", "r/functions.add:0", "r/%2F"]);
  });

  test("a call of a run without tools is told that there are none", async () => {
    expect((await trace({ call: script(toolCall("t", {}, "a"), "ok") })).lines[1]).toBe('error a: not run: there is no tool "t"; the tools are: none');
  });

  test.each(["constructor", "toString", "__proto__", "hasOwnProperty"])("a call of %s finds no tool through the prototype", async (name) => {
    const { lines } = await trace({ call: script(toolCall(name, {}, "a"), "ok"), tools: { t: { run: () => 1 } } });
    expect(lines[1]).toBe(`error a: not run: there is no tool "${name}"; the tools are: t`);
  });

  test("a tool may be named like something of the prototype; a call called __proto__ gets an id that a record can hold", async () => {
    const tools = { constructor: tool({ needsApproval: true, run: () => "built" }) };
    const call = script([toolCall("constructor", {}, "__proto__")], "ok");
    const { state, lines } = await trace({ call, tools });
    expect(lines).toEqual(["message", "ask call_1_1 approval"]);
    expect((await trace({ call, tools, state: stored(state), decisions: { call_1_1: true } })).lines).toContain('result call_1_1: "built"');
  });
});

describe("results", () => {
  test.each([
    ["a string", "text", "text"], ["an empty string", "", ""], ["a text with a backslash", "C:\\ud800\\n", "C:\\ud800\\n"], ["an object", { a: [1, undefined, () => 1], b: undefined }, '{"a":[1,null,null]}'], ["null", null, "null"],
    ["not a number", Number.NaN, "null"], ["a lone surrogate", "a\ud800b", "a\ufffdb"], ["lone surrogates inside", { "\udc00": ["\ud800", "\\ud800", "😀"] }, '{"\ufffd":["\ufffd","\\\\ud800","😀"]}'],
    ["something with toJSON", { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'], ["a function", () => 1, "null"],
    ["an object that calls itself something else", { [Symbol.toStringTag]: "Module", a: 1 }, '{"a":1}'],
  ])("%s: the step has the value, the model reads the text", async (_, value, text) => {
    const { steps, state } = await one({ run: () => value }, {});
    expect(toldTo(state)["a"]).toBe(text);
    const step = steps.find((each) => each.type === "tool-result");
    expect(step).toMatchObject({ result: typeof value === "string" ? text : (JSON.parse(text) as unknown) });
  });

  test.each([
    ["nested 100,000 levels", () => JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`) as unknown, "it is nested too deep, or contains itself"],
    ["larger than 16 MiB", () => "x".repeat(16 * 1024 * 1024 + 1), "it is larger than 16 MiB"],
    ["with a toJSON that throws", () => ({ toJSON: () => { throw new Error("secret handle"); } }), "secret handle"],
    ["with a toJSON that gives itself", () => { const odd = { toJSON: (): unknown => odd }; return odd; }, "it is nested too deep, or contains itself"],
    ["an Error inside", () => ({ error: Object.assign(new Error("disk full"), { code: "ENOSPC" }) }), "JSON can't hold Error objects"],
    ["a key __proto__", () => JSON.parse('{"__proto__":1}') as unknown, "it has a key __proto__"],
  ])("%s: it ran once, and its result is said to be lost", async (_, make, problem) => {
    let runs = 0;
    const { lines, state } = await one({ run: () => (runs++, make()) }, {});
    expect(lines[2]).toBe(`error a: the tool ran, but its result can't be kept: ${problem}`);
    expect(stored(state)).toEqual(state);
    expect(runs).toBe(1);
  });

  test("a result of just 16 MiB is kept", async () => {
    const { state } = await one({ run: () => "x".repeat(16 * 1024 * 1024) }, {});
    expect((toldTo(state)["a"] as string).length).toBe(16 * 1024 * 1024);
  });

  test("a result is what it was when it was returned", async () => {
    const list = [1];
    const { steps } = await one({ run: () => list }, {}, { save: (state: State) => void (state.calls[0]?.status === "done" && list.push(2)) });
    expect(steps.find((each) => each.type === "tool-result")).toMatchObject({ result: [1] });
  });
});
