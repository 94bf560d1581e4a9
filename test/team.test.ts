import { readFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pending, type State } from "yieldagent";
import { collect } from "yieldagent/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { standIn } from "../examples/team/model.ts";
import { SAMPLE } from "../examples/team/shop.ts";
import { brief, team } from "../examples/team/team.ts";
import { bundle, type Ended, type ModelServer, serveModel, start, streamed, until } from "./program.ts";
import { checkChat } from "./strict.ts";

// The stand-in's ids are made of what its calls do.
const CLERK = "clerk-9c88fbf3";
const REFUND = `${CLERK}/refund-5a784207`;
const EMAIL = `${CLERK}/sendEmail-4ef0dd46`;
const RESEARCHER = "researcher-b11541cf";
const QUESTION = `${RESEARCHER}/askWarehouse-239c2c94`;

const readme = readFileSync(join(import.meta.dirname, "../examples/team/README.md"), "utf8");
const [, excerpt = ""] = /```ts\n(.*?)```/s.exec(readme) ?? [];
/** What its commands print, cut at the end. */
const sessions = [...readme.matchAll(/```text\n\$ (npm run team.*?)\n(.*?)…\n```/gs)].map(([, command, prints = ""]) => ({ command, prints }));

let program = "";
let home = "";
/** The shop; its state is beside it. */
let folder = "";

beforeAll(async () => {
  program = await bundle("team");
});

afterAll(() => fs.rm(dirname(program), { recursive: true }));

beforeEach(async () => {
  home = await fs.realpath(await fs.mkdtemp(join(tmpdir(), "yieldagent-team-test-")));
  folder = join(home, "shop");
  await fs.mkdir(folder);
  for (const [name, content] of Object.entries(SAMPLE)) await fs.writeFile(join(folder, name), content);
});

afterEach(() => fs.rm(home, { recursive: true }));

/** Runs the program to its end and returns what it says after the letter, by the line. */
async function say(...args: string[]): Promise<string[]> {
  const { code, out, err } = await start(program, home, [folder, ...args]).ended;
  expect([code, err]).toEqual([0, ""]);
  const letter = `A letter in ${folder}:\n\n${SAMPLE["letter.txt"]}\n`;
  expect(out.slice(0, letter.length)).toBe(letter);
  return out.slice(letter.length).split("\n").slice(0, -1);
}

/** What is said before what waits is listed: the lead's lines, and each specialist's, whose order among each other is open. */
function lanes(lines: readonly string[]): Record<"lead" | "clerk" | "researcher", string[]> {
  const end = lines.findIndex((line) => / for a person:$/.test(line));
  const said = end < 0 ? lines : lines.slice(0, end - 1);
  const of = (name: string): string[] => said.filter((line) => line.startsWith(`  ${name}: `)).map((line) => line.slice(name.length + 4));
  return { lead: said.filter((line) => !line.startsWith("  ")), clerk: of("clerk"), researcher: of("researcher") };
}

/** As the first start, up to the pause, but without a process: that would take a while. */
async function paused(): Promise<void> {
  const run = team(folder, standIn, { messages: brief("lead", SAMPLE["letter.txt"] ?? ""), save: async () => {}, recover: true });
  await collect(run);
  await fs.writeFile(`${folder}.team.json`, JSON.stringify(run.state));
}

async function state(): Promise<State> {
  return JSON.parse(await fs.readFile(`${folder}.team.json`, "utf8")) as State;
}

/** What waits, as `id reason`. */
async function waiting(): Promise<string[]> {
  return pending(await state()).map(({ id, reason }) => `${id} ${reason}`);
}

/** What was paid or mailed, with the calls that did it. */
async function posted(file: "refunds" | "outbox"): Promise<object[]> {
  const { id } = await state();
  const text = await fs.readFile(join(folder, `${file}.jsonl`), "utf8").catch(() => "");
  return text.split("\n").slice(0, -1).map((line) => JSON.parse(line.replace(`"${id}/`, '"')) as object);
}

const paid = { order: "A-17", amount: 59, key: REFUND };

/** Starts, and kills the process in the middle of a refund: before or after it is paid. */
async function killedIn(place: "before" | "after", ...args: string[]): Promise<void> {
  const { child, ended } = start(program, home, [folder, ...args], ["appendFile", place]);
  await until([home, folder], async () => {
    const inside = (await state()).calls[0]?.data as State;
    return inside.calls[0]?.status === "started" && (place === "before" || (await posted("refunds")).length > 0);
  });
  child.kill("SIGKILL");
  await ended;
}

