// An agent that tidies up a folder, and asks before it changes anything:
//
//   npm start                                    a sample folder
//   npm start -- <folder>                        a folder of yours
//   npm start -- [folder] --approve <id> …       decides from the command line
//
// With OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY set a real model does it (MODEL names which), else a stand-in.
// It may be stopped at any time, also by kill -9: the next start goes on where it was.

import { realpath, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { agent, AgentError, type Call, type Message, pending, type State } from "yieldagent";
import { ModelError } from "yieldagent/openai";
import { type Command, decisionsOf, readCommand } from "./command.ts";
import { chooseModel } from "./model.ts";
import { sampleFolder } from "./sample.ts";
import { openStore, type Store } from "./store.ts";
import { ask, listWaiting, printer } from "./terminal.ts";
import { fileTools, toolError } from "./tools.ts";
import { visibleLine } from "./visible.ts";

const MAX_STEPS = 20;
const MESSAGES: readonly Message[] = [
  { role: "system", content: "You tidy up a folder: copies of the same content, empty and temporary files, loose files that belong into a subfolder. Look before you propose anything. A person decides on each delete and move; what they reject stays as it is. At the end say what was done, and what was not and why." },
  { role: "user", content: "Tidy up the folder." },
];

main(process.argv.slice(2)).catch((error: Error) => {
  console.error(visibleLine(error.message));
  process.exitCode = 1;
});

async function main(args: readonly string[]): Promise<void> {
  const command = readCommand(args);
  const root = command.folder === undefined ? await realpath(await sampleFolder()) : await realFolder(command.folder);
  const { call, name } = chooseModel(process.env);
  console.log(`Tidying up ${visibleLine(root)}${name === undefined ? "" : `, with ${visibleLine(name)}`}`);
  // Beside the folder, so that it isn't tidied up itself.
  const file = `${root}.tidy.json`;
  const store = await openStore(file);
  try {
    await tidy(root, store, command, call);
  } catch (error) {
    if (error instanceof AgentError && error.code === "bad-state") throw new Error(`${file} is damaged: ${error.message}`);
    // What was done so far is saved, and no half reply is in it.
    if (error instanceof ModelError) throw new Error(`The model gave no answer: ${error.message}. ${error.retryable ? "Start" : "Once that is put right, start"} again to go on.`);
    throw error;
  } finally {
    await store.close();
  }
}

async function tidy(root: string, store: Store, command: Command, call: Call): Promise<void> {
  const options = {
    call,
    tools: fileTools(root),
    save: store.save,
    // Whoever opened the store is alone with it: what the state says is running was cut off with its process.
    recover: true,
    // One after another: of two copies that are each to go because of the other, the second delete must see the first.
    concurrency: 1,
    maxSteps: MAX_STEPS,
    onToolError: toolError,
  };

  let state = await store.load();
  // agent() checks the state at once, and does nothing before it is iterated.
  if (state !== undefined) state = agent({ ...options, state }).state;
  let decisions = decisionsOf(command, state);
  if (state && hasEnded(state)) state = undefined; // a new run

  const interactive = process.stdin.isTTY && process.stdout.isTTY;
  const later = new Set<string>();
  let asked = false;
  for (;;) {
    try {
      const run = agent(state ? { ...options, state, decisions } : { ...options, messages: MESSAGES });
      const print = printer();
      for await (const step of run) print(step);
      state = run.state;
    } catch (error) {
      // Refused decisions have had no effect: who is there can be asked again.
      if (!(asked && error instanceof AgentError && error.code === "bad-decision")) throw error;
      console.log(visibleLine(error.message));
    }

    const waiting = state ? pending(state) : [];
    const next = interactive ? waiting.find(({ id }) => !later.has(id)) : undefined;
    const answer = next ? await ask(next, waiting.length - later.size) : "quit";
    if (!next || answer === "quit") {
      if (interactive && waiting.length > 0) console.log(`\nStill to decide: ${waiting.length}. Start again for that, today or next week.`);
      else if (waiting.length > 0) listWaiting(waiting, command.folder);
      return;
    }
    // Each answer takes effect before the next question, so that nothing decided is lost when the person goes away.
    if (answer === "later") later.add(next.id);
    decisions = answer === "later" ? {} : { [next.id]: answer };
    asked = true;
  }
}

/** Whether nothing is left to do in a run: its last word was said, or its last step taken. */
function hasEnded({ calls, messages, steps }: State): boolean {
  return calls.length === 0 && (messages.at(-1)?.role === "assistant" || steps >= MAX_STEPS);
}

async function realFolder(named: string): Promise<string> {
  // npm runs scripts in the package's folder; INIT_CWD is where the user is.
  const folder = resolve(process.env["INIT_CWD"] ?? "", named);
  if (!(await stat(folder).catch(() => undefined))?.isDirectory()) throw new Error(`there is no folder ${folder}`);
  const root = await realpath(folder);
  if (dirname(root) === root) throw new Error(`${root} is not a folder to tidy up: there is no place beside it for the state`);
  return root;
}
