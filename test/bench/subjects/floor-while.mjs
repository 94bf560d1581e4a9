// The floor: what a hand-written loop costs.
export const name = "floor: while loop";

async function loop(work, save) {
  const messages = [{ role: "user", content: "Double them." }];
  const model = async () => work.chat(messages);
  const tools = { double: (args) => work.run(args) };
  const one = async (call) => JSON.stringify(await tools[call.function.name](JSON.parse(call.function.arguments)));
  for (;;) {
    const reply = await model(messages);
    messages.push(reply);
    if (save) await save({ messages });
    if (!reply.tool_calls) return reply.content;
    if (save) await save({ messages });
    const results = reply.tool_calls.length === 1 ? [await one(reply.tool_calls[0])] : await Promise.all(reply.tool_calls.map(one));
    for (let i = 0; i < results.length; i++) messages.push({ role: "tool", tool_call_id: reply.tool_calls[i].id, content: results[i] });
    if (save) await save({ messages });
  }
}

export const run = (work) => loop(work);
export const saving = loop;
export const inside = run;
