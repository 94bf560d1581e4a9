// `mcpTools` with both generations of the official SDK: over stdio with public servers that others wrote, and in memory with
// servers that do what those don't.
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { agent, AgentError, type Decision, type State, type Step, type Tool } from "yieldagent";
import { mcpTools, type McpOptions } from "yieldagent/mcp";
import { collect, script, toolCall } from "yieldagent/testing";
import { type Connected, inMemory, overStdio, type Sdk, sdks } from "./mcp.peers.ts";

let folder = "";
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "yieldagent-mcp-")));
  await writeFile(join(folder, "hello.txt"), "hello\n");
});
afterAll(() => rm(folder, { recursive: true }));

/** The gates that stand open or shut, and in which order the tools are listed. */
const gates = (tools: Record<string, Tool>): string => Object.entries(tools).map(([name, { needsApproval }]) => (needsApproval ? "!" : "") + name).join(" ");
const user = { role: "user", content: "go" };

/** What one call came to. */
async function called(tools: Record<string, Tool>, name: string, args: object = {}): Promise<unknown> {
  const ungated = { [name]: { ...tools[name], needsApproval: false } };
  const steps = await collect<Step>(agent({ call: script(toolCall(name, args, "c"), "done"), tools: ungated, messages: [user] }));
  const result = steps.find((step) => step.type === "tool-result");
  return result && ("error" in result ? { error: result.error } : result.result);
}

describe.each(sdks)("the SDK %s with server-filesystem over stdio", (sdk) => {
  let client: Connected;
  let tools: Record<string, Tool>;
  beforeAll(async () => {
    client = await overStdio(sdk, "filesystem", folder);
    tools = await mcpTools(client, { trustHints: true, prefix: "fs_" });
  });
  afterAll(() => client?.close());

  test("lists its tools, and those that write wait for a person", async () => {
    expect(gates(tools)).toBe("fs_read_file fs_read_text_file fs_read_media_file fs_read_multiple_files !fs_write_file !fs_edit_file !fs_create_directory fs_list_directory fs_list_directory_with_sizes fs_directory_tree !fs_move_file fs_search_files fs_get_file_info fs_list_allowed_directories");
    expect(gates(await mcpTools(client)).split(" ").filter((name) => !name.startsWith("!"))).toEqual([]);
  });

  test("shows the model the server's own schema, without $schema", async () => {
    const call = script("done");
    await collect(agent({ call, tools, messages: [user] }));
    const shown = call.requests[0]?.tools.find(({ function: { name } }) => name === "fs_write_file")?.function;
    expect(shown?.parameters).toEqual({ type: "object", properties: { path: { type: "string" }, content: { type: "string" } }, required: ["path", "content"] });
    expect(shown?.description).toBe("Create a new file or completely overwrite an existing file with new content. Use with caution as it will overwrite existing files without warning. Handles text content with proper encoding. Only works within allowed directories.");
  });

  test("reads a file as structured content, and fails in the server's own words", async () => {
    expect(await called(tools, "fs_read_text_file", { path: join(folder, "hello.txt") })).toEqual({ content: "hello\n" });
    expect(await called(tools, "fs_read_text_file", { path: "/etc/hostname" })).toEqual({ error: `the tool failed and may have taken effect: Access denied - path outside allowed directories: /etc/hostname not in ${folder}` });
    expect(await called(tools, "fs_read_text_file", { path: 1 })).toEqual({ error: expect.stringMatching(/^the tool failed and may have taken effect: MCP error -32602: Input validation error/) });
  });
});

