// The package as tools see it that others wrote: linters of what npm gets, and what JSR makes of the sources.
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packed, type Packed, root } from "./packed.ts";

const bin = (name: string): string => fileURLToPath(new URL(`node_modules/.bin/${name}`, import.meta.url));
interface Manifest { version: string; license: string; exports: Record<string, unknown> }
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
let project: Packed;
beforeAll(() => void (project = packed()), 120_000);
afterAll(() => project?.remove());

test("publint finds nothing, not even a suggestion", { timeout: 120_000 }, async () => {
  const { stdout } = await promisify(execFile)(bin("publint"), ["--strict", project.tarball], { env: { ...process.env, NO_COLOR: "1" } });
  expect(stdout).toContain("All good!");
});

test("the types are right for import and require, in every way of resolving them, node10 too", { timeout: 120_000 }, async () => {
  const { stdout } = await promisify(execFile)(bin("attw"), [project.tarball, "--format", "json"], { maxBuffer: 1e8 });
  const { analysis, problems } = JSON.parse(stdout) as { analysis: { entrypoints: Record<string, { resolutions: Record<string, unknown> }> }; problems?: object };
  expect(problems ?? {}).toEqual({});
  expect(Object.keys(analysis.entrypoints)).toEqual(Object.keys(manifest.exports));
  for (const { resolutions } of Object.values(analysis.entrypoints)) expect(Object.keys(resolutions)).toEqual(["node10", "node16-cjs", "node16-esm", "bundler"]);
});

test("JSR would take the sources: Deno checks their types, and that no public one has to be inferred", { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "yieldagent-jsr-"));
  try {
    for (const name of ["src", "README.md", "LICENSE"]) cpSync(join(root, name), join(folder, name), { recursive: true });
    const entries = Object.keys(manifest.exports).filter((entry) => entry !== "./package.json");
    const exports = Object.fromEntries(entries.map((entry) => [entry, `./src/${entry === "." ? "index" : entry.slice(2)}.ts`]));
    const compilerOptions = { exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true };
    writeFileSync(join(folder, "deno.json"), JSON.stringify({ name: "@yieldagent/yieldagent", version: manifest.version, license: manifest.license, exports, compilerOptions, publish: { include: ["src", "README.md", "LICENSE"] } }));
    const deno = fileURLToPath(new URL("runtimes/node_modules/.bin/deno", import.meta.url));
    const publish = (): Promise<{ stderr: string }> => promisify(execFile)(deno, ["publish", "--dry-run", "--allow-dirty"], { cwd: folder, env: { ...process.env, NO_COLOR: "1" } });
    const { stderr } = await publish();
    expect(stderr).toContain("Success Dry run complete");
    expect(stderr.match(/^(warning|error)\[.*/gm)).toEqual(["warning[unanalyzable-dynamic-import]: unable to analyze dynamic import"]); // node:crypto, for Node 18
    // And it looks: a public function without a return type is a slow type.
    writeFileSync(join(folder, "src/index.ts"), "\nexport function slow(a: number) { return [a].map(String); }\n", { flag: "a" });
    await expect(publish()).rejects.toThrow("error[missing-explicit-return-type]");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
