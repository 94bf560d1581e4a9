// The page: it starts a run or goes on with the one that localStorage holds, shows each step, and asks at the pause.
import { agent, type Decision, pending, type PendingCall, type State, type Step } from "yieldagent";
import { show } from "yieldagent/show";
import { call, request, sent, tools } from "./weather.ts";

const STORE = "yieldagent-example";
const place = (id: string): HTMLElement => document.getElementById(id) as HTMLElement;
const steps = place("steps");
const questions = place("questions");
Object.assign(globalThis, { sent }); // for whoever looks with the browser's tools

/** Compare-and-set: a second tab that goes on with the same run ends there. (Two at the very same moment would need `navigator.locks`.) */
function save(state: State): void {
  const stored = load();
  if (stored && (stored.id !== state.id || stored.revision !== state.revision - 1)) throw new Error("another tab goes on with this run; reload to see it");
  localStorage.setItem(STORE, JSON.stringify(state));
  display(state);
}

function load(): State | undefined {
  const text = localStorage.getItem(STORE);
  return text === null ? undefined : (JSON.parse(text) as State);
}

function display(state: State): void {
  place("state").textContent = show(state);
  place("revision").textContent = `revision ${state.revision}, ${JSON.stringify(state).length} bytes of plain JSON`;
}

/** A stretch of the run, to its next pause or its end. The page that held the state is gone, if there was one: `recover`. */
async function go(decisions: Record<string, Decision> = {}): Promise<void> {
  questions.replaceChildren();
  const state = load();
  let words: HTMLElement | undefined;
  try {
    const run = state ? agent({ call, tools, state, decisions, recover: true, save }) : agent({ call, tools, messages: [{ role: "user", content: request }], save });
    if (state) display(state);
    else save(run.state); // before anything happens: a reload goes on with this run, not with another
    for await (const step of run as AsyncIterable<Step>) {
      if (step.type === "text") (words ??= line("text", "")).textContent += step.text;
      else {
        words = undefined;
        tell(step);
      }
    }
  } catch (error) {
    line("error", (error as Error).message);
  }
  const stored = load();
  if (stored) questions.append(...pending(stored).map(question));
}

function tell(step: Exclude<Step, { type: "text" | "reasoning" }> | Step): void {
  switch (step.type) {
    case "tool-start": return void line(step.type, `${step.tool} ${flat(step.args)}`);
    case "tool-result": return void line(step.type, "error" in step ? step.error : flat(step.result), "error" in step ? "error" : step.type);
    case "approval-needed": return void line(step.type, "the run ends here; the state waits");
    case "final": return void line(step.type, step.reason);
    case "message": return void line(step.type, (step.message.tool_calls ?? []).map((call) => `calls ${call.function.name}`).join(", "));
  }
}

const flat = (value: unknown): string => show(value).replace(/\n */g, " ");

function line(name: string, text: string, look: string = name): HTMLElement {
  const words = make("code", text);
  const item = make("li", "", make("b", name), " ", words);
  item.className = look;
  steps.append(item);
  return words;
}

/** One call that waits: what it is, in full, and what may be said of it. */
function question({ id, tool, args, reason }: PendingCall): HTMLElement {
  const wrong = make("p", "");
  wrong.className = "wrong";
  const buttons = make("div", "");
  buttons.className = "buttons";
  const shown = make("pre", show(args));
  const card = make("section", "", make("p", reason === "interrupted" ? "It may or may not have run" : "May it run?"), make("h3", tool), shown, wrong, buttons);
  card.className = "card";
  const button = (text: string, act: () => void, primary = false): HTMLElement => {
    const made = make("button", text);
    made.className = primary ? "primary" : "";
    made.addEventListener("click", act);
    return made;
  };
  const decide = (decision: Decision): void => void go({ [id]: decision });

  const reject = (): void => {
    const why = document.createElement("input");
    why.placeholder = "why? the model reads it";
    buttons.replaceChildren(why, button("Reject", () => decide(why.value ? { approved: false, reason: why.value } : { approved: false }), true));
    why.focus();
  };
  const edit = (): void => {
    const text = document.createElement("textarea");
    text.value = show(args);
    shown.replaceWith(text);
    buttons.replaceChildren(button("Approve with these", () => {
      try {
        decide({ approved: true, args: JSON.parse(text.value) as PendingCall["args"] });
      } catch (error) {
        wrong.textContent = `That is no JSON: ${(error as Error).message}`;
      }
    }, true));
    text.focus();
  };
  if (reason === "interrupted") buttons.append(button("It did run", () => decide({ result: "sent" })), button("Run it again", () => decide({ rerun: true })), button("Leave it", reject));
  else buttons.append(button("Approve", () => decide(true), true), button("Edit", edit), button("Reject", reject));
  return card;
}

function make(name: string, text: string, ...children: (HTMLElement | string)[]): HTMLElement {
  const made = document.createElement(name);
  made.textContent = text;
  made.append(...children);
  return made;
}

place("restart").addEventListener("click", () => {
  localStorage.removeItem(STORE);
  location.reload();
});
if (load()) line("reloaded", "it goes on from localStorage");
void go();
