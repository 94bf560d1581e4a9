// The official clients side by side with ours, over the same bytes: what each makes of an answer is held against what is
// known of it. Ours must be right about every one. Where theirs isn't stands in README.md, and is checked here: that it is
// so of exactly these. UPDATE=1 writes it anew.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { type Message, type Reply } from "yieldagent";
import { anthropic } from "yieldagent/anthropic";
import { openai } from "yieldagent/openai";
import { ask, inPieces } from "../wire.ts";

const here = dirname(fileURLToPath(import.meta.url));
/** Written by hand, one for each kind of answer that an official client gets wrong, and some that nobody does. */
const written = join(here, "fixtures");
/** Recordings of real servers, beside the checkout; not everybody has them. */
const recorded = resolve(here, "../../../shared/wire/fixtures");

/** What is to be read out of an answer, in the form of the recordings' EXPECTED.json. What is left out is null. */
interface Expected {
  /** Who sends such an answer, and what is odd about it. */
  what?: string;
  status?: number;
  /** `false`: it ended before it was whole. */
  complete?: boolean;
  error?: { message?: string; code?: string | number | null } | null;
  text?: string | null;
  reasoning?: string | null;
  refusal?: string | null;
  /** `args` is null if the arguments were cut off. */
  tool_calls?: { id: string | null; name: string; arguments: string; args?: unknown }[];
  finish_reason?: string | null;
  usage_in?: number | null;
  usage_out?: number | null;
  other_blocks?: string[];
  thinking_signatures?: number;
}

/** What a client makes of an answer. */
interface Reading {
  text: string | null;
  reasoning: string | null;
  refusal: string | null;
  /** The arguments as they are to be parsed; of the Messages API, where they are parsed already, what they were parsed to. */
  calls: { id: string | null; name: string; args: unknown }[];
  finish: string | null;
  usage: [number | null, number | null];
  otherBlocks: string[];
  signatures: number;
}

interface Answer {
  file: string;
  isAnthropic: boolean;
  bytes: Uint8Array;
  status: number;
  expected: Expected;
}

const json = (file: string): Record<string, Expected> => JSON.parse(readFileSync(file, "utf8")) as Record<string, Expected>;

function answersIn(folder: string): Answer[] {
  if (!existsSync(folder)) return [];
  const index = join(folder, "INDEX.tsv");
  const statuses = new Map(existsSync(index) ? readFileSync(index, "utf8").split("\n").map((row) => row.split("\t")).map(([file, , , status]) => [file, Number(status)]) : []);
  return Object.entries(json(join(folder, "EXPECTED.json"))).filter(([file]) => !/^(gemini|responses)\//.test(file)).map(([file, expected]) => ({
    file, expected, isAnthropic: /(^|\/)anthropic-/.test(file), bytes: readFileSync(join(folder, file)), status: expected.status ?? (statuses.get(file) || 200),
  }));
}

const go = [{ role: "user" as const, content: "go" }];
const fetching = ({ file, bytes, status }: Answer) => async (): Promise<Response> =>
  new Response(inPieces(bytes, 4096), { status, headers: { "content-type": file.endsWith(".sse") ? "text/event-stream" : "application/json" } });

async function official(answer: Answer): Promise<Reading> {
  const options = { apiKey: "k", maxRetries: 0, fetch: fetching(answer), logLevel: "off" as const };
  const isStream = answer.file.endsWith(".sse");
  if (answer.isAnthropic) {
    const { messages } = new Anthropic(options);
    const request = { model: "m", max_tokens: 1000, messages: go };
    const { content, stop_reason: finish, usage } = isStream ? await messages.stream(request).finalMessage() : await messages.create(request);
    return { ...ofBlocks(content as unknown as Block[]), refusal: null, finish, usage: [usage?.input_tokens ?? null, usage?.output_tokens ?? null] };
  }
  const { completions } = new OpenAI(options).chat;
  const request = { model: "m", messages: go };
  const { choices, usage } = isStream ? await completions.stream(request).finalChatCompletion() : await completions.create(request);
  // A body without choices is handed through as it is.
  const choice = (choices as typeof choices | null | undefined)?.find(({ index }) => !index);
  return { ...ofMessage((choice?.message ?? {}) as unknown as Message), finish: choice?.finish_reason ?? null, usage: [usage?.prompt_tokens ?? null, usage?.completion_tokens ?? null] };
}

