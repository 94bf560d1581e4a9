import { type Args, type Decision, pending, type State } from "yieldagent";

/** What was asked for on the command line. */
export interface Command {
  /** As the user named it. */
  folder?: string;
  /** By call id. */
  decisions: Map<string, Decision>;
  approveAll: boolean;
}

/** Reads the command line; what is wrong with it is an error that says so. */
export function readCommand(args: readonly string[]): Command {
  const command: Command = { decisions: new Map(), approveAll: false };
  const rest = [...args];
  const next = (what: string): string => {
    const value = rest.shift();
    if (value === undefined) throw new Error(`${what} is missing`);
    return value;
  };
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === "--approve-all") command.approveAll = true;
    else if (!arg.startsWith("-")) {
      if (command.folder !== undefined) throw new Error(`there can be only one folder, not ${arg} too`);
      command.folder = arg;
    } else {
      if (!["--approve", "--reject", "--edit", "--result", "--rerun"].includes(arg)) throw new Error(`there is no ${arg}; only: [folder] --approve <id>, --approve-all, --reject <id> [--reason <text>], --edit <id> <json>, --result <id> <json>, --rerun <id>`);
      const id = next(`the id after ${arg}`);
      if (command.decisions.has(id)) throw new Error(`there are two decisions on ${id}`);
      command.decisions.set(id, readDecision(arg, id, rest, next));
    }
  }
  return command;
}

function readDecision(flag: string, id: string, rest: string[], next: (what: string) => string): Decision {
  const json = (): unknown => {
    const text = next(`the JSON after ${flag} ${id}`);
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new Error(`${flag} ${id}: ${text} is no JSON: ${(error as Error).message}`);
    }
  };
  switch (flag) {
    case "--approve": return true;
    case "--edit": return { approved: true, args: json() as Args };
    case "--result": return { result: json() };
    case "--rerun": return { rerun: true };
    default:
      if (rest[0] !== "--reason") return false;
      rest.shift();
      return { approved: false, reason: next("the text after --reason") };
  }
}

/** What the command decides of what waits in the state; that may only be what the person was shown before. */
export function decisionsOf({ decisions, approveAll }: Command, state: State | undefined): Record<string, Decision> {
  const waiting = state ? pending(state) : [];
  if ((approveAll || decisions.size > 0) && waiting.length === 0) throw new Error("nothing waits for a decision here; start it without one first");
  const all = approveAll ? waiting.filter(({ reason }) => reason === "approval").map(({ id }): [string, Decision] => [id, true]) : [];
  return Object.fromEntries([...all, ...decisions]); // a decision on one call goes before that on all
}
