/**
 * Characters that show nothing, look like a plain space, or change how what is around them is shown: control, format,
 * surrogate, private-use and unassigned ones, separators, fillers. Line breaks and plain spaces may belong to a layout.
 */
const HIDDEN = /(?![\n ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu;

/** A value in full, as laid-out JSON in which nothing hides: what a person decides on. */
export function visible(value: unknown): string {
  // Inside its strings JSON has no raw line break: each one belongs to the layout.
  return visibleText(JSON.stringify(value, null, 2) ?? "undefined");
}

/** Prose, with its line breaks. */
export function visibleText(text: string): string {
  return text.replace(HIDDEN, escape);
}

/** A text that is to stay in its line, cut where it gets too long. */
export function visibleLine(text: string, length: number = Infinity): string {
  const line = visibleText(text).replace(/\n/g, escape);
  return line.length > length ? `${line.slice(0, length).replace(/\p{Surrogate}$/u, "")}…` : line;
}

/** A value as one line of JSON to edit: the escapes are JSON's own, so that it still means the same. */
export function editable(value: unknown): string {
  return JSON.stringify(value).replace(HIDDEN, (character) => character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
}

function escape(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16)}}`;
}