test("the README's code is the program's", () => {
  const code = readFileSync(join(import.meta.dirname, "../examples/team/team.ts"), "utf8").replace(/^  /gm, "");
  expect(excerpt).not.toBe("");
  expect(code).toContain(excerpt);
  expect(sessions.length).toBe(2);
});

describe("a conversation over several processes", () => {
  test("both specialists are at work at a time, and what each of them asks waits at the top", async () => {
    const lines = await say();
    expect(lanes(lines)).toEqual({
      lead: [
        "The clerk makes it good, and the researcher finds out why.",
        '→ clerk {"task":"What came with order A-17 is broken: make it good."}',
        '→ researcher {"task":"What came with order A-17 is broken: why?"}',
      ],
      clerk: [
        "I look the order up.",
        '→ search {"text":"A-17"}',
        '✓ search ["complaints.csv: A-17,batch-7,broken","orders.csv: A-17,Ann Berg,ann@example.com,lamp,batc…',
        "Ann Berg paid 59.00.",
      ],
      researcher: [
        "I look for the order.",
        '→ search {"text":"A-17"}',
        '✓ search ["complaints.csv: A-17,batch-7,broken","orders.csv: A-17,Ann Berg,ann@example.com,lamp…',
        "It is of batch-7. I look for the rest of that.",
        '→ search {"text":"batch-7"}',
        '✓ search ["complaints.csv: A-12,batch-7,the shade was broken","complaints.csv: A-16,batch-7,the…',
        "The warehouse may know more.",
      ],
    });
    const at = (line: string): number => lines.indexOf(line);
    expect(at("  researcher: I look for the order.")).toBeLessThan(at('  clerk: → search {"text":"A-17"}'));
    expect(at("  clerk: I look the order up.")).toBeLessThan(at('  researcher: → search {"text":"A-17"}'));

    expect(lines.slice(at("2 calls wait for a person:")).join("\n")).toBe(`2 calls wait for a person:

${REFUND}  clerk › refund  (approval)
{
  "order": "A-17",
  "amount": 59
}

${QUESTION}  researcher › askWarehouse  (answer)
{
  "question": "3 of batch-7 came broken. What happened to it?"
}

Start it in a terminal to be asked, or decide with any number of these in one command; the rest keeps waiting:
  npm run team -- ${folder} --approve <id>                   # run it as shown
  npm run team -- ${folder} --approve-all                    # run all that wait for an approval
  npm run team -- ${folder} --edit <id> '<JSON>'             # run it with these arguments
  npm run team -- ${folder} --result <id> '<JSON>'           # the answer
  npm run team -- ${folder} --reject <id> [--reason <text>]  # leave it`);
    for (const line of sessions[0]?.prints.split("\n").slice(6) ?? []) expect(lines).toContain(line);
    expect(pending(await state())).toEqual([
      { id: REFUND, tool: "refund", args: { order: "A-17", amount: 59 }, reason: "approval", path: ["clerk"] },
      { id: QUESTION, tool: "askWarehouse", args: { question: "3 of batch-7 came broken. What happened to it?" }, reason: "answer", path: ["researcher"] },
    ]);
    expect(await fs.readdir(home)).toEqual(["shop", "shop.team.json"]);
  });

  test("one is decided and the other waits; the clerk asks a second time, and its letter is edited", async () => {
    await paused();
    expect(sessions[1]?.command).toBe(`npm run team -- --approve ${REFUND}`);
    const second = await say("--approve", REFUND);
    expect(second.join("\n")).toContain(sessions[1]?.prints);
    expect(lanes(second)).toEqual({
      lead: ['→ clerk {"task":"What came with order A-17 is broken: make it good."}'],
      clerk: ['→ refund {"order":"A-17","amount":59}', '✓ refund {"order":"A-17","amount":59}', "Now the letter."],
      researcher: [],
    });
    expect([await waiting(), await posted("refunds"), await posted("outbox")]).toEqual([[`${EMAIL} approval`, `${QUESTION} answer`], [paid], []]);

    expect(lanes(await say("--result", QUESTION, '"It fell."'))).toEqual({
      lead: ['→ researcher {"task":"What came with order A-17 is broken: why?"}', '✓ researcher "3 of batch-7 came broken. The warehouse says: It fell."'],
      clerk: [],
      researcher: ['✓ askWarehouse "It fell."', "3 of batch-7 came broken. The warehouse says: It fell."],
    });
    expect(await waiting()).toEqual([`${EMAIL} approval`]);

    expect(await say("--edit", EMAIL, '{"to":"berg@example.com","text":"Sorry!"}')).toEqual([
      '→ clerk {"task":"What came with order A-17 is broken: make it good."}',
      '  clerk: → sendEmail {"to":"berg@example.com","text":"Sorry!"}',
      '  clerk: ✓ sendEmail {"to":"berg@example.com","text":"Sorry!"}',
      "  clerk: Refunded 59.00 for A-17. Wrote to berg@example.com.",
      '✓ clerk "Refunded 59.00 for A-17. Wrote to berg@example.com."',
      "This is what became of it.",
      "- clerk: Refunded 59.00 for A-17. Wrote to berg@example.com.",
      "- researcher: 3 of batch-7 came broken. The warehouse says: It fell.",
    ]);
    expect([await waiting(), await posted("refunds"), await posted("outbox")]).toEqual([[], [paid], [{ to: "berg@example.com", text: "Sorry!", key: EMAIL }]]);
  });

  test("two decisions in one command go to the two specialists they are for", async () => {
    await paused();
    expect(lanes(await say("--edit", REFUND, '{"order":"A-17","amount":20}', "--reject", QUESTION, "--reason", "they are on holiday"))).toEqual({
      lead: [
        '→ clerk {"task":"What came with order A-17 is broken: make it good."}',
        '→ researcher {"task":"What came with order A-17 is broken: why?"}',
        '✓ researcher "3 of batch-7 came broken. The warehouse gave no answer (not run: it was rejected: they are on holid…',
      ],
      clerk: ['→ refund {"order":"A-17","amount":20}', '✓ refund {"order":"A-17","amount":20}', "Now the letter."],
      researcher: [
        `✗ askWarehouse {"question":"3 of batch-7 came broken. What happened to it?"}: not run: it was rejected: they are on holiday`,
        "3 of batch-7 came broken. The warehouse gave no answer (not run: it was rejected: they are on holiday).",
      ],
    });
    expect(await posted("refunds")).toEqual([{ ...paid, amount: 20 }]);
    const [letter] = pending(await state());
    expect(letter?.args).toEqual({ to: "ann@example.com", text: "Dear Ann Berg, we are sorry. 20.00 are on their way to you." });
  });

  test("a rejection reaches the clerk, and through it the lead", async () => {
    await paused();
    await say("--result", QUESTION, '"It fell."');
    expect((await say("--reject", REFUND, "--reason", "she has it already")).slice(-3)).toEqual([
      "This is what became of it.",
      "- clerk: No refund for A-17: not run: it was rejected: she has it already.",
      "- researcher: 3 of batch-7 came broken. The warehouse says: It fell.",
    ]);
    expect([await posted("refunds"), await posted("outbox")]).toEqual([[], []]);
  });

  test("what doesn't fit a specialist's tool is one line and exit code 1, and the same questions wait", async () => {
    await paused();
    const refused = async (...args: string[]): Promise<Ended> => start(program, home, [folder, ...args]).ended;
    expect(await refused("--edit", REFUND, '{"order":"A-17","amount":"all"}')).toMatchObject({ code: 1, err: `in the call "${CLERK}" of clerk: the decision on call "refund-5a784207" can't be taken: its arguments don't fit: amount must be a number\n` });
    expect(await refused("--approve", QUESTION)).toMatchObject({ code: 1, err: `the decision on call "${QUESTION}" can't approve it: its tool has no run; say { result } or { approved: false }\n` });
    expect(await refused("--approve", CLERK)).toMatchObject({ code: 1, err: `the call "${CLERK}" is not pending in the state (it may have been decided already); pending: "${REFUND}", "${QUESTION}"\n` });
    expect([await waiting(), await posted("refunds")]).toEqual([[`${REFUND} approval`, `${QUESTION} answer`], []]);
    await say("--approve", REFUND);
    expect(await posted("refunds")).toEqual([paid]);
  });
});

