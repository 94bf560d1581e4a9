import { fileURLToPath } from "node:url";
import type { ViteUserConfig } from "vitest/config";

const source = (path: string): string => fileURLToPath(new URL(`../../src/${path}`, import.meta.url));

// As the tests above do: the package by its name, and its sources. The peers come from this folder's own node_modules.
const config: ViteUserConfig = {
  resolve: { alias: [{ find: /^yieldagent$/, replacement: source("index.ts") }, { find: /^yieldagent\/(.+)$/, replacement: source("$1.ts") }] },
  test: { root: fileURLToPath(new URL(".", import.meta.url)), include: ["*.test.ts"], testTimeout: 120_000 },
};

export default config;
