import { type Decision, type PendingReason, REASONS } from "./decision.ts";
import { AgentError, type AgentErrorCode, messageOf, quote } from "./error.ts";
import { type Args, check, isObject, keep, keepChecked, MAX_ERROR_TEXT, MAX_STATE_DEPTH, wellFormed } from "./json.ts";
import { CallIds, keepArguments, keepMessage, type Message, type ReadCall, readCalls, type Usage } from "./message.ts";
import { readQuestions } from "./pause.ts";

/** Everything a run knows. Plain JSON: store it, send it, go on from it with `agent({ state })`. */
export interface State {
  readonly version: 1;
  /** The run's id. */
  readonly id: string;
  /** One more at every change: compare-and-set on it. */
  readonly revision: number;
  /** The conversation. Only ever extended, so that a store may write just what is new. */
  readonly messages: readonly Message[];
  /** The calls of the last reply, in its order, until every one has its result; then empty. */
  readonly calls: readonly OpenCall[];
  /** Model calls since the last user message. */
  readonly steps: number;
  /** The sums of the replies' token counts, those of agents inside too, and of whatever other numbers servers put beside them. */
  readonly usage: Totals;
  /** What the provider said of the last reply, if it said something. */
  readonly finishReason?: string | undefined;
}

/** Sums of what the servers sent: `total_tokens` stays 0 with one that sends none. */
export interface Totals {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly [field: string]: number;
}

/**
 * A call of the last reply. Its status moves along these lines only:
 * ```
 * new ─┬─> ready ──> started ─┬─> done
 *      │                      ├─> ready     announced but never run, or its process died and it takes care of that itself
 *      │                      └─> pending   it paused with questions, or its process died: a person must say what now
 *      ├─> pending ──> ready | done
 *      └─> done                             it can't run, or was decided on the spot
 * ```
 */
export interface OpenCall {
  readonly id: string;
  readonly tool: string;
  /** What a person is shown and what the tool gets; after an edit, the edited ones. */
  readonly args: Readonly<Args>;
  readonly status: "new" | "ready" | "pending" | "started" | "done";
  /** While `new`: why it won't run, for what only its reply could tell (bad arguments, a reply cut off). */
  readonly error?: string | undefined;
  /** While `pending`: what a person is asked. Absent where the tool itself has asked. */
  readonly reason?: PendingReason | undefined;
  /** What a person or the policy decided. */
  readonly decision?: Decision | undefined;
  /** A person changed the arguments: the model, whose message stays as it was, must be told. */
  readonly edited?: boolean | undefined;
  /** What its tool kept: it gets it back when it is entered again. */
  readonly data?: unknown;
  /** What its tool has asked when it paused, until it has kept something since. */
  readonly questions?: readonly PendingCall[] | undefined;
  /** The decisions on those, by the questions' own ids, until the tool has kept something since. */
  readonly decisions?: Readonly<Record<string, Decision>> | undefined;
  /** Once `done`: its tool message. */
  readonly message?: Message | undefined;
}

/** A call that waits for a person. */
export interface PendingCall {
  /** What a decision names it by; of a call inside of another, `outer id/inner id`. */
  readonly id: string;
  readonly tool: string;
  /** What it will run with, if it is approved. */
  readonly args: Readonly<Args>;
  readonly reason: PendingReason;
  /** The tools that it is inside of, from the outermost. */
  readonly path?: readonly string[] | undefined;
}

/** What waits for a person in a stored state, as in the step `approval-needed`. */
export function pending(state: Pick<State, "calls">): PendingCall[] {
  return state.calls.filter(({ status }) => status === "pending").flatMap(asked);
}

/** What is asked of a pending call: about it itself, or what its tool asks. */
export function asked({ id, tool, args, reason, questions = [] }: OpenCall): PendingCall[] {
  if (reason) return [{ id, tool, args, reason }];
  return questions.map((question) => ({ ...question, id: `${id}/${question.id}`, path: [tool, ...(question.path ?? [])] }));
}

/** An open call of a run that goes on. All of them have all fields, since an engine is slow with objects that differ. */
export type Slot = { -readonly [Field in keyof OpenCall]-?: OpenCall[Field] } & {
  /** What was handed out of it since it changed last. */
  view: OpenCall | undefined;
};

function newCall({ id, tool, args, error }: ReadCall, message?: Message): Slot {
  return {
    id, tool, args, status: message ? "done" : "new", error, reason: undefined, decision: undefined, edited: undefined,
    data: undefined, questions: undefined, decisions: undefined, message, view: undefined,
  };
}

