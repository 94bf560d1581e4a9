// Packs the built package, installs the tarball in an empty project and looks at it as a user would.
// `node .ci/package.mjs <tarball>` checks a tarball that is there already, on the Node that runs this.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, posix, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const folder = mkdtempSync(join(tmpdir(), "yieldagent-package-"));
const npm = (...args) => execFileSync("npm", args, { cwd: folder, encoding: "utf8", shell: process.platform === "win32" });
// As a user packs it: a checkout that was never built must not give an empty package. What the build prints comes before the JSON.
const pack = () => {
  rmSync(join(root, "dist"), { recursive: true, force: true });
  const output = npm("pack", "--json", "--pack-destination", folder, root);
  return output.slice(output.search(/^\[/m));
};
const failures = [];
let passed = 0;
const check = (what, holds, found = "") => {
  if (holds) passed++;
  else failures.push(`${what} ${found}`);
};

try {
  const tarball = process.argv[2] ? resolve(process.argv[2]) : join(folder, JSON.parse(pack())[0].filename);
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  npm("install", "--no-audit", "--no-fund", tarball);
  const installed = join(folder, "node_modules/yieldagent");
  const files = readdirSync(installed, { recursive: true }).map(String).filter((file) => statSync(join(installed, file)).isFile()).map((file) => file.replaceAll("\\", "/"));
  const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));

  const entries = Object.keys(manifest.exports).filter((entry) => entry !== "./package.json");
  // The code and the types, maps of both, and the sources that the maps lead to.
  const built = (file) => /^dist\/[\w-]+\.(js|cjs|d\.ts|d\.cts|js\.map|d\.cts\.map)$/.test(file);
  check("the tarball holds", files.every((file) => built(file) || /^src\/[\w-]+\.ts$/.test(file) || ["package.json", "README.md", "LICENSE"].includes(file)), files);
  const text = (file) => readFileSync(join(installed, file), "utf8");
  const mapOf = (file) => /^\/\/# sourceMappingURL=(.*)$/m.exec(text(file))?.[1];
  const mapped = files.filter((file) => /\.(js|cjs|d\.cts)$/.test(file));
  check("code or types are without their map:", mapped.length > 0 && mapped.every((file) => files.includes(`dist/${mapOf(file)}`)), mapped);
  const maps = files.filter((file) => file.endsWith(".map"));
  check("a map is of no file:", maps.every((map) => mapped.some((file) => `dist/${mapOf(file)}` === map)), maps);
  const lost = maps.filter((map) => {
    const { sources, sourcesContent } = JSON.parse(text(map));
    return sourcesContent || !sources.every((source) => files.includes(posix.join("dist", source)));
  });
  check("a map leads elsewhere than to the sources that are there:", lost.length === 0, lost);
  check("each entry point has its code and types for import and require:", entries.every((entry) =>
    ["import", "require"].every((kind) => ["types", "default"].every((what) => files.includes(manifest.exports[entry][kind][what].slice(2))))), entries);
  check("one package is installed:", readdirSync(join(folder, "node_modules")).filter((name) => !name.startsWith(".")).length === 1);
  check("it has dependencies:", !manifest.dependencies && !manifest.peerDependencies && !manifest.optionalDependencies);
  check("it has install scripts:", !Object.keys(manifest.scripts ?? {}).some((name) => /^((pre|post)?install|(pre|post)?prepare)$/.test(name)));
  const size = files.reduce((sum, file) => sum + statSync(join(installed, file)).size, 0);
  // As of 0.1, in kB: sources 174, code 105 for import and 105 for require, types 39, maps of code 77 and of types 23, README 32.
  // Whitespace and syntax minified would be 59 less (and 9 of 166 packed), which isn't worth code that a stack trace without
  // maps and an audit can't be read by.
  check("it is larger than 600 kB:", size <= 600_000, size);

  // What isn't there can't be run.
  for (const entry of failures.length > 0 ? [] : entries) {
    const name = `yieldagent${entry.slice(1)}`;
    const names = (flag, code) => execFileSync(process.execPath, [`--input-type=${flag}`, "--eval", code], { cwd: folder, encoding: "utf8" });
    const imported = names("module", `import * as it from "${name}"; console.log(Object.keys(it).sort().join())`);
    const required = names("commonjs", `console.log(Object.keys(require("${name}")).sort().join())`);
    check(`${name} gives the same names to import and require:`, imported === required && imported.trim() !== "", `${imported} ${required}`);
  }
  const run = failures.length > 0 ? "" : execFileSync(process.execPath, ["--input-type=module", "--eval", `
    import { agent, tool } from "yieldagent";
    import { script, toolCall } from "yieldagent/testing";
    const call = script(toolCall("act", {}, "a"), "done");
    const tools = { act: tool({ needsApproval: true, run: () => "acted" }) };
    const seen = [];
    let state;
    for await (const step of agent({ call, tools, messages: [{ role: "user", content: "go" }] })) { seen.push(step.type); state = step.state; }
    for await (const step of agent({ call, tools, state: JSON.parse(JSON.stringify(state)), decisions: { a: true } })) seen.push(step.type);
    console.log(seen.join(" "));`], { cwd: folder, encoding: "utf8" });
  check("a run pauses and goes on:", run.trim() === "message approval-needed tool-start tool-result message final", run);

  const lock = process.argv[2] ? "" : readFileSync(join(root, "package-lock.json"), "utf8");
  check("the lock names no host:", !lock.includes('"resolved"'));
  console.log(`node ${process.version}, tarball of ${files.length} files, ${size} bytes`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const failure of failures) console.error(`not so: ${failure}`);
console.log(`package: ${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length > 0 ? 1 : 0;
