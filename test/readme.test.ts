// The README's code blocks are programs: each `ts` block is written under the name in its first line, type-checked, and
// run by node in a folder with the built package; a `text` block begins with the command whose output it is. The README's
// figures are measured; `npm run figures` writes them anew.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chunk, finish, sse } from "./wire.ts";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const readme = readFileSync(join(root, "README.md"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "yieldagent-readme-"));
afterAll(() => rmSync(folder, { recursive: true }));

const fences = [...readme.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, text]) => ({ language, text: text ?? "" }));
const blocks = fences.filter(({ language }) => language === "ts").map(({ text }) => ({ name: /^\/\/ (\S+)\n/.exec(text)?.[1] ?? "unnamed", code: text }));
const sessions = fences.filter(({ language }) => language === "text").map(({ text }) => /^\$ node (\S+) ?(.*)\n([^]*)$/.exec(text)?.slice(1) ?? [text]);

beforeAll(() => {
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules/yieldagent"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  for (const { name, code } of blocks) {
    writeFileSync(join(folder, name), code);
    const { outputText } = ts.transpileModule(code, { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext } });
    writeFileSync(join(folder, name.replace(/ts$/, "js")), outputText);
  }
});

/** Runs one of the blocks in a process of its own and returns what it prints. */
function run(name: string, args: string[] = [], input = "", env: Record<string, string> = {}): Promise<string> {
  return new Promise((done, failed) => {
    const child = spawn(process.execPath, [name.replace(/ts$/, "js"), ...args], { cwd: folder, env: { ...process.env, NO_COLOR: "1", ...env } });
    let output = "";
    child.stdout.on("data", (data: Buffer) => (output += data.toString()));
    child.stderr.on("data", (data: Buffer) => (output += data.toString()));
    child.on("close", (code) => (code === 0 ? done(output) : failed(new Error(`${name} ended with ${code}: ${output}`))));
    child.stdin.end(input);
  });
}

describe("the README's code", () => {
  test("every block has a name, and no other language hides code that isn't run", () => {
    expect(blocks.map(({ name }) => name)).toEqual(["agent.ts", "policy.ts", "worker.ts", "team.ts", "approval.ts", "model.ts", "weather.test.ts"]);
    expect(sessions.map(([name, args]) => `${name} ${args}`)).toEqual(["agent.ts ", "agent.ts c2", "team.ts ", "approval.ts "]);
    expect(new Set(fences.map(({ language }) => language))).toEqual(new Set(["ts", "text", "sh"]));
  });

  test("compiles, in strict mode, against the built package", { timeout: 60_000 }, () => {
    const program = ts.createProgram(blocks.map(({ name }) => join(folder, name)), {
      strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
      moduleResolution: ts.ModuleResolutionKind.Bundler, allowImportingTsExtensions: true, types: ["node"], typeRoots: [join(root, "node_modules/@types")],
    });
    expect(ts.getPreEmitDiagnostics(program).map(({ messageText, file }) => `${file?.fileName.split("/").pop()}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`)).toEqual([]);
  });

  test("prints just what it says, pausing in one process and going on in another", async () => {
    for (const [name = "", args = "", prints] of sessions) expect(await run(name, args ? args.split(" ") : [])).toBe(prints);
  });

  test("asks at the terminal", async () => {
    const question = 'sendEmail {"to":"ann@example.com"}? [y/N] ';
    const refused = "Error: not run: it was rejected: not to them\n";
    expect(await run("policy.ts", [], "y\n")).toBe(`${question}sent to ann@example.com\n${refused}`);
    expect(await run("policy.ts", [], "n\n")).toBe(`${question}Error: not run: it was rejected\n${refused}`);
  });

  test("saves with compare-and-set and takes over", async () => {
    expect(await run("worker.ts")).toBe("message\napproval-needed\ntool-result\nmessage\nfinal\n");
  });

  test("tests an agent without a model", async () => {
    expect(await run("weather.test.ts")).toBe("");
  });

  test("asks a server", async () => {
    const requests: unknown[] = [];
    const server = createServer((request, response) => {
      let body = "";
      request.on("data", (data: Buffer) => (body += data.toString()));
      request.on("end", () => {
        requests.push([request.url, request.headers.authorization, JSON.parse(body)]);
        response.end(sse(chunk({ reasoning: "Hm. " }), chunk({ content: "Hi" }), chunk({ content: "!" }), finish("stop", { usage: { total_tokens: 3 } }), "[DONE]"));
      });
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as { port: number };
    expect(await run("model.ts", [], "", { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`, OPENAI_API_KEY: "k", MODEL: "m" })).toBe("Hm. Hi! (3 tokens)\n");
    server.close();
    expect(requests).toEqual([["/v1/chat/completions", "Bearer k", { model: "m", stream: true, stream_options: { include_usage: true }, messages: [{ role: "user", content: "Say hi." }] }]]);
  });
});

test("the README's figures are measured", async () => {
  const { BUDGETS, sizes } = (await import(join(root, ".ci/sizes.mjs"))) as { BUDGETS: Record<string, number>; sizes(): Promise<Record<string, number>> };
  const measured = await sizes();
  const kB = (bytes = 0): string => (bytes / 1000).toFixed(1);
  const parts = Object.keys(BUDGETS).map((entry) => `${entry === "index" ? "the core" : `\`/${entry}\``} ${kB(measured[entry])} (limit ${kB(BUDGETS[entry])})`);
  const lines = readFileSync(join(root, "src/agent.ts"), "utf8").trimEnd().split("\n").length;
  const figures = `No dependencies. The loop is one file of ${lines} lines, [\`src/agent.ts\`](src/agent.ts), meant to be read. The core needs nothing but ECMAScript and \`AbortController\`; the oldest Node it is tested on is 18. In kB, minified and gzipped, each with all it needs: ${parts.join(", ")}. A build that passes a limit fails.`;
  const between = /(?<=<!-- figures -->\n).*(?=\n<!-- \/figures -->)/s;
  if (process.env["UPDATE_FIGURES"]) writeFileSync(join(root, "README.md"), readme.replace(between, figures));
  else expect(between.exec(readme)?.[0]).toBe(figures);
});

test("the README names every file of src, and no other", () => {
  const section = readme.slice(readme.indexOf("## The source"), readme.indexOf("## What it is not"));
  expect([...section.matchAll(/`([\w-]+\.ts)`/g)].map(([, name]) => name).sort()).toEqual(readdirSync(join(root, "src")).filter((name) => name !== "index.ts").sort());
});
