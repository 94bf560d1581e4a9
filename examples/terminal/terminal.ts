import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { Args, Decision, PendingCall, PendingReason, Step } from "yieldagent";
import { show } from "yieldagent/show";
import { editable, visibleLine, visibleText } from "./visible.ts";

/**
 * Tells of the steps of a run as they happen: text and reasoning as they come, reasoning dimmed where there is colour.
 * Those of agents inside are indented, under the agent's name; since several may speak at once, their text comes by the line.
 */
export function printer(name = "", depth = 0): (step: Step) => void {
  const prefix = name && `${"  ".repeat(depth)}${name}: `;
  const width = 100 - prefix.length;
  const inside = new Map<string, (step: Step) => void>();
  /** What the piece before was, while a text goes on; and what of it isn't shown yet: an unfinished line, or half a character. */
  let streaming: "text" | "reasoning" | undefined;
  let rest = "";
  let streamed = false;
  const named = (text: string): string => (prefix ? text.replace(/^(?=.)/gm, prefix) : text);
  const line = (text: string): void => console.log(named(text));
  const stream = (type: typeof streaming, text = ""): void => {
    if (type !== streaming) {
      if (streaming !== undefined && (rest || !prefix)) console.log(dimmed(streaming, named(visibleText(rest))));
      rest = "";
    }
    streaming = type;
    const whole = rest + text;
    rest = (prefix ? /[^\n]*$/ : /[\ud800-\udbff]?$/).exec(whole)?.[0] ?? "";
    const shown = whole.slice(0, whole.length - rest.length);
    process.stdout.write(dimmed(type, named(visibleText(shown))));
  };

  return (step) => {
    if (step.type === "text" || step.type === "reasoning") {
      stream(step.type, step.text);
      if (step.type === "text") streamed = true;
      return;
    }
    stream(undefined);
    switch (step.type) {
      case "message":
        // Without calls an agent's last one comes again: as `final`, or from inside as the result.
        if (!streamed && step.message.tool_calls && typeof step.message.content === "string" && step.message.content) line(visibleText(step.message.content));
        if (step.message.tool_calls) streamed = false;
        break;
      case "tool-start":
        line(`→ ${brief(step, width)}`);
        break;
      case "tool-progress": {
        // Every tool here that tells how it gets on is an agent.
        const print = inside.get(step.id) ?? printer(visibleLine(step.tool), depth + 1);
        inside.set(step.id, print);
        print(step.value as Step);
        break;
      }
      case "tool-result":
        if ("error" in step) line(`✗ ${brief(step, width)}: ${visibleLine(step.error, 200)}`);
        else line(`✓ ${visibleLine(step.tool)} ${visibleLine(JSON.stringify(step.result), width)}`);
        break;
      case "final":
        if (!streamed) console.log(`\n${visibleText(step.text ?? "")}`);
        if (step.reason === "max-steps") console.log("Stopped: that was the last step allowed.");
    }
  };
}

function dimmed(type: string | undefined, text: string): string {
  return type === "reasoning" && text && process.stdout.isTTY && !process.env["NO_COLOR"] ? `\x1b[2m${text}\x1b[22m` : text;
}

function brief({ tool, args }: { tool: string; args: Args }, width: number): string {
  return `${visibleLine(tool)} ${visibleLine(JSON.stringify(args), width)}`;
}

/** Says what waits, in full, and how to decide it with the command that starts the program. */
export function listWaiting(waiting: readonly PendingCall[], command: string): void {
  console.log(`\n${waiting.length === 1 ? "1 call waits" : `${waiting.length} calls wait`} for a person:`);
  for (const call of waiting) console.log(`\n${describe(call)}`);

  const some = (...reasons: PendingReason[]): boolean => waiting.some(({ reason }) => reasons.includes(reason));
  const ways: readonly (readonly [boolean, string, string])[] = [
    [some("approval"), "--approve <id>", "run it as shown"],
    [some("approval"), "--approve-all", "run all that wait for an approval"],
    [some("approval"), "--edit <id> '<JSON>'", "run it with these arguments"],
    [some("answer"), "--result <id> '<JSON>'", "the answer"],
    [some("interrupted"), "--rerun <id>", "run it again"],
    [some("interrupted"), "--result <id> '<JSON>'", "it did run, and this is its result"],
    [true, "--reject <id> [--reason <text>]", "leave it"],
  ];
  console.log("\nStart it in a terminal to be asked, or decide with any number of these in one command; the rest keeps waiting:");
  for (const [fits, way, meaning] of ways) if (fits) console.log(`  ${command} ${way.padEnd(32)} # ${meaning}`);
}

