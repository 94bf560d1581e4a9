// Tests every example that has a folder, a package.json and a lock of its own.
// What they need beside npm is a Chromium and a PostgreSQL: with CI set they must be there, and are installed where that is
// possible; without it an example that lacks one is left out, loudly.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const folder = resolve(dirname(fileURLToPath(import.meta.url)), "../examples");
const MUST = Boolean(process.env.CI);

const inPath = (program) => (process.env.PATH ?? "").split(delimiter).some((place) => existsSync(join(place, program)));
const NEEDS = {
  chromium: {
    there: () => [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "C:/Program Files/Google/Chrome/Application/chrome.exe"].some((place) => place && existsSync(place)),
    examples: ["inbox", "browser"],
  },
  postgresql: {
    there: () => inPath("initdb") || (existsSync("/usr/lib/postgresql") && readdirSync("/usr/lib/postgresql").some((version) => existsSync(join("/usr/lib/postgresql", version, "bin/initdb")))),
    examples: ["workers"],
  },
};

/** apt-get, where there is one and we may. */
function install(name) {
  if (!inPath("apt-get")) return;
  const root = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  const run = (...args) => {
    const [program, ...rest] = [...root, "apt-get", ...args];
    return spawnSync(program, rest, { stdio: "inherit", env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } }).status === 0;
  };
  if (run("update", "-qq")) run("install", "-y", "-qq", "--no-install-recommends", name);
}

const left = new Map();
for (const [name, { there, examples }] of Object.entries(NEEDS)) {
  if (!there() && MUST) install(name);
  if (there()) continue;
  for (const example of examples) left.set(example, name);
}

const all = readdirSync(folder).filter((name) => {
  const manifest = join(folder, name, "package.json");
  return existsSync(manifest) && JSON.parse(readFileSync(manifest, "utf8")).scripts?.test;
});
const failed = [];
for (const name of all.filter((name) => !left.has(name))) {
  const began = Date.now();
  const npm = (...args) => execFileSync("npm", ["--prefix", join(folder, name), ...args], { stdio: "inherit", shell: process.platform === "win32" });
  try {
    npm("ci", "--no-audit", "--no-fund");
    npm("test");
  } catch {
    failed.push(name);
  }
  console.log(`examples/${name}: ${failed.includes(name) ? "FAILED" : "passed"} in ${Math.round((Date.now() - began) / 1000)} s`);
}
for (const [name, missing] of left) console.error(`\n*** examples/${name} was NOT TESTED: there is no ${missing} on this machine. Install it and run this again. ***`);
if (failed.length > 0 || (MUST && left.size > 0)) process.exitCode = 1;
