// The eyes of the tests: each bug of bugs.ts is planted in a copy of the source, and some test must fail.
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { type Bug, BUGS } from "./bugs.ts";
import { figure, SEED } from "./scale.ts";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const folder = mkdtempSync(join(tmpdir(), "yieldagent-planted-"));
let caught = 0;
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  figure("planted bugs caught", caught);
  figure("planted bugs", BUGS.length);
});

/** A copy of the repository's sources and tests with a bug in it. */
function plant({ edits }: Bug, name: string): string {
  const copy = join(folder, name);
  mkdirSync(join(copy, "test/safety"), { recursive: true });
  cpSync(join(root, "src"), join(copy, "src"), { recursive: true });
  for (const at of ["test", "test/safety"]) {
    for (const file of readdirSync(join(root, at))) if (file.endsWith(".ts")) cpSync(join(root, at, file), join(copy, at, file));
  }
  for (const at of ["node_modules", "test/safety/node_modules"]) symlinkSync(join(root, at), join(copy, at));
  writeFileSync(join(copy, "package.json"), '{ "type": "module" }');
  for (const [file, from, to] of edits) {
    const source = readFileSync(join(copy, "src", file), "utf8");
    const times = source.split(from).length - 1;
    if (times !== 1) throw new Error(`the text to replace occurs ${times} times in src/${file}, not once: ${from}`);
    writeFileSync(join(copy, "src", file), source.replace(from, () => to));
  }
  return copy;
}

/** Runs the tests in a copy until one fails. Returns its name; none if all pass. */
function firstFailure(copy: string): Promise<string | undefined> {
  const report = join(copy, "report.json");
  const args = [join(root, "node_modules/vitest/vitest.mjs"), "run", "--config", join(copy, "test/safety/planted.vitest.ts"), "--bail", "1", "--reporter", "json", "--outputFile", report];
  return new Promise((done, failed) => {
    const env = { ...process.env, SAFETY_SCALE: "0.1", SAFETY_SEED: String(SEED), SAFETY_FIGURES: "" };
    // A bug may also make the tests run for ever; then that is what gives it away.
    execFile(process.execPath, args, { cwd: copy, env, timeout: 600_000, killSignal: "SIGKILL", maxBuffer: 2 ** 28 }, (error, _, stderr) => {
      if (error?.killed) return done("(the tests never end)");
      try {
        const { testResults } = JSON.parse(readFileSync(report, "utf8")) as { testResults: { message: string; assertionResults: { status: string; title: string }[] }[] };
        const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
        if (tests.length < 10) throw new Error("the tests didn't run");
        done(tests.find(({ status }) => status === "failed")?.title);
      } catch (unreadable) {
        failed(new Error(`no report: ${String(unreadable)} ${stderr}`));
      }
    });
  });
}

test("the copy without a bug passes", async () => {
  expect(await firstFailure(plant({ name: "", edits: [] }, "none"))).toBeUndefined();
});

describe.concurrent("a planted bug is caught:", () => {
  test.each(BUGS.map((bug, i) => [bug.name, bug, i] as const))("%s", async (_, bug, i) => {
    const copy = plant(bug, String(i));
    const test = await firstFailure(copy);
    rmSync(copy, { recursive: true, force: true });
    if (test !== undefined) caught++;
    expect(test, "no test failed").toBeDefined();
    console.log(`${bug.name}\n  caught by: ${test}`);
  });
});
