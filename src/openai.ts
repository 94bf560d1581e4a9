import { ask, hand, type ReplyReader, server, type ServerOptions } from "./http.ts";
import { isObject } from "./json.ts";
import { type Call, type ContentPart, type Delta, type Message, type Reply, textOf, type ToolCall, type ToolDefinition, type Usage } from "./message.ts";
import { errorIn, ModelError, parsed, WORDLESS } from "./model-error.ts";
import { argumentsOf, counted, definitions, fittingId, fittingName, jsonText, transcript } from "./request.ts";

export { ModelError };

/** What `openai()` takes: where the server is, and what to ask of it. */
export interface OpenAIOptions extends ServerOptions {
  /** Default: the environment's `OPENAI_BASE_URL`, else `https://api.openai.com/v1`. */
  baseURL?: string | undefined;
  /** Default: the environment's `OPENAI_API_KEY`. Local servers need none. */
  apiKey?: string | undefined;
}

const PATH = "/chat/completions";

/**
 * The model behind any server that speaks Chat Completions (https://platform.openai.com/docs/api-reference/chat):
 * `agent({ call: openai({ model, baseURL }), … })`. The reply is the server's message with its calls and its reasoning;
 * each request sends of the conversation what this server takes.
 *
 * Throws `AgentError` `bad-options` for wrong options. The call throws `ModelError`, and the signal's reason.
 */
export function openai(options: OpenAIOptions): Call {
  const target = server("openai", options, {}, "https://api.openai.com/v1", (base) => base + PATH, (key) => ({ authorization: `Bearer ${key}` }));
  const source = target.url.host + target.url.pathname.slice(0, -PATH.length);
  const write = writer(source, options.model);
  const { tools: ownTools, messages: _, ...body }: Record<string, unknown> = {
    model: options.model,
    ...(target.stream && { stream: true, stream_options: { include_usage: true } }),
    ...options.body,
  };
  // Mistral counts tokens unasked, and refuses to be asked.
  const asksUsage = target.stream && !("stream_options" in { ...options.body });
  if (asksUsage && source.includes("mistral.ai")) delete body["stream_options"];
  const toolsText = definitions(ownTools);

  const request = (messages: readonly Message[], tools: readonly ToolDefinition[]): string => {
    const told = toolsText(tools);
    const { tool_choice: __, parallel_tool_calls: ___, ...bare } = body;
    return `${jsonText(told ? body : bare).slice(0, -1)},"messages":[${write(messages)}]${told && `,"tools":${told}`}}`;
  };
  // Others that refuse it say so, once.
  const revise = ({ status, message }: ModelError): boolean =>
    asksUsage && (status === 400 || status === 422) && message.includes("stream_options") && "stream_options" in body && delete body["stream_options"];
  const stream = (messages: readonly Message[], tools: readonly ToolDefinition[], signal: AbortSignal): AsyncGenerator<Delta, Reply> =>
    ask(target, () => request(messages, tools), () => new ChatReader(source), messages, signal, revise);
  return target.stream
    ? (messages, tools, { signal }) => stream(messages, tools, signal)
    : async (messages, tools, { signal }) => (await stream(messages, tools, signal).next()).value as Reply;
}

/** The fields that reasoning comes in. Servers that send several repeat the text: only the first of these is read, or goes back. */
const REASONING = ["reasoning_details", "reasoning_content", "reasoning", "reasoning_text"];
/** Where Gemini's thought signatures are: beside a call, or beside the message. */
const SIGNATURES = ["extra_content", "thought_signature"];
/** What else of a message is kept: sources, pictures. */
const LISTS = ["annotations", "images"];

/**
 * Writes messages as a server takes them: of each the fields that all servers know, and fields of its own only back to
 * the server that sent them, for strict servers refuse what they don't know.
 */
