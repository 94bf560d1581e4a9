import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { agent, type Message, type State } from "yieldagent";
import { collect } from "yieldagent/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { readCommand } from "../examples/terminal/command.ts";
import { builtIn } from "../examples/tidy/model.ts";
import { openStore } from "../examples/terminal/store.ts";
import { type FileTools, fileTools, HASH_LIMIT, LIST_LIMIT, READ_LIMIT } from "../examples/tidy/tools.ts";
import { editable, visibleLine, visibleText } from "../examples/terminal/visible.ts";
import { bundle, type Ended, type ModelServer, serveModel, start as startProgram, streamed, until } from "./program.ts";
import { checkChat, checkMessages } from "./strict.ts";
import { sse } from "./wire.ts";

const context = { id: "1", key: "run/1", signal: new AbortController().signal, data: undefined, decisions: {}, recover: false, keep: async () => {} };

let program = "";
let home = "";
/** The folder that is tidied up; what is beside it is `home`. */
let folder = "";

beforeAll(async () => {
  program = await bundle("start");
});

afterAll(() => fs.rm(dirname(program), { recursive: true }));

beforeEach(async () => {
  home = await fs.realpath(await fs.mkdtemp(join(tmpdir(), "yieldagent-tidy-test-")));
  folder = join(home, "folder");
  await fs.mkdir(folder);
});

afterEach(() => fs.rm(home, { recursive: true }));

async function fill(files: Record<string, string>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await fs.mkdir(dirname(join(folder, path)), { recursive: true });
    await fs.writeFile(join(folder, path), content);
  }
}

/** Every file under the folder, with its content. */
async function files(): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const path of await fs.readdir(folder, { recursive: true })) {
    if ((await fs.lstat(join(folder, path))).isFile()) found[path] = await fs.readFile(join(folder, path), "utf8");
  }
  return found;
}

function start(args: readonly string[], hangs?: "before" | "after", env?: Record<string, string>): ReturnType<typeof startProgram> {
  return startProgram(program, home, args, hangs && ["unlink", hangs], env);
}

function tidy(...args: string[]): Promise<Ended> {
  return start([folder, ...args]).ended;
}

/** As `tidy()` at the first start, up to the pause, but without a process: that would take a while. */
async function paused(): Promise<void> {
  const run = agent({ call: builtIn, tools: fileTools(folder), messages: [{ role: "user", content: "Tidy up." }] });
  await collect(run);
  await fs.writeFile(`${folder}.tidy.json`, JSON.stringify(run.state));
}

async function state(): Promise<State> {
  return JSON.parse(await fs.readFile(`${folder}.tidy.json`, "utf8")) as State;
}

/** The id of the call that is pending on a file. */
async function idOf(path: string): Promise<string> {
  const call = (await state()).calls.find(({ args, status }) => status === "pending" && (args["path"] ?? args["from"]) === path);
  if (!call) throw new Error(`nothing is pending on ${path}`);
  return call.id;
}

/** Starts, and kills the process in the middle of a delete: before or after the file is gone. */
async function killedIn(place: "before" | "after", path: string, ...args: string[]): Promise<void> {
  const { child, ended } = start([folder, ...args], place);
  await until([home, folder], async () => (await state()).calls.some(({ status, args }) => status === "started" && args["path"] === path) && (place === "before" || !existsSync(join(folder, path))));
  child.kill("SIGKILL");
  await ended;
}

