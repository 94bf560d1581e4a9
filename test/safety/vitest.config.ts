import { fileURLToPath } from "node:url";
import type { ViteUserConfig } from "vitest/config";
import base from "../vitest.config.ts";

// The heavy tests: like the others they import the package by its name and get its sources.
const config: ViteUserConfig = {
  ...base,
  test: { ...base.test, include: ["test/safety/*.test.ts"], testTimeout: 3_600_000, hookTimeout: 3_600_000, maxConcurrency: 2, fileParallelism: false, root: fileURLToPath(new URL("../..", import.meta.url)) },
};

export default config;