function writer(source: string, model: string): (messages: readonly Message[]) => string {
  const is = (servers: RegExp): boolean => servers.test(source);
  const ids = is(/mistral\.ai/) ? /^[a-zA-Z0-9]{9}$/ : is(/openai\.com|azure\.com/) ? /^[^]{1,40}$/ : /^/;
  const knowsDeveloper = is(/openai\.com|azure\.com/);
  const wantsContent = is(/deepseek|mistral|ollama|:11434/);
  const isGoogle = is(/googleapis\.com/);
  const signsCalls = isGoogle && !/gemini-[12]\b/.test(model);
  // A conversation of before this adapter says of no field who sent it.
  const takesReasoning = is(/deepseek|moonshot|z\.ai|bigmodel|openrouter/);
  // The first DeepSeek R1 refuses its own reasoning. Later models, and Kimi, once thinking want the field in every turn.
  const isR1 = /deepseek.*\br1\b/i.test(model);
  const wantsAllReasoning = /deepseek|moonshot|kimi/i.test(source + model) && !isR1;
  const alwaysThinks = is(/deepseek|moonshot/) && /reasoner|think|v4|k2\.[5-9]/i.test(model);

  const isOwn = (message: Message): boolean => message["source"] === source;
  const reasoningOf = (message: Message): string | undefined =>
    isR1 || !(isOwn(message) || (takesReasoning && message["source"] === undefined)) ? undefined : REASONING.find((field) => message[field]);

  const assistant = (message: Message, thinks: boolean): Message[] => {
    const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: args }, extra_content: extra }): ToolCall => ({
      id: fittingId(id, ids), type: "function", function: { name: fittingName(name), arguments: argumentsOf(args) ? args : "{}" },
      ...(extra !== undefined && (isOwn(message) || (isGoogle && message["source"] === undefined)) && { extra_content: extra }),
    }));
    const text = textOf(message) || (typeof message["refusal"] === "string" ? message["refusal"] : "");
    let content: Message["content"] = text;
    if (isOwn(message) && Array.isArray(message.content)) content = message.content;
    else if (text === "" && wantsContent) content = "";
    else if (text === "") content = Array.isArray(message.content) ? null : message.content;
    // Strict servers refuse an empty turn.
    if (calls.length === 0 && !content?.length) return [];
    const written: Message = { role: "assistant", content };
    const field = reasoningOf(message);
    if (field) written[field] = message[field];
    else if (thinks) written["reasoning_content"] = "";
    for (const name of isOwn(message) ? SIGNATURES : []) if (message[name] !== undefined) written[name] = message[name];
    if (calls.length === 0) return [written];
    const [first] = calls;
    // Google's word for a call that another model made, and that so has no signature.
    if (first && signsCalls && !written["extra_content"] && !calls.some((call) => call["extra_content"])) first["extra_content"] = { google: { thought_signature: "skip_thought_signature_validator" } };
    return [{ ...written, tool_calls: calls }];
  };

  const write = transcript((messages, variant) => {
    const written: Message[] = [];
    /** What tool messages hold beside text: no server takes it there. */
    let media: ContentPart[] = [];
    for (const message of messages) {
      const { role, content, name } = message;
      if (role !== "tool" && media.length > 0) {
        written.push({ role: "user", content: media });
        media = [];
      }
      if (role === "assistant") written.push(...assistant(message, variant === "thinks"));
      else if (role === "user") written.push({ role, content: Array.isArray(content) ? content.map(partOf) : content, ...(name !== undefined && { name }) });
      else if (role !== "tool") written.push({ role: role === "developer" && !knowsDeveloper ? "system" : role, content: textOf(message) ?? "" });
      else {
        written.push({ role, tool_call_id: fittingId(message.tool_call_id, ids), content: textOf(message) ?? "" });
        if (Array.isArray(content)) media.push(...content.filter((part) => isObject(part) && part.type !== "text"));
      }
    }
    if (media.length > 0) written.push({ role: "user", content: media });
    return written;
  });
  return (messages) => write(messages, wantsAllReasoning && (alwaysThinks || messages.some((message) => reasoningOf(message) === "reasoning_content")) ? "thinks" : "");
}

/** The fields of a call that all servers have; and one that nobody may set. */
const CALL = ["index", "id", "type", "function", "__proto__"];
/** Finish reasons that say that the reply was cut off, in other words. */
const CUT_OFF = /^(length|max_tokens|model_length)$/;

