import { createHash } from "node:crypto";
import type { Args, Call, Message, Reply, ToolCall } from "yieldagent";
import { anthropic } from "yieldagent/anthropic";
import { openai } from "yieldagent/openai";

/**
 * The model to use: a real one where the environment has a key or a server for it, named by `MODEL`; else the stand-in.
 * To the loop a model is a function from messages to a reply.
 */
export function chooseModel({ OPENAI_API_KEY: apiKey, OPENAI_BASE_URL: baseURL, ANTHROPIC_API_KEY: anthropicKey, MODEL }: Readonly<Record<string, string | undefined>>, standIn: Call): { call: Call; name?: string } {
  if (apiKey || baseURL) {
    const name = MODEL || "gpt-4o-mini";
    return { call: openai({ model: name, apiKey: apiKey || "", baseURL: baseURL || undefined }), name };
  }
  if (anthropicKey) {
    const name = MODEL || "claude-sonnet-4-5";
    return { call: anthropic({ model: name, apiKey: anthropicKey }), name };
  }
  return { call: standIn };
}

/** A call of the conversation, with the arguments it was really made with, and what came of it. */
export interface Made {
  tool: string;
  args: Args;
  result?: unknown;
  error?: string;
}

export function callsIn(messages: readonly Message[]): Made[] {
  const answers = new Map(messages.map((message) => [message.tool_call_id, String(message.content)]));
  return messages.flatMap((message) => message.tool_calls ?? []).map(({ id, function: { name, arguments: asked } }) => {
    // The loop tells the model of a person's edit after the result.
    const [, text = "", edited] = /^(.*?)(?:\n\n\(The arguments were changed to (.*)\))?$/s.exec(answers.get(id) ?? "") ?? [];
    const made = { tool: name, args: Object(parse(edited ?? asked)) as Args };
    return text.startsWith("Error: ") ? { ...made, error: text.slice("Error: ".length) } : { ...made, result: parse(text) };
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text; // a result that is a string is given to the model as it is
  }
}

/** Its id is made of what it does: an approval that was given in one run can't fit another call in the next. */
export function call(name: string, args: Args): ToolCall {
  const text = JSON.stringify(args);
  const id = `${name}-${createHash("sha256").update(text).digest("hex").slice(0, 8)}`;
  return { id, type: "function", function: { name, arguments: text } };
}

export function ask(content: string, toolCalls: ToolCall[]): Reply {
  return { role: "assistant", content, tool_calls: toolCalls, finish_reason: "tool_calls" };
}

export function say(content: string): Reply {
  return { role: "assistant", content, finish_reason: "stop" };
}