const FINISH: Record<string, string> = { end_turn: "stop", stop_sequence: "stop", tool_use: "tool_calls", max_tokens: "length", refusal: "content_filter" };

async function ours(answer: Answer, size = 4096): Promise<Reading> {
  const options = { model: "m", baseURL: "https://server.example/v1", apiKey: "k", maxRetries: 0, stream: answer.file.endsWith(".sse"), fetch: async () => new Response(inPieces(answer.bytes, size), { status: answer.status }) };
  const { reply, reasoning, error } = await ask(answer.isAnthropic ? anthropic(options) : openai(options));
  if (error) throw error;
  const { finish_reason: finish = null, usage, ...message } = reply as Reply;
  const count = (name: string): number | null => (usage?.[name] as number | undefined) ?? null;
  const read: Reading = { ...ofMessage(message), finish, usage: answer.isAnthropic ? [count("input_tokens"), count("output_tokens")] : [count("prompt_tokens"), count("completion_tokens")] };
  const kept = (message["anthropic"] as { content: Block[] } | undefined)?.content;
  if (kept) Object.assign(read, { otherBlocks: ofBlocks(kept).otherBlocks, signatures: ofBlocks(kept).signatures });
  return options.stream ? { ...read, reasoning: reasoning || null } : read;
}

type Block = { type: string; text?: string; thinking?: string; signature?: string; id?: string; name?: string; input?: unknown };

function ofBlocks(blocks: Block[]): Omit<Reading, "finish" | "usage" | "refusal"> {
  const joined = (field: "text" | "thinking"): string | null => blocks.filter(({ type }) => type === field).map((block) => block[field]).join("") || null;
  return {
    text: joined("text"),
    reasoning: joined("thinking"),
    calls: blocks.filter(({ type }) => type === "tool_use").map(({ id, name, input }) => ({ id: id ?? null, name: String(name), args: input })),
    otherBlocks: blocks.map(({ type }) => type).filter((type) => !["text", "thinking", "tool_use"].includes(type)),
    signatures: blocks.filter(({ signature }) => signature).length,
  };
}

function ofMessage({ content, refusal, tool_calls: calls, ...message }: Message): Omit<Reading, "finish" | "usage"> {
  const parts = (Array.isArray(content) ? content : []) as { type: string; text?: string }[];
  const details = message["reasoning_details"] as { text?: string; summary?: string }[] | undefined;
  const field = ["reasoning_content", "reasoning", "reasoning_text"].find((name) => message[name]);
  return {
    text: (Array.isArray(content) ? parts.filter(({ type }) => type === "text").map(({ text }) => text).join("") : (content as string | null | undefined)) || null,
    reasoning: field ? String(message[field]) : details?.map(({ text, summary }) => text ?? summary ?? "").join("") || null,
    refusal: (refusal as string | null | undefined) || null,
    calls: (calls ?? []).map(({ id, function: { name, arguments: args } }) => ({ id: id || null, name, args })),
    otherBlocks: [],
    signatures: 0,
  };
}