describe("killed in the middle of a refund", () => {
  const interrupted = `${REFUND}  clerk › refund  (interrupted: it had begun when its process ended, and may or may not have run)`;

  test("before it is paid: the top is asked, an approval is no answer, a rerun pays it once", async () => {
    await paused();
    await killedIn("before", "--approve", REFUND);
    expect(await say()).toContain(interrupted);
    expect(await waiting()).toEqual([`${REFUND} interrupted`, `${QUESTION} answer`]);
    expect(await start(program, home, [folder, "--approve", REFUND]).ended).toMatchObject({ code: 1, err: expect.stringContaining("it may have run already") });
    expect(await posted("refunds")).toEqual([]);
    expect(lanes(await say("--rerun", REFUND)).clerk).toEqual(['→ refund {"order":"A-17","amount":59}', '✓ refund {"order":"A-17","amount":59}', "Now the letter."]);
    expect([await posted("refunds"), await waiting()]).toEqual([[paid], [`${EMAIL} approval`, `${QUESTION} answer`]]);
  });

  test("after it is paid: it is not paid again, unless a person says so, and then with the same key", async () => {
    await paused();
    await killedIn("after", "--approve", REFUND);
    expect(await say()).toContain(interrupted);
    expect(await posted("refunds")).toEqual([paid]);
    await say("--rerun", REFUND);
    expect(await posted("refunds")).toEqual([paid, paid]);
  });

  test("after it is paid: that it did run is an answer, and the clerk goes on", async () => {
    await paused();
    await killedIn("after", "--approve", REFUND, "--result", QUESTION, '"It fell."');
    expect(await say()).toContain(interrupted);
    expect(lanes(await say("--result", REFUND, '"paid"')).clerk).toEqual(['✓ refund "paid"', "Now the letter."]);
    expect((await say("--approve-all")).slice(-3)).toEqual(["This is what became of it.", "- clerk: Refunded 59.00 for A-17. Wrote to ann@example.com.", "- researcher: 3 of batch-7 came broken. The warehouse says: It fell."]);
    expect([(await posted("refunds")).length, (await posted("outbox")).length]).toEqual([1, 1]);
  });
});

