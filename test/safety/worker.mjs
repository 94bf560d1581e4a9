// A process of its own that goes on with a run, against a real database, and may be killed at any of its points. What it is
// told comes as JSON in its first argument. Tools act by a line in a ledger that is flushed to disk before they return.
import { appendFileSync, closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { agent, pending, tool } from "../../dist/index.js";
import { subagent } from "../../dist/subagent.js";
import { open } from "./store.mjs";

const { store: where, id, ledger, killAt = 0, variant = "", barrier = false, lease = 0, name = "w", replies = 1, deep = false, trace } = JSON.parse(process.argv[2]);
const store = await open(where);

let points = 0;
/** Something happens here; at the point that was drawn, kill -9. */
function at(what) {
  points++;
  if (trace) appendFileSync(trace, `${what}\n`);
  if (points === killAt) process.kill(process.pid, "SIGKILL");
}

function note(line) {
  const file = openSync(ledger, "a");
  writeSync(file, `${JSON.stringify({ ...line, pid: process.pid })}\n`);
  fsyncSync(file);
  closeSync(file);
}
const noted = () => readFileSync(ledger, { encoding: "utf8", flag: "a+" }).split("\n").filter(Boolean).map((line) => JSON.parse(line));

const run = async (args, { id, key }) => {
  note({ what: "entered", key });
  at("tool entered");
  await undefined;
  note({ what: "acted", key, args });
  at("tool acted");
  return `did ${id}`;
};
const plain = { free: tool({ run }), gated: tool({ needsApproval: true, run }), idem: tool({ idempotent: true, run }), human: tool({}) };
/** An agent that asks for each of these once, all at a time. */
const team = (tools, ...names) => subagent({ tools, call: asksFor(names), messages: () => [{ role: "user", content: "go" }] });
function asksFor(names) {
  return async (messages) => {
    at("model inside asked");
    if (messages.length > 1) return { role: "assistant", content: "done inside" };
    return { role: "assistant", content: null, tool_calls: names.map((tool) => ({ id: `${tool}0`, type: "function", function: { name: tool, arguments: '{"turn":0}' } })) };
  };
}
// Three deep: a lead has two specialists at a time, one of which has a gated tool, the other a plain one.
const tools = deep ? { lead: team({ one: team(plain, "gated", "idem"), other: team(plain, "free") }, "one", "other") } : plain;

const call = async (messages) => {
  at("model asked");
  const turn = messages.filter(({ role }) => role === "assistant").length;
  if (turn >= replies) return { role: "assistant", content: "done" };
  const names = deep ? ["lead"] : ["gated", "free", "idem", ...(turn === 0 ? ["human"] : [])];
  return { role: "assistant", content: null, tool_calls: names.map((tool) => ({ id: `${tool}${turn}`, type: "function", function: { name: tool, arguments: `{"turn":${turn}}` } })) };
};

function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** What a person says of what waits. Of an interrupted call they look whether its process is gone, and then whether it took effect. */
function person(state) {
  const decisions = {};
  for (const { id, args, reason } of pending(state)) {
    const lines = noted().filter(({ key }) => key === `${state.id}/${id}`);
    const acted = lines.some(({ what }) => what === "acted");
    if (reason === "answer") decisions[id] = { result: `did ${id}` };
    else if (reason === "approval") decisions[id] = args.turn === 0 ? { approved: true, args: { turn: 0, edited: true } } : true;
    else if (acted) decisions[id] = { result: `did ${id}` };
    else if (!lines.some(({ pid }) => alive(pid))) decisions[id] = { rerun: true };
  }
  return decisions;
}

/** Whether a tool that isn't an agent has started. */
function startsTool({ calls }) {
  return calls.some(({ tool, status, data }) => (data ? startsTool(data) : status === "started" && Object.hasOwn(plain, tool)));
}

async function save(state) {
  at("save asked");
  if (variant === "no write-ahead" && startsTool(state)) return;
  if (variant) await store.overwrite(state);
  else await store.save(state, async () => at("save written"));
  at("save landed");
}

/** One life: from the row to a person, or to the end. */
async function life() {
  at("process starts");
  const text = await store.load(id);
  const state = text === undefined ? undefined : JSON.parse(text);
  const decisions = state ? person(state) : {};
  if (barrier) {
    process.stdout.write("ready\n");
    await new Promise((go) => process.stdin.once("data", go));
    process.stdin.destroy();
  }
  let last;
  for await (const step of agent({ call, tools, save, recover: true, ...(state ? { state, decisions } : { messages: [{ role: "user", content: "go" }], id }) })) {
    at(step.type);
    last = step;
  }
  return last;
}

if (lease > 0) {
  // A worker of many: it goes on with the run while it holds the lease, and tries again while it doesn't.
  const beat = setInterval(() => store.lease(id, name, lease).catch(() => {}), lease / 4);
  for (;;) {
    if (await store.lease(id, name, lease)) {
      // The run is somebody else's by now, or has to wait for a person.
      const last = await life().catch((error) => error);
      if (last?.type === "final") break;
      if (last instanceof Error && last.message !== "somebody else goes on with this run") throw last;
    }
    await new Promise((again) => setTimeout(again, lease / 8));
  }
  clearInterval(beat);
} else {
  for (;;) {
    const last = await life();
    if (last.type === "final" || variant || barrier) break;
  }
}
await store.close();
process.stdout.write("end\n");
