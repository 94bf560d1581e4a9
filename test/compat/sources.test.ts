// The way from the package back to its sources: an editor's, by the maps of the types, and a stack trace's, by those of the code.
import { type ChildProcess, execFile, fork } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { packed, type Packed, root } from "./packed.ts";

const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { exports: Record<string, unknown> };
const entries = Object.keys(exports).filter((entry) => entry !== "./package.json").map((entry) => ({ entry: entry === "." ? "index" : entry.slice(2), name: `yieldagent${entry.slice(1)}` }));
let project: Packed;
beforeAll(() => void (project = packed()), 120_000);
afterAll(() => project?.remove());

/** The server that editors ask, without an editor. */
class Editor {
  readonly #server: ChildProcess;
  readonly #waiting = new Map<number, (body: unknown) => void>();
  #last = 0;

  constructor(folder: string) {
    this.#server = fork(createRequire(import.meta.url).resolve("typescript/lib/tsserver.js"), ["--useNodeIpc", "--disableAutomaticTypingAcquisition", "--suppressDiagnosticEvents"], { cwd: folder, silent: true });
    this.#server.on("message", (message: { type: string; request_seq: number; body?: unknown }) => {
      if (message.type === "response") this.#waiting.get(message.request_seq)?.(message.body);
    });
  }

  open(file: string): void {
    this.#server.send({ seq: ++this.#last, type: "request", command: "open", arguments: { file } });
  }

  ask<Body>(command: string, args: object): Promise<Body> {
    const seq = ++this.#last;
    const body = new Promise<unknown>((resolve) => this.#waiting.set(seq, resolve));
    this.#server.send({ seq, type: "request", command, arguments: args });
    return body as Promise<Body>;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.once("exit", resolve));
    this.#server.kill();
    await closed;
  }
}

/** What an entry point exports, by its source: each name with its documentation, and where it is declared. */
const program = ts.createProgram(entries.map(({ entry }) => join(root, "src", `${entry}.ts`)), { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, allowImportingTsExtensions: true, noEmit: true, types: [] });
function exported(entry: string): { name: string; docs: string; places: string[] }[] {
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(join(root, "src", `${entry}.ts`));
  const module = source && checker.getSymbolAtLocation(source);
  if (!module) throw new Error(`src/${entry}.ts is no module`);
  return checker.getExportsOfModule(module).map((symbol) => {
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    const places = (target.declarations ?? []).map((declaration) => {
      const file = declaration.getSourceFile();
      return `src/${basename(file.fileName)}:${file.getLineAndCharacterOfPosition((ts.getNameOfDeclaration(declaration) ?? declaration).getStart()).line + 1}`;
    });
    return { name: symbol.name, docs: ts.displayPartsToString(target.getDocumentationComment(checker)), places };
  });
}

const consumers = [
  { name: "an ES module", file: "consumer.mts", module: "nodenext" },
  { name: "CommonJS", file: "consumer.cts", module: "nodenext" },
  { name: "a bundler's", file: "consumer.ts", module: "preserve" },
];
describe.for(consumers)("an editor, from a file that is $name", ({ file: base, module }) => {
  let editor: Editor;
  let folder: string;
  beforeAll(() => {
    folder = join(project.folder, `${module}-${base}`.replace(/\W/g, "-"));
    mkdirSync(folder);
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: { module, strict: true, types: [] } }));
    editor = new Editor(folder);
  });
  afterAll(() => editor?.close());

  test.for(entries)("goes to the definition of all that $name exports, and shows its documentation", { timeout: 60_000 }, async ({ entry, name }) => {
    const names = exported(entry);
    expect(names.length).toBeGreaterThan(0);
    const file = join(folder, `${entry}-${base}`);
    writeFileSync(file, `import {\n${names.map((one) => `${one.name},\n`).join("")}} from "${name}";\n`);
    editor.open(file);
    expect(await editor.ask("semanticDiagnosticsSync", { file })).toEqual([]);
    const installed = join(project.folder, "node_modules/yieldagent").replaceAll("\\", "/");
    const found = await Promise.all(names.map(async (one, i) => {
      const at = { file, line: i + 2, offset: 1 };
      const places = await editor.ask<{ file: string; start: { line: number } }[]>("definition", at);
      const { documentation } = await editor.ask<{ documentation: string }>("quickinfo", at);
      return { name: one.name, docs: documentation, places: places.map((place) => `${place.file.replace(`${installed}/`, "")}:${place.start.line}`) };
    }));
    expect(found).toEqual(names);
  });
});

const source = (file: string): string => readFileSync(join(project.folder, "node_modules/yieldagent/src", file), "utf8");
const THROWERS = [
  { what: 'await from("yieldagent").agent({})', files: ["json.ts", "agent.ts"] },
  { what: 'await from("yieldagent").pause([])', files: ["pause.ts", "pause.ts"] },
  { what: 'await from("yieldagent/openai").openai({})', files: ["http.ts", "http.ts", "openai.ts"] },
  { what: 'await from("yieldagent/anthropic").anthropic({})', files: ["http.ts", "http.ts", "anthropic.ts"] },
  { what: 'await from("yieldagent/mcp").mcpTools({ listTools: async () => ({ tools: [{ name: "a" }, { name: "a" }] }) })', files: ["mcp.ts"] },
  { what: 'await from("yieldagent/show").show(() => {})', files: ["show.ts"] },
  { what: 'await from("yieldagent/seal").seal({}, {})', files: ["seal.ts", "seal.ts"] },
  { what: 'await from("yieldagent/subagent").subagent({})', files: ["subagent.ts"] },
  { what: 'await from("yieldagent/testing").script()([], [], {})', files: ["testing.ts"] },
];
const kinds = [
  { kind: "import", file: "thrower.mjs", from: (name: string): string => `(await import("${name}"))` },
  { kind: "require", file: "thrower.cjs", from: (name: string): string => `require("${name}")` },
];
test.for(kinds)("stack traces name the source and the place in it, after $kind", { timeout: 60_000 }, async ({ file, from }) => {
  const tries = THROWERS.map(({ what }) => `try { ${what.replace(/from\("(.*?)"\)/, (_, name: string) => from(name))}; stacks.push("nothing was thrown"); } catch (error) { stacks.push(error.stack); }`);
  writeFileSync(join(project.folder, file), `(async () => { const stacks = [];\n${tries.join("\n")}\nconsole.log(JSON.stringify(stacks)); })();`);
  const { stdout } = await promisify(execFile)(process.execPath, ["--enable-source-maps", file], { cwd: project.folder });
  const stacks = JSON.parse(stdout) as string[];
  for (const [i, { what, files }] of THROWERS.entries()) {
    const frames = [...(stacks[i] ?? "").matchAll(/^ +at (?:async )?(?:[\w<>]+\.)?(\w+) \((?:file:\/\/)?.*[\\/]yieldagent[\\/](.*?):(\d+):(\d+)\)$/gm)];
    expect(frames.map(([, , path]) => path?.replaceAll("\\", "/")), `${what}: ${stacks[i]}`).toEqual(files.map((name) => `src/${name}`));
    expect(stacks[i], what).not.toMatch(/yieldagent[\\/]dist/);
    // Where the error is made, then where the function above is called.
    for (const [depth, [, , path = "", line, column]] of frames.entries()) {
      const there = source(basename(path)).split("\n")[Number(line) - 1]?.slice(Number(column) - 1);
      expect(there, `${what}: ${stacks[i]}`).toMatch(depth === 0 ? /^new \w*Error\(/ : new RegExp(`^${frames[depth - 1]?.[1]}\\(`));
    }
  }
});
