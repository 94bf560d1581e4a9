import { show } from "yieldagent/show";

/** Text that is HTML already. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Value = Html | string | number | undefined | false | readonly Value[];

/** HTML in which every value is escaped, but for what is `Html` already. Nothing and false are left out. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(strings.map((text, i) => text + (i < values.length ? textOf(values[i]) : "")).join(""));
}

function textOf(value: Value): string {
  if (value === undefined || value === false) return "";
  if (value instanceof Html) return value.text;
  if (typeof value === "object") return value.map(textOf).join("");
  return String(value).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/**
 * A value in full, and nothing hides in it: what `show` makes of it. A text keeps its line breaks, since an email is
 * unreadable without; every other escape stays, so that still no two values look the same.
 */
export function shown(value: unknown): string {
  const text = show(value);
  return typeof value === "string" ? text.replace(/\\(n|.)/g, (escape, character) => (character === "n" ? "\n" : escape)) : text;
}

/** Prose, such as the model's: as it is, but for what doesn't show. */
export function prose(text: string): string {
  return shown(text).slice(1, -1).replace(/\\(["\\])/g, "$1");
}
