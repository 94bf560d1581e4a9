// What packages weigh: to import, to install and in a bundle.
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { median } from "./subject.mjs";

const manifest = (folder) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

/** Where a package is that is imported from `folder`. */
function find(name, folder) {
  for (let at = folder; ; at = dirname(at)) {
    const found = join(at, "node_modules", name);
    if (existsSync(join(found, "package.json"))) return realpathSync(found);
    if (at === dirname(at)) return undefined;
  }
}

export const version = (name, folder) => manifest(find(name, folder)).version;

/** A fresh process that imports it: wall and CPU time in ms and peak memory in MB, medians of some. */
export async function imported(names, folder, node, rounds) {
  const samples = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const name of names) {
      const code = `await import(${JSON.stringify(name)}); const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage(); process.stdout.write(JSON.stringify({ cpu: (userCPUTime + systemCPUTime) / 1000, rss: maxRSS / 1000 }));`;
      const start = performance.now();
      const { stdout } = await promisify(execFile)(node, ["--no-warnings", "--input-type=module", "--eval", code], { cwd: folder });
      samples[name].push({ wall: performance.now() - start, ...JSON.parse(stdout.slice(stdout.lastIndexOf("{"))) });
    }
  }
  return Object.fromEntries(names.map((name) => [name, Object.fromEntries(["wall", "cpu", "rss"].map((field) => [field, median(samples[name].map((sample) => sample[field]))]))]));
}

function weight(folder) {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name === "node_modules") continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) bytes += weight(path);
    else if (entry.isFile()) bytes += statSync(path).size;
  }
  return bytes;
}

/** What an install of the package brings: it and what it depends on. */
export function installed(name, folder) {
  const seen = new Set();
  let bytes = 0;
  const add = (one, from) => {
    const at = find(one, from);
    if (!at || seen.has(at)) return;
    seen.add(at);
    const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta, files } = manifest(at);
    // Of this package, which is a link to the repository, what is packed.
    if (one === "yieldagent") bytes += [...files, "package.json", "README.md", "LICENSE"].reduce((sum, file) => sum + (statSync(join(at, file)).isDirectory() ? weight(join(at, file)) : statSync(join(at, file)).size), 0);
    else bytes += weight(at);
    const peers = Object.keys(peerDependencies ?? {}).filter((peer) => !peerDependenciesMeta?.[peer]?.optional);
    for (const next of [...Object.keys({ ...dependencies, ...optionalDependencies }), ...peers]) add(next, at);
  };
  add(name, folder);
  return { bytes, packages: seen.size };
}

/** A minimal program, bundled for Node, minified and zipped: bytes; undefined if it can't be bundled. */
export async function bundled(program, folder, root) {
  const { build } = createRequire(join(root, "package.json"))("esbuild");
  try {
    const { outputFiles } = await build({ stdin: { contents: program, resolveDir: folder }, bundle: true, minify: true, format: "esm", platform: "node", target: "es2022", write: false, logLevel: "silent" });
    return gzipSync(outputFiles[0].contents, { level: 9 }).length;
  } catch {
    return undefined;
  }
}
