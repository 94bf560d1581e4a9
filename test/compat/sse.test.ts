// The event reader against eventsource-parser, on random text that is cut at random places. They part on purpose in two
// ways, each with tests of its own: a field named exactly `error` is an event, and `end()` gives the last event of a
// stream without a blank line at its end. (A byte order mark at the start is the decoder's to take off, so only the bytes
// have one.)
// Replay a run: SEED=<number> npm run test:compat
import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SseReader } from "../../src/sse.ts";

const seed = Number(process.env["SEED"] ?? Date.now() % 2 ** 31);
console.info(`random text: SEED=${seed}`);

/** What the rules of the format turn on, and what may stand between. */
const TOKENS = [
  "\r", "\n", "\r\n", "\n\n", "\r\r", "\r\n\r\n", ":", " ", "  ", "\t", "\0", "\ufeff",
  "data", "data:", "data: ", "data:  ", "dat", "data :", " data:", "Data:", "datas:", "\ndata: ",
  "event:", "event: message", "id:", "id: 1", "retry:", "retry: 10", "retry: x", "unknown: y",
  ": comment", ":", "error", "errors:", " error:", "Error:", "[DONE]", "a", "0", "é", "→", "😀", "\ud83d", "\u2028", "\u0085", "\v",
];
/** Whole lines, so that texts hold events and not only what looks like one. */
const LINES = ["\ndata: b", "\rdata:c", "\r\ndata: d", "\ndata", "\r\nevent: e", "\n: f", "\r\n\r\n", "\n\n", "\r\r"];
const ERRORS = ["error:", "error: ", "\nerror: e", "\rerror:  two"];

const made = (tokens: readonly string[]): fc.Arbitrary<string> =>
  fc.array(fc.oneof(fc.constantFrom(...tokens), fc.constantFrom(...LINES)), { maxLength: 40 }).map((parts) => parts.join(""));
const hasErrors = (whole: string): boolean => /(?:^\ufeff*|[\r\n])error:/.test(whole);
/** Random text without a line that begins with `error:`. */
const text = made(TOKENS).map(withoutMark).filter((whole) => !hasErrors(whole));
const withErrors = made([...TOKENS, ...ERRORS, ...ERRORS]).map(withoutMark);
const cuts = fc.array(fc.nat(1000), { maxLength: 30 });
const runs = { seed, numRuns: 4000 };

function withoutMark(whole: string): string {
  return whole.replace(/^\ufeff+/, "");
}

/** A text or bytes in pieces, cut at these places, some of them empty. */
function pieces<T extends { slice(from: number, to: number): T; length: number }>(whole: T, places: readonly number[]): T[] {
  const ends = [...places.map((place) => place % (whole.length + 1)), whole.length].sort((a, b) => a - b);
  return ends.map((end, i) => whole.slice(ends[i - 1] ?? 0, end));
}

function decoded(bytes: readonly Uint8Array[]): string[] {
  const decoder = new TextDecoder();
  return [...bytes.map((piece) => decoder.decode(piece, { stream: true })), decoder.decode()];
}

function theirs(parts: readonly string[]): string[] {
  const events: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => events.push(data) });
  for (const part of parts) parser.feed(part);
  return events;
}

function ours(parts: readonly string[]): { events: string[]; last: string | undefined } {
  const reader = new SseReader(1_000_000);
  return { events: parts.flatMap((part) => [...reader.push(part)]), last: reader.end() };
}

/** Both agree on a text that ends with a blank line, and nothing is left of it. */
function agree(parts: readonly string[]): void {
  const closed = [...parts, "\n\n"];
  expect(ours(closed)).toEqual({ events: theirs(closed), last: undefined });
}

