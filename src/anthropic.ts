import { ask, hand, type ReplyReader, server, type ServerOptions } from "./http.ts";
import { isObject } from "./json.ts";
import { type Call, type Delta, type Message, type Reply, textOf, type ToolCall, type ToolDefinition, type Usage } from "./message.ts";
import { errorIn, ModelError, WORDLESS } from "./model-error.ts";
import { argumentsOf, counted, definitions, fittingId, fittingName, jsonText, transcript } from "./request.ts";

export { ModelError };

/** What `anthropic()` takes: where the server is, and what to ask of it. */
export interface AnthropicOptions extends ServerOptions {
  /** Default: the environment's `ANTHROPIC_BASE_URL`, else `https://api.anthropic.com`. */
  baseURL?: string | undefined;
  /** Default: the environment's `ANTHROPIC_API_KEY`. */
  apiKey?: string | undefined;
  /** Tokens that a reply may have, thinking included. Default 8,192. */
  maxTokens?: number | undefined;
  /** `true`: the tools, the system message and the conversation so far are marked for the prompt cache. Default `false`. */
  cache?: boolean | undefined;
}

/** A block of content, as the Messages API has it. */
type Block = Record<string, unknown>;

/** Sends of a long turn of the server's own tools, before the run is told of it as it is. */
const MAX_TURNS = 20;

/**
 * A model behind the Messages API (https://docs.anthropic.com/en/api/messages): `agent({ call: anthropic({ model }), … })`.
 * The conversation stays in the shape of Chat Completions; what a message in that shape can't hold (thinking with its
 * signatures, the server's own tools and their results) is kept beside it, under `anthropic`, and goes back as it came.
 *
 * Throws `AgentError` `bad-options` for wrong options. The call throws `ModelError`, and the signal's reason.
 */
export function anthropic(options: AnthropicOptions): Call {
  const target = server("anthropic", options, { maxTokens: "number", cache: "boolean" }, "https://api.anthropic.com", (base) => `${base.replace(/\/v1$/, "")}/v1/messages`, (key) => ({ "x-api-key": key }));
  if (!target.headers.has("anthropic-version")) target.headers.set("anthropic-version", "2023-06-01");
  const { model, maxTokens = 8192, cache = false } = options;
  const { tools: ownTools, system: ownSystem, messages: _, ...body }: Record<string, unknown> = { model, max_tokens: maxTokens, ...(target.stream && { stream: true }), ...options.body };
  const mark = (list: readonly unknown[]): readonly unknown[] => (cache ? [...list.slice(0, -1), { ...(list.at(-1) as object), cache_control: { type: "ephemeral" } }] : list);
  const toolsText = definitions(ownTools, (tools) => mark(tools.map(toolOf)));
  const write = transcript((messages, __, open) => {
    const written = turns(messages, model);
    const last = written.at(-1);
    return open && last ? [...written.slice(0, -1), { ...last, content: mark(last.content) }] : written;
  });

  /** `begun`: the blocks of a reply that the server has paused. */
  const request = (messages: readonly Message[], tools: readonly ToolDefinition[], begun: readonly Block[]): string => {
    const told = toolsText(tools);
    const { tool_choice: __, ...bare } = body;
    const system = [ownSystem, ...messages.filter(isSystem).map(({ content }) => content)].flatMap(blocksOf);
    const head = { ...(told ? body : bare), ...(system.length > 0 && { system: mark(system) }) };
    const more = turns([{ role: "assistant", anthropic: { model, content: begun } }], model).map((turn) => `,${jsonText(turn)}`);
    return `${jsonText(head).slice(0, -1)}${told && `,"tools":${told}`},"messages":[${write(messages.some(isSystem) ? messages.filter((message) => !isSystem(message)) : messages)}${more.join("")}]}`;
  };

  async function* converse(messages: readonly Message[], tools: readonly ToolDefinition[], signal: AbortSignal): AsyncGenerator<Delta, Reply> {
    let all: Answer = { blocks: [], calls: [], usage: {} };
    for (let turn = 1; ; turn++) {
      const { blocks, calls, usage, stop } = yield* ask(target, () => request(messages, tools, all.blocks), () => new MessageReader(), messages, signal);
      all = { blocks: [...all.blocks, ...blocks], calls: [...all.calls, ...calls], usage: turn === 1 ? usage : sum(all.usage, usage), stop };
      if (stop !== "pause_turn" || turn === MAX_TURNS) return replyOf(all, model);
    }
  }
  return target.stream
    ? (messages, tools, { signal }) => converse(messages, tools, signal)
    : async (messages, tools, { signal }) => (await converse(messages, tools, signal).next()).value as Reply;
}

function isSystem({ role }: Message): boolean {
  return role === "system" || role === "developer";
}

