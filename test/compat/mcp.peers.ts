// Both generations of the MCP SDK under one face: a connected client, over stdio to a public server or in memory to one of
// ours. Used by the tests and by the process that they start.
import { createRequire } from "node:module";
import { Client as Client2, InMemoryTransport as InMemory2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { InMemoryTransport as InMemory1 } from "@modelcontextprotocol/sdk/inMemory.js";
import { Server as Server1 } from "@modelcontextprotocol/sdk/server/index.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { Server as Server2 } from "@modelcontextprotocol/server";

export type Sdk = "v1" | "v2";
export type Connected = Client1 | Client2;
export const sdks: Sdk[] = ["v1", "v2"];

const me = { name: "yieldagent-test", version: "1.0.0" };
const require = createRequire(import.meta.url);

/** A client of a public server, in a process of its own. Close it. */
export async function overStdio(sdk: Sdk, server: "filesystem" | "everything", ...args: string[]): Promise<Connected> {
  const where = { command: process.execPath, args: [require.resolve(`@modelcontextprotocol/server-${server}/dist/index.js`), ...args], stderr: "ignore" as const };
  if (sdk === "v1") {
    const client = new Client1(me);
    await client.connect(new Stdio1(where));
    return client;
  }
  const client = new Client2(me);
  await client.connect(new Stdio2(where));
  return client;
}

/** What a server of ours lists, page by page, and answers. `signal` aborts when the client cancels. */
export interface Serving {
  pages: Record<string, unknown>[][];
  call?: (name: string, args: unknown, signal: AbortSignal) => Promise<object>;
}

export async function inMemory(sdk: Sdk, { pages, call = async () => ({ content: [] }) }: Serving): Promise<Connected> {
  const list = (cursor = "0"): object => ({ tools: pages[Number(cursor)]?.map((tool) => ({ inputSchema: { type: "object" }, ...tool })), ...(Number(cursor) + 1 < pages.length && { nextCursor: String(Number(cursor) + 1) }) });
  if (sdk === "v1") {
    const server = new Server1(me, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, async ({ params }) => list(params?.cursor) as never);
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal }) => (await call(params.name, params.arguments, signal)) as never);
    const [ours, theirs] = InMemory1.createLinkedPair();
    const client = new Client1(me);
    await Promise.all([server.connect(theirs), client.connect(ours)]);
    return client;
  }
  const server = new Server2(me, { capabilities: { tools: {} } });
  server.setRequestHandler("tools/list", async ({ params }) => list(params?.cursor) as never);
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => (await call(params.name, params.arguments, mcpReq.signal)) as never);
  const [ours, theirs] = InMemory2.createLinkedPair();
  const client = new Client2(me);
  await Promise.all([server.connect(theirs), client.connect(ours)]);
  return client;
}
