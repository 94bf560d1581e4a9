// The judges of requests are judged: each rule that they have refuses what breaks it.
import { expect, test } from "vitest";
import { checkChat, checkMessages } from "./strict.ts";

const call = (id: string, args = "{}"): object => ({ id, type: "function", function: { name: "f", arguments: args } });
const user = { role: "user", content: "go" };
const result = (id: string): object => ({ role: "tool", tool_call_id: id, content: "x" });

test.each<[string, object]>([
  ["tools is empty", { tools: [] }],
  ["tool_choice without tools", { tool_choice: "auto" }],
  ["parameters.type is not object", { tools: [{ type: "function", function: { name: "f", parameters: {} } }] }],
  ["messages[0] has the field createdAt", { messages: [{ ...user, createdAt: 1 }] }],
  ["messages[0].content is no string", { messages: [{ role: "system", content: [{ type: "text", text: "x" }] }] }],
  ['the role "developer"', { messages: [{ role: "developer", content: "x" }] }],
  ["messages[1] has neither content nor calls", { messages: [user, { role: "assistant", content: "" }] }],
  ["messages[1] has the field reasoning_content", { messages: [user, { role: "assistant", content: "x", reasoning_content: "y" }] }],
  ["messages[1].tool_calls is empty", { messages: [user, { role: "assistant", content: "x", tool_calls: [] }] }],
  ["arguments is no JSON object", { messages: [user, { role: "assistant", tool_calls: [call("a", "[]")] }, result("a")] }],
  ['the id "a" of messages[1]', { messages: [user, { role: "assistant", tool_calls: [call("a"), call("a")] }, result("a"), result("a")] }],
  ["messages[2] doesn't answer the next call", { messages: [user, { role: "assistant", tool_calls: [call("a"), call("b")] }, result("b"), result("a")] }],
  ["messages[2] comes before every call is answered", { messages: [user, { role: "assistant", tool_calls: [call("a")] }, user] }],
  ["the last calls are not answered", { messages: [user, { role: "assistant", tool_calls: [call("a")] }] }],
  ["content holds an unpaired surrogate", { messages: [{ role: "user", content: "\ud800" }] }],
])("Chat Completions: %s", (what, body) => {
  expect(() => checkChat(JSON.stringify({ model: "m", messages: [user], ...body }))).toThrow(`a strict server refuses this: ${what}`);
});

const said = (role: string, ...content: object[]): object => ({ role, content });
const text = { type: "text", text: "go" };
const use = (id: string): object => ({ type: "tool_use", id, name: "f", input: {} });
const answer = (id: string): object => ({ type: "tool_result", tool_use_id: id, content: "x" });

test.each<[string, object]>([
  ["model or max_tokens is missing", { max_tokens: undefined }],
  ["messages[1] has the role user", { messages: [said("user", text), said("user", text)] }],
  ["messages[0].content is empty", { messages: [said("user")] }],
  ["messages[0] is an empty text", { messages: [said("user", { type: "text", text: " \n" })] }],
  ["messages[2] doesn't answer just the calls before it", { messages: [said("user", text), said("assistant", use("a"), use("b")), said("user", answer("a"))] }],
  ["messages[2] has something before its results", { messages: [said("user", text), said("assistant", use("a")), said("user", text, answer("a"))] }],
  ['the id "a:1"', { messages: [said("user", text), said("assistant", use("a:1")), said("user", answer("a:1"))] }],
  ["messages[1] has a signature of somebody else", { messages: [said("user", text), said("assistant", { type: "thinking", thinking: "x", signature: "s" }, use("a")), said("user", answer("a"))] }],
  ["the last message ends in white space", { messages: [said("user", text), said("assistant", { type: "text", text: "x " })] }],
])("the Messages API: %s", (what, body) => {
  expect(() => checkMessages(JSON.stringify({ model: "m", max_tokens: 1, messages: [said("user", text)], ...body }))).toThrow(`a strict server refuses this: ${what}`);
});
