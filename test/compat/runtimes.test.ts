// One conformance file, `runtimes/conformance.mjs`, from the packed tarball in every runtime that can be had: Node from the
// oldest supported to the newest, Deno, Bun, workerd and Chromium, with `import`, and with `require` where there is one. What a contributor's
// machine can't have is said and left out; in CI that is a failure.
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test, type TestContext } from "vitest";
import { chunk, finish, sse } from "../wire.ts";
import { packed, type Packed } from "./packed.ts";

const here = fileURLToPath(new URL("runtimes", import.meta.url));
const modules = join(here, "node_modules");
let project: Packed;
let server: Server;
let origin = "";
/** The streams that a client hung up on. */
const closed = new Set<string>();

const args = JSON.stringify({ city: "Tromsø 🌧" });
const chat = {
  first: sse(chunk({ role: "assistant", tool_calls: [{ index: 0, id: "c", type: "function", function: { name: "weather", arguments: args.slice(0, 9) } }] }), chunk({ tool_calls: [{ index: 0, function: { arguments: args.slice(9) } }] }), finish("tool_calls"), "[DONE]"),
  second: sse(chunk({ content: "Es sind 4 °C " }), chunk({ content: "in Tromsø 🌧." }), finish("stop"), "[DONE]"),
};
const events = (...list: { type: string }[]): string => list.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
const turnOf = (block: object, deltas: object[], reason: string): string => events(
  { type: "message_start", message: { id: "m", type: "message", role: "assistant", content: [], model: "m", usage: { input_tokens: 1, output_tokens: 1 } } } as never,
  { type: "content_block_start", index: 0, content_block: block } as never,
  ...deltas.map((delta) => ({ type: "content_block_delta", index: 0, delta })),
  { type: "content_block_stop", index: 0 } as never,
  { type: "message_delta", delta: { stop_reason: reason }, usage: { output_tokens: 2 } } as never,
  { type: "message_stop" },
);
const claude = {
  first: turnOf({ type: "tool_use", id: "c", name: "weather", input: {} }, [args.slice(0, 12), args.slice(12)].map((partial_json) => ({ type: "input_json_delta", partial_json })), "tool_use"),
  second: turnOf({ type: "text", text: "" }, [{ type: "text_delta", text: "Gut " }, { type: "text_delta", text: "🌧" }], "end_turn"),
};

async function inSevens(response: ServerResponse, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  response.socket?.setNoDelay(true);
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (let i = 0; i < bytes.length; i += 7) {
    response.write(bytes.subarray(i, i + 7));
    await turn();
  }
}

