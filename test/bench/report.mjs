// Results as Markdown and as plots.
import { plot } from "./plot.mjs";

const OWN = "yieldagent";
const isFloor = (name) => name.startsWith("floor") || name === "plain node";

/** A number as a reader wants it: two or three digits that count. */
function figure(value) {
  if (value === undefined || Number.isNaN(value)) return "–";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en-US");
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}
const times = (value) => `${value >= 10 ? Math.round(value).toLocaleString("en-US") : value.toFixed(1)} ×`;
const size = (bytes) => (bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1000).toFixed(bytes >= 1e5 ? 0 : 1)} kB`);

function table(head, rows) {
  return [head, head.map((_, i) => (i === 0 ? "---" : "--:")), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

/** A row for each subject, a column for each size; `show` says what is in a cell. */
function grid(results, sizes, titles, show) {
  const rows = Object.entries(results).map(([name, cells]) => [
    name === OWN ? `**${name}**` : name,
    ...sizes.flatMap((one) => {
      const cell = cells[JSON.stringify(one)];
      const shown = cell?.cpu === undefined ? [cell?.skipped ? `skipped (${cell.skipped})` : "–"] : [show(cell, name)].flat();
      return [...shown, ...Array(titles.length / sizes.length - shown.length).fill("")];
    }),
  ]);
  return table(["subject", ...titles], rows);
}

const sizesOf = (results) => Object.keys(Object.values(results)[0]).map((key) => JSON.parse(key));
const some = (results, wanted) => sizesOf(results).filter((one) => wanted.includes(one));
const cost = ({ cpu, ratio }) => `${figure(cpu)} (${times(ratio)})`;

export function tables(results) {
  const { date, node, machine, versions, loop, saving, inside, fanout, sleeping, pause, stream, argument, request, memory } = results;
  const parts = [`Measured on ${date}, Node ${node}, ${machine}; ${Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(", ")}.`];
  const add = (title, text) => parts.push(`### ${title}`, text);

  const steps = some(loop, [10, 100, 1000, 5000]);
  add("A round trip: model, tool, model", `Microseconds of CPU for each, in a run of so many.\n\n${grid(loop, steps, steps.map((n) => `${n} steps`), cost)}`);
  const saved = sizesOf(saving);
  add("A round trip with a store that is told of each change", `Microseconds of CPU for each.\n\n${grid(saving, saved, saved.map((n) => `${n} steps`), cost)}`);
  const deep = some(inside, [10, 100, 1000, 5000]);
  add("A round trip of an agent that is a tool of another", `Microseconds of CPU for each, with a state of the one outside at each change inside. (The floor is the loop itself.)\n\n${grid(inside, deep, deep.map((n) => `${n} steps`), cost)}`);
  const wide = some(fanout, [10, 100, 1000]);
  add("Several calls in one reply", `Microseconds of CPU for each call, of a tool that returns at once.\n\n${grid(fanout, wide, wide.map((n) => `${n} calls`), cost)}`);
  const slept = sizesOf(sleeping);
  add("The same, of a tool that sleeps for 10 ms", `Milliseconds by the clock, and how many slept at once.\n\n${grid(sleeping, slept, slept.map((n) => `${n} calls`), ({ wall, most }) => `${figure(wall / 1000)} (${most})`)}`);
  const long = sizesOf(pause);
  add("Pause, serialize, parse, resume", `After a history of so many messages: milliseconds of CPU for all four, and the length of the text.\n\n${grid(pause, long, long.flatMap((n) => [`${n} messages`, "text"]), (cell, name) => {
    const floor = Object.values(pause)[0];
    const n = long.find((one) => pause[name][JSON.stringify(one)] === cell);
    return [`${figure(cell.cpu / 1000)} (${times(cell.ratio)})`, `${size(cell.bytes)} (${(cell.bytes / floor[JSON.stringify(n)].bytes).toFixed(2)} ×)`];
  })}`);
  const kinds = sizesOf(stream);
  add("Chat Completions streams", `Megabytes a second of CPU; in pieces of one byte, nanoseconds a byte.\n\n${grid(stream, kinds, kinds.map(({ kind, bytes, size: piece }) => (piece === 1 ? `${kind}, 1-byte pieces` : `${kind}, ${bytes / 1e6} MB`)), ({ cpu, bytes, ratio, events }, name) => {
    const single = kinds.some((one) => one.size === 1 && stream[name][JSON.stringify(one)]?.events === events);
    return `${figure(single ? (cpu * 1000) / bytes : bytes / cpu)} (${times(ratio)} the time)`;
  })}`);
  const arguments_ = sizesOf(argument);
  add("One argument in deltas of 64 characters", `Milliseconds of CPU.\n\n${grid(argument, arguments_, arguments_.map(({ bytes }) => `${bytes / 1e6} MB`), ({ cpu, ratio }) => `${figure(cpu / 1000)} (${times(ratio)})`)}`);
  const requests = sizesOf(request);
  add("A request body", `Microseconds from the call to fetch, for a conversation that has two messages more than at the last request; and with encoding it to bytes, which comes on top for everybody.\n\n${grid(request, requests, requests.map(({ n, bytes }) => `${n} messages${bytes ? ", bytes" : ""}`), ({ cpu, ratio }) => `${figure(cpu)} (${ratio >= 0.1 ? times(ratio) : `${ratio.toFixed(3)} ×`})`)}`);
  if (memory) add("Memory over 100,000 steps, in runs of 10", table(["subject", "heap at the end", "grown since step 10,000", "peak of the process"], Object.entries(memory).map(([name, { 100000: { heap, grown, rss } }]) => [name, `${figure(heap)} MB`, `${figure(grown)} MB`, `${figure(rss)} MB`])));
  const plain = results.import["plain node"];
  add("Import", `A fresh process that imports it, beside one that imports an empty module.\n\n${table(["subject", "wall ms", "CPU ms", "more CPU", "more memory"], Object.entries(results.import).map(([name, { wall, cpu, rss }]) => [name, figure(wall), figure(cpu), `${figure(cpu - plain.cpu)} ms`, `${figure(rss - plain.rss)} MB`]))}`);
  add("Size", `What an install brings, and what a program that uses it has in its bundle for Node (the loop only, no client of a model).\n\n${table(["subject", "installed", "packages", "min + gzip"], Object.entries(results.size).map(([name, { bytes, packages, gzip }]) => [name, size(bytes), packages, gzip ? size(gzip) : "fails"]))}`);
  return parts.join("\n\n");
}

