// `npm run states` here adds the states of this version to states/<version>: one of every status and kind, with what going
// on from it gave. What is there already stays as it is: states.test.ts resumes it for ever.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = new URL(".", import.meta.url);
export const folder = new URL("states/", here);
export const version = JSON.parse(readFileSync(new URL("../../package.json", here), "utf8")).version;

/** The tools and the model that every saved state was made with, and is resumed with: don't change them, add to them. */
const run = (_, { id, key }) => `did ${id} as ${key}`;
const tools = {
  free: { run },
  gated: { needsApproval: true, run },
  idem: { idempotent: true, run },
  human: { description: "ask the user" },
  fails: { run: () => { throw new Error("no paper"); } },
};
/** With those that keep and ask, and agents as tools, two and three deep; of the library's sources, or as it was built. */
export function toolsOf({ pause, subagent }) {
  const team = (inside, ...replies) => subagent({ tools: inside, call: model(replies), messages: ({ for: who }) => [{ role: "user", content: `work for ${who}` }] });
  const asking = (...calls) => ({ role: "assistant", content: null, tool_calls: calls.map(([name, id]) => ({ id, type: "function", function: { name, arguments: JSON.stringify({ for: id }) } })) });
  const clerk = team(tools, asking(["gated", "g"], ["free", "p"]), asking(["human", "h"]));
  const lead = team({ clerk, ...tools }, asking(["clerk", "c"], ["free", "p"]));
  /** Asks for two things, keeps each as it comes. */
  const form = {
    run: async (_, { data = [], decisions, keep }) => {
      const given = [...data, ...Object.keys(decisions).sort()];
      if (given.length > data.length) await keep(given);
      const open = ["first", "second"].filter((id) => !given.includes(id));
      return open.length > 0 ? pause(open.map((id) => ({ id, tool: "field", args: { id }, reason: "answer" }))) : `has ${given.join()}`;
    },
  };
  return { ...tools, clerk, lead, form };
}
export const model = (replies) => async (messages) => replies[messages.filter(({ role }) => role === "assistant").length] ?? { role: "assistant", content: "ok" };

/** Of an error only what kind it is: later versions may say it in other words. */
const kind = (text) => text.split(/[:;]/, text.startsWith("Error: ") ? 2 : 1).join(":");

/** Goes on from a saved state. Returns what there is to see, in words that no later field or wording changes. */
export async function resume(library, { state, options, replies = [] }) {
  const seen = [];
  let messages = [];
  try {
    const given = structuredClone(state);
    const run = library.agent({ call: model(replies), tools: toolsOf(library), state: given, ...options });
    for await (const step of run) {
      if (step.type === "message") seen.push(`message ${step.message.content ?? ""}`.trim());
      else if (step.type === "tool-start") seen.push(`start ${step.id} ${JSON.stringify(step.args)}`);
      else if (step.type === "tool-result") seen.push("error" in step ? `error ${step.id}: ${kind(step.error)}` : `result ${step.id}: ${JSON.stringify(step.result)}`);
      else if (step.type === "approval-needed") seen.push(`ask ${step.pending.map(({ id, tool, args, reason }) => `${id} ${tool} ${JSON.stringify(args)} ${reason}`).join(", ")}`);
      else if (step.type === "final") seen.push(`final ${step.reason}: ${step.text}`);
    }
    messages = run.state.messages.map(({ role, content, tool_call_id: id }) => [role, ...(id === undefined ? [] : [id]), typeof content !== "string" ? JSON.stringify(content ?? null) : content.startsWith("Error: ") ? kind(content) : content].join(" "));
    if (JSON.stringify(given) !== JSON.stringify(state)) seen.push("the given state was changed");
  } catch (error) {
    seen.push(`throws ${error.code ?? error}`);
  }
  return { seen, messages };
}