/** What is wrong with what a client made of an answer, in a line; undefined: nothing. */
async function fault({ file, isAnthropic, expected }: Answer, read: Promise<Reading>, isOurs: boolean): Promise<string | undefined> {
  const { error, text = null, reasoning = null, refusal = null, tool_calls: calls = [], finish_reason: finish = null } = expected;
  let reading: Reading;
  try {
    reading = await read;
  } catch (thrown) {
    const { message, code, error: body } = thrown as Error & { code?: unknown; error?: unknown };
    const said = message.split("\n")[0]?.slice(0, 70);
    if (!error && expected.complete !== false) return `throws “${said}”`;
    // Half a line is an error in nobody's words.
    if (!error?.message || file.includes("cut-mid-line")) return undefined;
    if (isOurs) return message === error.message && (!error.code || code === error.code) ? undefined : `says “${said}”, code ${String(code)}`;
    return `${message} ${JSON.stringify(body)}`.includes(JSON.stringify(error.message).slice(1, -1)) || message.includes(error.message) ? undefined : `throws, but says “${said}”`;
  }
  if (error) return "no error: it is taken for an answer";
  if (expected.complete === false) return "no error: it is taken for a whole answer";
  if (reading.calls.length !== calls.length) return `${reading.calls.length} of ${calls.length} calls`;
  for (const [i, { id, name, args }] of reading.calls.entries()) {
    const call = calls[i] as NonNullable<Expected["tool_calls"]>[number];
    if (name !== call.name) return "another tool's name";
    if (id !== call.id) return "another id of a call";
    const wanted = parsed(call.arguments);
    // Arguments that were cut off have to be seen to be; where there is only what was parsed, an object is none.
    if (wanted === undefined) {
      if (typeof args === "object" || parsed(args) !== undefined) return `arguments ${JSON.stringify(args)} for a call that was cut off`;
    } else if (isAnthropic && !isOurs ? !isDeepStrictEqual(args, wanted) : typeof args !== "string" || !isDeepStrictEqual(parsed(args), wanted)) {
      return `arguments ${typeof args === "string" ? `“${args.slice(0, 40)}”` : "as an object"}`;
    }
  }
  if (reading.text !== text) return `text “${reading.text?.slice(0, 40) ?? ""}”`;
  if (reading.refusal !== refusal) return "the refusal is lost";
  if (finish !== null && reading.finish !== (isOurs && isAnthropic ? (FINISH[finish] ?? finish) : finish)) return `finish reason ${reading.finish}`;
  if (!isDeepStrictEqual(reading.usage, [expected.usage_in ?? null, expected.usage_out ?? null])) return reading.usage[0] === null ? "the usage is lost" : `usage ${reading.usage.join(", ")}`;
  if (!isDeepStrictEqual(reading.otherBlocks, expected.other_blocks ?? [])) return "other blocks are lost";
  if (expected.thinking_signatures && reading.signatures !== expected.thinking_signatures) return "signatures are lost";
  // Ours, not streamed, is held against the reasoning by the tests of the adapters.
  if (reading.reasoning !== reasoning && (file.endsWith(".sse") || !isOurs)) return reading.reasoning ? "of the reasoning only a part is kept" : "the reasoning is lost";
  return undefined;
}

function parsed(args: unknown): unknown {
  try {
    return JSON.parse(args as string);
  } catch {
    return undefined;
  }
}

const readme = join(here, "README.md");

for (const [name, folder] of [["written", written], ["recorded", recorded]] as const) {
  const answers = answersIn(folder);
  describe.runIf(answers.length > 0)(`answers that were ${name === "written" ? "written by hand" : "recorded"}`, () => {
    test.each(answers)("ours is right about $file, however it is cut", async (answer) => {
      for (const size of [1, 7, 64, 4096, Infinity]) {
        if (size > 1 || answer.bytes.length < 60_000) expect(await fault(answer, ours(answer, size), true), `cut every ${size} bytes`).toBeUndefined();
      }
    });

    test("the official clients are wrong about those that the README lists, and about no others", async () => {
      const faults = new Map<string, string[]>();
      for (const answer of answers) {
        const wrong = await fault(answer, official(answer), false);
        if (wrong) faults.set(wrong, [...(faults.get(wrong) ?? []), answer.file]);
      }
      const rows = [...faults].map(([wrong, files]) => `| ${wrong.replaceAll("|", "\\|")} | ${files.join(", ")} |\n`);
      const table = `| what the official client makes of it | ${[...faults.values()].flat().length} of ${answers.length} |\n|---|---|\n${rows.join("")}`;
      const part = new RegExp(`(<!-- ${name}: by UPDATE=1 -->\n)([^]*?)(<!-- end -->)`);
      if (process.env["UPDATE"]) writeFileSync(readme, readFileSync(readme, "utf8").replace(part, (_, begin: string, __, end: string) => begin + table + end));
      const listed = part.exec(readFileSync(readme, "utf8"))?.[2] ?? "";
      if (name === "written" || listed.split("\n")[0]?.includes(` of ${answers.length} `)) return expect(listed).toBe(table);
      // Other recordings than those that were here: what is said of the ones that are still there holds.
      const present = new Set(answers.map(({ file }) => file));
      const pairs = listed.split("\n").slice(2, -1).flatMap((row) => {
        const [, wrong = "", files = ""] = row.split(" | ").length === 2 ? ["", ...row.slice(2, -2).split(" | ")] : [];
        return files.split(", ").filter((file) => present.has(file)).map((file) => [file, wrong]);
      });
      expect(pairs.map(([file = "", wrong = ""]) => [file, faults.get(wrong)?.includes(file)])).toEqual(pairs.map(([file]) => [file, true]));
    });
  });
}
