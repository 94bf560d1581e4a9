// Every recording of real servers beside the checkout, read as its EXPECTED.json says, whole and cut into pieces of any
// size. Where the recordings aren't, `openai.test.ts` and `anthropic.test.ts` have each kind in small.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { anthropic } from "yieldagent/anthropic";
import { ModelError, openai } from "yieldagent/openai";
import { ask, inPieces } from "./wire.ts";

const folder = resolve(dirname(fileURLToPath(import.meta.url)), "../../shared/wire/fixtures");

interface Expected {
  complete?: boolean;
  error: { code: string | number | null; message: string } | null;
  finish_reason: string | null;
  text: string | null;
  reasoning: string | null;
  refusal?: string | null;
  tool_calls: { id: string | null; name: string; arguments: string; args: unknown }[];
  usage_in: number | null;
  usage_out: number | null;
  other_blocks?: string[];
  thinking_signatures?: number;
}

const FINISH: Record<string, string> = { end_turn: "stop", stop_sequence: "stop", tool_use: "tool_calls", max_tokens: "length", refusal: "content_filter" };

describe.runIf(existsSync(folder))("recordings", () => {
  const recordings = existsSync(folder) ? Object.entries(JSON.parse(readFileSync(join(folder, "EXPECTED.json"), "utf8")) as Record<string, Expected>) : [];
  const statuses = new Map(existsSync(folder) ? readFileSync(join(folder, "INDEX.tsv"), "utf8").split("\n").slice(1).map((line) => line.split("\t")).map(([file, , , status]) => [file, Number(status)]) : []);

  for (const [file, expected] of recordings) {
    if (!/^(chat|anthropic|derived)\//.test(file)) continue;
    const isAnthropic = /\/anthropic-/.test(file);
    const bytes = readFileSync(join(folder, file));
    for (const size of [Infinity, 1, 7, 64, 4096]) {
      if (size === 1 && bytes.length > 60_000) continue;
      test(`${file}, ${size === Infinity ? "whole" : `cut every ${size} bytes`}`, async () => {
        const fetch = async (): Promise<Response> => new Response(inPieces(bytes, size), { status: statuses.get(file) || 200 });
        const options = { model: "m", baseURL: "https://server.example/v1", apiKey: "k", maxRetries: 0, fetch, stream: file.endsWith(".sse") };
        const { text, reasoning, reply, error } = await ask(isAnthropic ? anthropic(options) : openai(options));
        if (expected.error || expected.complete === false) {
          expect(error).toBeInstanceOf(ModelError);
          expect(reply).toBeUndefined();
          if (expected.error?.message && !file.includes("cut-mid-line")) expect(error?.message).toBe(expected.error.message);
          if (expected.error?.code) expect(error?.code).toBe(expected.error.code);
          return;
        }
        if (error) throw error;
        const calls = (reply?.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) => ({ id: id || null, name, args: parsed(args), arguments: args }));
        expect(calls.map(({ id, name, args }) => ({ id, name, args }))).toEqual(expected.tool_calls.map(({ id, name, args }) => ({ id, name, args })));
        for (const [i, call] of calls.entries()) if (call.args === null) expect(call.arguments).toBe(expected.tool_calls[i]?.arguments);
        expect(reply?.finish_reason).toBe((isAnthropic && FINISH[expected.finish_reason ?? ""]) || (expected.finish_reason ?? "stop"));
        expect(said(reply?.content)).toBe(expected.text);
        expect(reply?.["refusal"] ?? null).toBe(expected.refusal ?? null);
        if (options.stream) {
          expect(text || null).toBe(expected.text ?? expected.refusal ?? null);
          expect(reasoning || null).toBe(expected.reasoning);
        }
        const usage = reply?.usage ?? {};
        expect((isAnthropic ? usage["input_tokens"] : usage.prompt_tokens) ?? null).toBe(expected.usage_in);
        expect((isAnthropic ? usage["output_tokens"] : usage.completion_tokens) ?? null).toBe(expected.usage_out);
        const blocks = ((reply?.["anthropic"] as { content?: { type: string; signature?: string }[] } | undefined)?.content ?? []);
        expect(blocks.map(({ type }) => type).filter((type) => !["text", "thinking", "tool_use"].includes(type))).toEqual(expected.other_blocks ?? []);
        if (expected.thinking_signatures) expect(blocks.filter(({ signature }) => signature).length).toBe(expected.thinking_signatures);
      });
    }
  }
});

