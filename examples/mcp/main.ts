// An agent with the tools of an MCP server, here the official one for files, which asks before it writes:
//
//   npm start -- <folder>                    in a terminal: it asks you; else it says what waits
//   npm start -- <folder> --approve <id>     decides from the command line (or --reject <id> [<reason>])
//   npm start -- <folder> --recover          goes on after it was killed in the middle of a call
//
// With OPENAI_API_KEY or OPENAI_BASE_URL set a real model does it (MODEL names which), else a stand-in.

import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { agent, type Call, type Decision, type PendingCall, type State, type Step } from "yieldagent";
import { mcpTools } from "yieldagent/mcp";
import { openai } from "yieldagent/openai";
import { show, suspicious } from "yieldagent/show";
import { script, toolCall } from "yieldagent/testing";

const [named, flag, id, reason] = process.argv.slice(2);
if (named === undefined) throw new Error("which folder? npm start -- <folder>");
// npm runs scripts in the package's folder; INIT_CWD is where the user is.
const folder = await realpath(resolve(process.env["INIT_CWD"] ?? "", named));
const file = `${folder}.agent.json`; // beside the folder: the agent can't write its own state

const client = new Client({ name: "yieldagent-example", version: "1.0.0" });
const server = createRequire(import.meta.url).resolve("@modelcontextprotocol/server-filesystem/dist/index.js");
await client.connect(new StdioClientTransport({ command: process.execPath, args: [server, folder], stderr: "ignore" }));
try {
  // We start this server ourselves, so we believe it which of its tools only read. The others wait for a person.
  await run(await mcpTools(client, { trustHints: true }));
} finally {
  await client.close();
}

async function run(tools: Awaited<ReturnType<typeof mcpTools>>): Promise<void> {
  const options = { call: model(), tools, save, recover: flag === "--recover", concurrency: 1 };
  let state = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as State) : undefined;
  let decisions: Record<string, Decision> = {};
  if (flag === "--approve" || flag === "--reject") decisions[String(id)] = flag === "--approve" ? true : { approved: false, reason };
  const messages = [{ role: "user", content: `Write SUMMARY.txt into ${folder}: what files there are. Look first.` }];
  for (;;) {
    let last: Step | undefined;
    for await (last of agent(state ? { ...options, state, decisions } : { ...options, messages })) print(last);
    if (last?.type !== "approval-needed") return rmSync(file); // it is done
    state = last.state;
    decisions = {};
    for (const call of last.pending) {
      const decision = await ask(call);
      if (decision !== undefined) decisions[call.id] = decision;
    }
    if (Object.keys(decisions).length === 0) return;
  }
}

/** Written whole or not at all. One process at a time: examples/tidy has a store that sees to it. */
function save(state: State): void {
  writeFileSync(`${file}.new`, JSON.stringify(state), { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

function print(step: Step): void {
  // What a model or a server says may hold anything, so it is never printed as it is.
  if (step.type === "tool-start") console.log(`→ ${step.tool} ${show(step.args)}`);
  if (step.type === "tool-result") console.log("error" in step ? `✗ ${show(step.error)}` : `✓ ${show(step.result)}`);
  if (step.type === "final") console.log(show(step.text));
}

/** What a person says of a call; undefined: nothing yet. */
async function ask({ id, tool, args, reason }: PendingCall): Promise<Decision | undefined> {
  console.log(`\n${show({ id, tool, args, reason })}`);
  for (const mark of suspicious({ tool, args })) console.log(`! ${mark}`);
  if (!process.stdin.isTTY) {
    console.log(`It waits. Decide with: npm start -- ${show(named)} --approve ${show(id)}   (or --reject)`);
    return undefined;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const interrupted = reason === "interrupted";
  const said = await terminal.question(interrupted ? "It may or may not have run. Run it [again], lea[v]e it, or later? " : "[a]pprove, [r]eject, or later? ");
  terminal.close();
  if (interrupted) return said === "again" ? { rerun: true } : said === "v" ? false : undefined;
  return said === "a" ? true : said === "r" ? false : undefined;
}

/** A real model, or one that always does the same: it looks, then writes what it saw. */
function model(): Call {
  const { OPENAI_API_KEY: apiKey, OPENAI_BASE_URL: baseURL, MODEL } = process.env;
  if (apiKey || baseURL) return openai({ model: MODEL || "gpt-4o-mini", apiKey: apiKey || "", baseURL: baseURL || undefined });
  return script(
    toolCall("list_directory", { path: folder }, "look"),
    (messages) => toolCall("write_file", { path: join(folder, "SUMMARY.txt"), content: String(messages.at(-1)?.content) }, "write"),
    (messages) => `The server says: ${String(messages.at(-1)?.content)}`,
  );
}
