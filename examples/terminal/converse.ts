import { type AgentRun, AgentError, type Decision, type Message, pending, type State } from "yieldagent";
import { ModelError } from "yieldagent/openai";
import { type Command, decisionsOf } from "./command.ts";
import { openStore, type Store } from "./store.ts";
import { ask, listWaiting, printer, word } from "./terminal.ts";
import { visibleLine } from "./visible.ts";

/** An agent to talk to at the terminal. */
export interface Conversation {
  /** `agent()` with the options it has each time, and these. */
  run: (options: Going) => AgentRun;
  /** What a new run starts from. */
  messages: readonly Message[];
  /** The run's `maxSteps`. */
  maxSteps: number;
  command: Command;
  /** How it is started: `npm start`. */
  program: string;
}

export interface Going {
  save: (state: State) => Promise<void>;
  /** Whoever opened the store is alone with it: what the state says is running was cut off with its process. */
  recover: true;
  state?: State;
  messages?: readonly Message[];
  decisions?: Record<string, Decision>;
}

/** Starts the program; what ends it is one line and exit code 1. */
export function start(main: (args: readonly string[]) => Promise<void>): void {
  main(process.argv.slice(2)).catch((error: Error) => {
    console.error(visibleLine(error.message));
    process.exitCode = 1;
  });
}

/** Runs it from the state in the file, or anew, and asks who is at the terminal for decisions until none waits or they go. */
export async function converse(file: string, conversation: Conversation): Promise<void> {
  const store = await openStore(file);
  try {
    await talk(store, conversation);
  } catch (error) {
    if (error instanceof AgentError && error.code === "bad-state") throw new Error(`${file} is damaged: ${error.message}`);
    // What was done so far is saved, and no half reply is in it.
    if (error instanceof ModelError) throw new Error(`The model gave no answer: ${error.message}. ${error.retryable ? "Start" : "Once that is put right, start"} again to go on.`);
    throw error;
  } finally {
    await store.close();
  }
}

async function talk(store: Store, { run, messages, maxSteps, command, program }: Conversation): Promise<void> {
  const always = { save: store.save, recover: true } as const;
  let state = await store.load();
  // agent() checks the state at once, and does nothing before it is iterated.
  if (state !== undefined) state = run({ ...always, state }).state;
  let decisions = decisionsOf(command, state);
  if (state && hasEnded(state, maxSteps)) state = undefined; // a new run

  const interactive = process.stdin.isTTY && process.stdout.isTTY;
  const later = new Set<string>();
  let asked = false;
  for (;;) {
    let going: AgentRun | undefined;
    try {
      going = run(state ? { ...always, state, decisions } : { ...always, messages });
      const print = printer();
      for await (const step of going) print(step);
    } catch (error) {
      // Refused decisions have had no effect: who is there can be asked again.
      if (!(asked && error instanceof AgentError && error.code === "bad-decision")) throw error;
      console.log(visibleLine(error.message));
    }
    // Also after a refusal: an agent inside that refused one was entered for that, and the state has gone on.
    state = going?.state ?? state;

    const waiting = state ? pending(state) : [];
    const next = interactive ? waiting.find(({ id }) => !later.has(id)) : undefined;
    const answer = next ? await ask(next, waiting.length - later.size) : "quit";
    if (!next || answer === "quit") {
      if (interactive && waiting.length > 0) console.log(`\nStill to decide: ${waiting.length}. Start again for that, today or next week.`);
      else if (waiting.length > 0) listWaiting(waiting, command.folder === undefined ? `${program} --` : `${program} -- ${word(command.folder)}`);
      return;
    }
    // Each answer takes effect before the next question, so that nothing decided is lost when the person goes away.
    if (answer === "later") later.add(next.id);
    decisions = answer === "later" ? {} : { [next.id]: answer };
    asked = true;
  }
}

/** Whether nothing is left to do in a run: its last word was said, or its last step taken. */
function hasEnded({ calls, messages, steps }: State, maxSteps: number): boolean {
  return calls.length === 0 && (messages.at(-1)?.role === "assistant" || steps >= maxSteps);
}
