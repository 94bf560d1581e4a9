// Judges of requests: they refuse what the strictest servers refuse, with the words of the rule.

type Body = Record<string, unknown>;
type Fields = Record<string, unknown>;

/** What a server takes beyond what all take. */
export interface Habits {
  /** Its own fields on assistant messages, and on calls. */
  fields?: readonly string[];
  callFields?: readonly string[];
  /** What ids it takes. */
  ids?: RegExp;
  /** What it takes as the content of an assistant message with calls and without text. */
  empty?: readonly (null | "" | undefined)[];
  /** A reasoning field that every assistant message must have. */
  everyTurn?: string;
  developer?: boolean;
}

class Refused extends Error {}

function refuse(what: string): never {
  throw new Refused(`a strict server refuses this: ${what}`);
}

function only(what: string, value: unknown, fields: readonly string[]): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) refuse(`${what} is no object`);
  for (const field of Object.keys(value)) if (!fields.includes(field)) refuse(`${what} has the field ${field}`);
  return value as Fields;
}

function textIn(what: string, value: unknown): string {
  if (typeof value !== "string") refuse(`${what} is no string`);
  return value;
}

/** Unpaired surrogates come as escapes. */
function checkText(text: string): Body {
  const body = JSON.parse(text) as Body;
  JSON.stringify(body, (key, value: unknown) => {
    if (typeof value === "string" && /\p{Surrogate}/u.test(value)) refuse(`${key} holds an unpaired surrogate`);
    return value;
  });
  return body;
}