function describe({ id, tool, args, reason, path = [] }: PendingCall): string {
  const note = reason === "interrupted" ? ": it had begun when its process ended, and may or may not have run" : "";
  return `${word(id)}  ${[...path, tool].map((name) => visibleLine(name)).join(" › ")}  (${reason}${note})\n${show(args)}`;
}

/** As it can be typed in a shell, unless something in it had to be escaped. */
export function word(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${visibleLine(text).replace(/'/g, "'\\''")}'`;
}

/** Shows a call and asks for the decision on it. `later`: not on this one now; `quit`: on none of those that are left. */
export async function ask(call: PendingCall, left: number): Promise<Answer> {
  await forgetTyped();
  console.log(`\n${left} to decide:\n${describe(call)}`);
  for (;;) {
    const { prompt, read } = QUESTIONS[call.reason];
    const said = await question(prompt);
    if (said === undefined) return "quit";
    const answer = await read(said, call.args);
    if (answer !== undefined) return answer;
  }
}

type Answer = Decision | "later" | "quit";

const QUESTIONS: Record<PendingReason, { prompt: string; read: (said: string, args: Args) => Promise<Answer | undefined> }> = {
  approval: { prompt: "[a]pprove / [e]dit / [r]eject / [l]ater: ", read: approval },
  answer: { prompt: "[a]nswer / [r]eject / [l]ater: ", read: answering },
  interrupted: { prompt: "rerun it / it [d]id run / lea[v]e it / [l]ater: ", read: interrupted },
};

/** What an answer to the question means; undefined if it has to be asked again. */
async function approval(said: string, args: Args): Promise<Answer | undefined> {
  switch (said) {
    case "a": case "approve": return true;
    case "e": case "edit": return json("arguments: ", editable(args), (edited) => ({ approved: true, args: edited as Args }));
    case "r": case "reject": return rejection();
    case "l": case "later": return "later";
    default: return undefined;
  }
}

async function answering(said: string): Promise<Answer | undefined> {
  switch (said) {
    case "a": case "answer": {
      const result = await question("your answer: ");
      return result === undefined ? "quit" : result === "" ? undefined : { result };
    }
    case "r": case "reject": return rejection();
    case "l": case "later": return "later";
    default: return undefined;
  }
}

async function interrupted(said: string): Promise<Answer | undefined> {
  switch (said) {
    case "rerun": return { rerun: true }; // only the whole word: no slip of a finger runs something twice
    case "d": case "did": return json("its result, as JSON: ", '"it did run"', (result) => ({ result }));
    case "v": case "leave": return rejection();
    case "l": case "later": return "later";
    default: return undefined;
  }
}

async function rejection(): Promise<Answer> {
  const reason = await question("why? (for the model; may be empty) ");
  return reason === undefined ? "quit" : { approved: false, reason };
}

/** Asks for JSON until it is some; an empty line goes back to the question before. */
async function json(prompt: string, given: string, decision: (value: unknown) => Decision): Promise<Answer | undefined> {
  for (let text = given; ; ) {
    const line = await question(prompt, text);
    if (line === undefined) return "quit";
    if (line === "") return undefined;
    try {
      return decision(JSON.parse(line));
    } catch (error) {
      console.log(visibleLine(`That is no JSON: ${(error as Error).message}`));
      text = line;
    }
  }
}

/** What was typed before a call was shown is no answer to it. */
async function forgetTyped(): Promise<void> {
  const forget = (): void => {};
  process.stdin.on("data", forget);
  await sleep(30);
  process.stdin.off("data", forget).pause();
}

/** A line that the person types, beginning with `given`; undefined for Ctrl-C and Ctrl-D. */
function question(prompt: string, given = ""): Promise<string | undefined> {
  return new Promise((resolve) => {
    const terminal = createInterface({ input: process.stdin, output: process.stdout });
    let line: string | undefined;
    terminal.on("SIGINT", () => terminal.close());
    terminal.on("close", () => {
      if (line === undefined) console.log();
      resolve(line);
    });
    terminal.question(prompt, (typed) => {
      line = typed.trim();
      terminal.close();
    });
    terminal.write(given);
  });
}
