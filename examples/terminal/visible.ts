import { show } from "yieldagent/show";

/** Prose, with its line breaks; whatever doesn't show is an escape. */
export function visibleText(text: string): string {
  return text.split("\n").map((line) => visibleLine(line)).join("\n");
}

/** A text that is to stay in its line, cut where it gets too long. */
export function visibleLine(text: string, length: number = Infinity): string {
  // What JSON escapes for its own sake is plain here.
  const line = show(text).slice(1, -1).replace(/\\(["\\])/g, "$1");
  return line.length > length ? `${line.slice(0, length).replace(/\p{Surrogate}$/u, "")}…` : line;
}

/** A value as one line of JSON to edit. */
export function editable(value: unknown): string {
  return show(value).replace(/\n */g, "");
}
