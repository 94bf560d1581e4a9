// A team at work: a lead, a researcher and a clerk, who asks before it refunds or writes.
//
//   npm run team                                    a sample shop
//   npm run team -- <folder>                        a shop of yours: a letter.txt, and .csv files to search
//   npm run team -- [folder] --approve <id> …       decides from the command line
//
// With OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY set a real model does it (MODEL names which), else a stand-in.
// It may be stopped at any time, also by kill -9: the next start goes on where it was.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { readCommand } from "../terminal/command.ts";
import { converse, start } from "../terminal/converse.ts";
import { chooseModel } from "../terminal/model.ts";
import { folderFor } from "../terminal/sample.ts";
import { visibleLine, visibleText } from "../terminal/visible.ts";
import { standIn } from "./model.ts";
import { SAMPLE } from "./shop.ts";
import { brief, team } from "./team.ts";

start(async (args) => {
  const command = readCommand(args);
  const folder = await folderFor(command.folder, "team", SAMPLE);
  const letter = await readFile(join(folder, "letter.txt"), "utf8");
  const { call, name } = chooseModel(process.env, standIn);
  console.log(`A letter in ${visibleLine(folder)}${name === undefined ? "" : `, for ${visibleLine(name)}`}:\n\n${visibleText(letter)}`);
  await converse(`${folder}.team.json`, { run: (going) => team(folder, call, going), messages: brief("lead", letter), maxSteps: 10, command, program: "npm run team" });
});