/** A part of content; a text may stand by itself. */
function partOf(part: unknown): ContentPart {
  return isObject(part) ? (part as ContentPart) : { type: "text", text: String(part) };
}

/** A call as it is being put together; `others` are the server's own fields. */
interface Assembled {
  id: string;
  name: string;
  args: string;
  readonly others: Record<string, unknown>;
}

/** Puts a reply together, from the chunks of a stream or from a whole body. */
class ChatReader implements ReplyReader {
  ended = false;
  readonly #source: string;
  readonly #message: Message = { role: "assistant" };
  readonly #calls: Assembled[] = [];
  readonly #byIndex = new Map<unknown, Assembled>();
  /** The last finish reason that wasn't empty: some servers send two, or one with each call. */
  #finish: string | undefined;
  #usage: Usage | undefined;
  #answered = false;

  constructor(source: string) {
    this.#source = source;
  }

  get complete(): boolean {
    return this.#finish !== undefined || (this.ended && this.#answered);
  }

  done(): void {
    this.ended = true;
  }

  event(event: unknown, deltas: Delta[]): void {
    const choice = this.#choice(event);
    if (choice) this.#add(Object(choice["delta"]) as Record<string, unknown>, deltas, false);
  }

  whole(body: unknown, deltas: Delta[]): void {
    const choice = this.#choice(Array.isArray(body) ? body[0] : body);
    if (!choice) throw errorIn(body) ?? new ModelError("the answer has no choices: is baseURL that of a Chat Completions API?");
    this.#add(Object(choice["message"]) as Record<string, unknown>, deltas, true);
    this.ended = true;
  }

