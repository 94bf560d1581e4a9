// Very many steps in one process, run with --expose-gc: prints what they cost, and what is left of them, as JSON.
import { getEventListeners } from "node:events";
import { agent } from "../../dist/index.js";

const [kind = "", scale = "1"] = process.argv.slice(2);
const { gc } = globalThis;
const user = { role: "user", content: "go" };
const tools = { free: { run: () => "did" }, gated: { needsApproval: true, run: async () => "did" } };
const call = (name, id) => ({ id, type: "function", function: { name, arguments: '{"n":1}' } });
const { signal } = new AbortController();

function heap() {
  gc();
  gc();
  return process.memoryUsage().heapUsed;
}

/** Ten times a tenth of the work: the microseconds of processor time of a step in each, and the heap after each. */
async function tenths(work) {
  const cost = [];
  const heaps = [];
  for (let tenth = 0; tenth < 10; tenth++) {
    const start = process.cpuUsage();
    const steps = await work(tenth);
    const { user, system } = process.cpuUsage(start);
    cost.push((user + system) / steps);
    heaps.push(heap());
  }
  return { cost, heaps };
}

async function short() {
  const total = 100_000 * Number(scale);
  let steps = 0;
  // Ends of all kinds: read to the end, a pause and its decision, a break, a throw.
  const model = async (messages) => {
    if (messages.length > 1) return { role: "assistant", content: "ok" };
    return { role: "assistant", content: null, tool_calls: [call("free", "a"), call("gated", "b")] };
  };
  const count = async (options, until = Infinity) => {
    const run = agent({ call: model, tools, signal, save: () => {}, ...options });
    let n = 0;
    for await (const _ of run) {
      steps++;
      if (++n === until) break;
    }
    return run.state;
  };
  const cycle = async () => {
    const state = await count({ messages: [user] });
    await count({ state, decisions: { b: true } });
    await count({ messages: [user] }, 2);
    await count({ messages: [user], call: () => Promise.reject(new Error("no")) }).catch(() => {});
  };
  for (let i = 0; i < 2000; i++) await cycle(); // until engines have compiled it
  steps = 0;
  const measured = await tenths(async (tenth) => {
    const before = steps;
    while (steps < (total / 10) * (tenth + 1)) await cycle();
    return steps - before;
  });
  return { steps, ...measured };
}

async function long() {
  const total = 5000;
  let asked = 0;
  for (let i = 0; i < 500; i++) {
    const warm = agent({ call: async (messages) => (messages.length < 9 ? { role: "assistant", content: null, tool_calls: [call("free", "")] } : { role: "assistant", content: "ok" }), tools, messages: [user], save: () => {} });
    while (!(await warm.next()).done); // until engines have compiled it
  }
  const model = async () => (++asked < total ? { role: "assistant", content: null, tool_calls: [call("free", `c${asked}`)] } : { role: "assistant", content: "ok" });
  const run = agent({ call: model, tools, signal, messages: [user], maxSteps: Infinity, save: () => {} });
  let ended = false;
  const measured = await tenths(async (tenth) => {
    const before = asked;
    while (asked < (total / 10) * (tenth + 1) && !ended) ended = (await run.next()).done;
    return asked - before;
  });
  while (!ended) ended = (await run.next()).done;
  return { steps: asked, messages: run.state.messages.length, ...measured };
}

const told = kind === "short" ? await short() : await long();
console.log(JSON.stringify({ ...told, listeners: getEventListeners(signal, "abort").length, timers: process.getActiveResourcesInfo().filter((what) => /Timeout|Immediate/.test(what)) }));