async function make() {
  const target = new URL(`${version}/`, folder);
  const library = { ...(await import("../../dist/index.js")), ...(await import("../../dist/subagent.js")) };
  const { agent } = library;
  const call = (name, id, args = { for: id }) => ({ id, type: "function", function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) } });
  const asks = (...calls) => ({ role: "assistant", content: null, tool_calls: calls, finish_reason: "tool_calls", usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12, cost: 0.25 } });
  const user = { role: "user", content: "go" };

  /** Every state that a run saves, from messages or another state on. */
  const all = async ({ replies, ...options }) => {
    const all = [];
    const run = agent({ call: model(replies), tools: toolsOf(library), ...(!options.state && { id: "r" }), save: (state) => void all.push(structuredClone(state)), ...options });
    for await (const _ of run) {
      // To its end.
    }
    all.push(structuredClone(run.state));
    return all;
  };
  const where = (states, status) => states.find(({ calls }) => calls.some((open) => open.status === status));
  const files = {};
  /** One file: a state, the options to go on with, and what that gave. */
  const add = async (name, state, options = {}, replies = []) => {
    if (!state) throw new Error(`no state for ${name}`);
    files[name] = { state, options, replies, then: await resume(library, { state, options, replies }) };
  };

  const mixed = [asks(call("gated", "g"), call("free", "p"), call("idem", "i"), call("human", "h"), call("fails", "f"), call("nobody", "n"), call("free", "bad", "{"))];
  const states = await all({ messages: [{ role: "system", content: "be brief" }, user], replies: mixed });
  const decisions = { g: true, h: { result: { colour: "blue" } } };
  const asked = states.at(-1);
  await add("new", where(states, "new"), {}, mixed);
  await add("ready", where(states, "ready"), {}, mixed);
  await add("started", where(states, "started"), {}, mixed);
  await add("started-recovered", where(states, "started"), { recover: true }, mixed);
  await add("done-beside-pending", asked, {}, mixed);
  await add("pending-approved", asked, { decisions }, mixed);
  await add("pending-edited", asked, { decisions: { g: { approved: true, args: { for: "somebody else" } }, h: { approved: false } } }, mixed);
  await add("pending-rejected", asked, { decisions: { g: { approved: false, reason: "not today" } } }, mixed);
  await add("pending-answered", asked, { decisions: { g: { result: "done by hand" }, h: { result: null } } }, mixed);
  await add("pending-bad-decision", asked, { decisions: { p: true } }, mixed);
  await add("pending-passed-over", asked, { messages: [{ role: "user", content: "never mind" }] }, mixed);

  const edited = await all({ state: asked, replies: mixed, decisions: { g: { approved: true, args: { for: "ann" } } } });
  await add("ready-edited", where(edited, "ready"), {}, mixed);
  await add("started-edited", where(edited, "started"), { recover: true }, mixed);
  const interrupted = (await all({ state: where(edited, "started"), recover: true, replies: mixed })).at(-1);
  await add("interrupted-undecided", interrupted, {}, mixed);
  await add("interrupted-approved", interrupted, { decisions: { g: true } }, mixed);
  await add("interrupted-rerun", interrupted, { decisions: { g: { rerun: true }, h: false } }, mixed);
  await add("interrupted-did-run", interrupted, { decisions: { g: { result: "it was sent" }, h: false } }, mixed);
  await add("interrupted-left", interrupted, { decisions: { g: { approved: false, reason: "ask her" }, h: false } }, mixed);
  await add("interrupted-passed-over", interrupted, { messages: [user] }, mixed);

  const finished = await all({ state: asked, replies: mixed, decisions });
  await add("all-done", finished.find(({ calls }) => calls.length > 0 && calls.every(({ status }) => status === "done")), {}, mixed);
  await add("between", finished.find(({ calls, messages }) => calls.length === 0 && messages.at(-1).role === "tool"), {}, mixed);
  await add("finished", finished.at(-1), {}, mixed);
  await add("finished-and-on", finished.at(-1), { messages: [{ role: "user", content: "and then?" }] }, mixed);

  const cut = [{ ...asks(call("gated", "g"), call("free", "p")), finish_reason: "length" }];
  await add("new-cut-off", where(await all({ messages: [user], replies: cut }), "new"), {}, cut);
  const ids = [asks(call("gated", "x"), call("gated", "x"), { type: "function", function: { name: "gated", arguments: "{}" } }, call("gated", "__proto__"))];
  await add("repaired-ids", (await all({ messages: [user], replies: ids })).at(-1), { decisions: { x: true, call_1_2: true, call_1_3: false, call_1_4: true } }, ids);
  const endless = Array.from({ length: 9 }, (_, i) => asks(call("free", `p${i}`)));
  const limited = (await all({ messages: [user], replies: endless, maxSteps: 2 })).at(-1);
  await add("max-steps", limited, { maxSteps: 2 }, endless);
  await add("max-steps-raised", limited, { maxSteps: 3 }, endless);
  await add("max-steps-and-a-message", limited, { maxSteps: 1, messages: [user] }, endless);
  const rich = [{ role: "assistant", content: [{ type: "text", text: "a" }, { type: "image_url", image_url: { url: "x" } }], reasoning_content: "hm", tool_calls: [{ ...call("gated", "g"), extra_content: { thought: "s" } }], finish_reason: "stop" }];
  await add("fields-of-servers", (await all({ messages: [{ role: "user", content: [{ type: "text", text: "go" }], name: "ann" }], replies: rich })).at(-1), { decisions: { g: true } }, rich);
  await add("filtered", (await all({ messages: [user], replies: [{ role: "assistant", content: "", finish_reason: "content_filter" }] })).at(-1));
  await add("not-begun", structuredClone(agent({ call: model([]), tools, messages: [user], id: "r" }).state));
  await add("from-elsewhere", structuredClone(agent({ call: model([]), tools, id: "r", messages: [user, { role: "assistant", content: null, tool_calls: [call("gated", "g"), call("free", "p")] }, { role: "tool", tool_call_id: "p", content: "old" }] }).state), {}, mixed);

  for (const [name, ids] of [["clerk", ["c/g", "c/h"]], ["lead", ["c/c/g", "c/c/h"]]]) {
    const replies = [asks(call(name, "c"))];
    const told = await all({ messages: [user], replies });
    const waits = told.at(-1);
    const first = where(told, "started");
    const kept = told.find(({ calls }) => calls[0]?.data);
    await add(`${name}-entered`, first, { recover: true }, replies);
    await add(`${name}-kept`, kept, { recover: true }, replies);
    await add(`${name}-kept-elsewhere`, kept, {}, replies);
    await add(`${name}-paused`, waits, {}, replies);
    await add(`${name}-paused-approved`, waits, { decisions: { [ids[0]]: true } }, replies);
    await add(`${name}-paused-edited`, waits, { decisions: { [ids[0]]: { approved: true, args: { for: "ann" } } } }, replies);
    await add(`${name}-paused-rejected`, waits, { decisions: { [ids[0]]: { approved: false, reason: "no" } } }, replies);
    await add(`${name}-paused-passed-over`, waits, { messages: [user] }, replies);
    await add(`${name}-paused-bad-decision`, waits, { decisions: { c: true } }, replies);
    const decided = await all({ state: waits, replies, decisions: { [ids[0]]: true } });
    await add(`${name}-decided`, where(decided, "ready"), { recover: true }, replies);
    await add(`${name}-decided-and-entered`, where(decided, "started"), { recover: true }, replies);
    // The gated call inside has started: only a person knows whether it ran.
    const inner = ({ calls }) => calls.flatMap(({ data, ...open }) => [open, ...(data ? inner(data) : [])]);
    const cut = decided.find((state) => inner(state).some(({ id, status }) => id === "g" && status === "started"));
    const interrupted = (await all({ state: cut, replies, recover: true })).at(-1);
    await add(`${name}-started-inside`, cut, { recover: true }, replies);
    await add(`${name}-interrupted-rerun`, interrupted, { decisions: { [ids[0]]: { rerun: true } } }, replies);
    await add(`${name}-interrupted-approved`, interrupted, { decisions: { [ids[0]]: true } }, replies);
    await add(`${name}-paused-again`, decided.at(-1), { decisions: { [ids[1]]: { result: "blue" } } }, replies);
  }
  const forms = [asks(call("form", "f"))];
  const blank = (await all({ messages: [user], replies: forms })).at(-1);
  const half = (await all({ state: blank, replies: forms, decisions: { "f/first": { result: 1 } } })).at(-1);
  await add("form-paused", blank, {}, forms);
  await add("form-half", half, { decisions: { "f/second": { result: 2 } } }, forms);
  await add("form-half-decided-again", half, { decisions: { "f/first": { result: 1 } } }, forms);
  await add("form-both", blank, { decisions: { "f/first": { result: 1 }, "f/second": false } }, forms);

  // What is there was saved by a version that somebody may have: it stays as it is.
  mkdirSync(target, { recursive: true });
  const added = Object.entries(files).filter(([name]) => !existsSync(new URL(`${name}.json`, target)));
  for (const [name, file] of added) writeFileSync(new URL(`${name}.json`, target), `${JSON.stringify(file, null, 1)}\n`);
  console.log(`${added.length} states added to those of ${version}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await make();
