import { createParser } from "eventsource-parser";

export const name = "eventsource-parser + JSON.parse";
export const packages = ["eventsource-parser"];
export const imports = "eventsource-parser";
export const program = 'export { createParser } from "eventsource-parser";';

export async function stream({ body }) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let args = "";
  const parser = createParser({
    onEvent: ({ data }) => {
      if (data === "[DONE]") return;
      const { delta } = JSON.parse(data).choices[0];
      if (delta.content) text += delta.content;
      if (delta.tool_calls) args += delta.tool_calls[0].function.arguments;
    },
  });
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text || args;
    parser.feed(decoder.decode(value, { stream: true }));
  }
}
