// The guard: a quadratic must never land again. Each check is a ratio to a floor in the same moment, so that the machine's
// speed drops out, and its bound some 3 times what is measured, so that noise does.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { series, Subject } from "./subject.mjs";

/** At sizes where a quadratic costs many times what is linear; the floors are linear. */
const CHECKS = [
  { what: "a step of a long run", measure: "loop", size: 5000, floor: "while", bound: 30 },
  { what: "a saved step of a long run", measure: "saving", size: 2000, floor: "while", bound: 50 },
  { what: "a step of an agent inside of another", measure: "inside", size: 2000, floor: "while", bound: 75 },
  { what: "a call of a wide fan-out", measure: "fanout", size: 2000, floor: "while", bound: 15 },
  { what: "from a pause to the end", measure: "pause", size: 5000, floor: "generator", bound: 5 },
  { what: "a long argument in short deltas", measure: "stream", size: { kind: "args", bytes: 8e6, letters: 64, size: 16384 }, floor: "json", bound: 5 },
  { what: "network pieces of one byte", measure: "stream", size: { kind: "args", bytes: 100_000, letters: 8192, size: 1 }, floor: "json", bound: 5 },
  { what: "a request of a long conversation", measure: "request", size: { n: 2000 }, floor: "json", bound: 0.3 },
];

/** Runs the checks, or those of one measure, on the package that `folder` sees. Returns what failed. */
async function guard(folder, node, log, only) {
  const start = (file) => Subject.start(folder, `${file}.mjs`, node);
  const floors = { while: await start("floor-while"), generator: await start("floor-generator"), json: await start("floor-json") };
  const own = await start("yieldagent");
  const failed = [];
  try {
    for (const { what, measure, size, floor, bound } of only ? CHECKS.filter(({ what }) => what === only) : CHECKS) {
      const table = await series({ measure, sizes: [size], subjects: [own], floor: floors[floor], rounds: 7, warm: 600 });
      // What takes too long to be measured has failed too; what breaks was not measured.
      if (own.lost && !own.lost.startsWith("over ")) throw new Error(`${what}: ${own.lost}`);
      const { ratio = Infinity } = table[own.name][JSON.stringify(size)];
      if (!(ratio <= bound)) failed.push(what);
      log(`${ratio <= bound ? "ok  " : "FAIL"} ${what}: ${ratio.toFixed(2)} times the floor, at most ${bound}${own.lost ? ` (${own.lost.slice(0, 300)})` : ""}`);
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
  { what: "a step of a long run", from: /this\.#revision\+\+;/, to: "$& this.messages.map((message) => ({ ...message }));" },
  { what: "a saved step of a long run", from: /const \{ state \} = this;/, to: "$& JSON.stringify(state);" },
  { what: "a step of an agent inside of another", from: /COPIED\.has\(value\)/, to: "false" },
  { what: "a call of a wide fan-out", from: /this\.#updates\.push\(update\);/, to: "$& for (const { open } of this.#updates) JSON.stringify([open.id, open.tool, open.status]);" },
  { what: "from a pause to the end", from: /return \{ state: [^}]*|this\.#saved = this\.state;/, to: "$& for (const m of this.messages) this.messages.indexOf(m), this.messages.filter((one) => one.content === m.content);" },
  { what: "a long argument in short deltas", from: /call\.args \+= ([^;]*);/, to: "$& if (call.args.length > 1e5) Buffer.from(call.args).length;" },
  { what: "network pieces of one byte", from: /(this\.#line \+= [^;]*;)/, to: "$1 Buffer.from(this.#line + (this.#data ?? '')).toString().split('').join('').indexOf('\\n');" },
  { what: "a request of a long conversation", from: /kept\.set\(first,/, to: "void (" },
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
