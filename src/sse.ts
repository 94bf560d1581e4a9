import { ModelError } from "./model-error.ts";

/**
 * Reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), handed over as decoded text
 * in pieces cut anywhere, and returns the data of each. Names and ids are left out: model servers say in its data what an event is,
 * and many give no name. Beyond the standard: a field `error:`, which llama.cpp's family sends, is an event by itself
 * with the data `{"error": …}`, and `end()` gives the last event of a stream that ends without a blank line.
 */
export class SseReader {
  readonly #max: number;
  /** The beginning of a line whose end has not come yet. */
  #line = "";
  /** The data lines so far of the event that is being read, if it has one. */
  #data: string | undefined;
  /** The last piece ended in CR: an LF at the start of the next one belongs to it. */
  #cr = false;

  /** `max`: how long an event may be, in UTF-16 code units; a longer one is a `ModelError`, as soon as that is known. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Takes the next piece of the stream and returns the data of the events that it completes. */
  push(text: string): readonly string[] {
    if (text === "") return NONE;
    let events = NONE as string[];
    let from = this.#cr && text[0] === "\n" ? 1 : 0;
    this.#cr = false;
    // Each is looked for again only when it was passed, so that a text without the one or the other is searched once.
    let lf = text.indexOf("\n", from);
    let cr = text.indexOf("\r", from);
    while (lf >= 0 || cr >= 0) {
      const end = cr >= 0 && (lf < 0 || cr < lf) ? cr : lf;
      const data = this.#take(this.#line === "" ? text.slice(from, end) : this.#line + text.slice(from, end));
      if (data !== undefined) {
        if (events === NONE) events = [];
        events.push(data);
      }
      this.#line = "";
      from = end + 1;
      if (end === cr) {
        if (lf === from) from++;
        this.#cr = end === text.length - 1;
        cr = text.indexOf("\r", from);
      }
      if (lf >= 0 && lf < from) lf = text.indexOf("\n", from);
    }
    if (from < text.length) {
      this.#line += from === 0 ? text : text.slice(from);
      if (this.#line.length + (this.#data?.length ?? 0) > this.#max) this.#tooLong();
    }
    return events;
  }

  /** The stream has ended: the data of what was not ended by a blank line. */
  end(): string | undefined {
    const last = this.#line === "" ? undefined : this.#take(this.#line);
    this.#line = "";
    return last ?? this.#take("");
  }

  /** Takes a line and returns an event's data if the line completes one. */
  #take(line: string): string | undefined {
    if (line === "") {
      const data = this.#data;
      this.#data = undefined;
      return data;
    }
    if (line.startsWith("data")) {
      const value = line.length === 4 ? "" : valueOf(line, 4);
      if (value === undefined) return undefined;
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
      if (this.#data.length > this.#max) this.#tooLong();
      return undefined;
    }
    if (!line.startsWith("error")) return undefined;
    const error = valueOf(line, 5);
    return error === undefined ? undefined : JSON.stringify({ error });
  }

  #tooLong(): never {
    throw new ModelError(`an event is larger than ${this.#max} bytes`);
  }
}

const NONE: readonly string[] = [];

/** What follows a field's name and colon, less one space; undefined if the name is another, longer one. */
function valueOf(line: string, colon: number): string | undefined {
  return line[colon] === ":" ? line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1) : undefined;
}
