import { fileURLToPath } from "node:url";
import type { ViteUserConfig } from "vitest/config";

const source = (path: string): string => fileURLToPath(new URL(`../src/${path}`, import.meta.url));

// The tests of the examples that have a folder, a package.json and a lock of their own; what else they need is installed there.
// The times are the last resort on a machine that is busy with other things: what a test waits for is told to it.
const config: ViteUserConfig = {
  resolve: { alias: [{ find: /^yieldagent$/, replacement: source("index.ts") }, { find: /^yieldagent\/(.+)$/, replacement: source("$1.ts") }] },
  test: { include: ["test/*.test.ts"], testTimeout: 300_000, hookTimeout: 120_000, maxWorkers: 2 },
};

export default config;
