// An agent that tidies up a folder, and asks before it changes anything:
//
//   npm start                                    a sample folder
//   npm start -- <folder>                        a folder of yours
//   npm start -- [folder] --approve <id> …       decides from the command line
//
// With OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY set a real model does it (MODEL names which), else a stand-in.
// It may be stopped at any time, also by kill -9: the next start goes on where it was.

import { agent, type Message } from "yieldagent";
import { readCommand } from "../terminal/command.ts";
import { converse, start } from "../terminal/converse.ts";
import { chooseModel } from "../terminal/model.ts";
import { folderFor } from "../terminal/sample.ts";
import { visibleLine } from "../terminal/visible.ts";
import { builtIn } from "./model.ts";
import { SAMPLE } from "./sample.ts";
import { fileTools, toolError } from "./tools.ts";

const MAX_STEPS = 20;
const MESSAGES: readonly Message[] = [
  { role: "system", content: "You tidy up a folder: copies of the same content, empty and temporary files, loose files that belong into a subfolder. Look before you propose anything. A person decides on each delete and move; what they reject stays as it is. At the end say what was done, and what was not and why." },
  { role: "user", content: "Tidy up the folder." },
];

start(async (args) => {
  const command = readCommand(args);
  const root = await folderFor(command.folder, "tidy", SAMPLE);
  const { call, name } = chooseModel(process.env, builtIn);
  console.log(`Tidying up ${visibleLine(root)}${name === undefined ? "" : `, with ${visibleLine(name)}`}`);
  const options = {
    call,
    tools: fileTools(root),
    // One after another: of two copies that are each to go because of the other, the second delete must see the first.
    concurrency: 1,
    maxSteps: MAX_STEPS,
    onToolError: toolError,
  };
  // The state is beside the folder, so that it isn't tidied up itself.
  await converse(`${root}.tidy.json`, { run: (going) => agent({ ...options, ...going }), messages: MESSAGES, maxSteps: MAX_STEPS, command, program: "npm start" });
});
