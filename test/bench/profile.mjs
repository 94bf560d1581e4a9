// What the costs are made of: shares of CPU time by function, for the measures that miss their aim. `npm run bench -- --profile`
// Needs a Node that runs TypeScript as it stands (22.18): functions are then those of src/, by file and name.
import { Session } from "node:inspector/promises";
import { registerHooks } from "node:module";
import { basename } from "node:path";
import * as measures from "./measures.mjs";

const MISSED = [
  ["loop", 1000, "a round trip in a run of 1,000 steps"],
  ["fanout", 1000, "a call of 1,000 in one reply"],
  ["pause", 1000, "pause, serialize, parse, resume after 1,000 messages"],
  ["stream", { kind: "text", bytes: 4e6, size: 16384 }, "a stream of text, in pieces of 16 KiB"],
  ["stream", { kind: "args", bytes: 4e6, size: 16384 }, "a stream of arguments, in pieces of 16 KiB"],
  ["stream", { kind: "args", bytes: 1e5, size: 1 }, "a stream of arguments, in pieces of one byte"],
];
/** Shares below this, in percent, are left out. */
const LEAST = 1.5;

/** Whose time it is. What an engine does inside a function, such as `JSON.parse`, or has compiled into it, counts as that function's. */
function place({ functionName: name, url }) {
  if (name === "(garbage collector)") return "garbage collector";
  if (url.includes("/src/")) return `${basename(url)} ${name || "(a closure)"}`;
  if (url.includes("/test/bench/")) return "the measure itself: model, tool, server, JSON of a state";
  return /streams/.test(url) ? "Node's streams" : /encoding|^decode/.test(url + name) ? "Node's TextDecoder" : "the rest of the engine and of Node";
}

async function shares(measure, size, subject) {
  measures.setMoment(1500);
  await measures[measure](subject, size);
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.setSamplingInterval", { interval: 100 });
  await session.post("Profiler.start");
  measures.setMoment(3000);
  await measures[measure](subject, size);
  const { profile: { nodes, samples, timeDeltas } } = await session.post("Profiler.stop");
  session.disconnect();
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const spent = new Map();
  let all = 0;
  for (const [i, id] of samples.entries()) {
    const frame = frames.get(id);
    if (frame.functionName === "(idle)") continue;
    spent.set(place(frame), (spent.get(place(frame)) ?? 0) + timeDeltas[i]);
    all += timeDeltas[i];
  }
  return [...spent].map(([what, time]) => [what, (100 * time) / all]).sort(([, a], [, b]) => b - a);
}

// The subject imports the package by its name.
registerHooks({ resolve: (name, context, next) => (name.startsWith("yieldagent") ? { url: new URL(`../../src/${name.split("/")[1] ?? "index"}.ts`, import.meta.url).href, shortCircuit: true } : next(name, context)) });
const subject = await import("./subjects/yieldagent.mjs");
for (const [measure, size, what] of MISSED) {
  console.log(`\n${what}`);
  for (const [where, share] of await shares(measure, size, subject)) if (share >= LEAST) console.log(`${share.toFixed(1).padStart(6)} %  ${where}`);
}
