import { AgentError, quote } from "./error.ts";
import { type Args, isObject } from "./json.ts";
import type { Tool } from "./tool.ts";

/** A connected client of the MCP SDK, as far as it is used here: v1 (`@modelcontextprotocol/sdk`) or v2 (`@modelcontextprotocol/client`). */
export interface McpClient {
  listTools(params?: { cursor?: string }): Promise<{ tools: readonly McpTool[]; nextCursor?: string | undefined }>;
  // v1 takes (params, resultSchema, options), v2 (params, options).
  callTool(params: McpCall, ...more: never[]): Promise<unknown>;
}

/** A tool as an MCP server lists it. */
export interface McpTool {
  name: string;
  description?: string | undefined;
  inputSchema: object;
  annotations?: { readOnlyHint?: boolean | undefined; idempotentHint?: boolean | undefined } | undefined;
  execution?: { taskSupport?: string | undefined } | undefined;
}

/** What a server is asked to do. */
export interface McpCall {
  name: string;
  arguments: Args;
}

export interface McpOptions {
  /** Goes before each tool's name. Two servers with a tool of the same name need it. Default: none. */
  prefix?: string | undefined;
  /**
   * Whether calls wait for a person, for all tools of this client, as on a tool. Default: `true`, but for those that the
   * server says only read, if its hints are trusted.
   */
  needsApproval?: Tool["needsApproval"];
  /**
   * `true`: believe what the server says of its tools: one with `readOnlyHint` needs no approval, and one with that or
   * `idempotentHint` is run again after a crash. Default `false`, since a server may say anything.
   */
  trustHints?: boolean | undefined;
  /** How long a call may take, in ms. Default: the client's own, 60,000. */
  timeout?: number | undefined;
  /** Makes the call. Default: `client.callTool`, in the form of its version, told by its number of parameters. */
  callTool?: ((call: McpCall, options: { signal: AbortSignal; timeout?: number }) => Promise<unknown>) | undefined;
}

/**
 * The tools of an MCP server (https://modelcontextprotocol.io/specification), for `agent({ tools })`. Names become
 * letters, digits, `_` and `-`, at most 64. A result is the server's `structuredContent`, else its text, with a note for
 * each picture or sound; one with `isError` is thrown. Arguments are checked by the server.
 *
 * Throws `AgentError` `bad-options` if two tools would have the same name, and what the client throws.
 */
export async function mcpTools(client: McpClient, options: McpOptions = {}): Promise<Record<string, Tool>> {
  const { prefix = "", trustHints = false, timeout, needsApproval } = options;
  const callTool = options.callTool ?? ((call, settings): Promise<unknown> => {
    const method = client.callTool.bind(client) as (...args: unknown[]) => Promise<unknown>;
    return client.callTool.length === 2 ? method(call, settings) : method(call, undefined, settings);
  });
  const tools = new Map<string, Tool>();
  const names = new Map<string, string>();
  for (const { name, description, inputSchema, annotations: { readOnlyHint, idempotentHint } = {}, execution } of await listed(client)) {
    // Such a tool can't be called in one go.
    if (execution?.taskSupport === "required") continue;
    const safe = (prefix + name).replace(/[^a-zA-Z0-9_-]/g, "_").replace(/^(?![a-zA-Z_])/, "_").slice(0, 64);
    if (tools.has(safe)) throw new AgentError("bad-options", `two tools of the MCP server would be named ${quote(safe)}: leave out ${quote(names.get(safe))} or ${quote(name)} where client.listTools gives them`);
    names.set(safe, name);
    const readsOnly = trustHints && readOnlyHint === true;
    tools.set(safe, {
      description, parameters: inputSchema,
      needsApproval: needsApproval ?? !readsOnly,
      idempotent: readsOnly || (trustHints && idempotentHint === true),
      run: async (args, { signal }) => {
        try {
          return resultOf(await callTool({ name, arguments: args }, { signal, ...(timeout !== undefined && { timeout }) }));
        } catch (error) {
          // The SDK has an error of its own for it.
          throw signal.aborted ? signal.reason : error;
        }
      },
    });
  }
  return Object.fromEntries(tools);
}

async function listed(client: McpClient): Promise<McpTool[]> {
  const tools: McpTool[] = [];
  const seen = new Set<string>();
  for (let cursor: string | undefined; ; seen.add(cursor)) {
    const page = await client.listTools(cursor === undefined ? undefined : { cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
    if (cursor === undefined) return tools;
    if (seen.has(cursor)) throw new Error(`the MCP server gives the page ${quote(cursor)} of its tools again and again`);
  }
}

/** A result in the form that a model is told it in; what is an error is thrown. */
function resultOf(answer: unknown): unknown {
  const { content, structuredContent, isError, toolResult } = Object(answer) as Record<string, unknown>;
  const text = Array.isArray(content) ? content.map(textIn).join("\n") : undefined;
  if (isError === true) throw new Error(text || "the MCP server gave no reason");
  return structuredContent ?? text ?? toolResult ?? null;
}

function textIn(part: unknown): string {
  const { type, text, data, mimeType, uri, resource } = Object(part) as Record<string, unknown>;
  if (typeof text === "string") return text;
  if (isObject(resource)) return typeof resource["text"] === "string" ? resource["text"] : `[resource ${String(resource["uri"])}]`;
  if (typeof data === "string") return `[${String(type)} ${String(mimeType)}, ${data.length} base64 characters]`;
  return `[${[type, uri].filter(Boolean).join(" ")}]`;
}