/** A tool in the shape of the Messages API; the server's own tools are in it already. */
function toolOf(tool: unknown): unknown {
  const { function: definition } = tool as Partial<ToolDefinition>;
  if (!definition) return tool;
  const { name, description, parameters } = definition;
  return { name, ...(description && { description }), input_schema: { type: "object", ...parameters } };
}

interface Turn {
  role: "user" | "assistant";
  content: readonly Block[];
}

/** Messages as turns of blocks. All results of a reply go into one user turn, and before any text. */
function turns(messages: readonly Message[], model: string): Turn[] {
  const written: Turn[] = [];
  for (const message of messages) {
    const isAssistant = message.role === "assistant";
    const content = isAssistant ? assistantBlocks(message, model) : message.role === "tool" ? [resultBlock(message)] : blocksOf(message.content);
    const last = written.at(-1);
    if (!isAssistant && last?.role === "user") last.content = [...last.content, ...content];
    else if (content.length > 0) written.push({ role: isAssistant ? "assistant" : "user", content });
  }
  return written;
}

const IDS = /^[a-zA-Z0-9_-]+$/;

function assistantBlocks(message: Message, model: string): Block[] {
  const calls = message.tool_calls ?? [];
  const own = message["anthropic"] as { model?: unknown; content?: unknown } | undefined;
  if (!Array.isArray(own?.content)) {
    const text = textOf(message)?.trimEnd() || message["refusal"];
    return [...blocksOf(text), ...calls.map(({ id, function: { name, arguments: args } }) => ({ type: "tool_use", id: fittingId(id, IDS), name: fittingName(name), input: argumentsOf(args) ?? {} }))];
  }
  const blocks = (own.content as Block[]).filter(({ type, signature, text }) => {
    // A signature is valid for the model that made it, and thinking that was cut off has none.
    if (type === "thinking") return own.model === model && signature;
    if (type === "redacted_thinking") return own.model === model;
    return type !== "text" || !isBlank(text);
  });
  // The loop may have given a call another id than the model did.
  let called = 0;
  return blocks.map((block) => (block["type"] === "tool_use" ? { ...block, id: fittingId(calls[called++]?.id ?? block["id"], IDS), name: fittingName(String(block["name"])) } : block));
}

function resultBlock({ tool_call_id: id, content }: Message): Block {
  const blocks = blocksOf(content);
  const text = textOf({ role: "tool", content }) ?? "";
  return {
    type: "tool_result", tool_use_id: fittingId(id, IDS),
    ...(blocks.length > 0 && { content: typeof content === "string" ? content : blocks }),
    // This is how the loop's error results begin.
    ...(text.startsWith("Error: ") && { is_error: true }),
  };
}

function isBlank(text: unknown): boolean {
  return typeof text !== "string" || text.trim() === "";
}

/** Content as blocks. Text without a visible character is refused. */
function blocksOf(content: unknown): Block[] {
  const parts: unknown[] = Array.isArray(content) ? content : [content];
  return parts.flatMap((part): Block[] => {
    const block = typeof part === "string" ? { type: "text", text: part } : (part as Block | null | undefined);
    if (!isObject(block) || (block["type"] === "text" && isBlank(block["text"]))) return [];
    if (block["type"] !== "image_url") return [block];
    const image = block["image_url"] as string | { url?: unknown } | undefined;
    const url = String(isObject(image) ? image["url"] : image);
    const [, media_type, data] = /^data:([^;,]+)[^,]*;base64,([^]*)$/.exec(url) ?? [];
    return [{ type: "image", source: data === undefined ? { type: "url", url } : { type: "base64", media_type, data } }];
  });
}

/** What came of a request. */
interface Answer {
  blocks: Block[];
  calls: ToolCall[];
  usage: Usage;
  stop?: string | undefined;
}

/** The stop reasons in the words of Chat Completions; others stay as they are. */
const FINISH = new Map([["end_turn", "stop"], ["stop_sequence", "stop"], ["tool_use", "tool_calls"], ["max_tokens", "length"], ["refusal", "content_filter"]]);

function replyOf({ blocks, calls, usage, stop = "end_turn" }: Answer, model: string): Reply {
  const texts = blocks.filter(({ type }) => type === "text").map(({ text }) => String(text ?? ""));
  const count = (field: string): number => Number(usage[field]) || 0;
  const prompt = count("input_tokens") + count("cache_creation_input_tokens") + count("cache_read_input_tokens");
  return {
    role: "assistant",
    content: texts.join("") || null,
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(!isPlain(blocks) && { anthropic: { model, content: blocks } }),
    finish_reason: FINISH.get(stop) ?? stop,
    usage: { ...usage, prompt_tokens: prompt, completion_tokens: count("output_tokens"), total_tokens: prompt + count("output_tokens") },
  } as Reply;
}

