// What each entry point weighs where it is used: bundled with all it needs, minified, gzipped. `npm run build` ends with this,
// and fails if one is larger than it may be; the README's figures come from here too (`npm run figures`).
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const root = resolve(fileURLToPath(import.meta.url), "../..");

/** In bytes. To make one larger is a decision, so it is a change of this line. */
export const BUDGETS = { index: 9_900, openai: 7_700, anthropic: 7_500, mcp: 1_300, show: 1_900, seal: 1_500, subagent: 10_400, testing: 1_100 };

export async function sizes() {
  const entries = Object.keys(BUDGETS).map(async (entry) => {
    const bundle = await build({ entryPoints: [join(root, `dist/${entry}.js`)], bundle: true, minify: true, format: "esm", target: "es2022", external: ["node:*"], write: false, logLevel: "error" });
    return [entry, gzipSync(bundle.outputFiles[0].contents, { level: 9 }).length];
  });
  return Object.fromEntries(await Promise.all(entries));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const measured = await sizes();
  const over = Object.entries(measured).filter(([entry, size]) => size > BUDGETS[entry]);
  for (const [entry, size] of over) console.error(`dist/${entry}.js is ${size} bytes minified and gzipped, and may be ${BUDGETS[entry]} (.ci/sizes.mjs)`);
  if (over.length > 0) process.exitCode = 1;
  else if (process.argv.includes("--print")) console.log(measured);
}
