// The figures that the README and the security policy state: kept in figures.json as they were measured last, and written
// into the marked blocks from there.
import { readFileSync, writeFileSync } from "node:fs";

const at = (path) => new URL(path, import.meta.url);
const FILE = at("figures.json");

export const stated = () => JSON.parse(readFileSync(FILE, "utf8"));

/** Numbers that differ from run to run are stated as what no run falls below. */
const FLOORS = { "real kills": 100, "real kills three deep": 80, "simulated crashes": 1000, "simulated crashes with agents as tools": 1000, "steps in short runs": 1000 };

export function known(figures) {
  const rounded = Object.entries(figures).map(([name, value]) => [name, FLOORS[name] ? Math.floor(value / FLOORS[name]) * FLOORS[name] : value]);
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(rounded.sort(([a], [b]) => (a < b ? -1 : 1))), null, 2)}\n`);
}

function blocks() {
  const figures = stated();
  const n = (name) => {
    if (figures[name] === undefined) throw new Error(`figures.json has no figure ${name}: npm run test:safety -- --figures`);
    return figures[name].toLocaleString("en-US");
  };
  return [
    ["../../README.md", `Shown at every push: ten invariants over ${n("runs of each property")} generated runs each, ${n("simulated crashes")} simulated crashes, ${n("real kills")} processes killed with SIGKILL over SQLite and PostgreSQL, ${n("planted bugs caught")} of ${n("planted bugs")} planted bugs caught. Mutation testing of the core, run by hand: ${figures["mutation score"]} %. What that covers, and what it doesn't, is in [SECURITY.md](.github/SECURITY.md); how to repeat it, in [\`test/safety\`](test/safety).`],
    ["../../.github/SECURITY.md", `| what is shown | how, at every push unless it says otherwise | how much |
|---|---|---|
| the ten invariants | each over generated plans and faults, every saved state checked against a reference model | ${n("properties")} × ${n("runs of each property")} runs |
| the crash matrix | plans killed at every point and every pair of points, saves lost, saves that land and are reported lost | ${n("simulated crashes")} schedules |
| two workers on one run | both go on from the same state at once; compare-and-set lets one | ${n("pairs of rivals")} pairs |
| kill -9 | processes killed at every point, and again in the next life, and six at a time with a lease; effects counted in a ledger on disk | ${n("real kills")} kills over SQLite (WAL, synchronous=FULL) and PostgreSQL |
| that these tests see | bugs planted in a copy of the source; the variants without compare-and-set and without the write-ahead | ${n("planted bugs caught")} of ${n("planted bugs")} caught |
| the same, of every line of the core | mutation testing, run by hand | score ${figures["mutation score"]} %, ${n("mutants")} mutants, survivors [explained](../test/safety/SURVIVORS.md) |
| hostile input | naughty strings and the JSON parsing test suite as arguments, keys, names, ids, results and decisions; arguments cut at every byte | ${n("naughty strings")} strings, ${n("JSON texts")} texts |
| secrets | canaries in keys, headers, URLs, causes and stacks never reach a state, step, message, error or log, of the core and of both adapters | ${n("quoted requests")} ways in which a server quotes a request |
| nothing piles up | heap, listeners, timers and the cost of a step over short runs, and over one long one | ${n("steps in short runs")} and ${n("steps in one run")} steps |
| old states | one of every status and kind, saved by each version, resumed by this one | ${n("old states")} states |`],
  ];
}

/** Writes the blocks, or says which of them states something else, and which figure wasn't reached by this run. */
export function check(rewrite, measured = {}) {
  const wrong = [];
  for (const [path, text] of blocks()) {
    const page = readFileSync(at(path), "utf8");
    const between = /(?<=<!-- safety -->\n).*(?=\n<!-- \/safety -->)/s;
    if (!between.test(page)) wrong.push(`${path} has no block <!-- safety -->`);
    else if (rewrite) writeFileSync(at(path), page.replace(between, () => text));
    else if (between.exec(page)[0] !== text) wrong.push(`${path} doesn't state the figures of figures.json: npm run test:safety -- --figures`);
  }
  for (const [name, value] of Object.entries(stated())) {
    if (/^(mutation score|mutants)$/.test(name)) continue; // not of this run
    // What can't be run everywhere is missing elsewhere than in CI.
    if (measured[name] === undefined && !process.env.CI && !process.env.SAFETY_ALL) continue;
    if (!(measured[name] >= value)) wrong.push(`the figure stated for ${name} is ${value}, and this run measured ${measured[name]}`);
  }
  return wrong;
}
