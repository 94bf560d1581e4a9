// The map of an MCP client's tools, with clients that only look like the SDK's; test/compat has the real ones.
import { describe, expect, test } from "vitest";
import { agent, AgentError, type Tool } from "yieldagent";
import { type McpClient, type McpTool, mcpTools } from "yieldagent/mcp";
import { collect, script, toolCall } from "yieldagent/testing";

const schema = { type: "object", properties: { path: { type: "string" } } };
const named = (name: string, more: Partial<McpTool> = {}): McpTool => ({ name, inputSchema: schema, ...more });

/** A client of SDK v1 or v2, and what it was called with. */
function client(tools: McpTool[], answer: unknown = { content: [{ type: "text", text: "ok" }] }, version: 1 | 2 = 1): McpClient & { calls: unknown[][] } {
  const calls: unknown[][] = [];
  const call = async (...args: unknown[]): Promise<unknown> => {
    calls.push(args);
    return typeof answer === "function" ? await answer(...args) : answer;
  };
  return {
    calls,
    listTools: async () => ({ tools }),
    callTool: version === 1 ? (params, resultSchema?, options?) => call(params, resultSchema, options) : (params: unknown, options: unknown) => call(params, options),
  } as McpClient & { calls: unknown[][] };
}

const run = (tool: Tool | undefined, args: object = {}, signal = new AbortController().signal): unknown => tool?.run?.(args as never, { id: "c", key: "r/c", signal, data: undefined, decisions: {}, recover: false, keep: async () => {} });

describe("the tools of an MCP server", () => {
  test("wait for a person, unless the server says that they read and is trusted in it", async () => {
    const tools = [named("read", { annotations: { readOnlyHint: true } }), named("write"), named("move", { annotations: { readOnlyHint: false, idempotentHint: true } })];
    const gates = async (options?: Parameters<typeof mcpTools>[1]) => Object.entries(await mcpTools(client(tools), options)).map(([name, { needsApproval, idempotent }]) => `${name} ${needsApproval} ${idempotent}`);
    expect(await gates()).toEqual(["read true false", "write true false", "move true false"]);
    expect(await gates({ trustHints: true })).toEqual(["read false true", "write true false", "move true true"]);
    expect(await gates({ needsApproval: false })).toEqual(["read false false", "write false false", "move false false"]);
    expect(await gates({ needsApproval: true, trustHints: true })).toEqual(["read true true", "write true false", "move true true"]);
    const byArgs = ({ path }: { path?: unknown }): boolean => path !== "here";
    expect((await mcpTools(client(tools), { needsApproval: byArgs as never }))["write"]?.needsApproval).toBe(byArgs);
  });

  test("have a description and a schema, and a name that all models take", async () => {
    const tools = await mcpTools(client([named("fs.read/it", { description: "Reads" }), named("1st"), named("x".repeat(70))]), { prefix: "" });
    expect(Object.keys(tools)).toEqual(["fs_read_it", "_1st", "x".repeat(64)]);
    expect(tools["fs_read_it"]).toMatchObject({ description: "Reads", parameters: schema });
    expect(Object.keys(await mcpTools(client([named("a")]), { prefix: "fs_" }))).toEqual(["fs_a"]);
  });

  test("with the same name after that are refused, and so is a list without an end", async () => {
    await expect(mcpTools(client([named("a.b"), named("a/b")]))).rejects.toThrow(new AgentError("bad-options", 'two tools of the MCP server would be named "a_b": leave out "a.b" or "a/b" where client.listTools gives them'));
    const endless = { ...client([]), listTools: async () => ({ tools: [], nextCursor: "x" }) };
    await expect(mcpTools(endless)).rejects.toThrow('the MCP server gives the page "x" of its tools again and again');
  });

  test("come from all pages, without those that can't be called in one go", async () => {
    const pages = { undefined: { tools: [named("a")], nextCursor: "2" }, 2: { tools: [named("b", { execution: { taskSupport: "required" } }), named("c", { execution: { taskSupport: "optional" } })], nextCursor: "3" }, 3: { tools: [named("__proto__"), named("constructor")] } };
    const paged = { ...client([]), listTools: async (params?: { cursor?: string }) => pages[(params?.cursor ?? "undefined") as "2"] };
    expect(Object.keys(await mcpTools(paged))).toEqual(["a", "c", "__proto__", "constructor"]);
  });
});

describe("a call", () => {
  test("is made under the server's own name, in the form of each version of the SDK", async () => {
    for (const version of [1, 2] as const) {
      const mcp = client([named("fs.read")], undefined, version);
      const { signal } = new AbortController();
      expect(await run((await mcpTools(mcp, { timeout: 5 }))["fs_read"], { path: "a" }, signal)).toBe("ok");
      const options = { signal, timeout: 5 };
      expect(mcp.calls).toEqual([[{ name: "fs.read", arguments: { path: "a" } }, ...(version === 1 ? [undefined, options] : [options])]]);
    }
    const mine: unknown[] = [];
    await run((await mcpTools(client([named("a")]), { callTool: async (...args) => void mine.push(args) }))["a"]);
    expect(mine).toEqual([[{ name: "a", arguments: {} }, { signal: expect.any(AbortSignal) }]]);
  });

  test.each<[string, unknown, unknown]>([
    ["structured content, which the text repeats", { structuredContent: { a: 1 }, content: [{ type: "text", text: '{"a":1}' }] }, { a: 1 }],
    ["text", { content: [{ type: "text", text: "a" }, { type: "text", text: "b" }] }, "a\nb"],
    ["no text", { content: [] }, ""],
    ["pictures, sounds, links and embedded texts", { content: [{ type: "image", data: "AAAA", mimeType: "image/png" }, { type: "audio", data: "AA", mimeType: "audio/wav" }, { type: "resource_link", uri: "file:///a" }, { type: "resource", resource: { uri: "file:///b", text: "in b" } }, { type: "resource", resource: { uri: "file:///c", blob: "AA" } }] }, "[image image/png, 4 base64 characters]\n[audio audio/wav, 2 base64 characters]\n[resource_link file:///a]\nin b\n[resource file:///c]"],
    ["the result of an old server", { toolResult: 3 }, 3],
    ["nothing", {}, null],
  ])("gives %s", async (_, answer, result) => {
    expect(await run((await mcpTools(client([named("a")], answer)))["a"])).toEqual(result);
  });

  test("that failed is an error result, in the server's words", async () => {
    const failing = await mcpTools(client([named("a")], { isError: true, content: [{ type: "text", text: "Access denied" }] }), { needsApproval: false });
    const steps = await collect(agent({ call: script(toolCall("a"), "Oh."), tools: failing, messages: [{ role: "user", content: "go" }] }));
    expect(steps.find(({ type }) => type === "tool-result")).toMatchObject({ error: "the tool failed and may have taken effect: Access denied" });
    await expect(run((await mcpTools(client([named("a")], { isError: true })))["a"])).rejects.toThrow("the MCP server gave no reason");
  });

  test("that was aborted throws the signal's reason, not the SDK's error", async () => {
    const abort = new AbortController();
    const mcp = client([named("a")], () => {
      abort.abort("enough");
      throw new Error("MCP error -32001: Error: enough");
    });
    await expect(run((await mcpTools(mcp))["a"], {}, abort.signal)).rejects.toBe("enough");
  });
});
