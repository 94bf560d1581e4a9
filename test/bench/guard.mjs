// The guard: a quadratic must never land again. Each check is a ratio in one run, so that the speed of the machine drops
// out, and its bound at least 2.5 times what was measured, so that noise does.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { series, Subject } from "./subject.mjs";

const perStep = (n) => n;
const args = (bytes) => ({ kind: "args", bytes, letters: 64, size: 16384 });
const single = { kind: "args", bytes: 100_000, size: 1 };

/** How the cost of one step grows from size `a` to `b`, beside how the floor's grows. */
const growth = (a, b) => (at) => at(b).ratio / at(a).ratio;

const CHECKS = [
  { what: "a step of 5,000 beside one of 1,000", measure: "loop", floor: "while", sizes: [1000, 5000], per: perStep, value: growth(1000, 5000), bound: 3 },
  { what: "a saved step of 2,000 beside one of 200", measure: "saving", floor: "while", sizes: [200, 2000], per: perStep, value: growth(200, 2000), bound: 6 },
  { what: "a call in a fan-out of 2,000 beside one of 100", measure: "fanout", floor: "while", sizes: [100, 2000], per: perStep, value: growth(100, 2000), bound: 4 },
  { what: "pause to resume, 5,000 messages beside 500", measure: "pause", floor: "generator", sizes: [500, 5000], value: growth(500, 5000), bound: 4 },
  { what: "arguments of 8 MB beside 1 MB", measure: "stream", floor: "json", sizes: [args(1e6), args(8e6)], value: growth(args(1e6), args(8e6)), bound: 3 },
  { what: "network pieces of 1 byte, beside the floor", measure: "stream", floor: "json", sizes: [single], value: (at) => at(single).ratio, bound: 6 },
  { what: "a request after 2,000 messages, beside JSON.stringify", measure: "request", floor: "json", sizes: [{ n: 2000 }], value: (at) => at({ n: 2000 }).ratio, bound: 0.5 },
];

/** Runs the checks, or those of one measure, on the package that `folder` sees. Returns what failed. */
async function guard(folder, node, log, only) {
  const start = (file) => Subject.start(folder, `${file}.mjs`, node);
  const floors = { while: await start("floor-while"), generator: await start("floor-generator"), json: await start("floor-json") };
  const own = await start("yieldagent");
  const failed = [];
  try {
    for (const { what, measure, floor, sizes, per, value, bound } of only ? CHECKS.filter(({ what }) => what.startsWith(only)) : CHECKS) {
      const table = await series({ measure, sizes, subjects: [own], floor: floors[floor], rounds: 5, per });
      if (own.lost) throw new Error(own.lost);
      const found = value((size) => table[own.name][JSON.stringify(size)]);
      if (!(found <= bound)) failed.push(what);
      log(`${found <= bound ? "ok  " : "FAIL"} ${what}: ${found.toFixed(2)} times, at most ${bound}`);
    }
  } finally {
    for (const subject of [own, ...Object.values(floors)]) subject.stop();
  }
  return failed;
}

export async function guarded(folder, node, log) {
  const failed = await guard(folder, node, log);
  log(`${CHECKS.length - failed.length} passed, ${failed.length} failed`);
  return failed.length === 0;
}

/** Ways to be quadratic that were met, as changes of the built package; and the check that must see each. */
const PLANTS = [
  { what: "a step of 5,000", from: /this\.#revision\+\+;/, to: "$& this.messages.map((message) => ({ ...message }));" },
  { what: "a saved step", from: /const \{ state \} = this;/, to: "$& JSON.stringify(state);" },
  { what: "a call in a fan-out", from: /wake\(\);/, to: "$& for (const a of batch) for (const b of [a.id, a.tool, a.status]) JSON.stringify(b);" },
  { what: "pause to resume", from: /return \{ state: [^}]*|this\.#saved = this\.state;/, to: "$& for (const m of this.messages) this.messages.indexOf(m), this.messages.filter((one) => one.content === m.content);" },
  { what: "arguments of 8 MB", from: /call\.args \+= ([^;]*);/, to: "$& if (call.args.length > 1e5) Buffer.from(call.args).length;" },
  { what: "network pieces of 1 byte", from: /(this\.#line \+= [^;]*;)/, to: "$1 Buffer.from(this.#line + (this.#data ?? '')).toString().split('').join('').indexOf('\\n');" },
  { what: "a request", from: /kept\.set\(first,/, to: "void (" },
];

/** Whether the guard sees what is planted in a copy of the package. */
export async function planted(folder, root, node, log) {
  let missed = 0;
  for (const { what, from, to } of PLANTS) {
    const copy = mkdtempSync(join(tmpdir(), "yieldagent-planted-"));
    try {
      for (const file of readdirSync(folder).filter((file) => file.endsWith(".mjs"))) cpSync(join(folder, file), join(copy, file));
      mkdirSync(join(copy, "subjects"));
      for (const file of ["yieldagent", "floor-while", "floor-generator", "floor-json"]) cpSync(join(folder, `subjects/${file}.mjs`), join(copy, `subjects/${file}.mjs`));
      const home = join(copy, "node_modules/yieldagent");
      for (const part of ["dist", "package.json"]) cpSync(join(root, part), join(home, part), { recursive: true });
      let places = 0;
      for (const file of readdirSync(join(home, "dist")).filter((file) => file.endsWith(".js"))) {
        const code = readFileSync(join(home, "dist", file), "utf8");
        if (from.test(code)) places++;
        writeFileSync(join(home, "dist", file), code.replace(from, to));
      }
      if (places !== 1) throw new Error(`${from} is in ${places} files of the build: the plant for "${what}" needs another place`);
      const seen = (await guard(copy, node, log, what)).length > 0;
      if (!seen) missed++;
      log(`${seen ? "seen" : "MISSED"}: ${from} → ${to}`);
    } finally {
      rmSync(copy, { recursive: true, force: true });
    }
  }
  log(`${PLANTS.length - missed} passed, ${missed} failed`);
  return missed === 0;
}