describe.each(sdks)("the SDK %s with server-everything over stdio", (sdk) => {
  let client: Connected;
  let tools: Record<string, Tool>;
  beforeAll(async () => {
    client = await overStdio(sdk, "everything");
    tools = await mcpTools(client);
  });
  afterAll(() => client?.close());

  test("gates everything, also what the server says is harmless, and leaves out what can't be called in one go", async () => {
    expect(gates(tools)).toBe("!echo !get-annotated-message !get-env !get-resource-links !get-resource-reference !get-structured-content !get-sum !get-tiny-image !gzip-file-as-resource !toggle-simulated-logging !toggle-subscriber-updates !trigger-long-running-operation");
    const listed = (await client.listTools()).tools.map(({ name, annotations, execution }) => ({ name, readOnly: annotations?.readOnlyHint, task: execution?.taskSupport }));
    expect(listed.find(({ name }) => name === "get-env")?.readOnly).toBe(true);
    expect(listed.filter(({ name }) => !Object.hasOwn(tools, name))).toEqual([{ name: "simulate-research-query", readOnly: false, task: "required" }]);
  });

  test("gives text, structured content, and a note for a picture", async () => {
    expect(await called(tools, "echo", { message: "a" })).toBe("Echo: a");
    expect(await called(tools, "get-sum", { a: 2, b: 3 })).toBe("The sum of 2 and 3 is 5.");
    expect(await called(tools, "get-structured-content", { location: "Chicago" })).toEqual({ temperature: 36, conditions: "Light rain / drizzle", humidity: 82 });
    expect(await called(tools, "get-tiny-image")).toBe("Here's the image you requested:\n[image image/png, 5380 base64 characters]\nThe image above is the MCP logo.");
  });

  test("ends a call that takes too long", async () => {
    const hurried = await mcpTools(client, { timeout: 200 });
    expect(await called(hurried, "trigger-long-running-operation", { duration: 5, steps: 2 })).toEqual({ error: `the tool failed and may have taken effect: ${sdk === "v1" ? "MCP error -32001: " : ""}Request timed out` });
  });

  test("ends the run at once when it is aborted, with the reason", async () => {
    const abort = new AbortController();
    const long = { "trigger-long-running-operation": { ...tools["trigger-long-running-operation"], needsApproval: false } };
    const run = agent({ call: script(toolCall("trigger-long-running-operation", { duration: 30, steps: 2 }, "c"), "done"), tools: long, messages: [user], signal: abort.signal });
    const started = Date.now();
    setTimeout(() => abort.abort("a person pressed stop"), 100);
    await expect(collect<Step>(run)).rejects.toBe("a person pressed stop");
    expect(Date.now() - started).toBeLessThan(5_000);
    expect(await called(tools, "echo", { message: "still there" })).toBe("Echo: still there");
  });
});