/** What became of a call. `text` is the result as the model reads it. */
export type Outcome = { readonly result: unknown; readonly text: string } | { readonly error: string };

/** What is about to change of an open call. */
export interface Update {
  readonly open: Slot;
  readonly change: Partial<OpenCall>;
  /** Where that makes it `done`: what became of it. */
  readonly outcome?: Outcome;
  /** To be told once it is saved. */
  readonly taken?: () => void;
  /** Why the tool could not be entered again, which the run ends with. */
  readonly refusal?: AgentError;
}

/** A call gets its outcome, and the message that tells the model of it. An error's text is well-formed and not long. */
export function done(open: Slot, given: Outcome, decision: Decision | undefined = open.decision): Update {
  const outcome = "error" in given ? { error: wellFormed(given.error.slice(0, MAX_ERROR_TEXT)) } : given;
  let content = "error" in outcome ? `Error: ${outcome.error}` : outcome.text;
  if (open.edited) content += `\n\n(The arguments were changed to ${JSON.stringify(open.args)})`;
  const message: Message = Object.freeze({ role: "tool", tool_call_id: open.id, content });
  return { open, outcome, change: { status: "done", message, decision, questions: undefined, decisions: undefined } };
}

/** A call waits until its tool's questions are decided. Asked again, one is undecided. */
export function paused(open: Slot, questions: readonly PendingCall[], decisions: OpenCall["decisions"] = {}): Update {
  const left = Object.entries(decisions).filter(([id]) => !questions.some((question) => question.id === id));
  return { open, change: { status: "pending", questions, decisions: left.length > 0 ? Object.fromEntries(left) : undefined } };
}

/**
 * The state of a run that goes on. It changes here and nowhere else, one revision a change. What is handed out is a
 * frozen snapshot, made only when somebody asks: a long conversation isn't copied at every change.
 */
export class Ledger {
  /** Grows; the messages in it are frozen and never replaced. */
  readonly messages: Message[] = [];
  /** Messages of the caller's, to be added once the open calls are closed. */
  readonly added: Message[] = [];
  /** Changed only by `update` and `move`. */
  calls: Slot[] = [];
  /** Assistant messages so far. */
  replies = 0;
  id = "";
  steps = 0;
  finishReason: string | undefined;
  /** A save has failed: the state is the one that was saved last, and doesn't change any more. */
  failed = false;
  #revision = 0;
  #usage: Totals = Object.freeze({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 });
  readonly #ids = new CallIds();
  /** The snapshot of this revision, once somebody has asked for it. */
  #snapshot: State | undefined;
  /** The snapshot's messages, good until one is added. */
  #list: readonly Message[] = Object.freeze([]);
  /** What the store holds, as far as this run knows. */
  #saved: State | undefined;

