// The same loop as an async generator that hands out each step. It can stop before a tool and go on from its messages.
export const name = "floor: async generator";

async function* loop(model, tools, messages, gated) {
  for (;;) {
    let calls = messages[messages.length - 1].tool_calls;
    if (!calls) {
      const reply = await model(messages);
      messages.push(reply);
      yield { type: "message", message: reply };
      if (!reply.tool_calls) return yield { type: "final", text: reply.content };
      if (gated) return yield { type: "approval-needed", state: { messages } };
      calls = reply.tool_calls;
    }
    const running = [];
    for (const { id, function: { name, arguments: json } } of calls) {
      const args = JSON.parse(json);
      yield { type: "tool-start", id, tool: name, args };
      running.push(tools[name](args));
    }
    const results = running.length === 1 ? [await running[0]] : await Promise.all(running);
    for (let i = 0; i < calls.length; i++) {
      messages.push({ role: "tool", tool_call_id: calls[i].id, content: JSON.stringify(results[i]) });
      yield { type: "tool-result", id: calls[i].id, result: results[i] };
    }
  }
}

async function last(work, messages, gated) {
  const steps = loop(async (seen) => work.chat(seen), { double: (args) => work.run(args) }, messages, gated);
  let last;
  for await (const step of steps) last = step;
  return last;
}

export const run = async (work) => (await last(work, [{ role: "user", content: "Double them." }])).text;
export const pause = async (work, history) => (await last(work, history.slice(), true)).state;
export const resume = async (work, { messages }) => (await last(work, messages)).text;
