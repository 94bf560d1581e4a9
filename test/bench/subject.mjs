// Subjects in processes of their own, and series of measures of them, interleaved.
import { fork } from "node:child_process";
import { basename, join } from "node:path";

/** How long a measure lasts at least, in ms. */
const MOMENT = 25;
/** A run longer than this, in ms, is not waited for. */
const PATIENCE = 60_000;
/** A size is skipped where one run would take longer than this, in ms. */
const CAP = 10_000;

export class Subject {
  /** Why it can't be measured any more. */
  lost;
  #process;

  /** `folder` has the harness and its subjects; `node` is the binary to run them on. */
  static async start(folder, file, node) {
    const subject = new Subject();
    subject.file = basename(file, ".mjs");
    subject.#process = fork(join(folder, "worker.mjs"), [join(folder, "subjects", file)], { execPath: node, execArgv: ["--expose-gc", "--no-warnings"], stdio: ["ignore", "ignore", "pipe", "ipc"] });
    let said = "";
    subject.#process.stderr.on("data", (data) => (said = (said + data).slice(-2000)));
    subject.#process.on("exit", (code) => (subject.lost ??= `its process ended with ${code}: ${said}`));
    const { subject: facts } = await subject.#heard(30_000);
    return Object.assign(subject, facts ?? { name: subject.file, can: [], packages: [] });
  }

  /** Measures once; undefined if that failed, and then `lost` says why. */
  async measure(measure, size, moment = MOMENT) {
    if (this.lost) return undefined;
    this.#process.send({ measure, size, moment });
    const { result, error } = await this.#heard(PATIENCE);
    if (error) {
      this.stop();
      this.lost = error;
    }
    return result;
  }

  #heard(patience) {
    return new Promise((resolve) => {
      const hear = (message) => {
        clearTimeout(timer);
        this.#process.off("message", hear).off("exit", gone);
        resolve(message);
      };
      const gone = () => hear({ error: this.lost });
      const timer = setTimeout(() => hear({ error: `over ${patience / 1000} s` }), patience);
      this.#process.on("message", hear).on("exit", gone);
      if (this.#process.exitCode !== null) gone();
    });
  }

  stop() {
    this.#process.kill("SIGKILL");
  }
}

/** What a subject must have to be measured, where that has another name. */
const NEEDS = { loop: "run", fanout: "run", sleeping: "run", memory: "run", delta: "saving", request: "client" };

export function median(values) {
  const sorted = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

/** A process that has waited for its turn has given its memory back, and pays for it anew: a quick measure is done twice. */
async function primed(subject, measure, size, moment) {
  const first = await subject.measure(measure, size, moment);
  return moment === MOMENT && first?.wall < 100_000 ? subject.measure(measure, size, moment) : first;
}

/**
 * Measures every subject at every size, in rounds. Each is measured right after the floor, since the machine's speed
 * changes from moment to moment: `ratio` is the median of the ratios to the floor of that moment. `per`: what of a size a
 * time is divided by.
 */
export async function series({ measure, sizes, subjects, floor, rounds = 5, warm = 1200, per = () => 1, log = () => {} }) {
  const able = [floor, ...subjects.filter((subject) => subject !== floor)].filter(({ can }) => can.includes(NEEDS[measure] ?? measure));
  const table = Object.fromEntries(able.map((subject) => [subject.name, {}]));
  const cell = (subject, size) => (table[subject.name][JSON.stringify(size)] ??= { samples: [] });
  for (const [at, size] of sizes.entries()) {
    for (const subject of able) {
      if (at === 0) continue;
      const before = cell(subject, sizes[at - 1]);
      const earlier = at > 1 ? cell(subject, sizes[at - 2]) : undefined;
      const growth = earlier?.wall ? Math.max(1, before.wall / earlier.wall) : 1;
      const expected = before.wall ? (before.wall * growth * per(size)) / 1000 : before.expected;
      if (expected > CAP) Object.assign(cell(subject, size), { skipped: `~${expected > 100_000 ? ">100" : Math.round(expected / 1000)} s`, expected });
    }
    for (let round = -1; round < rounds; round++) {
      for (const subject of able) {
        const { samples, skipped } = cell(subject, size);
        if (skipped || subject.lost) continue;
        // Slow ones are measured less often: what takes a second is not a matter of a moment.
        const slow = samples[0]?.wall > 300_000;
        if ((slow && samples.length >= 3) || (samples[0]?.wall > 5_000_000 && samples.length >= 1)) continue;
        // The first round warms up: until an engine has compiled what is run often, it is many times slower.
        const moment = round < 0 ? (at === 0 ? warm : warm / 3) : MOMENT;
        const base = subject === floor ? undefined : await primed(floor, measure, size, MOMENT);
        const result = await primed(subject, measure, size, moment);
        if (!result || (round < 0 && result.wall < 1_000_000)) continue;
        samples.push({ ...result, ratio: base && result.cpu / base.cpu });
      }
    }
    for (const subject of able) {
      const one = cell(subject, size);
      const { samples } = one;
      const mid = (field) => median(samples.map((sample) => sample[field]));
      const { cpu: _, wall: __, ratio: ___, ...rest } = samples[0] ?? {};
      for (const field in rest) rest[field] = mid(field);
      delete one.samples;
      if (samples.length > 0) Object.assign(one, rest, { cpu: mid("cpu") / per(size), wall: mid("wall") / per(size), ratio: mid("ratio") ?? 1, rounds: samples.length });
      else if (subject.lost) one.skipped ??= subject.lost.split("\n")[0].slice(0, 100);
      log(`${measure} ${JSON.stringify(size)} ${subject.name}: ${one.skipped ?? `${one.cpu.toFixed(2)} us, ${one.ratio.toFixed(2)} x`}${subject.lost && !one.skipped ? ` then lost: ${subject.lost.slice(0, 300)}` : ""}`);
    }
  }
  return table;
}