describe("the event reader agrees with eventsource-parser", () => {
  test("on random text cut at random places", () => {
    fc.assert(fc.property(text, cuts, (whole, places) => agree(pieces(whole, places))), runs);
  });

  test("on random text that comes one character at a time", () => {
    fc.assert(fc.property(text, (whole) => agree(whole.split(""))), runs);
  });

  test("on random bytes cut at random places, inside characters too", () => {
    fc.assert(fc.property(fc.boolean(), text, cuts, (mark, whole, places) => {
      const parts = decoded(pieces(new TextEncoder().encode(mark ? `\ufeff${whole}` : whole), places));
      expect(parts.join("")).toBe(whole.replace(/\p{Surrogate}/gu, "\ufffd"));
      agree(parts);
    }), runs);
  });

  test("on bytes that are no UTF-8", () => {
    const broken = fc.array(fc.integer({ min: 0x80, max: 0xff }), { maxLength: 4 });
    const bytes = fc.array(fc.oneof(text.map((whole) => [...new TextEncoder().encode(whole)]), broken), { maxLength: 6 })
      .map((parts) => Uint8Array.from(parts.flat())).filter((whole) => !hasErrors(new TextDecoder().decode(whole)));
    fc.assert(fc.property(bytes, cuts, (whole, places) => agree(decoded(pieces(whole, places)))), runs);
  });

  test("and the random text is one that both find events in, and cuts that hit line ends", () => {
    const found = fc.sample(fc.tuple(text, cuts), runs).map(([whole, places]) => {
      const parts = pieces(whole, places);
      return { events: theirs([...parts, "\n\n"]), splitsCrLf: parts.some((part, i) => part.endsWith("\r") && parts[i + 1]?.startsWith("\n")) };
    });
    expect(found.filter(({ events }) => events.length > 0).length).toBeGreaterThan(runs.numRuns / 2);
    expect(found.filter(({ events }) => events.some((data) => data.includes("\n"))).length).toBeGreaterThan(runs.numRuns / 10);
    expect(found.filter(({ splitsCrLf }) => splitsCrLf).length).toBeGreaterThan(runs.numRuns / 20);
  });
});

describe("the event reader departs from eventsource-parser", () => {
  const isError = (data: string): boolean => data.startsWith('{"error":');

  test("for a field named exactly error: each is an event by itself, and all others are as they were", () => {
    fc.assert(fc.property(withErrors, cuts, (whole, places) => {
      const closed = [...pieces(whole, places), "\n\n"];
      const { events } = ours(closed);
      const errors = whole.split(/\r\n|\r|\n/).filter((line) => line.startsWith("error:")).map((line) => JSON.stringify({ error: line.replace(/^error: ?/, "") }));
      expect(events.filter(isError)).toEqual(errors);
      expect(events.filter((data) => !isError(data))).toEqual(theirs(closed));
    }), runs);
  });

  test("an error field is given at its line's end, before the data around it, which stays one event", () => {
    expect(ours(["data: a\nerror: x\ndata: b\n\n"])).toEqual({ events: ['{"error":"x"}', "a\nb"], last: undefined });
    expect(ours(["error\nerrors: x\n error: x\nError: x\n\n"])).toEqual({ events: [], last: undefined });
  });

  test("at the end: what no blank line ended is given as if one had come", () => {
    fc.assert(fc.property(text, cuts, (whole, places) => {
      const parts = pieces(whole, places);
      const { events, last } = ours(parts);
      expect(last === undefined ? events : [...events, last]).toEqual(theirs([...parts, "\n\n"]));
    }), runs);
  });

  test("at the end: a last line without any line end counts, and what was ended is not given twice", () => {
    expect(ours(["data: a\n\ndata: b"])).toEqual({ events: ["a"], last: "b" });
    expect(ours(["data: a\r\ndata: b\r\n"])).toEqual({ events: [], last: "a\nb" });
    expect(ours(["data: a\n\n"])).toEqual({ events: ["a"], last: undefined });
    expect(ours(["error: x"])).toEqual({ events: [], last: '{"error":"x"}' });
    expect(theirs(["data: a\n\ndata: b"])).toEqual(["a"]);
  });
});