describe.each(sdks)("the SDK %s in memory", (sdk) => {
  test("gives the tools of all pages", async () => {
    const client = await inMemory(sdk, { pages: [[{ name: "t.0" }, { name: "t/1" }], [{ name: "2" }], [{ name: "n".repeat(70) }]], call: async (name) => ({ content: [], structuredContent: { name } }) });
    const tools = await mcpTools(client);
    expect(Object.keys(tools)).toEqual(["t_0", "t_1", "_2", "n".repeat(64)]);
    expect(await Promise.all(Object.keys(tools).map((name) => called(tools, name)))).toEqual([{ name: "t.0" }, { name: "t/1" }, { name: "2" }, { name: "n".repeat(70) }]);
    await client.close();
  });

  test("refuses two tools that would have one name", async () => {
    const client = await inMemory(sdk, { pages: [[{ name: "a.b" }], [{ name: "a_b" }]] });
    await expect(mcpTools(client)).rejects.toThrow(new AgentError("bad-options", 'two tools of the MCP server would be named "a_b": leave out "a.b" or "a_b" where client.listTools gives them'));
    await client.close();
  });

  test("tells a failure in the server's words, whether it is an error result or an error of the protocol", async () => {
    const client = await inMemory(sdk, { pages: [[{ name: "full" }, { name: "gone" }]], call: async (name) => {
      if (name === "gone") throw new Error("no such account");
      return { isError: true, content: [{ type: "text", text: "the disk is full" }] };
    } });
    const tools = await mcpTools(client);
    expect(await called(tools, "full")).toEqual({ error: "the tool failed and may have taken effect: the disk is full" });
    expect(await called(tools, "gone")).toEqual({ error: `the tool failed and may have taken effect: ${sdk === "v1" ? "MCP error -32603: " : ""}no such account` });
    await client.close();
  });

  test.each([["is aborted", {}], ["takes too long", { timeout: 100 }]])("tells the server when a call %s", async (_, options: McpOptions) => {
    let told: ((reason: string) => void) | undefined;
    const cancelled = new Promise<string>((resolve) => (told = resolve));
    const abort = new AbortController();
    const client = await inMemory(sdk, { pages: [[{ name: "slow" }]], call: (_, __, signal) => new Promise(() => {
      signal.addEventListener("abort", () => told?.("cancelled"));
      if (!options.timeout) abort.abort(new Error("stop"));
    }) });
    const tools = await mcpTools(client, { ...options, needsApproval: false });
    const run = collect<Step>(agent({ call: script(toolCall("slow", {}, "c"), "done"), tools, messages: [user], signal: abort.signal }));
    if (options.timeout) expect((await run).find(({ type }) => type === "tool-result")).toMatchObject({ error: expect.stringContaining("timed out") });
    else await expect(run).rejects.toThrow("stop");
    expect(await cancelled).toBe("cancelled");
    await client.close();
  });

  test("runs a gated call only once a person approved it, with the arguments that were edited", async () => {
    const sent: unknown[] = [];
    const client = await inMemory(sdk, { pages: [[{ name: "pay" }]], call: async (name, args) => (sent.push([name, args]), { content: [{ type: "text", text: "paid" }] }) });
    const options = { call: script(toolCall("pay", { eur: 500 }, "c"), "done"), tools: await mcpTools(client) };
    const paused = (await collect<Step>(agent({ ...options, messages: [user] }))).at(-1) as { type: string; state: State };
    expect([paused.type, sent]).toEqual(["approval-needed", []]);
    const decisions: Record<string, Decision> = { c: { approved: true, args: { eur: 5 } } };
    const last = (await collect<Step>(agent({ ...options, state: JSON.parse(JSON.stringify(paused.state)) as State, decisions }))).at(-1);
    expect([last?.type, sent]).toEqual(["final", [["pay", { eur: 5 }]]]);
    await client.close();
  });
});

test.each(sdks)("with the SDK %s a file is written by another process, after a person's leave and not before", { timeout: 120_000 }, async (sdk: Sdk) => {
  const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
  // Beside the packages that it imports.
  const program = here(`node_modules/.cache/mcp-child-${sdk}.mjs`);
  await build({ entryPoints: [here("mcp.child.ts")], outfile: program, bundle: true, platform: "node", format: "esm", target: "node18", external: ["@modelcontextprotocol/*"], tsconfig: here("tsconfig.json") });
  const [note, file] = [join(folder, "note.txt"), join(tmpdir(), `${folder.split("-").at(-1)}-${sdk}.json`)];
  const child = async (...args: string[]): Promise<string> => (await promisify(execFile)(process.execPath, [program, sdk, folder, file, ...args])).stdout.replace(/ +$/gm, "");

  expect(await child()).toBe('message\ntool-start list_directory\ntool-result list_directory {"content":"[FILE] hello.txt"}\napproval-needed\n');
  expect(await child()).toBe("approval-needed\n");
  expect(existsSync(note)).toBe(false);
  expect(await child("write")).toBe(`tool-start write_file\ntool-result write_file {"content":"Successfully wrote to ${note}"}\nmessage\nfinal\n`);
  expect(readFileSync(note, "utf8")).toBe("by a person's leave");
  await expect(child("write")).rejects.toThrow('the call "write" is not pending in the state');
  await rm(note);
  await rm(file);
});