describe("without a terminal", () => {
  test("it makes a sample folder, the same one at the second start, and asks the same questions", async () => {
    const first = await start([]).ended;
    expect(first).toMatchObject({ code: 0, err: "" });
    folder = join(home, "yieldagent-tidy-sample");
    const made = await files();
    expect(Object.keys(made)).toContain("pictures/cat.jpg");
    const before = await fs.readFile(`${folder}.tidy.json`);
    const second = await start([]).ended;
    const question = (out: string): string => out.slice(out.indexOf("9 calls wait"));
    expect(question(second.out)).toBe(question(first.out));
    expect(question(first.out)).toContain("npm start -- --approve <id>");
    expect(await fs.readFile(`${folder}.tidy.json`)).toEqual(before);
    expect(await files()).toEqual(made);
    expect(await fs.readdir(home)).toEqual(["folder", "yieldagent-tidy-sample", "yieldagent-tidy-sample.tidy.json"]);
  });

  test("it pauses at what changes something, and shows it in full", async () => {
    await fill({ "a.txt": "same", "b/a.txt": "same", "c.txt": "other", "d.tmp": "x" });
    const { code, out, err } = await tidy();
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain('✓ hash {"sha256":');
    expect(out).toContain(`2 calls wait for a person:

${await idOf("a.txt")}  delete  (approval)
{
  "path": "a.txt",
  "size": 4,
  "sameAs": "b/a.txt"
}

${await idOf("d.tmp")}  delete  (approval)
{
  "path": "d.tmp",
  "size": 1
}
`);
    expect(out).toContain(`npm start -- ${folder} --approve <id>`);
    expect(Object.keys(await files())).toHaveLength(4);
  });

  test("another process approves: what was approved is deleted, and the rest waits", async () => {
    await fill({ "a.tmp": "1", "b.tmp": "2", "c.txt": "3" });
    await tidy();
    const { code, out } = await tidy("--approve", await idOf("a.tmp"));
    expect(code).toBe(0);
    expect(out).toContain('✓ delete {"deleted":"a.tmp"}');
    expect(out).toContain("1 call waits");
    expect(await files()).toEqual({ "b.tmp": "2", "c.txt": "3" });
  });

  test("several decisions in one command, and the summary says what came of each", async () => {
    await fill({ "a.tmp": "1", "b.tmp": "2", "c.tmp": "3", "d.tmp": "4", "e.txt": "5", "documents/f.txt": "6" });
    await paused();
    const { code, out } = await tidy(
      "--approve", await idOf("a.tmp"), "--reject", await idOf("b.tmp"), "--reason", "I need it",
      "--edit", await idOf("e.txt"), '{"from":"e.txt","to":"letters/2025/e.txt"}', "--result", await idOf("c.tmp"), '"I did it"', "--reject", await idOf("d.tmp"),
    );
    expect(code).toBe(0);
    expect(out.slice(out.indexOf("Done."))).toBe(`Done. This is what became of it.
Deleted:
  "a.tmp" (temporary)
Moved:
  "e.txt" to "letters/2025/e.txt"
Not done, or not for certain:
  delete "b.tmp": not run: it was rejected: I need it
  delete "d.tmp": not run: it was rejected
Answered by a person:
  delete "c.tmp": "I did it"
`);
    expect(await files()).toEqual({ "b.tmp": "2", "c.tmp": "3", "d.tmp": "4", "letters/2025/e.txt": "5", "documents/f.txt": "6" });
  });

  test("--approve-all approves what was listed, except what is decided otherwise", async () => {
    await fill({ "a.tmp": "1", "b.tmp": "2", "c.tmp": "3" });
    expect(await tidy("--approve-all")).toMatchObject({ code: 1, err: "nothing waits for a decision here; start it without one first\n" });
    expect(existsSync(`${folder}.tidy.json`)).toBe(false);
    await paused();
    await tidy("--approve-all", "--reject", await idOf("b.tmp"));
    expect(await files()).toEqual({ "b.tmp": "2" });
  });

  test("when a run has ended the next start begins a new one, and an old approval fits nothing in it", async () => {
    await fill({ "a.tmp": "1", "b.txt": "2" });
    await paused();
    const id = await idOf("a.tmp");
    expect((await tidy("--approve", id)).out).toContain("Done.");
    const ended = await state();
    expect(await tidy("--approve", id)).toMatchObject({ code: 1, err: "nothing waits for a decision here; start it without one first\n" });
    expect(await state()).toEqual(ended);
    await fill({ "c.tmp": "1" });
    await tidy();
    expect((await state()).id).not.toBe(ended.id);
    expect(await tidy("--approve", id)).toMatchObject({ code: 1, err: expect.stringMatching(/^the call "[^"]+" is not pending in the state/) });
    expect(await files()).toEqual({ "b.txt": "2", "c.tmp": "1" });
  });

  test("what the person was shown must still be true when the file goes", async () => {
    await fill({ "a.txt": "same", "b/a.txt": "same", "empty": "", "gone.tmp": "x" });
    await paused();
    await fill({ "b/a.txt": "new!", "empty": "not any more" });
    await fs.rm(join(folder, "gone.tmp"));
    const { out } = await tidy("--approve-all");
    expect(out).toContain('delete "a.txt": not done: "a.txt" and "b/a.txt" are not the same any more');
    expect(out).toContain('delete "empty": not done: "empty" has 12 bytes now, not 0');
    expect(out).toContain('delete "gone.tmp": not done: there is no file "gone.tmp"');
    expect(out).not.toContain("Deleted:");
    expect(await files()).toEqual({ "a.txt": "same", "b/a.txt": "new!", "empty": "not any more" });
  });

  // Windows has no such names.
  test.runIf(process.platform !== "win32")("hostile names are shown, and never take effect on a terminal", async () => {
    const name = "a\n✓ delete \u001b[2K\u202egpj.tmp";
    await fill({ [name]: "x", "b\u200b.txt": "y", "c.txt": "z", "documents/\u202ed.txt": "w" });
    const outputs = [(await tidy()).out, (await tidy("--approve", await idOf(name))).out, (await tidy("--approve-all")).out, (await tidy("--\u001b\n")).err, (await start([`${folder}\u001b\nx`]).ended).err];
    for (const output of outputs) expect(output).not.toMatch(/[\u001b\u200b\u202e]|^✓ delete (?!\{)/m);
    expect(outputs[0]).toContain('"path": "a\\n✓ delete \\u001b[2K\\u202egpj.tmp"');
    expect(outputs[2]).toContain('"b\\u200b.txt" to "documents/b\\u200b.txt"');
    expect(Object.keys(await files()).sort()).toEqual(["documents/b\u200b.txt", "documents/c.txt", "documents/\u202ed.txt"]);
  });
});

describe("with a real model", () => {
  let server: ModelServer;
  afterEach(() => server.close());

  async function serve(answer: Parameters<typeof serveModel>[0]): Promise<string> {
    server = await serveModel(answer);
    return server.url;
  }
  const model = (body: string): Promise<[number, string]> => streamed(builtIn, body);

  test("text and reasoning come as they are said, it pauses, and goes on in another process", async () => {
    await fill({ "a.txt": "the same", "b.txt": "the same", "empty.tmp": "" });
    const env = { OPENAI_BASE_URL: await serve(model), OPENAI_API_KEY: "key-1", MODEL: "some-model" };
    const first = await start([folder], undefined, env).ended;
    expect([first.err, first.out.split("\n").slice(0, 12)]).toEqual(["", [
      `Tidying up ${folder}, with some-model`,
      "Let me think.", "I look at what is there.", "→ list {}", expect.stringMatching(/^✓ list /),
      "Let me think.", "Some files may be copies of others, or blank: I look into them.",
      '→ hash {"path":"a.txt"}', expect.stringMatching(/^✓ hash /), '→ hash {"path":"b.txt"}', expect.stringMatching(/^✓ hash /),
      "Let me think.",
    ]]);
    expect(first.out).toContain("Let me think.\nThis is what I would tidy up.\n\n2 calls wait for a person:\n");
    const second = await start([folder, "--approve-all"], undefined, env).ended;
    expect([second.code, second.err]).toEqual([0, ""]);
    expect(second.out).toMatch(/Let me think\.\nDone\. This is what became of it\.\nDeleted:\n[^]*empty\.tmp[^]*$/);
    expect(await files()).toEqual({ "a.txt": "the same" });
    for (const body of server.bodies) checkChat(body, { fields: ["reasoning_content"] });
    expect([server.bodies.length, new Set(server.heard), (JSON.parse(server.bodies[0] ?? "") as { model: string }).model]).toEqual([4, new Set(["Bearer key-1"]), "some-model"]);
  });

  test("Anthropic's works as well", async () => {
    await fill({ "a.txt": "x" });
    const events = (...all: object[]): string => sse(...all);
    const base = await serve(async () => [200, events(
      { type: "message_start", message: { usage: { input_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }, { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "All is tidy." } },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } }, { type: "message_stop" },
    )]);
    const { out, err } = await start([folder], undefined, { ANTHROPIC_API_KEY: "key-2", ANTHROPIC_BASE_URL: base }).ended;
    expect([out, err]).toEqual([`Tidying up ${folder}, with claude-sonnet-4-5\nAll is tidy.\n`, ""]);
    checkMessages(server.bodies[0] ?? "");
    expect(server.heard).toEqual(["key-2"]);
  });

  test("what its server refuses is said in its words, and the next start goes on", async () => {
    await fill({ "empty.tmp": "" });
    let works = false;
    const env = { OPENAI_BASE_URL: await serve(async (body) => (works ? model(body) : [401, '{"error":{"message":"Incorrect API key provided"}}'])) };
    const refused = await start([folder], undefined, env).ended;
    expect([refused.code, refused.err]).toEqual([1, "The model gave no answer: Incorrect API key provided. Once that is put right, start again to go on.\n"]);
    works = true;
    expect((await start([folder], undefined, env).ended).out).toContain("1 call waits for a person");
  });
});

describe("wrong input is one line and exit code 1, and nothing is lost", () => {
  async function refused(...args: string[]): Promise<string> {
    const before = [await fs.readFile(`${folder}.tidy.json`), await files()];
    const { code, err } = await tidy(...args);
    expect(code).toBe(1);
    expect(err).toMatch(/^[^\n]+\n$/);
    expect([await fs.readFile(`${folder}.tidy.json`), await files()]).toEqual(before);
    expect(await fs.readdir(home)).toEqual(["folder", "folder.tidy.json"]);
    return err;
  }

  test("decisions and flags", async () => {
    await fill({ "a.tmp": "1", "b.tmp": "2" });
    await paused();
    const a = await idOf("a.tmp");
    expect(await refused("--approve", a, "--reject", "nobody")).toContain('the call "nobody" is not pending in the state');
    expect(await refused("--edit", a, "[1]")).toContain("must be an object");
    expect(await refused("--edit", a, '{"path":7}')).toContain("path must be a string");
    expect(await refused("--rerun", a)).toContain("it never ran");
    expect(await refused("--force")).toContain("there is no --force");
  });

  test.each([
    ["--approve", "the id after --approve is missing"],
    ["--approve a --reject a", "there are two decisions on a"],
    ["--edit a", "the JSON after --edit a is missing"],
    ["--result a it", "--result a: it is no JSON"],
    ["--edit a {path}", "--edit a: {path} is no JSON"],
    ["--reject a --reason", "the text after --reason is missing"],
    ["--approve a --reason x", "there is no --reason"],
    ["one two", "there can be only one folder"],
  ])("a command line: %s", (line, problem) => {
    expect(() => readCommand(line.split(" "))).toThrow(problem);
  });

  test.each(["", "null", '{"version":1}', '{"version":2,"id":"x","revision":1,"messages":[],"calls":[],"steps":0,"usage":{}}'])("a damaged state file: %j", async (text) => {
    await fill({ "a.tmp": "1" });
    await fs.writeFile(`${folder}.tidy.json`, text);
    expect(await refused()).toContain(`${folder}.tidy.json is damaged`);
  });

  test("a folder that isn't there, or is none", async () => {
    await fill({ "a.txt": "1" });
    for (const wrong of [join(home, "nowhere"), join(folder, "a.txt")]) {
      expect(await start([wrong]).ended).toMatchObject({ code: 1, out: "", err: `there is no folder ${wrong}\n` });
    }
    expect(await fs.readdir(home)).toEqual(["folder"]);
  });
});

describe("killed in the middle", () => {
  test("before the file was gone: the next start asks, an approval does not answer it, a rerun does", async () => {
    await fill({ "a.tmp": "1", "b.tmp": "2" });
    await paused();
    const [a, b] = [await idOf("a.tmp"), await idOf("b.tmp")];
    await killedIn("before", "a.tmp", "--approve", a);
    const { code, out } = await tidy();
    expect(code).toBe(0);
    expect(out).toContain(`${a}  delete  (interrupted: it had begun when its process ended, and may or may not have run)`);
    expect(out).toContain(`${b}  delete  (approval)`);
    expect(await tidy("--approve", a)).toMatchObject({ code: 1, err: expect.stringContaining("it may have run already") });
    expect((await tidy("--approve-all")).out).toContain('✓ delete {"deleted":"b.tmp"}');
    expect(await files()).toEqual({ "a.tmp": "1" });
    expect((await tidy("--rerun", a)).out).toContain('Deleted:\n  "a.tmp" (temporary)');
    expect(await files()).toEqual({});
    expect(await fs.readdir(home)).toEqual(["folder", "folder.tidy.json"]);
  });

  test("after the file was gone: it is not deleted again", async () => {
    await fill({ "a.tmp": "1" });
    await paused();
    const id = await idOf("a.tmp");
    await killedIn("after", "a.tmp", "--approve", id);
    await fill({ "a.tmp": "written since" });
    await tidy();
    await tidy();
    const { out } = await tidy("--result", id, '{"deleted":"a.tmp"}');
    expect(out).toContain('Deleted:\n  "a.tmp" (temporary)');
    expect(await files()).toEqual({ "a.tmp": "written since" });
  });

  test("killed again at the rerun: it is asked again, and can be left", async () => {
    await fill({ "a.tmp": "1" });
    await paused();
    const id = await idOf("a.tmp");
    await killedIn("before", "a.tmp", "--approve", id);
    await tidy();
    await killedIn("before", "a.tmp", "--rerun", id);
    expect((await tidy()).out).toContain("(interrupted");
    const { out } = await tidy("--reject", id, "--reason", "who knows");
    expect(out).toContain('delete "a.tmp": the outcome is unknown: it may or may not have run, and a person chose not to run it again: who knows');
    expect(await files()).toEqual({ "a.tmp": "1" });
  });
});

describe("two processes at once", () => {
  test("the second says so and goes, until the first is gone", async () => {
    await fill({ "a.tmp": "1", "b.tmp": "2" });
    await paused();
    const [a, b] = [await idOf("a.tmp"), await idOf("b.tmp")];
    const { child, ended } = start([folder, "--approve", a], "before");
    await until([home, folder], async () => (await state()).calls.some(({ status }) => status === "started"));
    const before = await fs.readFile(`${folder}.tidy.json`);
    const second = await tidy("--approve", b);
    expect(second.code).toBe(1);
    expect(second.err).toMatch(new RegExp(`^process ${child.pid} is at work here [^\n]*\n$`));
    expect(await fs.readFile(`${folder}.tidy.json`)).toEqual(before);
    child.kill("SIGKILL");
    await ended;
    expect((await tidy("--approve", b)).code).toBe(0);
    expect(await files()).toEqual({ "a.tmp": "1" });
  });

  test("of several that start together exactly one gets the state, also with a dead one's lock lying there", async () => {
    await fill({ "a.tmp": "1", "b.tmp": "2" });
    await paused();
    const id = await idOf("a.tmp");
    const dead = spawnSync(process.execPath, ["--version"]).pid;
    await fs.writeFile(`${folder}.tidy.json.lock-${dead}-00000000`, "");
    const ends = await Promise.all(Array.from({ length: 4 }, () => tidy("--approve", id)));
    expect(ends.map(({ code }) => code).sort()).toEqual([0, 1, 1, 1]);
    for (const { code, err } of ends) if (code === 1) expect(err).toMatch(/^(process \d+ is at work here|the call "[^"]+" is not pending in the state) [^\n]*\n$/);
    expect(await fs.readdir(home)).toEqual(["folder", "folder.tidy.json"]);
  });
});

describe("the store", () => {
  test("replaces only what it has loaded or saved itself", async () => {
    const file = join(home, "state.json");
    const saved: State = { version: 1, id: "run", revision: 1, messages: [], calls: [], steps: 0, usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } };
    const store = await openStore(file);
    expect(await store.load()).toBeUndefined();
    await store.save(saved);
    await store.save({ ...saved, revision: 2 });
    const foreign = JSON.stringify({ ...saved, revision: 3 });
    await fs.writeFile(file, foreign);
    await expect(store.save({ ...saved, revision: 3 })).rejects.toThrow("was changed by somebody else");
    expect(await fs.readFile(file, "utf8")).toBe(foreign);
    await fs.rm(file);
    await expect(store.save({ ...saved, revision: 3 })).rejects.toThrow("was changed by somebody else");
    await store.close();
    expect(await fs.readdir(home)).toEqual(["folder"]);
  });
});

describe("the tools", () => {
  let tools: FileTools;
  beforeEach(() => (tools = fileTools(folder)));

  const run = async (name: keyof FileTools, args: object): Promise<unknown> => (tools[name].run as (args: object, given: typeof context) => unknown)(args, context);

  test("refuse every path that leaves the folder, and touch nothing", async () => {
    await fill({ "in.txt": "in", "sub/in.txt": "in" });
    await fs.mkdir(join(home, "outside"));
    await fs.writeFile(join(home, "outside/out.txt"), "out");
    await fs.writeFile(join(home, "folder-2"), "a name that begins like the folder's");
    await fs.symlink(join(home, "outside"), join(folder, "away"));
    await fs.symlink("../../outside", join(folder, "sub/away"));
    await fs.symlink(join(home, "outside/out.txt"), join(folder, "away.txt"));
    await fs.symlink("in.txt", join(folder, "alias.txt"));
    await fs.symlink(join(home, "nowhere"), join(folder, "dangling"));
    const before = [await files(), await fs.readdir(home, { recursive: true })];

    const outside = ["../outside/out.txt", "sub/../../outside/out.txt", join(home, "outside/out.txt"), join(folder, "in.txt"), "../folder-2", "..", "../folder/../outside/out.txt", "away/out.txt", "sub/away/out.txt", "away/../away/out.txt", "away.txt", "alias.txt", "dangling"];
    for (const path of outside) {
      for (const name of ["read", "hash", "delete", "list"] as const) await expect(run(name, { path }), `${name} ${path}`).rejects.toThrow(/is not inside the folder|goes through a symbolic link/);
      await expect(run("delete", { path: "in.txt", sameAs: path })).rejects.toThrow(/is not inside the folder|goes through a symbolic link/);
      await expect(run("move", { from: path, to: "taken.txt" })).rejects.toThrow(/is not inside the folder|goes through a symbolic link/);
      await expect(run("move", { from: "in.txt", to: path })).rejects.toThrow(/is not inside the folder|goes through a symbolic link/);
    }
    for (const to of ["away/new.txt", "away/new/deep/er.txt", "sub/away/new/x.txt", "dangling/new.txt", "new/../../new.txt", join(folder, "new.txt")]) {
      await expect(run("move", { from: "in.txt", to })).rejects.toThrow(/is not inside the folder|goes through a symbolic link/);
    }
    expect([await files(), await fs.readdir(home, { recursive: true })]).toEqual(before);
  });

  test("refuse everything once the folder itself has become a link", async () => {
    await fs.mkdir(join(home, "outside"));
    await fs.writeFile(join(home, "outside/out.tmp"), "out");
    await fs.rmdir(folder);
    await fs.symlink("outside", folder);
    await expect(run("delete", { path: "out.tmp" })).rejects.toThrow("goes through a symbolic link");
    await expect(run("list", {})).rejects.toThrow("goes through a symbolic link");
  });

  test("list names links and hidden folders but does not enter them", async () => {
    await fill({ "b.txt": "12", "a/c.txt": "1", ".git/config": "x", "node_modules/x.js": "x" });
    await fs.symlink("..", join(folder, "up"));
    expect(await run("list", {})).toEqual({
      entries: [
        { path: ".git", type: "folder", size: 0 }, { path: "a", type: "folder", size: 0 }, { path: "b.txt", type: "file", size: 2 },
        { path: "node_modules", type: "folder", size: 0 }, { path: "up", type: "link", size: 0 }, { path: "a/c.txt", type: "file", size: 1 },
      ],
      unreadable: [], more: false,
    });
    expect(await run("list", { path: "a" })).toMatchObject({ entries: [{ path: "a/c.txt" }] });
    await expect(run("list", { path: "b.txt" })).rejects.toThrow("there is no folder");
  });

  test("move makes folders and never overwrites", async () => {
    await fill({ "a.txt": "a", "b.txt": "b", "sub/c.txt": "c" });
    expect(await run("move", { from: "a.txt", to: "new/deep/a.txt" })).toEqual({ moved: "a.txt", to: "new/deep/a.txt" });
    await expect(run("move", { from: "b.txt", to: "sub/c.txt" })).rejects.toThrow("there is something at");
    await expect(run("move", { from: "b.txt", to: "b.txt" })).rejects.toThrow("there is something at");
    await expect(run("move", { from: "b.txt", to: "sub" })).rejects.toThrow("there is something at");
    await expect(run("move", { from: "sub", to: "other" })).rejects.toThrow("is not a file");
    await expect(run("move", { from: "nobody", to: "x/y" })).rejects.toThrow("there is no file");
    expect(await files()).toEqual({ "b.txt": "b", "sub/c.txt": "c", "new/deep/a.txt": "a" });
    expect(existsSync(join(folder, "x"))).toBe(false);
  });

  test("delete deletes files only, and of copies never the last one", async () => {
    await fill({ "a.txt": "same", "b.txt": "same", "sub/c.txt": "c" });
    await fs.link(join(folder, "a.txt"), join(folder, "A-too.txt"));
    await expect(run("delete", { path: "sub" })).rejects.toThrow("is not a file");
    await expect(run("delete", { path: "." })).rejects.toThrow("is not a file");
    await expect(run("delete", { path: "" })).rejects.toThrow("is not a file");
    await expect(run("delete", { path: "a.txt", sameAs: "./sub/../a.txt" })).rejects.toThrow("is the same file");
    await expect(run("delete", { path: "a.txt", sameAs: "A-too.txt" })).rejects.toThrow("is the same file");
    await expect(run("delete", { path: "a.txt", sameAs: "sub/c.txt" })).rejects.toThrow("not the same any more");
    expect(await run("delete", { path: "a.txt", sameAs: "b.txt" })).toEqual({ deleted: "a.txt" });
    await expect(run("delete", { path: "b.txt", sameAs: "a.txt" })).rejects.toThrow("there is no file");
    expect(await files()).toEqual({ "A-too.txt": "same", "b.txt": "same", "sub/c.txt": "c" });
  });

  test("what is read is bounded", async () => {
    await fill({ "long.txt": "é".repeat(READ_LIMIT), "odd.txt": `x${"é".repeat(READ_LIMIT)}`, "huge.bin": "" });
    await fs.truncate(join(folder, "huge.bin"), HASH_LIMIT + 1);
    expect(await run("read", { path: "long.txt" })).toEqual({ text: "é".repeat(READ_LIMIT / 2), size: READ_LIMIT * 2, more: true });
    expect(await run("read", { path: "odd.txt" })).toMatchObject({ text: `x${"é".repeat(READ_LIMIT / 2 - 1)}` });
    await expect(run("hash", { path: "huge.bin" })).rejects.toThrow("more than");
    for (let i = 0; i <= LIST_LIMIT; i++) writeFileSync(join(folder, `${i}`), "");
    const listing = (await run("list", {})) as { entries: unknown[]; more: boolean };
    expect([listing.entries.length, listing.more]).toEqual([LIST_LIMIT, true]);
  });

  // Windows has no pipes among its files.
  test.runIf(process.platform !== "win32")("what is no file is not waited for", async () => {
    execFileSync("mkfifo", [join(folder, "pipe")]);
    for (const name of ["read", "hash", "delete"] as const) await expect(run(name, { path: "pipe" })).rejects.toThrow("is not a file");
  });
});

describe("the built-in model", () => {
  test("is a function of the messages: the same ones give the same reply, and are not changed", async () => {
    await fill({ "a.txt": "same", "b/a.txt": "same", "empty": "", "one.jpg": "1", "two.jpg": "22", "blank.md": "\n" });
    const asked: { messages: Message[]; reply: unknown }[] = [];
    const run = agent({
      call: async (messages, tools, given) => {
        const reply = await builtIn(messages, tools, given);
        asked.push({ messages, reply });
        return reply as Message;
      },
      tools: fileTools(folder),
      messages: [{ role: "user", content: "Tidy up." }],
      approve: (tool, args) => (tool === "move" ? { approved: false, reason: "no" } : { approved: true, args }),
    });
    const steps = await collect(run);
    expect(steps.at(-1)).toMatchObject({ type: "final", reason: "stop" });
    expect(asked).toHaveLength(4);
    await fs.rm(folder, { recursive: true });
    await fs.mkdir(folder);
    for (const { messages, reply } of asked.reverse()) {
      const copy = JSON.parse(JSON.stringify(messages)) as Message[];
      expect(await builtIn(copy, [], { signal: context.signal, step: 1 })).toEqual(reply);
      expect(copy).toEqual(messages);
    }
  });

  test("tells of a failed listing", async () => {
    const messages: Message[] = [
      { role: "user", content: "Tidy up." },
      { role: "assistant", content: null, tool_calls: [{ id: "1", type: "function", function: { name: "list", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "1", content: "Error: no disk" },
    ];
    expect(await builtIn(messages, [], { signal: context.signal, step: 2 })).toMatchObject({ content: "I could not list the folder: no disk" });
  });
});

describe("what the terminal shows", () => {
  test("prose keeps its line breaks, a line has none, and nothing hides", () => {
    expect(visibleText('a\r\nb\tc\u001b[31m "\\" \u202e\ud800')).toBe('a\\r\nb\\tc\\u001b[31m "\\" \\u202e\\ud800');
    expect(visibleLine("a\nb")).toBe("a\\nb");
    expect(visibleLine("é ß 漢 😀😀", 7)).toBe("é ß 漢 …");
    expect(visibleLine("é ß 漢 😀😀", 8)).toBe("é ß 漢 😀…");
  });

  test("what is offered for editing shows everything and means the same", () => {
    const value = { path: "a\u202e\u{e0041}\n\u00a0😀", n: [1] };
    expect(editable(value)).toBe('{"path": "a\\u202e\\udb40\\udc41\\n\\u00a0😀","n": [1]}');
    expect(JSON.parse(editable(value))).toEqual(value);
  });
});
