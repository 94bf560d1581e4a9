import { isObject, keep } from "./json.ts";

/**
 * What is no plainly visible character: control, format, private-use, unassigned and unpaired surrogate ones, separators
 * but for the space, and fillers that Unicode counts among letters, marks and symbols. What is unassigned goes by the
 * Unicode version of the engine, so an older one shows more as escapes.
 */
const HIDDEN = "(?! )[\\p{C}\\p{Z}\\p{Default_Ignorable_Code_Point}\\u2800\\u{13441}\\u{13442}\\u{16fe4}\\u{1d159}]";
const ESCAPED = new RegExp(`${HIDDEN}|(?<= {8}) `, "gu");

/**
 * A pending call, or any JSON value, as text that a person can decide on in a terminal, a log or a chat message: indented
 * JSON in which nothing is cut and nothing hides. Every character that isn't plainly visible is an escape, in keys and
 * names too; of a run of spaces those from the ninth on. The text is JSON of that very value: no two values share one.
 *
 * Throws a `TypeError` for what JSON can't hold (`undefined`, a Map, a cycle, `NaN`).
 */
export function show(value: unknown): string {
  const kept = keep(value, undefined, true);
  if (kept === undefined) throw new TypeError(`JSON can't hold ${typeof value}`);
  // Within its strings JSON has no line break: spaces at the start of a line are layout.
  const lines = JSON.stringify(kept, null, 2).split("\n").map((line) => {
    const text = line.trimStart();
    return line.slice(0, line.length - text.length) + visible(text);
  });
  return lines.join("\n");
}

function visible(text: string): string {
  return text.replace(ESCAPED, (character) => character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
}

/** Latin letters, and after each the letters of other scripts that look like it in most fonts. */
const LOOKALIKES = new Map(`
aаɑα AАΑᎪ bЬ BВΒᏴ cсϲᴄ CСϹᏟ dԁ DᎠ eеҽ EЕΕᎬ FϜ gɡց GԌᏀ hһհ HНΗᎻ iіıι IІΙӀ jјϳ JЈᎫ kκ KКΚᏦ lӏǀ LᏞ MМΜᎷ nո NΝ oоοօᴏ OОΟՕ pрρ PРΡᏢ
qԛգ QԚ rг RᎡ sѕ SЅՏᏚ TТΤᎢ uսυ UՍ vѵν VѴᏙ wԝѡ WԜᎳ xхχ XХΧ yуγү YУΥҮ zᴢ ZΖᏃ`.trim().split(/\s+/).flatMap(([latin = "", ...others]) => others.map((other) => [other, latin] as const)));

/**
 * What a UI may mark in a value that a person decides on, each as `where: what`: letters of another script that look
 * like Latin ones, in words that can be read as Latin; and characters that don't show. `[]`: nothing was found.
 */
export function suspicious(value: unknown): string[] {
  const found = new Set<string>();
  const look = (value: unknown, path: string): void => {
    if (typeof value === "string") {
      // The lines and tabs of a text are its layout; in a name they are none.
      for (const what of suspicions(value.replace(/\r?\n|\t/g, " "))) found.add(`${path || "value"}: ${what}`);
    } else if (Array.isArray(value)) value.forEach((item, i) => look(item, `${path}[${i}]`));
    else if (isObject(value)) {
      for (const [key, item] of Object.entries(value)) {
        const inner = path ? `${path}.${visible(key)}` : visible(key);
        for (const what of suspicions(key)) found.add(`${inner}, its name: ${what}`);
        look(item, inner);
      }
    }
  };
  look(value, "");
  return [...found];
}

function suspicions(text: string): string[] {
  const found: string[] = [];
  const point = (character: string): string => `U+${(character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, "0")}`;
  for (const [character] of text.matchAll(new RegExp(HIDDEN, "gu"))) found.push(`${point(character)} doesn't show`);
  for (const [word] of text.matchAll(/[\p{L}\p{N}]+/gu)) {
    const letters = [...word].map((letter) => ({ letter, latin: latinOf(letter) }));
    // A word with letters that look like nothing Latin is a word of its own script.
    if (!letters.every(({ letter, latin }) => latin || /[\p{Script=Latin}\p{N}]/u.test(letter)) && !/\p{Script=Latin}/u.test(word)) continue;
    for (const { letter, latin } of letters) if (latin) found.push(`${point(letter)} looks like ${JSON.stringify(latin)}`);
  }
  return found;
}

/** The Latin letter or digit that another character looks like. */
function latinOf(letter: string): string | undefined {
  if (letter < "\u0100") return undefined;
  const plain = letter.normalize("NFKC");
  return LOOKALIKES.get(letter) ?? (/^[a-z0-9]+$/i.test(plain) ? plain : undefined);
}
