import { AgentError, type AgentErrorCode } from "./error.ts";
import { type Args, isObject, keep, keepChecked, MAX_ARGUMENTS, MAX_ARGUMENTS_DEPTH } from "./json.ts";

/**
 * One message of a conversation, in the wire shape of Chat Completions
 * (https://platform.openai.com/docs/api-reference/chat). Fields not named here are kept as they came.
 */
export interface Message {
  /** `system`, `developer`, `user`, `assistant` or `tool`. */
  role: "system" | "developer" | "user" | "assistant" | "tool" | (string & {});
  content?: string | ContentPart[] | null | undefined;
  /** On an assistant message: the calls the model asks for. */
  tool_calls?: ToolCall[] | null | undefined;
  /** On a tool message: the call it answers. */
  tool_call_id?: string | undefined;
  [field: string]: unknown;
}

/** A part of a message's content, such as `{ type: "text", text }` or an image. */
export interface ContentPart {
  type: string;
  [field: string]: unknown;
}

/** A call in an assistant message. `arguments` is JSON text. */
export interface ToolCall {
  id?: string | undefined;
  type?: string | undefined;
  function: { name: string; arguments: string; [field: string]: unknown };
  [field: string]: unknown;
}

/** Token counts as a server sends them; servers add numbers and details of their own. */
export interface Usage {
  prompt_tokens?: number | undefined;
  completion_tokens?: number | undefined;
  total_tokens?: number | undefined;
  [field: string]: unknown;
}

/** What `call` returns: an assistant message, and beside it what the loop takes off before keeping the message. */
export interface Reply extends Message {
  finish_reason?: string | null | undefined;
  usage?: Usage | null | undefined;
}

/** A piece of a reply's text, or of the model's reasoning, as it arrives. */
export interface Delta {
  type: "text" | "reasoning" | (string & {});
  text: string;
}

/** A tool as the model is told of it, in the shape of Chat Completions' `tools`. `parameters` is a JSON Schema. */
export interface ToolDefinition {
  readonly type: "function";
  readonly function: { readonly name: string; readonly description?: string; readonly parameters: Readonly<Record<string, unknown>> };
}

/**
 * The model: an adapter to a server's API, a function around any client, or a fake in a test. A streaming call is an
 * async generator that yields deltas and **returns** the reply. What it throws ends the run, its state unchanged.
 *
 * `messages` is the call's own array; the messages in it are frozen, and the same objects at every step, so that an
 * adapter can keep what it made of each. `step` says which model call of the conversation this is, from 1.
 */
export type Call = (
  messages: Message[],
  tools: readonly ToolDefinition[],
  context: { signal: AbortSignal; step: number },
) => PromiseLike<Reply | AsyncGenerator<Delta, Reply>> | AsyncGenerator<Delta, Reply>;

const ROLES = ["system", "developer", "user", "assistant", "tool"];

/** A frozen copy of a message that came from outside, checked. */
export function keepMessage(code: AgentErrorCode, where: string, given: unknown): Message {
  const message = (keepChecked(code, where, given) ?? {}) as Message;
  const { role, content, tool_calls: calls, tool_call_id: answers } = message;
  const must = (field: string, be: string): AgentError => new AgentError(code, `${where}.${field} must be ${be}`);
  if (!ROLES.includes(role)) throw must("role", `one of ${ROLES.join(", ")}`);
  if (role === "tool" && typeof answers !== "string") throw must("tool_call_id", "a string");
  if (Array.isArray(content)) {
    const bad = content.findIndex((part: unknown) => typeof part !== "string" && !isObject(part));
    if (bad >= 0) throw must(`content[${bad}]`, "a part, an object with a type");
  } else if (typeof (content ?? "") !== "string") throw must("content", "a string, an array of parts or null");
  if (calls === undefined || calls === null) return message;
  if (!Array.isArray(calls) || role !== "assistant") throw must("tool_calls", "an array, on an assistant message");
  const bad = calls.findIndex((call) => typeof call?.function?.name !== "string");
  if (bad >= 0) throw must(`tool_calls[${bad}].function.name`, "a string");
  return message;
}

