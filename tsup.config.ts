import type { Options } from "tsup";

const config: Options = {
  entry: ["src/index.ts", "src/openai.ts", "src/anthropic.ts", "src/testing.ts", "src/mcp.ts", "src/show.ts", "src/seal.ts"],
  format: ["esm", "cjs"],
  target: "es2022",
  platform: "neutral",
  dts: true,
  clean: true,
  // One copy of what entries share, in CommonJS too, so that `instanceof` works across subpaths.
  splitting: true,
};

export default config;