/** The servers of the README, by the names that the recordings have for them. */
const SERVERS: [name: string, baseURL: string, recorded: string[]][] = [
  ["OpenAI", "(the default)", ["openai"]],
  ["Anthropic", "(the default of `anthropic()`)", ["anthropic"]],
  ["Azure OpenAI", "https://<resource>.openai.azure.com/openai/v1", ["azure-openai"]],
  ["Azure AI Foundry", "https://<resource>.services.ai.azure.com/openai/v1", ["azure-ai-foundry-grok"]],
  ["Google Gemini", "https://generativelanguage.googleapis.com/v1beta/openai", ["gemini-openai-compat"]],
  ["Groq", "https://api.groq.com/openai/v1", ["groq"]],
  ["Mistral", "https://api.mistral.ai/v1", ["mistral"]],
  ["DeepSeek", "https://api.deepseek.com", ["deepseek"]],
  ["xAI", "https://api.x.ai/v1", ["xai"]],
  ["Moonshot (Kimi)", "https://api.moonshot.ai/v1", ["moonshot"]],
  ["Z.ai (GLM)", "https://api.z.ai/api/paas/v4", ["zai-glm"]],
  ["Alibaba (Qwen)", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", ["dashscope-qwen"]],
  ["OpenRouter", "https://openrouter.ai/api/v1", ["openrouter", "openrouter-chutes", "openrouter-fireworks", "openrouter-google", "openrouter-moonshot", "openrouter-novita", "openrouter-together", "openrouter-zai"]],
  ["Vercel AI Gateway", "https://ai-gateway.vercel.sh/v1", ["vercel-ai-gateway"]],
  ["Hugging Face", "https://router.huggingface.co/v1", ["hf-router-cerebras", "hf-router-nebius", "hf-router-novita", "hf-router-sambanova", "hf-router-together", "hf-tgi"]],
  ["Cerebras", "https://api.cerebras.ai/v1", ["cerebras"]],
  ["Together", "https://api.together.xyz/v1", ["together"]],
  ["Fireworks", "https://api.fireworks.ai/inference/v1", ["fireworks"]],
  ["Perplexity", "https://api.perplexity.ai", ["perplexity"]],
  ["Databricks", "https://<workspace>/serving-endpoints", ["databricks"]],
  ["Ollama", "http://localhost:11434/v1", ["ollama", "ollama-cloud"]],
  ["llama.cpp", "http://localhost:8080/v1", ["llama.cpp"]],
  ["vLLM", "http://localhost:8000/v1", ["vllm", "crusoe-vllm", "venice-vllm"]],
];

describe.runIf(existsSync(folder))("the README's table of servers", () => {
  test("says of each what kinds of recordings there are", () => {
    const expected = JSON.parse(readFileSync(join(folder, "EXPECTED.json"), "utf8")) as Record<string, Expected>;
    const index = readFileSync(join(folder, "INDEX.tsv"), "utf8").split("\n").slice(1).map((line) => line.split("\t"));
    const rows = SERVERS.map(([name, baseURL, recorded]) => {
      const read = index.filter(([file = "", , provider = ""]) => recorded.includes(provider) && expected[file] && !file.startsWith("derived/") && !/^(gemini|responses)\//.test(file));
      const good = read.filter(([file = ""]) => !expected[file]?.error);
      const kinds = {
        text: good.some(([file = ""]) => expected[file]?.text), calls: good.some(([file = ""]) => expected[file]?.tool_calls.length), reasoning: good.some(([file = ""]) => expected[file]?.reasoning),
        streams: good.some(([file = ""]) => file.endsWith(".sse")), errors: good.length < read.length,
      };
      return `| ${name} | ${baseURL.startsWith("(") ? baseURL : `\`${baseURL}\``} | ${Object.entries(kinds).filter(([, has]) => has).map(([kind]) => kind).join(", ") || "none"} |`;
    });
    const path = new URL("../README.md", import.meta.url);
    const readme = readFileSync(path, "utf8");
    const between = /(?<=<!-- servers -->\n[^\n]*\n[^\n]*\n)[^]*?(?=<!-- \/servers -->)/;
    const table = rows.map((row) => `${row}\n`).join("");
    if (process.env["UPDATE_FIGURES"]) writeFileSync(path, readme.replace(between, table));
    else expect(between.exec(readme)?.[0]).toBe(table);
  });
});

function parsed(args: string): unknown {
  try {
    return JSON.parse(args);
  } catch {
    return null;
  }
}

function said(content: unknown): string | null {
  if (!Array.isArray(content)) return (content as string | null | undefined) || null;
  return content.filter(({ type }) => type === "text").map(({ text }) => text).join("") || null;
}
