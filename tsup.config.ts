import { rmSync } from "node:fs";
import type { Options } from "tsup";

// Before either of the two begins, for they run at a time.
rmSync("dist", { recursive: true, force: true });

const common: Options = {
  entry: ["src/index.ts", "src/openai.ts", "src/anthropic.ts", "src/testing.ts", "src/mcp.ts", "src/show.ts", "src/seal.ts", "src/subagent.ts"],
  target: "es2022",
  platform: "neutral",
  dts: true,
  // One copy of what entries share, in CommonJS too, so that `instanceof` works across subpaths.
  splitting: true,
};

const config: Options[] = [
  { ...common, format: ["esm"] },
  // Rollup makes the CommonJS: without it another tool does, which writes older, longer code.
  { ...common, format: ["cjs"], treeshake: true },
];

export default config;
