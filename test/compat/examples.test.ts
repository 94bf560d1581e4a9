// The examples that have packages of their own: installed, type-checked and tested as their README says.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

test("examples/mcp: the filesystem server with gated writes", { timeout: 240_000 }, () => {
  const folder = join(root, "examples/mcp");
  const run = (command: string, ...args: string[]): string => execFileSync(command, args, { cwd: folder, encoding: "utf8", shell: process.platform === "win32" });
  run("npm", "ci", "--no-audit", "--no-fund");
  expect(run(process.execPath, join(root, "node_modules/typescript/bin/tsc"), "-p", folder)).toBe("");
  expect(run("npm", "test").match(/^# (tests|pass|fail) \d+$/gm)).toEqual(["# tests 3", "# pass 3", "# fail 0"]);
});
