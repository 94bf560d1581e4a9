// The tests on this Node; and where it has no node:sqlite, so that the store is files, those that go through the store once
// more on one that has it. That one is what `npm run test:compat` in the root has installed: CI must have it.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire, isBuiltin } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const newer = fileURLToPath(new URL("../../../test/compat/runtimes/node_modules/node24/bin/node", import.meta.url));
const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");

function run(node, ...which) {
  const { status } = spawnSync(node, [vitest, "run", "--config", "../vitest.config.ts", "--dir", ".", ...which, ...process.argv.slice(2)], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

run(process.execPath);
if (isBuiltin("node:sqlite")) console.log("the store was SQLite");
else if (existsSync(newer)) run(newer, "test/store.test.ts", "test/desk.test.ts", "test/server.test.ts", "test/page.test.ts", "-t", "store|moment|after a page|server|decide at once|approves the other|kill -9");
else {
  console.error("\n*** The store was NOT TESTED on SQLite: this Node has none, and there is no newer one. In the repository's root, npm run test:compat installs it. ***");
  if (process.env.CI) process.exitCode = 1;
}
