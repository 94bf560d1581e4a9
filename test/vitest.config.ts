import { fileURLToPath } from "node:url";
import type { ViteUserConfig } from "vitest/config";

const source = (path: string): string => fileURLToPath(new URL(`../src/${path}`, import.meta.url));

// Tests import the package by its name, as users do, and get its sources.
const config: ViteUserConfig = {
  resolve: { alias: [{ find: /^yieldagent$/, replacement: source("index.ts") }, { find: /^yieldagent\/(.+)$/, replacement: source("$1.ts") }] },
  test: { root: fileURLToPath(new URL("..", import.meta.url)), include: ["test/*.test.ts"], testTimeout: 60_000 },
};

export default config;