function objectIn(what: string, json: unknown): void {
  let value: unknown;
  try {
    value = JSON.parse(textIn(what, json));
  } catch {
    refuse(`${what} is no JSON`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) refuse(`${what} is no JSON object`);
}

/** A request for Chat Completions. */
export function checkChat(text: string, { fields = [], callFields = [], ids = /^.{1,40}$/, empty = [null, "", undefined], everyTurn, developer = false }: Habits = {}): void {
  const body = checkText(text);
  if (typeof body["model"] !== "string") refuse("model is missing");
  if ("tools" in body && !(body["tools"] as unknown[]).length) refuse("tools is empty");
  for (const field of ["tool_choice", "parallel_tool_calls"]) if (field in body && !("tools" in body)) refuse(`${field} without tools`);
  if (body["stream_options"] !== undefined && body["stream"] !== true) refuse("stream_options without stream");
  for (const tool of (body["tools"] ?? []) as Fields[]) {
    const { parameters } = only("a function", only("a tool", tool, ["type", "function"])["function"], ["name", "description", "parameters"]);
    if ((parameters as Fields | undefined)?.["type"] !== "object") refuse("parameters.type is not object");
  }
  const used = new Set<unknown>();
  let waiting: unknown[] = [];
  for (const [i, message] of (body["messages"] as Fields[]).entries()) {
    const what = `messages[${i}]`;
    const { role, content } = message;
    if (role === "tool") {
      only(what, message, ["role", "tool_call_id", "content"]);
      textIn(`${what}.content`, content);
      if (waiting.shift() !== message["tool_call_id"] || message["tool_call_id"] === undefined) refuse(`${what} doesn't answer the next call`);
      continue;
    }
    if (waiting.length > 0) refuse(`${what} comes before every call is answered`);
    if (role === "user") {
      only(what, message, ["role", "content", "name"]);
      if (typeof content !== "string" && !(Array.isArray(content) && content.length > 0)) refuse(`${what}.content is empty`);
    } else if (role === "system" || (role === "developer" && developer)) {
      only(what, message, ["role", "content"]);
      textIn(`${what}.content`, content);
    } else if (role === "assistant") {
      only(what, message, ["role", "content", "tool_calls", ...fields]);
      if (everyTurn && !(everyTurn in message)) refuse(`${what} is without ${everyTurn}`);
      const calls = message["tool_calls"] as Fields[] | undefined;
      if (calls?.length === 0) refuse(`${what}.tool_calls is empty`);
      if (Array.isArray(content) ? !fields.includes("content[]") : typeof content !== "string" || content === "") {
        if (!calls) refuse(`${what} has neither content nor calls`);
        if (!empty.includes(content as null)) refuse(`${what}.content is ${JSON.stringify(content)}`);
      }
      for (const call of calls ?? []) {
        const { id, type, function: called } = only(`a call of ${what}`, call, ["id", "type", "function", ...callFields]);
        if (!ids.test(String(id)) || used.has(id)) refuse(`the id ${JSON.stringify(id)} of ${what}`);
        used.add(id);
        if (type !== "function") refuse(`a call of ${what} without a type`);
        const { name, arguments: args } = only(`a function of ${what}`, called, ["name", "arguments"]);
        if (!/^[a-zA-Z0-9_-]{1,64}$/.test(textIn("a name", name))) refuse(`the name ${JSON.stringify(name)}`);
        objectIn("arguments", args);
        waiting.push(id);
      }
    } else refuse(`the role ${JSON.stringify(role)}`);
  }
  if (waiting.length > 0) refuse("the last calls are not answered");
}

/** A request for the Messages API. `model` may not have another's thinking sent to it: `signatures` are those it knows. */
export function checkMessages(text: string, { signatures = [] }: { signatures?: readonly string[] } = {}): void {
  const body = checkText(text);
  if (typeof body["model"] !== "string" || typeof body["max_tokens"] !== "number") refuse("model or max_tokens is missing");
  if ("tools" in body && !(body["tools"] as unknown[]).length) refuse("tools is empty");
  if ("tool_choice" in body && !("tools" in body)) refuse("tool_choice without tools");
  for (const tool of (body["tools"] ?? []) as Fields[]) {
    if (tool["type"] !== undefined) continue; // the server's own
    const { input_schema: schema } = only("a tool", tool, ["name", "description", "input_schema", "cache_control"]);
    if ((schema as Fields | undefined)?.["type"] !== "object") refuse("input_schema.type is not object");
  }
  const text_ = (what: string, block: Fields): void => {
    if (textIn(what, block["text"]).trim() === "") refuse(`${what} is an empty text`);
  };
  if (body["system"] !== undefined) {
    if (typeof body["system"] !== "string" && !(Array.isArray(body["system"]) && body["system"].length > 0)) refuse("system is empty");
    for (const block of [body["system"]].flat() as (Fields | string)[]) text_("system", typeof block === "string" ? { text: block } : only("system", block, ["type", "text", "cache_control"]));
  }
  const messages = body["messages"] as Fields[];
  let calls: unknown[] = [];
  const used = new Set<unknown>();
  for (const [i, message] of messages.entries()) {
    const what = `messages[${i}]`;
    const { role, content } = only(what, message, ["role", "content"]);
    if (role !== (i % 2 === 0 ? "user" : "assistant")) refuse(`${what} has the role ${String(role)}`);
    if (!Array.isArray(content) || content.length === 0) refuse(`${what}.content is empty`);
    const types = content.map((block: Fields) => block["type"]);
    if (role === "user") {
      const results = content.filter((block: Fields) => block["type"] === "tool_result");
      if (types.slice(0, results.length).some((type) => type !== "tool_result")) refuse(`${what} has something before its results`);
      if (JSON.stringify(results.map((block: Fields) => block["tool_use_id"])) !== JSON.stringify(calls)) refuse(`${what} doesn't answer just the calls before it`);
      calls = [];
    }
    for (const block of content as Fields[]) {
      switch (block["type"]) {
        case "text":
          text_(what, block);
          break;
        case "tool_result":
          only(what, block, ["type", "tool_use_id", "content", "is_error", "cache_control"]);
          if (block["content"] === "") refuse(`${what} has an empty result`);
          break;
        case "tool_use":
          only(what, block, ["type", "id", "name", "input", "caller"]);
          if (!/^[a-zA-Z0-9_-]+$/.test(String(block["id"])) || used.has(block["id"])) refuse(`the id ${JSON.stringify(block["id"])}`);
          used.add(block["id"]);
          objectIn("input", JSON.stringify(block["input"]));
          calls.push(block["id"]);
          break;
        case "thinking":
          if (!signatures.includes(String(block["signature"]))) refuse(`${what} has a signature of somebody else`);
      }
    }
    if (role === "assistant" && calls.length > 0 && types.includes("thinking") && !/thinking$/.test(String(types[0]))) refuse(`expected thinking, but found ${String(types[0])}`);
    const last = content.at(-1) as Fields;
    if (role === "assistant" && i === messages.length - 1 && last["type"] === "text" && /\s$/.test(String(last["text"]))) refuse("the last message ends in white space");
  }
  if (calls.length > 0) refuse("the last calls are not answered");
}
