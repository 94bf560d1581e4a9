// The example as a user runs it: each start is a process of its own, with its own server.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const program = fileURLToPath(new URL("node_modules/.cache/main.mjs", import.meta.url));
const env = { ...process.env, INIT_CWD: "", OPENAI_API_KEY: "", OPENAI_BASE_URL: "" };
let home = "";
let folder = "";
const start = async (...args) => (await promisify(execFile)(process.execPath, [program, folder, ...args], { env })).stdout;
const summary = () => join(folder, "SUMMARY.txt");

beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), "yieldagent-example-mcp-")));
  folder = join(home, "papers");
  mkdirSync(folder);
  writeFileSync(join(folder, "letter.txt"), "Dear Ann");
});
afterEach(() => rmSync(home, { recursive: true }));

test("reads as it likes, and writes only once another process brings a person's leave", async () => {
  const first = await start();
  assert.match(first, /^→ list_directory \{\n {2}"path": ".*"\n\}\n✓ \{\n {2}"content": "\[FILE\] letter\.txt"\n\}\n/);
  assert.match(first, /"id": "write",\n {2}"tool": "write_file"/);
  assert.equal(existsSync(summary()), false);
  const second = await start("--approve", "write");
  assert.match(second, /^→ write_file /);
  assert.equal(readFileSync(summary(), "utf8"), '{"content":"[FILE] letter.txt"}');
  assert.equal(existsSync(`${folder}.agent.json`), false);
});

test("doesn't write what was rejected, and tells the model why", async () => {
  await start();
  assert.equal(await start("--reject", "write", "not now"), '✗ "not run: it was rejected: not now"\n"The server says: Error: not run: it was rejected: not now"\n');
  assert.equal(existsSync(summary()), false);
});

test("shows a name that would hide or deceive as what it is", async () => {
  writeFileSync(join(folder, "\u202egpj.\u0430dmin"), "");
  const shown = await start();
  assert.ok(shown.includes("\\u202egpj."));
  assert.ok(!shown.includes("\u202e"));
  assert.match(shown, /! args\.content: U\+202E doesn't show\n! args\.content: U\+0430 looks like "a"/);
});
