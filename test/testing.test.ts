import { agent, type Message, tool } from "yieldagent";
import { collect, script, toolCall } from "yieldagent/testing";
import { describe, expect, test } from "vitest";
import { trace, user } from "./trace.ts";

const tools = { p: tool({ run: () => "did" }) };

describe("script", () => {
  test("answers with a text, a call, several calls, a whole reply, or what a function of the messages gives", async () => {
    const call = script(
      toolCall("p"), [toolCall("p", { a: 1 }), toolCall("p", {}, "mine")],
      { role: "assistant", content: "whole", tool_calls: [toolCall("p", {}, "w")], finish_reason: "tool_calls" },
      async (messages: Message[]) => `saw ${messages.length}`,
    );
    const { lines, state } = await trace({ call, tools });
    expect(lines.filter((text) => text.startsWith("start"))).toEqual(["start call_1_1", "start call_2_1", "start mine", "start w"]);
    expect(lines.at(-1)).toBe("final stop: saw 8");
    expect(state.messages[3]?.tool_calls?.[0]?.function.arguments).toBe('{"a":1}');
  });

  test("throws an error it was given, and takes its turn from the conversation, so that the same turn can be tried again", async () => {
    let down = true;
    const call = script(toolCall("p"), () => (down ? new Error("overloaded") : "up again"));
    const { thrown, state } = await trace({ call, tools });
    expect(thrown).toEqual(new Error("overloaded"));
    down = false;
    expect((await trace({ call, tools, state })).lines.at(-1)).toBe("final stop: up again");
  });

  test("asked once too often fails with the number", async () => {
    const { thrown } = await trace({ call: script(toolCall("p")), tools });
    expect(thrown).toEqual(new Error("script: asked for reply 2, but it has only 1"));
  });

  test("keeps every request: the messages and the tools", async () => {
    const call = script(toolCall("p"), "ok");
    await trace({ call, tools });
    expect(call.requests.map(({ messages }) => messages.length)).toEqual([1, 3]);
    expect(call.requests[0]?.tools[0]?.function.name).toBe("p");
  });

  const asked = { role: "assistant", content: null, tool_calls: [toolCall("p", {}, "a"), toolCall("p", {}, "b")] };
  const answer = (id: string) => ({ role: "tool", tool_call_id: id, content: "x" });
  test.each([
    ["an unanswered call", [user, asked, answer("a")], 'script: call "b" is not answered'],
    ["a message before the answers", [user, asked, answer("a"), user], 'script: messages[3] comes before call "b" is answered'],
    ["answers out of order", [user, asked, answer("b"), answer("a")], 'script: messages[2] answers "b", but the call to answer next is "a"'],
    ["an answer to nothing", [user, answer("a")], 'script: messages[1] answers "a", but the call to answer next is none'],
    ["an id used twice", [user, { ...asked, tool_calls: [toolCall("p", {}, "a"), toolCall("p", {}, "a")] }], 'script: messages[1] has a call without an id of its own: "a"'],
    ["a call without an id", [user, { ...asked, tool_calls: [toolCall("p")] }], "script: messages[1] has a call without an id of its own: undefined"],
    ["a call without a type", [user, { ...asked, tool_calls: [{ id: "a", function: { name: "p", arguments: "{}" } }] }], "script: messages[1] has a call without a type"],
    ["arguments that are no object", [user, { ...asked, tool_calls: [toolCall("p", "[]", "a")] }], "script: messages[1] has a call whose arguments are no JSON object: []"],
    ["arguments that are no JSON", [user, { ...asked, tool_calls: [toolCall("p", "{", "a")] }], "script: messages[1] has a call whose arguments are no JSON object: {"],
    ["empty tool_calls", [user, { ...asked, tool_calls: [] }], "script: messages[1] has empty tool_calls"],
    ["a tool message without content", [user, asked, { role: "tool", tool_call_id: "a" }], "script: messages[2] is a tool message without content"],
    ["an unknown role", [{ role: "bot", content: "x" }], 'script: messages[0] has the role "bot"'],
  ])("refuses %s, as the strictest server does", async (_, messages, problem) => {
    await expect(script("ok")(messages as Message[], [], { signal: new AbortController().signal, step: 1 })).rejects.toThrow(problem);
  });
});

test("collect returns all steps, and throws what the run throws", async () => {
  const steps = await collect(agent({ call: script("hi"), tools, messages: [user] }));
  expect(steps.map(({ type }) => type)).toEqual(["message", "final"]);
  await expect(collect(agent({ call: script(), messages: [user] }))).rejects.toThrow("script: asked for reply 1");
});
