import { isObject, wellFormed } from "./json.ts";
import { type Message, textOf, type ToolDefinition, type Usage } from "./message.ts";
import { parsed } from "./model-error.ts";

/** What was written of a conversation, up to and with an assistant message. */
interface Written {
  readonly messages: readonly Message[];
  readonly variant: string;
  readonly text: string;
}

/**
 * Writes conversations as the JSON texts of their messages, with commas between. A request costs what is new since the
 * one before it, not the whole conversation: messages of a run are frozen and the same objects at every step, so what
 * was written up to an assistant message is kept for as long as the conversation's first message lives. `write` gets
 * whole turns: messages up to an assistant message, or, `open`, those after the last. `variant` says what else the text
 * depends on.
 */
export function transcript(write: (messages: readonly Message[], variant: string, open: boolean) => unknown[]): (messages: readonly Message[], variant?: string) => string {
  const kept = new WeakMap<Message, Written>();
  return (messages, variant = "") => {
    const [first] = messages;
    if (!first) return "";
    const before = kept.get(first);
    let from = 0;
    if (before?.variant === variant) while (from < before.messages.length && before.messages[from] === messages[from]) from++;
    const isSame = before !== undefined && from === before.messages.length;
    if (!isSame) from = 0;
    let text = isSame ? before.text : "";
    let settled = messages.length;
    while (settled > from && !isSaid(messages[settled - 1])) settled--;
    if (settled > from) {
      text = join(text, write(messages.slice(from, settled), variant, false));
      if (messages.slice(from, settled).every(Object.isFrozen)) kept.set(first, { messages: messages.slice(0, settled), variant, text });
    }
    return settled < messages.length ? join(text, write(messages.slice(settled), variant, true)) : text;
  };
}

/** Whether it is an assistant message that is surely written: one without a word may be left out, and what stands around it be one turn. */
function isSaid(message: Message | undefined): boolean {
  return message?.role === "assistant" && Boolean(message.tool_calls?.length || textOf(message)?.trim());
}

function join(text: string, more: readonly unknown[]): string {
  const rest = more.map(jsonText).join(",");
  return text && rest ? `${text},${rest}` : text + rest;
}

/** JSON text as servers take it: without unpaired surrogates, which `JSON.stringify` writes as escapes. */
export function jsonText(value: unknown): string {
  const text = JSON.stringify(value);
  if (!text.includes("\\ud")) return text;
  return JSON.stringify(value, (_, inner: unknown) => (typeof inner === "string" ? wellFormed(inner) : inner));
}

/** The arguments of a call as an object; undefined for a text that is none, which makes servers refuse the conversation for ever. */
export function argumentsOf(text: unknown): Record<string, unknown> | undefined {
  const args = parsed(text);
  return isObject(args) ? args : undefined;
}

/** A call's id as the server takes it. One of another server's that doesn't fit becomes nine letters and digits, the same each time. */
export function fittingId(id: unknown, fits: RegExp): string {
  const text = String(id);
  if (fits.test(text)) return text;
  let hash = 0n;
  for (const character of text) hash = (hash * 1_114_139n + BigInt(character.codePointAt(0) as number)) % 36n ** 9n;
  return hash.toString(36).padStart(9, "0");
}

/** A tool's name as servers take it: models make up names that they refuse to be told of again. */
export function fittingName(name: string): string {
  return name.replace(/[^\w-]/g, "_").slice(0, 64) || "unknown";
}

/** The counts so far, and what a later event says of them: those so far, not those since; null for what it doesn't know. */
export function counted(before: Usage | undefined, usage: unknown): Usage | undefined {
  return isObject(usage) ? { ...before, ...Object.fromEntries(Object.entries(usage).filter(([, count]) => count !== null)) } : before;
}

/**
 * Writes an agent's tools, and those that the caller asks for beside them, as a JSON array, once for the same ones;
 * `""` for none, since servers refuse an empty array.
 */
export function definitions(others: unknown, shape: (tools: readonly unknown[]) => readonly unknown[] = (tools) => tools): (tools: readonly ToolDefinition[]) => string {
  const more = Array.isArray(others) ? (others as unknown[]) : [];
  const kept = new WeakMap<object, string>();
  return (tools) => {
    const text = kept.get(tools) ?? (tools.length + more.length > 0 ? jsonText(shape([...tools, ...more])) : "");
    if (Object.isFrozen(tools)) kept.set(tools, text);
    return text;
  };
}