async function serve(path: string, body: string, response: ServerResponse): Promise<void> {
  const endless = /^\/(endless-[^/]+)\/(v1|closed)/.exec(path);
  if (endless?.[2] === "closed") return void response.end(JSON.stringify(closed.has(endless[1] ?? "")));
  if (endless) {
    response.on("close", () => closed.add(endless[1] ?? ""));
    return inSevens(response, sse(chunk({ content: "on " }), chunk({ content: "and " })));
  }
  if (path.startsWith("/refused/")) return void response.writeHead(401, { "content-type": "application/json" }).end('{"error":{"message":"no such key"}}');
  if (path === "/v1/chat/completions" || path === "/v1/messages") {
    const answers = path.endsWith("messages") ? claude : chat;
    await inSevens(response, body.includes('"assistant"') ? answers.second : answers.first);
    return void response.end();
  }
  // What the page in the browser is made of.
  const file = join(project.folder, path === "/" ? "page.html" : path.replace(/^\/package\//, "/node_modules/yieldagent/"));
  if (!existsSync(file)) return void response.writeHead(404).end();
  response.writeHead(200, { "content-type": file.endsWith("html") ? "text/html" : "text/javascript" }).end(readFileSync(file));
}

beforeAll(async () => {
  project = packed();
  cpSync(join(here, "ways"), project.folder, { recursive: true });
  cpSync(join(here, "conformance.mjs"), join(project.folder, "conformance.mjs"));
  server = createServer((request, response) => {
    let body = "";
    request.on("data", (data: Buffer) => (body += data.toString()));
    request.on("end", () => void serve(request.url ?? "", body, response));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}, 120_000);
afterAll(() => {
  server?.closeAllConnections();
  server?.close();
  project?.remove();
});

/** What is missing here is a hole in CI, and a note elsewhere. */
function missing(what: string, { skip }: TestContext): never {
  if (process.env["CI"]) throw new Error(`${what} is not here, and CI must have it`);
  console.warn(`\n!!! NOT RUN: ${what} can't be had on this machine (${process.platform} ${process.arch})\n`);
  return skip(`${what} is not here`);
}

async function passes(output: string): Promise<void> {
  const { names } = (await import(join(here, "conformance.mjs"))) as { names: string[] };
  const results = JSON.parse(/^\{.*\}$/m.exec(output)?.[0] ?? JSON.stringify(output)) as unknown;
  expect(results).toEqual(Object.fromEntries(names.map((name) => [name, "ok"])));
}

const exe = process.platform === "win32" ? ".exe" : "";
const bin = (...paths: string[]): string => join(modules, ...paths) + exe;
const version = (command: string, ...flags: string[]): string => {
  const { stdout } = spawnSync(command, [...flags, "--version"], { encoding: "utf8" });
  return /\d+[.\d-]*\d/.exec(stdout ?? "")?.[0] ?? "";
};

const platform = process.platform === "win32" ? "windows" : process.platform;
const commands: [name: string, command: string, flags: string[]][] = [
  ...["18", "20", "22", "24", "26"].map((major): [string, string, string[]] => [`Node ${major}`, join(modules, `node${major}/bin/node`), []]),
  ["Deno", bin(".bin/deno"), ["run", "--quiet", "--no-lock", "--allow-net=127.0.0.1", "--allow-read", "--allow-env"]],
  ["Bun", bin(`@oven/bun-${platform}-${process.arch === "arm64" ? "aarch64" : process.arch}`, "bin/bun"), []],
];

const ways = commands.flatMap(([name, command, flags]) => [{ name, way: "import", command, flags: [...flags, "cli-import.mjs"] }, { name, way: "require", command, flags: [...flags, "cli-require.cjs"] }]);

test.for(ways)("$name, $way", { timeout: 120_000 }, async ({ name, way, command, flags }, context) => {
  const found = existsSync(command) ? version(command) : "";
  // Where there is no Node of its own for the platform, the one that runs the tests is one.
  const own = !found && name === `Node ${process.versions.node.split(".")[0]}`;
  if (!found && !own) return missing(name, context);
  const { stdout } = await promisify(execFile)(own ? process.execPath : command, [...flags, origin], { cwd: project.folder, env: { ...process.env, NO_COLOR: "1" } });
  await passes(stdout);
  console.log(`${name}: ${found || process.versions.node}, ${way}`);
});

test("workerd, import", { timeout: 120_000 }, async (context) => {
  const workerd = bin(".bin/workerd");
  const found = existsSync(workerd) ? version(workerd) : "";
  if (!found) return missing("workerd", context);
  // As its own tools do, one module: the names of ours have folders in them.
  await build({ entryPoints: [join(project.folder, "worker.mjs")], outfile: join(project.folder, "worker.out.mjs"), bundle: true, format: "esm", target: "es2022", conditions: ["workerd"], external: ["node:*"] });
  writeFileSync(join(project.folder, "worker.capnp"), `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (modules = [(name = "worker", esModule = embed "worker.out.mjs")], compatibilityDate = "2026-11-01", bindings = [(name = "ORIGIN", text = "${origin}")])),
    (name = "internet", network = (allow = ["private"])),
  ],
);`);
  const { stdout } = await promisify(execFile)(workerd, ["test", "worker.capnp"], { cwd: project.folder });
  await passes(stdout);
  console.log(`workerd: ${found}, import`);
});

/** Chromium, or what is one; in CI it is installed where that is possible. */
function chromium(): string | undefined {
  const find = (): string | undefined => ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    .map((name) => spawnSync("which", [name], { encoding: "utf8" }).stdout?.trim())
    .concat(process.env["CHROMIUM"] ?? "", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
    .find((path) => path && existsSync(path));
  if (find() === undefined && process.env["CI"] && existsSync("/usr/bin/apt-get")) {
    const sudo = process.getuid?.() === 0 ? "" : "sudo ";
    execFileSync("bash", ["-c", `${sudo}apt-get update -qq && ${sudo}apt-get install -y -qq --no-install-recommends chromium`], { stdio: "ignore", timeout: 400_000 });
  }
  return find();
}

test("Chromium, import", { timeout: 600_000 }, async (context) => {
  const executablePath = chromium();
  if (executablePath === undefined) return missing("Chromium", context);
  const { chromium: launcher } = createRequire(join(modules, "x.js"))("playwright-core") as {
    chromium: { launch(options: object): Promise<{ version(): string; newPage(): Promise<{ goto(url: string): Promise<unknown>; evaluate(code: string): Promise<string> }>; close(): Promise<void> }> };
  };
  const browser = await launcher.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"], timeout: 120_000 });
  try {
    const page = await browser.newPage();
    await page.goto(`${origin}/`);
    await passes(await page.evaluate("window.results.then(JSON.stringify)"));
    console.log(`Chromium: ${browser.version()}, import`);
  } finally {
    await browser.close();
  }
});