  /** A new run from a conversation, which may end in calls that nobody has answered yet, or a run from its saved state. */
  constructor({ messages, state, id }: { messages?: readonly unknown[] | undefined; state?: unknown; id?: string | undefined }) {
    if (state !== undefined) {
      this.#load(state, id);
      if (this.#read("bad-options", "messages", messages ?? [], this.added).length > 0) throw new AgentError("bad-options", "messages added to a state can't hold unanswered calls");
    } else if (messages) {
      this.id = id ?? uuid();
      this.calls = this.#read("bad-options", "messages", messages, this.messages);
      for (const { role } of this.messages) {
        if (role === "assistant") this.steps++;
        else if (role === "user") this.steps = 0;
      }
    } else throw new AgentError("bad-options", "options has neither messages to start from nor a state to go on from");
    this.#saved = this.state;
  }

  /** Takes a saved state over. Every field is checked: what is wrong is a `bad-state` that names it. */
  #load(given: unknown, expectedId: string | undefined): void {
    check("bad-state", "state", given, {
      version: "a whole number", id: "a string, not empty", revision: "a whole number", messages: "an array", calls: "an array",
      steps: "a whole number", usage: "an object", finishReason: "a string?",
    });
    const state = keepChecked("bad-state", "state", { ...given, messages: [] }, MAX_STATE_DEPTH) as unknown as State;
    if (state.version !== 1) throw wrong("version", `1: version ${state.version} was written by another release`);
    if (expectedId !== undefined && expectedId !== state.id) {
      throw new AgentError("bad-options", `options.id is ${quote(expectedId)}, but the state is of the run ${quote(state.id)}`);
    }
    if (!Object.values(state.usage).every(Number.isFinite)) throw wrong("usage", "an object of numbers");
    ({ id: this.id, steps: this.steps, finishReason: this.finishReason, revision: this.#revision, usage: this.#usage } = state);
    const asked = this.#read("bad-state", "state.messages", given["messages"] as unknown[], this.messages);
    if (asked.length !== state.calls.length || asked.some(({ status }) => status === "done")) {
      throw wrong("calls", `the ${asked.length} unanswered calls of the last message`);
    }
    this.calls = state.calls.map((open, i) => readOpen(open, `calls[${i}]`, asked[i]?.id));
  }

  /** Reads a conversation from outside onto `into`, with the repairs a reply gets. Returns its last calls, if any is unanswered. */
  #read(code: AgentErrorCode, where: string, given: readonly unknown[], into: Message[]): Slot[] {
    const messages = given.map((message, i) => keepMessage(code, `${where}[${i}]`, message));
    const stray = (answer: Message): AgentError =>
      new AgentError("bad-state", `${where}[${messages.indexOf(answer)}] answers ${quote(answer.tool_call_id)}, which the message before it doesn't call`);
    for (let i = 0; i < messages.length; ) {
      const at = i++;
      const first = messages[at] as Message;
      if (first.role === "tool") throw stray(first);
      if (first.role === "assistant") this.replies++;
      if (first.tool_calls === undefined) {
        into.push(first);
        continue;
      }
      const answers: Message[] = [];
      while (messages[i]?.role === "tool") answers.push(messages[i++] as Message);
      const inOrder = first.tool_calls?.map(({ id }) => {
        const place = answers.findIndex((answer) => answer.tool_call_id === id);
        return place < 0 ? undefined : answers.splice(place, 1)[0];
      });
      if (answers[0]) throw stray(answers[0]);
      const { message, calls } = readCalls(first, this.#ids, this.replies);
      const open = calls.map((call, n) => {
        const answer = inOrder?.[n];
        return newCall(call, answer && (answer.tool_call_id === call.id ? answer : keepMessage(code, where, { ...answer, tool_call_id: call.id })));
      });
      into.push(message);
      if (open.every(({ message }) => message)) for (const { message } of open) into.push(message as Message);
      else if (i === messages.length) return open;
      else throw new AgentError("bad-state", `${where}[${at}] has a call that no message after it answers`);
    }
    return [];
  }

  /** A frozen snapshot, the same object until the next change. */
  get state(): State {
    if (this.#list.length < this.messages.length) this.#list = Object.freeze(this.messages.slice());
    this.#snapshot ??= Object.freeze({
      version: 1, id: this.id, revision: this.#revision,
      messages: this.#list, calls: Object.freeze(this.calls.map((open) => (open.view ??= keep({ ...open, view: undefined }, MAX_STATE_DEPTH) as OpenCall))),
      steps: this.steps, usage: this.#usage,
      ...(this.finishReason !== undefined && { finishReason: this.finishReason }),
    });
    return this.#snapshot;
  }

  /** Hands this revision to the caller's store. If that fails, the run ends with the state it had before. */
  async save(save: (state: State) => unknown): Promise<void> {
    const { state } = this;
    try {
      await save(state);
      this.#saved = state;
    } catch (error) {
      // A second try from an unsaved state could pass a compare-and-set that has just refused the first.
      this.#snapshot = this.#saved;
      this.failed = true;
      throw error;
    }
  }

  /** The calls in a status. */
  in(status: OpenCall["status"]): Slot[] {
    return this.calls.filter((open) => open.status === status);
  }

  /** Whether there is one in a status. */
  has(status: OpenCall["status"]): boolean {
    for (const open of this.calls) if (open.status === status) return true;
    return false;
  }

  /** A reply enters the conversation, and its calls are open. Throws `bad-reply`, and then nothing of it is kept. */
  reply(given: unknown): { type: "message"; message: Message; usage?: Usage; finishReason?: string } {
    if (!isObject(given) || given["role"] !== "assistant") {
      throw new AgentError("bad-reply", 'call returned no assistant message, { role: "assistant", content, tool_calls } (a streaming call returns it at its end)');
    }
    const { finish_reason, usage: counts, ...rest } = given;
    const usage = isObject(counts) ? (keepChecked("bad-reply", "the reply's usage", counts) as Usage) : undefined;
    const { message, calls } = readCalls(keepMessage("bad-reply", "the reply", rest), this.#ids, this.replies + 1);
    this.messages.push(message);
    this.calls = calls.map((call) => newCall(call));
    if (finish_reason === "length") for (const open of this.calls) open.error = "not run: the reply was cut off at its token limit; try again with less";
    this.finishReason = typeof finish_reason === "string" && finish_reason ? finish_reason : undefined;
    this.steps++;
    this.replies++;
    if (usage) this.#usage = sum(this.#usage, usage);
    this.#changed();
    return { type: "message", message, ...(usage && { usage }), ...(this.finishReason && { finishReason: this.finishReason }) };
  }

  /** Calls move on. What belonged to the status they had is gone. */
  update(updates: readonly Pick<Update, "open" | "change">[]): void {
    for (const { open, change } of updates) {
      open.error = open.reason = open.view = undefined;
      Object.assign(open, change);
    }
    this.#changed();
  }

  /** Calls start, or are ready again since they didn't. */
  move(calls: readonly Slot[], status: "started" | "ready"): void {
    for (const open of calls) {
      open.status = status;
      open.view = undefined;
    }
    this.#changed();
  }

  /**
   * Calls that were said to start did not. A store that `save` feeds hasn't heard of it, so that there nothing has
   * changed; one that is fed between the steps may have.
   */
  retract(calls: readonly Slot[], fedBySave: boolean): void {
    this.move(calls, "ready");
    if (fedBySave) this.#revision -= 2; // the two moves
  }

  /** Every call is done: their messages enter the conversation, in the reply's order. */
  close(): void {
    for (const { message, data } of this.calls) {
      this.messages.push(message as Message);
      // An agent inside keeps its state, and there counts what it used.
      if (isObject(data) && isObject(data["usage"])) this.#usage = sum(this.#usage, data["usage"]);
    }
    this.calls = [];
    this.#changed();
  }

  /** The conversation goes on with the caller's messages. */
  add(): void {
    for (const message of this.added.splice(0)) this.messages.push(message);
    this.steps = 0;
    this.finishReason = undefined;
    this.#changed();
  }

  #changed(): void {
    this.#revision++;
    this.#snapshot = undefined;
  }
}

function uuid(): string {
  const { crypto } = globalThis as { crypto?: { randomUUID?: () => string } };
  // Where there is none, as in a durable engine's sandbox.
  const random = (): string => Math.floor(Math.random() * 16).toString(16);
  return crypto?.randomUUID?.() ?? "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx".replace(/x/g, random);
}

function sum(totals: Totals, usage: Usage): Totals {
  const next: Record<string, number> = { ...totals };
  for (const [field, count] of Object.entries(usage)) {
    if (typeof count === "number" && count >= 0 && count <= Number.MAX_SAFE_INTEGER) next[field] = (Object.hasOwn(next, field) ? (next[field] as number) : 0) + count;
  }
  return Object.freeze(next) as Totals;
}

const STATUSES: readonly unknown[] = ["new", "ready", "pending", "started", "done"];

/** An open call of a saved state. */
function readOpen(given: OpenCall, where: string, askedId: string | undefined): Slot {
  check("bad-state", `state.${where}`, given, { tool: "a string", error: "a string?", edited: "a boolean?", decisions: "an object?" });
  const { id, tool, status, error, reason, decision, edited, data, decisions } = given;
  if (id !== askedId) throw wrong(`${where}.id`, `${quote(askedId)}, as in the last message`);
  if (!STATUSES.includes(status)) throw wrong(`${where}.status`, `one of ${STATUSES.join(", ")}`);
  if (decision !== undefined && typeof decision !== "boolean" && !isObject(decision)) throw wrong(`${where}.decision`, "a decision");
  const questions = given.questions && readQuestions("bad-state", `state.${where}.questions`, given.questions);
  if (!(REASONS as readonly unknown[]).includes(reason) && ((status === "pending" && !questions) || reason !== undefined)) throw wrong(`${where}.reason`, `one of ${REASONS.join(", ")}`);
  const message = status === "done" ? keepMessage("bad-state", `state.${where}.message`, given.message) : undefined;
  if (message && !(message.role === "tool" && message.tool_call_id === id)) throw wrong(`${where}.message`, "the call's tool message");
  try {
    return { id, tool, args: keepArguments(given.args, 0), status, error, reason, decision, edited, data, questions, decisions, message, view: undefined };
  } catch (error) {
    throw wrong(`${where}.args`, `a call's arguments: ${messageOf(error)}`);
  }
}

function wrong(field: string, expected: string): AgentError {
  return new AgentError("bad-state", `state.${field} must be ${expected}`);
}
