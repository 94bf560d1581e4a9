// What is measured of one subject, in the subject's own process. Each function does the work once, or some times if that
// takes less than a moment, checks it, and returns microseconds of one run: of CPU, and `wall` by the clock.
import { readFileSync } from "node:fs";
import { answer, conversation, recording, Work } from "./work.mjs";

/** Runs shorter than this, in ms, are repeated: a short one says little. */
let MOMENT = 25;
export const setMoment = (ms) => (MOMENT = ms);

/** Microseconds of CPU so far: of the thread that JavaScript runs on where the system says it, else of the process. */
function cpuTime() {
  try {
    const ns = Number(readFileSync("/proc/thread-self/schedstat", "latin1").split(" ")[0]);
    if (ns > 0) return ns / 1000;
  } catch {
    // Only Linux has it.
  }
  const { user, system } = process.cpuUsage();
  return user + system;
}

async function timed(run, moment = MOMENT) {
  const cpu = cpuTime();
  const start = performance.now();
  let runs = 0;
  // A moment is one of CPU time, which is asked for now and then: where others use the CPU too, it is a longer one by the clock.
  do {
    const mark = performance.now();
    do {
      await run();
      runs++;
    } while (performance.now() - mark < Math.min(moment, 5));
  } while (cpuTime() - cpu < moment * 1000);
  return { cpu: (cpuTime() - cpu) / runs, wall: ((performance.now() - start) * 1000) / runs };
}

async function worked(subject, options, ...rest) {
  const work = new Work(options);
  work.check(await subject(work, ...rest));
  return work;
}

/** One tool call in each of `n` replies. */
export const loop = (subject, n) => timed(() => worked(subject.run, { steps: n }));

/** The same with a store that is handed the state at each change. */
export async function saving(subject, n) {
  let saves = 0;
  const time = await timed(async () => {
    saves = 0;
    await worked(subject.saving, { steps: n }, async () => void saves++);
  });
  if (saves < 3 * n) throw new Error(`saved ${saves} times in ${n} steps`);
  return { ...time, saves };
}

/** The same as `loop`, by an agent that is a tool of another. */
export const inside = (subject, n) => timed(() => worked(subject.inside, { steps: n }));

/** `n` calls in one reply, of a tool that returns at once. */
export const fanout = (subject, n) => timed(() => worked(subject.run, { calls: n }));

/** `n` calls in one reply, of a tool that sleeps for 10 ms. */
export async function sleeping(subject, n) {
  let most = 0;
  const time = await timed(async () => void ({ most } = await worked(subject.run, { calls: n, ms: 10 })), 0);
  return { ...time, most };
}

/** After `n` messages: to the pause before a gated tool, to text, from text, to the end. */
export async function pause(subject, n) {
  const { write = JSON.stringify, read = JSON.parse } = subject;
  const history = subject.history ? subject.history(conversation(n + 1)) : conversation(n + 1);
  const least = 100 * n;
  const parts = { pause: 0, write: 0, read: 0, resume: 0 };
  let runs = 0;
  let bytes = 0;
  let from = 0;
  const lap = (part) => {
    const now = performance.now();
    parts[part] += (now - from) * 1000;
    from = now;
  };
  const time = await timed(async () => {
    const work = new Work();
    from = performance.now();
    const paused = await subject.pause(work, history);
    lap("pause");
    const text = await write(paused);
    lap("write");
    const state = await read(text, work);
    lap("read");
    const said = await subject.resume(work, state);
    lap("resume");
    work.check(said);
    bytes = Buffer.byteLength(text);
    if (bytes < least) throw new Error(`${bytes} bytes can't hold ${n} messages`);
    runs++;
  });
  for (const part in parts) parts[part] /= runs;
  return { ...time, ...parts, bytes };
}

const recordings = new Map();

