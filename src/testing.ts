import type { Call, Message, Reply, ToolCall, ToolDefinition } from "./message.ts";

/** One answer of a scripted model: a text, calls, a whole reply, an error to throw, or a function of the messages. */
export type Scripted = string | ToolCall | readonly ToolCall[] | Reply | Error | ((messages: Message[]) => Scripted | Promise<Scripted>);

/** What a scripted model was asked. */
export interface ScriptRequest {
  messages: Message[];
  tools: readonly ToolDefinition[];
}

/** A scripted model: hand it to `agent()` as `call`. */
export type Script = Call & {
  /** Every request so far, in order. */
  readonly requests: readonly ScriptRequest[];
};

/**
 * A strict fake model for unit tests. It picks its reply by the conversation, the n-th for one with n - 1 assistant
 * messages, so that a run that stops and is resumed goes on where it was. Throws if it is asked for more replies than
 * it was given, and if what it is sent is no conversation that the strictest server would take: each call answered
 * once, right after its message and in order, ids unique, arguments a JSON object.
 */
export function script(...replies: readonly Scripted[]): Script {
  const requests: ScriptRequest[] = [];
  const call = async (messages: Message[], tools: readonly ToolDefinition[]): Promise<Reply> => {
    requests.push({ messages: [...messages], tools });
    checkConversation(messages);
    const turn = messages.filter(({ role }) => role === "assistant").length;
    if (turn >= replies.length) throw new Error(`script: asked for reply ${turn + 1}, but it has only ${replies.length}`);
    let reply = replies[turn] as Scripted;
    while (typeof reply === "function") reply = await reply(messages);
    if (reply instanceof Error) throw reply;
    if (typeof reply === "string") return { role: "assistant", content: reply };
    if (!Array.isArray(reply) && "role" in reply) return reply as Reply;
    const calls = (Array.isArray(reply) ? reply : [reply]) as ToolCall[];
    return { role: "assistant", content: null, tool_calls: calls.map((toolCall, i) => ({ ...toolCall, id: toolCall.id ?? `call_${turn + 1}_${i + 1}` })) };
  };
  return Object.assign(call, { requests });
}

/**
 * A call for a scripted reply. `args` as a string are the arguments' text as it is, so that broken ones can be tested.
 * Without an `id` the script gives one: `call_<turn>_<place>`, both from 1.
 */
export function toolCall(name: string, args: unknown = {}, id?: string): ToolCall {
  const call: ToolCall = { type: "function", function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) } };
  return id === undefined ? call : { id, ...call };
}

/** All steps of a run. Throws what the run throws. */
export async function collect<S>(run: AsyncIterable<S>): Promise<S[]> {
  const steps: S[] = [];
  for await (const step of run) steps.push(step);
  return steps;
}

function checkConversation(messages: readonly Message[]): void {
  const ids = new Set<string>();
  let waiting: (string | undefined)[] = [];
  messages.forEach((message, i) => {
    const fail = (what: string): never => {
      throw new Error(`script: messages[${i}] ${what}; a strict server refuses this conversation`);
    };
    if (message.role === "tool") {
      if (message.tool_call_id !== waiting[0] || waiting.length === 0) {
        fail(`answers ${JSON.stringify(message.tool_call_id)}, but the call to answer next is ${JSON.stringify(waiting[0]) ?? "none"}`);
      }
      if (typeof message.content !== "string" && !Array.isArray(message.content)) fail("is a tool message without content");
      waiting = waiting.slice(1);
      return;
    }
    if (waiting.length > 0) fail(`comes before call ${JSON.stringify(waiting[0])} is answered`);
    if (!["system", "developer", "user", "assistant"].includes(message.role)) fail(`has the role ${JSON.stringify(message.role)}`);
    if (message.tool_calls === undefined) return;
    if (!Array.isArray(message.tool_calls) || message.tool_calls.length === 0) fail("has empty tool_calls");
    waiting = (message.tool_calls ?? []).map((call) => {
      if (!call.id || ids.has(call.id)) fail(`has a call without an id of its own: ${JSON.stringify(call.id)}`);
      ids.add(call.id as string);
      if (call.type !== "function") fail("has a call without a type");
      let args: unknown;
      try {
        args = JSON.parse(call.function.arguments);
      } catch {
        // Then it is no object either.
      }
      if (typeof args !== "object" || args === null || Array.isArray(args)) fail(`has a call whose arguments are no JSON object: ${call.function.arguments}`);
      return call.id;
    });
  });
  if (waiting.length > 0) throw new Error(`script: call ${JSON.stringify(waiting[0])} is not answered; a strict server refuses this conversation`);
}
