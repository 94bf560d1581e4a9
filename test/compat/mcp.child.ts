// One process of the test of a gated write: `mcp.child.ts <sdk> <folder> <state file> [<approved id>]`. It has a connection of its own,
// and knows of the run what is in the file. Prints the steps' types.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { agent, type State } from "yieldagent";
import { mcpTools } from "yieldagent/mcp";
import { script, toolCall } from "yieldagent/testing";
import { overStdio, type Sdk } from "./mcp.peers.ts";

const [sdk, folder = "", file = "", approved] = process.argv.slice(2);
const client = await overStdio(sdk as Sdk, "filesystem", folder);
const tools = await mcpTools(client, { trustHints: true });
const call = script(
  [toolCall("list_directory", { path: folder }, "look"), toolCall("write_file", { path: join(folder, "note.txt"), content: "by a person's leave" }, "write")],
  "Done.",
);
const save = (state: State): void => writeFileSync(file, JSON.stringify(state));
const run = existsSync(file)
  ? agent({ call, tools, save, state: JSON.parse(readFileSync(file, "utf8")) as State, decisions: approved ? { [approved]: true } : {} })
  : agent({ call, tools, save, messages: [{ role: "user", content: "Write the note." }], id: "note" });
for await (const step of run) console.log(step.type, "tool" in step ? step.tool : "", step.type === "tool-result" ? JSON.stringify("error" in step ? step.error : step.result) : "");
await client.close();