describe("with a real model", () => {
  let server: ModelServer;
  afterEach(() => server.close());
  const asking = async (): Promise<Ended> => start(program, home, [folder], undefined, { OPENAI_BASE_URL: server.url, OPENAI_API_KEY: "key", MODEL: "some-model" }).ended;

  test("the specialists' words come by the line, under their names", async () => {
    server = await serveModel((body) => streamed(standIn, body));
    const { out, err } = await asking();
    expect(err).toBe("");
    expect(out).toContain(`A letter in ${folder}, for some-model:\n`);
    const { lead, clerk, researcher } = lanes(out.slice(out.indexOf("Let me think.")).split("\n"));
    expect([lead.slice(0, 2), clerk.slice(0, 3), researcher.slice(-2)]).toEqual([
      ["Let me think.", "The clerk makes it good, and the researcher finds out why."],
      ["Let me think.", "I look the order up.", '→ search {"text":"A-17"}'],
      ["Let me think.", "The warehouse may know more."],
    ]);
    expect(out).toContain("2 calls wait for a person:");
    for (const body of server.bodies) checkChat(body, { fields: ["reasoning_content"] });
    expect(server.bodies.length).toBe(6);
  });

  test("a specialist that gets no answer ends the run, and the next start goes on with it", async () => {
    let works = false;
    const isClerk = (body: string): boolean => body.includes(JSON.stringify(brief("clerk", "")[0]?.content).slice(1, -1));
    server = await serveModel(async (body) => (works || !isClerk(body) ? streamed(standIn, body) : [401, '{"error":{"message":"You have no credit left"}}']));
    const refused = await asking();
    expect([refused.code, refused.err]).toEqual([1, "The model gave no answer: You have no credit left. Once that is put right, start again to go on.\n"]);
    const lead = (): number => server.bodies.filter((body) => body.includes("You lead a lamp shop")).length;
    works = true;
    const { out } = await asking();
    expect([lead(), out.includes("2 calls wait for a person:"), await waiting()]).toEqual([1, true, [`${REFUND} approval`, `${QUESTION} answer`]]);
  });
});
