import { clientFor, options } from "./openai.mjs";

export const name = "openai .stream()";

export async function stream(response) {
  const { choices } = await clientFor(response).chat.completions.stream(options).finalChatCompletion();
  const { message } = choices[0];
  return message.content || message.tool_calls[0].function.arguments;
}
