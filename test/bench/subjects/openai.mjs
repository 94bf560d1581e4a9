import OpenAI from "openai";
import { QUESTION } from "../work.mjs";

export const name = "openai create({ stream })";
export const packages = ["openai"];
export const imports = "openai";
export const program = 'export { default } from "openai";';

export const options = { model: "m", messages: [{ role: "user", content: QUESTION }], stream: true };
export const clientFor = (response) => new OpenAI({ apiKey: "k", baseURL: "http://localhost/v1", fetch: async () => response });

export async function stream(response) {
  let text = "";
  let args = "";
  for await (const { choices } of await clientFor(response).chat.completions.create(options)) {
    const { delta } = choices[0];
    if (delta.content) text += delta.content;
    if (delta.tool_calls) args += delta.tool_calls[0].function.arguments;
  }
  return text || args;
}

const reply = (fetch) => new OpenAI({ apiKey: "k", baseURL: "http://localhost/v1", fetch });
export const client = (fetch) => {
  const openai = reply(fetch);
  return async (messages) => (await openai.chat.completions.create({ model: "m", messages })).choices[0].message;
};
