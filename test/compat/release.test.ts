// What a release says of itself, and in which order it is made.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { root } from "./packed.ts";

const folder = mkdtempSync(join(tmpdir(), "yieldagent-release-"));
afterAll(() => rmSync(folder, { recursive: true }));

const git = (...args: string[]): string => execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false", ...args], { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
const commit = (subject: string): string => (git("commit", "--quiet", "--allow-empty", "-m", `${subject}\n\nand more`), git("rev-parse", "--short", "HEAD"));
const notes = (...args: string[]): string => execFileSync(process.execPath, [join(root, ".github/changelog.mjs"), ...args], { cwd: folder, encoding: "utf8", stdio: "pipe" });
const version = (is: string): void => writeFileSync(join(folder, "package.json"), JSON.stringify({ version: is }));
beforeAll(() => void git("init", "--quiet", "--initial-branch", "main"));

test("the notes of a release are its commits since the tag before, by version and not by name", () => {
  version("0.9.0");
  const first = commit("Begin");
  expect(notes()).toBe(`The first release.\n\n- Begin (${first})\n`);
  git("tag", "v0.9.0");
  expect(notes("v0.9.0")).toBe(`The first release.\n\n- Begin (${first})\n`);
  expect(notes()).toBe("Changes since v0.9.0:\n\n- none\n");
  version("0.10.0");
  const [second, third] = [commit("Fix `a`, \"b\""), commit("Go on")];
  git("tag", "v0.10.0");
  const fourth = commit("After it");
  expect(notes("v0.10.0")).toBe(`Changes since v0.9.0:\n\n- Go on (${third})\n- Fix \`a\`, "b" (${second})\n`);
  expect(notes()).toBe(`Changes since v0.10.0:\n\n- After it (${fourth})\n`);
});

test("a tag that isn't the package's version releases nothing", () => {
  version("0.10.0");
  expect(() => notes("v0.11.0")).toThrow("the tag is v0.11.0, but package.json says 0.10.0");
});

test("a release is tested before it is published, by the workflow itself and with provenance", () => {
  const workflow = readFileSync(join(root, ".github/workflows/release.yml"), "utf8");
  expect(workflow.match(/(?<=- run: )\S+ \S+/g)).toEqual(["node .github/changelog.mjs", "bash .ci/run", "npm publish", "gh release"]);
  expect(workflow).toContain("npm publish --provenance");
  expect(workflow).toContain("id-token: write");
  expect(workflow).not.toContain("NPM_TOKEN");
});