/** A message's text: the string, or its text parts joined; null if there is none. */
export function textOf({ content }: Message): string | null {
  if (!Array.isArray(content)) return content ?? null;
  const texts = content.map((part: ContentPart | string) => (typeof part === "string" ? part : part.type === "text" ? String(part["text"] ?? "") : ""));
  return texts.join("") || null;
}

/** A call as it was read from a reply: with an id of its own, and with its arguments or why it can't run. */
export interface ReadCall {
  id: string;
  tool: string;
  args: Readonly<Args>;
  error: string | undefined;
}

/**
 * The ids of a conversation's calls. Each names one call and no other, now and later: a second one of that id would share
 * its result and its approval. Decisions name the call `b` inside of the call `a` by `a/b`, so that none is inside of another.
 */
export class CallIds {
  readonly #all = new Set<string>();
  /** What stands before the slashes of those that have some. */
  readonly #outer = new Set<string>();

  /** Takes an id, unless it could be taken for another one, or is none that `decisions[id] = …` can hold. */
  take(id: string): boolean {
    if (id === "" || id === "__proto__" || this.#all.has(id) || this.#outer.has(id)) return false;
    const outer: string[] = [];
    for (let at = id.indexOf("/"); at >= 0; at = id.indexOf("/", at + 1)) {
      outer.push(id.slice(0, at));
      if (this.#all.has(id.slice(0, at)) || this.#outer.size + outer.length > MAX_OUTER) return false;
    }
    this.#all.add(id);
    for (const one of outer) this.#outer.add(one);
    return true;
  }
}

/** Servers' ids have no slash, or a few; a model that gives millions must not cost their square. */
const MAX_OUTER = 100_000;

/**
 * Reads the calls of an assistant message and repairs what would make a strict server refuse every later request: an
 * empty `tool_calls` goes, each call gets a type and an id of its own, and arguments that are no JSON object become
 * `"{}"`. `ids` gets the ids; with `step`, fresh ones are deterministic.
 */
export function readCalls(message: Message, ids: CallIds, step: number): { message: Message; calls: ReadCall[] } {
  const calls: ReadCall[] = [];
  if (message.tool_calls === undefined) return { message, calls };
  let repaired = false;
  const repairs = (message.tool_calls ?? []).map((call, i) => {
    const { args, error } = parseArguments(call.function.arguments);
    let id = typeof call.id === "string" ? call.id : "";
    if (!ids.take(id)) for (id = `call_${step}_${i + 1}`; !ids.take(id); ) id += "x";
    calls.push({ id, tool: call.function.name, args, error });
    const type = typeof call.type === "string" && call.type ? call.type : "function";
    if (id === call.id && type === call.type && !error) return call;
    repaired = true;
    return { ...call, id, type, function: error ? { ...call.function, arguments: "{}" } : call.function };
  });
  if (!repaired && calls.length > 0) return { message, calls };
  const { tool_calls: _, ...rest } = message;
  return { message: keepMessage("bad-reply", "the reply", calls.length > 0 ? { ...rest, tool_calls: repairs } : rest), calls };
}

/** Reads arguments as strictly as they will be run: the whole text, one JSON object, nothing guessed or repaired. */
function parseArguments(text: unknown): Pick<ReadCall, "args" | "error"> {
  let problem = "are not a JSON object";
  try {
    const value: unknown = JSON.parse(text as string);
    if (typeof text === "string" && isObject(value)) return { args: keepArguments(value, text.length), error: undefined };
  } catch (error) {
    // The words of JSON.parse differ between engines, and a replayed run must not.
    if (!(error instanceof SyntaxError)) problem = `can't be taken: ${(error as Error).message}`;
  }
  return { args: Object.freeze({}), error: `not run: its arguments ${problem}` };
}

/**
 * A frozen copy of what can be a call's arguments, whether the model gave them or a person's edit; else a TypeError.
 * `size` is that of the text they came in; the text they are saved in may be longer.
 */
export function keepArguments(value: unknown, size?: number): Readonly<Args> {
  if (!isObject(value)) throw new TypeError("the arguments are not an object");
  const args = keep(value, MAX_ARGUMENTS_DEPTH, true) as Args;
  if ((size ?? JSON.stringify(args).length) > MAX_ARGUMENTS) throw new TypeError("the arguments are larger than 1 MiB");
  return args;
}
