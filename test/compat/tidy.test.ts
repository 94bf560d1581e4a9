// examples/tidy as a user runs it, on models of @copilotkit/aimock: it pauses before it deletes anything, and goes on in
// another process.
import { execFile, execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { LLMock } from "@copilotkit/aimock";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const mock = new LLMock({ port: 0, chunkSize: 6, logLevel: "silent" });
let home = "";

beforeAll(async () => {
  await mock.start();
  home = await realpath(await mkdtemp(join(tmpdir(), "yieldagent-compat-")));
  // What npm start runs, but for where the program goes.
  execFileSync(process.execPath, [join(root, "node_modules/tsup/dist/cli-default.js"), "examples/tidy/main.ts", "--no-config", "--silent", "--format", "cjs", "--target", "node18", "--out-dir", join(home, "program")], { cwd: root });
});
afterAll(async () => {
  await mock.stop();
  await rm(home, { recursive: true });
});
beforeEach(async () => {
  mock.reset();
  await mkdir(join(home, "folder"));
  for (const name of ["old.tmp", "letter.txt"]) await writeFile(join(home, "folder", name), name);
});
afterEach(async () => {
  await rm(join(home, "folder"), { recursive: true });
  await rm(join(home, "folder.tidy.json"));
});

test.each([
  ["Chat Completions", { OPENAI_API_KEY: "key" }, () => ({ OPENAI_BASE_URL: `${mock.url}/v1` })],
  ["the Messages API", { ANTHROPIC_API_KEY: "key" }, () => ({ ANTHROPIC_BASE_URL: mock.url })],
])("over %s", async (_, key, base) => {
  const call = (name: string, args: object) => ({ toolCalls: [{ name, arguments: JSON.stringify(args) }] });
  mock.on({ turnIndex: 0 }, { ...call("list", {}), content: "I look at what is there.", reasoning: "What is in it?" } as never);
  mock.on({ turnIndex: 1 }, call("delete", { path: "old.tmp", size: 7 }) as never);
  mock.on({ turnIndex: 2 }, { content: "It is tidy now." });
  const env = { PATH: process.env["PATH"] ?? "", OPENAI_API_KEY: "", OPENAI_BASE_URL: "", ANTHROPIC_API_KEY: "", ...key, ...base() };
  const tidy = async (...args: string[]): Promise<string> => (await promisify(execFile)(process.execPath, [join(home, "program/main.cjs"), join(home, "folder"), ...args], { cwd: home, env })).stdout;

  const first = await tidy();
  expect(first).toContain("What is in it?\nI look at what is there.\n→ list {}\n");
  expect(first).toContain("1 call waits for a person:");
  expect((await readdir(join(home, "folder"))).sort()).toEqual(["letter.txt", "old.tmp"]);

  const second = await tidy("--approve-all");
  expect(second).toMatch(/→ delete \{"path":"old\.tmp","size":7\}\n✓ delete .*\nIt is tidy now\.\n$/);
  expect(await readdir(join(home, "folder"))).toEqual(["letter.txt"]);
  expect(mock.getRequests().length).toBe(3);
});