/** A stream of Chat Completions: `kind` text or args, so many bytes, in network pieces of `size` bytes. */
export async function stream(subject, options) {
  const key = JSON.stringify(options);
  if (!recordings.has(key)) {
    recordings.clear();
    recordings.set(key, recording(options));
  }
  const { chunks, said, bytes, events } = recordings.get(key);
  const time = await timed(async () => {
    const got = await subject.stream(answer(chunks));
    if (got !== said) throw new Error(`read ${got?.length} characters, not the ${said.length} that were sent`);
  });
  return { ...time, bytes, events };
}

/** Building a request after `n` messages, two of which are new since the last: from the call to `fetch`. `bytes`: and encoding it. */
export async function request(subject, { n, bytes = false }) {
  const REQUESTS = 100;
  const reply = { role: "assistant", content: "ok" };
  const said = JSON.stringify({ choices: [{ index: 0, message: reply, finish_reason: "stop" }] });
  const headers = new Headers({ "content-type": "application/json" });
  const encoder = new TextEncoder();
  const target = new Uint8Array(400 * (n + 2 * REQUESTS));
  const times = [];
  let body = "";
  let start = 0;
  const fetch = async (_, init) => {
    body = init.body;
    if (bytes && encoder.encodeInto(body, target).read !== body.length) throw new Error("the body is longer than it can be");
    times.push((performance.now() - start) * 1000);
    return new Response(said, { headers });
  };
  const all = conversation(n + 2 * REQUESTS + 1).map(Object.freeze);
  const tools = Object.freeze([]);
  const begin = performance.now();
  do {
    const ask = subject.client(fetch);
    // The first request of a conversation writes all of it, for everybody.
    await ask(all.slice(0, n - 1), tools);
    times.pop();
    for (let i = 0; i < REQUESTS; i++) {
      const messages = all.slice(0, n + 1 + 2 * i);
      start = performance.now();
      await ask(messages, tools);
    }
  } while (performance.now() - begin < MOMENT);
  const sent = JSON.parse(body).messages;
  if (sent.length !== n + 2 * REQUESTS - 1 || sent.some(({ role, content }, i) => role !== all[i].role || content !== all[i].content)) throw new Error(`the body has ${sent.length} messages, not those of the conversation`);
  // By the clock, since it is too short for the CPU's; a median, since now and then something else has the CPU meanwhile.
  const time = times.sort((a, b) => a - b)[times.length >> 1];
  return { cpu: time, wall: time, length: body.length };
}

/** Megabytes of heap in use after `n` steps in runs of 10, and how many it grew by since the first tenth. */
export async function memory(subject, n) {
  const heap = () => {
    globalThis.gc();
    globalThis.gc();
    return process.memoryUsage().heapUsed / 1e6;
  };
  let early = 0;
  const time = await timed(async () => {
    for (let done = 0; done < n; done += 10) {
      if (done === n / 10) early = heap();
      await worked(subject.run, { steps: 10 });
    }
  }, 0);
  const late = heap();
  return { ...time, heap: late, grown: late - early, rss: process.resourceUsage().maxRSS / 1000 };
}

/** Bytes written at each save of a run of `n` steps: the whole state, and by a store that writes only what is new. */
export async function delta(subject, n) {
  const whole = [];
  const news = [];
  const rows = [];
  let rest = "";
  let last;
  let step = 0;
  await worked(subject.saving, { steps: n }, async (state) => {
    const { messages, ...others } = state;
    const added = messages.slice(rows.length).map((message) => JSON.stringify(message));
    rows.push(...added);
    rest = JSON.stringify(others);
    const at = messages.filter(({ role }) => role === "assistant").length - 1;
    whole[at] = (whole[at] ?? 0) + JSON.stringify(state).length;
    news[at] = (news[at] ?? 0) + added.reduce((sum, text) => sum + text.length, rest.length);
    last = state;
  });
  const stored = { ...JSON.parse(rest), messages: rows.map((row) => JSON.parse(row)) };
  const sorted = (value) => JSON.stringify(Object.entries(value).sort());
  if (sorted(stored) !== sorted(JSON.parse(JSON.stringify(last)))) throw new Error("what the store holds is not the state");
  return { whole, news };
}