/** Whether blocks are a text and then calls: these are made of the message as it is. */
function isPlain(blocks: readonly Block[]): boolean {
  return blocks.every(({ type, citations, caller }, i) =>
    (type === "text" && i === 0 && !(citations as unknown[] | null | undefined)?.length) || (type === "tool_use" && ((caller as Block | undefined)?.["type"] ?? "direct") === "direct"));
}

function sum(a: Usage, b: Usage): Usage {
  return Object.fromEntries(Object.entries({ ...a, ...b }).map(([field, count]) => [field, typeof count === "number" && typeof a[field] === "number" && field in b ? a[field] + count : count]));
}

/** Puts an answer together, from the events of a stream or from a whole body. */
class MessageReader implements ReplyReader<Answer> {
  ended = false;
  #stop: string | undefined;
  #usage: Usage | undefined;
  #id: unknown;
  /** A block has begun and not ended. */
  #open = false;
  readonly #blocks = new Map<unknown, Block>();
  /** The text of a tool's input so far, by block. */
  readonly #inputs = new Map<Block, string>();

  get complete(): boolean {
    return this.ended || this.#stop !== undefined;
  }

  // Some gateways send it after the end.
  done(): void {}

  event(event: unknown, deltas: Delta[]): void {
    // What an event is stands in its data: some gateways leave its name out.
    const { type, error, index, message, content_block: block, delta, usage } = Object(event) as Record<string, unknown>;
    if (error || type === "error") throw errorIn(event) ?? new ModelError(WORDLESS);
    const piece = Object(delta) as Block;
    if (type === "message_start") {
      const { id, usage: first } = Object(message) as Block;
      // Some proxies ask again in the middle: if the message begins anew, what came before is no part of it.
      if (this.#open || (this.#id && id && id !== this.#id)) this.#blocks.clear();
      this.#id = id;
      this.#open = false;
      this.#usage = counted(this.#usage, first);
    } else if (type === "content_block_start" && isObject(block)) {
      if (this.#blocks.has(index)) this.#blocks.clear();
      this.#blocks.set(index, { ...block });
      this.#open = true;
      this.#hand(block, deltas);
    } else if (type === "content_block_stop") this.#open = false;
    else if (type === "content_block_delta") this.#add(this.#blocks.get(index), piece, deltas);
    else if (type === "message_delta") {
      if (typeof piece["stop_reason"] === "string") this.#stop = piece["stop_reason"];
      this.#usage = counted(this.#usage, usage);
    } else if (type === "message_stop") this.ended = true;
  }

  whole(body: unknown, deltas: Delta[]): void {
    const { content, stop_reason: stop, usage, error } = Object(body) as Record<string, unknown>;
    if (error || !Array.isArray(content)) throw errorIn(body) ?? new ModelError("the answer has no content: is baseURL that of a Messages API?");
    for (const [index, block] of content.entries()) {
      if (!isObject(block)) continue;
      this.#blocks.set(index, block);
      this.#hand(block, deltas);
    }
    if (typeof stop === "string") this.#stop = stop;
    this.#usage = counted(this.#usage, usage);
    this.ended = true;
  }

  #add(block: Block | undefined, { type, ...piece }: Block, deltas: Delta[]): void {
    if (!block) return;
    const { partial_json: input, citation } = piece;
    if (typeof input === "string") this.#inputs.set(block, (this.#inputs.get(block) ?? "") + input);
    else if (citation) (Array.isArray(block["citations"]) ? block["citations"] : ((block["citations"] = []) as unknown[])).push(citation);
    else {
      // Text, thinking, a signature, and whatever comes next year.
      for (const [field, value] of Object.entries(piece)) {
        if (field !== "__proto__") block[field] = typeof value === "string" && typeof block[field] === "string" ? block[field] + value : value;
      }
      this.#hand(piece, deltas);
    }
  }

  #hand({ text, thinking }: Block, deltas: Delta[]): void {
    hand(deltas, "reasoning", thinking);
    hand(deltas, "text", text);
  }

  reply(): Answer {
    const blocks = [...this.#blocks.values()];
    const calls: ToolCall[] = [];
    for (const block of blocks) {
      const { type, id, name, input = {} } = block;
      const json = this.#inputs.get(block);
      // No arguments are an empty object, unless they were cut off.
      const args = json || (json !== undefined && /max_tokens|exceeded/.test(this.#stop ?? "") ? "" : JSON.stringify(input));
      // Of what was cut off the loop gets the text, and the server, when it comes back to it, an empty object.
      if ("input" in block) block["input"] = argumentsOf(args) ?? {};
      if (type === "tool_use") calls.push({ id: String(id ?? ""), type: "function", function: { name: String(name ?? ""), arguments: args } });
    }
    return { blocks, calls, stop: this.#stop, usage: this.#usage ?? {} };
  }
}