/** The README's table: ratios to the floor, this package's beside the best and the worst of the others. */
export function headline(results) {
  const { date, node, versions } = results;
  const row = (what, cells, show = times) => {
    const own = cells[OWN];
    const others = Object.entries(cells).filter(([name, value]) => name !== OWN && !isFloor(name) && value !== undefined).sort(([, a], [, b]) => a - b);
    if (others.length === 0) return [what, show(own), "–", "–"];
    const [best, value] = others[0];
    const worst = others.at(-1);
    return [what, show(own), `${show(value)} (${best})`, others.length > 1 ? `${show(worst[1])} (${worst[0]})` : "–"];
  };
  const at = (measure, one, field = "ratio") => Object.fromEntries(Object.entries(results[measure]).map(([name, cells]) => [name, cells[JSON.stringify(one)]?.[field]]));
  const plain = results.import["plain node"].cpu;
  const bytes = 4e6;
  const rows = [
    row("a round trip, in a run of 100", at("loop", 100)),
    row("100 calls in one reply, each", at("fanout", 100)),
    row("pause, serialize, parse, resume after 1,000 messages", at("pause", 1000)),
    row("a stream's text, 4 MB", at("stream", { kind: "text", bytes, size: 16384 })),
    row("a stream's arguments, 4 MB", at("stream", { kind: "args", bytes, size: 16384 })),
    row("the request after 1,000 messages", at("request", { n: 1000 }), (value) => `${value.toFixed(value < 0.01 ? 3 : 2)} ×`),
    row("import, CPU over an empty module", Object.fromEntries(Object.entries(results.import).map(([name, { cpu }]) => [name, cpu - plain])), (value) => `${Math.max(0, Math.round(value))} ms`),
    row("install", Object.fromEntries(Object.entries(results.size).map(([name, { bytes: one }]) => [name, one])), size),
  ];
  const peers = Object.entries(versions).filter(([name]) => name !== OWN).map(([name, version]) => `${name} ${version}`).join(", ");
  return `CPU time as a multiple of a floor in the same run: a hand-written \`while\` loop, the same as an async generator, and for adapters \`indexOf\` and \`JSON\`. The model is scripted and answers at once, so this is what the library itself costs.

${table(["", "yieldagent", "the cheapest other", "the dearest"], rows)}

Measured on ${date} on Node ${node.slice(1)} beside ${peers}. [\`test/bench\`](test/bench) has all of it, how it grows, and the code; \`npm run bench\` measures it anew.`;
}

export function plots(results) {
  const lines = (measure) => Object.entries(results[measure]).map(([name, cells]) => ({ name, points: Object.entries(cells).filter(([, { cpu }]) => cpu !== undefined).map(([key, { cpu }]) => [Number(key), cpu]) }));
  const { whole, news } = results.delta;
  const every = (values) => values.map((value, i) => [i + 1, value]).filter(([step]) => step <= 10 || step % Math.ceil(step / 20) === 0 || step === values.length);
  return {
    "steps.svg": plot({ title: "What a round trip costs, by the length of the run", x: "steps of the run", y: "µs of CPU for each step", lines: [...lines("loop"), ...lines("inside").filter(({ name }) => name === OWN).map((line) => ({ ...line, name: `${OWN}, as a tool` }))] }),
    "fanout.svg": plot({ title: "What a call costs, by the calls in a reply", x: "calls in the reply", y: "µs of CPU for each call", lines: lines("fanout") }),
    "saved.svg": plot({ title: "What a store writes at each step", x: "step", y: "bytes", lines: [{ name: "the whole state, each time", points: every(whole) }, { name: "yieldagent: what is new", points: every(news) }] }),
  };
}
