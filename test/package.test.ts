// The package as it is built: both module formats, and what it needs of the place it runs in.
import { createRequire } from "node:module";
import { readFileSync, readdirSync } from "node:fs";
import { resolve } from "node:path";
import { createContext, runInContext } from "node:vm";
import { build } from "esbuild";
import { beforeAll, describe, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "..");
const require = createRequire(import.meta.url);
type Package = typeof import("yieldagent") & typeof import("yieldagent/testing");
let esm: Package;
let cjs: Package;
beforeAll(async () => {
  esm = { ...((await import(resolve(root, "dist/index.js"))) as Package), ...((await import(resolve(root, "dist/testing.js"))) as Package) };
  cjs = { ...(require(resolve(root, "dist/index.cjs")) as Package), ...(require(resolve(root, "dist/testing.cjs")) as Package) };
});

describe("the built package", () => {
  test("gives the same names to import and to require", () => {
    expect(Object.keys(cjs).sort()).toEqual(Object.keys(esm).sort());
    expect(Object.keys(esm).sort()).toEqual(["AgentError", "agent", "collect", "pause", "pending", "script", "tool", "toolCall"]);
  });

  test("a run may begin in one copy and go on in the other, and each knows the other's errors", async () => {
    const tools = { g: esm.tool({ needsApproval: true, run: () => "did" }) };
    const script = cjs.script(cjs.toolCall("g", {}, "a"), "ok");
    const paused = await cjs.collect(esm.agent({ call: script, tools, messages: [{ role: "user", content: "go" }] }));
    const last = paused.at(-1);
    if (last?.type !== "approval-needed") throw new Error("it should wait");
    const steps = await esm.collect(cjs.agent({ call: script, tools, state: JSON.parse(JSON.stringify(last.state)) as typeof last.state, decisions: { a: true } }));
    expect(steps.at(-1)).toMatchObject({ type: "final", text: "ok" });
    for (const [thrower, other] of [[esm, cjs], [cjs, esm]] as const) {
      let thrown: unknown;
      try {
        thrower.agent({ call: script, messages: "no" } as never);
      } catch (error) {
        thrown = error;
      }
      expect(thrown).toBeInstanceOf(other.AgentError);
      expect(thrown).toBeInstanceOf(Error);
      expect(new Error("x")).not.toBeInstanceOf(other.AgentError);
      expect(null).not.toBeInstanceOf(other.AgentError);
    }
  });

  test("the core needs nothing but ECMAScript and AbortController", async () => {
    const bundle = await build({ entryPoints: [resolve(root, "dist/index.js")], bundle: true, format: "iife", globalName: "core", target: "es2022", write: false });
    const lines: string[] = [];
    const context = createContext({ AbortController, log: (line: string) => lines.push(line) });
    await (runInContext(`${bundle.outputFiles[0]?.text}
      (async () => {
        const tools = { g: { needsApproval: true, run: (_, { key }) => ({ key: typeof key }) } };
        const call = async function* (messages) {
          yield { type: "text", text: "…" };
          return messages.length > 1 ? { role: "assistant", content: "ok" } : { role: "assistant", tool_calls: [{ id: "a", function: { name: "g", arguments: "{}" } }] };
        };
        let state;
        for await (const step of core.agent({ call, tools, messages: [{ role: "user", content: "go" }] })) { log(step.type); state = step.state; }
        for await (const step of core.agent({ call, tools, state: JSON.parse(JSON.stringify(state)), decisions: { a: true } })) log(step.type);
        for await (const step of core.agent({ call, tools, messages: [{ role: "user", content: "go" }] })) break;
      })()`, context) as Promise<void>);
    expect(lines).toEqual(["text", "message", "approval-needed", "tool-start", "tool-result", "text", "message", "final"]);
  });

  test("has no dependency, no install script and no side effect", () => {
    const manifest = JSON.parse(readFileSync(resolve(root, "package.json"), "utf8")) as Record<string, Record<string, string>>;
    expect([manifest["dependencies"], manifest["peerDependencies"], manifest["optionalDependencies"], manifest["sideEffects"]]).toEqual([undefined, undefined, undefined, false]);
    expect(Object.keys(manifest["scripts"] ?? {}).filter((name) => /install|prepare/.test(name))).toEqual([]);
    expect(Object.keys(manifest["devDependencies"] ?? {}).sort()).toEqual(["@types/node", "tsup", "typescript", "vitest"]);
    for (const version of Object.values(manifest["devDependencies"] ?? {})) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  });

  test("has no any in its public types, for import and for require", () => {
    const files = readdirSync(resolve(root, "dist")).filter((name) => /\.d\.c?ts$/.test(name));
    expect(files).toEqual(expect.arrayContaining(["index.d.ts", "index.d.cts", "testing.d.ts", "testing.d.cts", "tool.d.cts"]));
    for (const file of files) {
      const code = readFileSync(resolve(root, "dist", file), "utf8").replace(/\/\*[^]*?\*\/|\/\/.*$/gm, "");
      expect(code.match(/.*\bany\b.*/g), file).toBeNull();
    }
  });
});