  /** The choice that is the reply; and what stands beside it is read. */
  #choice(event: unknown): Record<string, unknown> | undefined {
    const { error, choices, usage, object, type } = Object(event) as Record<string, unknown>;
    const choice = (Array.isArray(choices) ? choices.find((one: unknown) => isObject(one) && !one["index"]) : undefined) as Record<string, unknown> | undefined;
    // Some errors are events of their own, some stand in a chunk or its choice, and some servers send them flat.
    const wrong = error || choice?.["error"];
    if (wrong || object === "error" || type === "error") throw errorIn({ ...(event as object), error: wrong }) ?? new ModelError(WORDLESS);
    this.#usage = counted(this.#usage, usage ?? choice?.["usage"]);
    if (!choice) return undefined;
    this.#answered = true;
    const finish = choice["finish_reason"];
    if (typeof finish === "string" && finish) this.#finish = finish;
    return choice;
  }

  #add(delta: Record<string, unknown>, deltas: Delta[], whole: boolean): void {
    const message = this.#message;
    let reasoning = "";
    let text = "";
    for (const field in delta) {
      const piece = delta[field];
      if (field === "content") {
        if (typeof piece === "string" && piece !== "" && !Array.isArray(message.content)) message.content = (message.content ?? "") + (text = piece);
        else if (piece === "" || piece === null) message.content ??= piece;
        else for (const part of [piece].flat()) {
          const entry = partOf(part);
          if (entry.type === "text") text += spoken(entry);
          else reasoning += spoken(entry);
          if (!Array.isArray(message.content)) message.content = message.content ? [{ type: "text", text: message.content }] : [];
          addTo(message.content, entry, whole);
        }
      } else if (field === "tool_calls") {
        if (Array.isArray(piece)) for (const part of piece) if (isObject(part)) this.#call(part, whole);
      } else if (REASONING.includes(field) || field === "refusal") {
        const before = message[field];
        if (typeof piece === "string" && piece !== "" && !Array.isArray(before)) message[field] = ((before as string | undefined) ?? "") + piece;
        else if (Array.isArray(piece) && piece.length > 0 && typeof before !== "string") for (const entry of piece) addTo((message[field] ??= []) as unknown[], entry, whole);
        if (field !== "refusal") reasoning ||= spoken(piece);
        else text ||= spoken(piece);
      } else if (LISTS.includes(field) && Array.isArray(piece)) ((message[field] ??= []) as unknown[]).push(...piece);
      else if (SIGNATURES.includes(field) && piece) message[field] = piece;
    }
    hand(deltas, "reasoning", reasoning);
    hand(deltas, "text", text);
  }

  /** A call or a piece of one: in a stream servers send both, and don't say which. */
  #call(piece: Record<string, unknown>, whole: boolean): void {
    const { index, id } = piece;
    const { name, arguments: args } = Object(piece["function"]) as Record<string, unknown>;
    const isIndexed = index !== undefined && index !== null;
    let call: Assembled | undefined;
    if (!whole && isIndexed) {
      call = this.#byIndex.get(index);
      // Some servers give all calls of a reply the index 0.
      if (id && call?.id && call.id !== id && name) call = this.#calls.find((one) => one.id === id);
    } else if (!whole && id) call = this.#calls.find((one) => one.id === id);
    else if (!whole && !(name && this.#calls.at(-1)?.name)) call = this.#calls.at(-1);
    if (!call) {
      this.#calls.push((call = { id: "", name: "", args: "", others: {} }));
      if (isIndexed) this.#byIndex.set(index, call);
    }
    // Later pieces repeat the id and the name, or have empty ones.
    if (typeof id === "string") call.id ||= id;
    if (typeof name === "string") call.name ||= name;
    call.args += typeof args === "string" ? args : args === undefined || args === null ? "" : JSON.stringify(args);
    for (const field in piece) if (!CALL.includes(field) && piece[field] !== null) call.others[field] = piece[field];
  }

  reply(): Reply {
    const { content, ...message } = this.#message;
    const finish = CUT_OFF.test(this.#finish ?? "") ? "length" : this.#finish;
    // No arguments are an empty object, unless they were cut off.
    const isCut = /length|exceeded/.test(finish ?? "");
    const calls = this.#calls.filter(({ name, args }) => name || args).map(({ id, name, args, others }): ToolCall => ({ ...others, id, type: "function", function: { name, arguments: isCut ? args : plain(args) } }));
    const isOfItsOwn = Array.isArray(content) || [...REASONING, ...SIGNATURES].some((field) => field in message) || calls.some((call) => call["extra_content"]);
    return {
      ...message,
      ...(content !== undefined && { content }),
      ...(calls.length > 0 && { tool_calls: calls }),
      // So that what only this server takes goes back to it, and to no other.
      ...(isOfItsOwn && { source: this.#source }),
      finish_reason: finish ?? (calls.length > 0 ? "tool_calls" : "stop"),
      ...(this.#usage && { usage: this.#usage }),
    } as Reply;
  }
}

/** Arguments in the one form that is valid: none at all are an empty object, and some servers wrap the text into JSON once more. */
function plain(args: string): string {
  const inner = /^\s*"/.test(args) && parsed(args);
  return typeof inner === "string" && argumentsOf(inner) ? inner : args.trim() === "" ? "{}" : args;
}

/** The text in a piece of content or reasoning, whichever of its shapes it has. */
function spoken(piece: unknown): string {
  if (typeof piece === "string") return piece;
  if (Array.isArray(piece)) return piece.map(spoken).join("");
  return isObject(piece) ? spoken(piece["text"] ?? piece["thinking"] ?? piece["summary"]) : "";
}

/** Adds an entry to a list. In a stream it may go on with the entry that is there, and come without what was said before. */
function addTo(list: unknown[], piece: unknown, whole: boolean): void {
  const { index, type, id, ...fields } = Object(piece) as Record<string, unknown>;
  const continues = (entry: unknown): boolean => isObject(entry) && entry["index"] === index && entry["type"] === type && !(id && entry["id"] && entry["id"] !== id);
  const entry = (index === undefined ? list.slice(-1) : list).find(continues) as Record<string, unknown> | undefined;
  if (whole || !entry) {
    list.push(piece);
    return;
  }
  if (id) entry["id"] ??= id;
  for (const [field, value] of Object.entries(fields)) {
    const before = entry[field];
    if (Array.isArray(value) && Array.isArray(before)) for (const inner of value) addTo(before, inner, whole);
    else if (typeof value === "string" && typeof before === "string" && /^(text|summary|data|thinking)$/.test(field)) entry[field] = before + value;
    else if (value !== null && value !== "" && field !== "__proto__") entry[field] = value;
  }
}
