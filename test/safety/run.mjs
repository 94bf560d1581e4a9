// `npm run test:safety` at the root: installs what the heavy tests need, builds the package, runs them, and compares the
// figures they print with those that the README and the security policy state. `-- --figures` writes these anew; other
// arguments are vitest's, as in `-- crashes` or `-- properties -t "^3:"`.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");
const args = process.argv.slice(2).filter((arg) => arg !== "--figures");
const rewrite = process.argv.includes("--figures");
const run = (cwd, command, ...rest) => execFileSync(command, rest, { cwd, stdio: "inherit", shell: process.platform === "win32" });

for (const folder of [root, here]) {
  const installed = join(folder, "node_modules/.package-lock.json");
  if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(join(folder, "package-lock.json")).mtimeMs) run(folder, "npm", "ci", "--no-audit", "--no-fund");
}
run(root, "npm", "run", "--silent", "build");
run(root, process.execPath, "node_modules/typescript/bin/tsc", "-p", "test/safety", "--noEmit");

const scratch = mkdtempSync(join(tmpdir(), "yieldagent-figures-"));
const file = join(scratch, "figures");
writeFileSync(file, "");
const env = { ...process.env, SAFETY_SEED: process.env.SAFETY_SEED ?? String(Date.now() % 2 ** 31), SAFETY_FIGURES: file };
console.log(`SAFETY_SEED=${env.SAFETY_SEED}: set it to repeat this run`);
const { status } = spawnSync(process.execPath, ["node_modules/vitest/vitest.mjs", "run", "--config", "test/safety/vitest.config.ts", ...args], { cwd: root, env, stdio: "inherit" });
const measured = Object.fromEntries(readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line)).map(({ name, value }) => [name, value]));
rmSync(scratch, { recursive: true });
process.exitCode = status ?? 1;

// The figures are those of a whole run that passed, as a push makes it.
if (status === 0 && args.length === 0 && Number(process.env.SAFETY_SCALE ?? 1) === 1) {
  const { known, stated, check } = await import("./figures.mjs");
  if (rewrite) known({ ...stated(), ...measured });
  const wrong = check(rewrite, measured);
  for (const what of wrong) console.error(what);
  if (wrong.length > 0) process.exitCode = 1;
}
