// Each recipe is a program: it is type-checked with everything else, run by node, and prints what its last lines say.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const recipes = readdirSync(join(root, "examples/recipes"));
const folder = mkdtempSync(join(tmpdir(), "yieldagent-recipes-"));
const UPDATE = process.env["UPDATE"] !== undefined;

beforeAll(() => {
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules/yieldagent"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("the recipe", () => {
  test.each(recipes)("%s prints what it says", async (name) => {
    const code = readFileSync(join(root, "examples/recipes", name), "utf8");
    const { outputText } = ts.transpileModule(code, { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext } });
    const file = join(folder, name.replace(/ts$/, "js"));
    writeFileSync(file, outputText);
    const { stdout } = await promisify(execFile)(process.execPath, [file], { env: { ...process.env, NO_COLOR: "1" } });
    const [program = "", says = ""] = code.split("\n// prints\n");
    const lines = stdout.trimEnd().split("\n").map((line) => `// ${line}`.trimEnd() + "\n").join("");
    if (UPDATE) writeFileSync(join(root, "examples/recipes", name), `${program}\n// prints\n${lines}`);
    else expect(lines).toBe(says);
    expect(stdout).not.toBe("");
  });

  test("is told of in examples/README.md, and is short", () => {
    const readme = readFileSync(join(root, "examples/README.md"), "utf8");
    expect([...readme.matchAll(/\(recipes\/([\w-]+\.ts)\)/g)].map(([, name]) => name).sort()).toEqual([...recipes].sort());
    for (const name of recipes) expect(readFileSync(join(root, "examples/recipes", name), "utf8").split("\n").length, name).toBeLessThan(80);
  });
});
