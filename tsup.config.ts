import type { Options } from "tsup";

// ES modules, with one copy of what entries share, so that `instanceof` works across subpaths. `.ci/dist.mjs` makes the rest of them.
const config: Options = {
  entry: ["src/index.ts", "src/openai.ts", "src/anthropic.ts", "src/testing.ts", "src/mcp.ts", "src/show.ts", "src/seal.ts", "src/subagent.ts"],
  target: "es2022",
  platform: "neutral",
  format: ["esm"],
  splitting: true,
  clean: true,
  sourcemap: true,
  esbuildOptions: (options) => {
    options.sourcesContent = false; // src is in the package
  },
};

export default config;
