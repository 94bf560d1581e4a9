// The floor of the adapters: indexOf and JSON.parse for what comes, JSON.stringify for what goes.
export const name = "floor: indexOf + JSON";

export async function stream({ body }) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let args = "";
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text || args;
    const piece = decoder.decode(value, { stream: true });
    // What has no end of an event in it yet is not looked through again.
    let from = Math.max(0, rest.length - 1);
    rest += piece;
    if (piece.indexOf("\n") < 0) continue;
    let start = 0;
    for (let end; (end = rest.indexOf("\n\n", from)) >= 0; from = start = end + 2) {
      const data = rest.slice(start + 6, end);
      if (data === "[DONE]") continue;
      const { delta } = JSON.parse(data).choices[0];
      if (delta.content) text += delta.content;
      if (delta.tool_calls) args += delta.tool_calls[0].function.arguments;
    }
    rest = rest.slice(start);
  }
}

/** A model that is asked by `fetch`; `messages` are as in Chat Completions already. */
export const client = (fetch) => async (messages, tools) => {
  const response = await fetch("http://localhost/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ model: "m", messages, tools }) });
  return (await response.json()).choices[0].message;
};
