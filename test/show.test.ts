import { describe, expect, test } from "vitest";
import { show, suspicious } from "yieldagent/show";

/** Every code point of a kind, unpaired surrogates among them. */
function* codePoints(kind: RegExp): Generator<string> {
  for (let point = 0; point <= 0x10ffff; point++) {
    const character = String.fromCodePoint(point);
    if (kind.test(character)) yield character;
  }
}

const KINDS: Record<string, RegExp> = {
  control: /\p{Cc}/u, format: /\p{Cf}/u, "private-use": /\p{Co}/u, unassigned: /\p{Cn}/u, surrogate: /\p{Cs}/u,
  "odd space": /[\p{Zs}\p{Zl}\p{Zp}](?<! )/u, ignorable: /\p{Default_Ignorable_Code_Point}/u, filler: /[\u115f\u1160\u3164\uffa0\u2800\u{13441}]/u,
};

describe("show leaves nothing hidden:", () => {
  for (const [name, kind] of Object.entries(KINDS)) {
    test(`every ${name} character is an escape, in values, keys and names`, () => {
      const all = [...codePoints(kind)];
      expect(all.length).toBeGreaterThan(0);
      for (let i = 0; i < all.length; i += 5000) {
        // A letter between them, so that no two surrogates make a pair.
        const text = all.slice(i, i + 5000).join("x");
        const value = { id: "c", tool: text, args: { [text]: text, list: [text] } };
        const shown = show(value);
        expect(/[^\x20-\x7e\n]/.exec(shown)).toBeNull();
        expect(JSON.parse(shown)).toEqual(value);
      }
    });
  }

  test("a call that would paint over itself, and one that reads from the right", () => {
    expect(show({ tool: "run", args: { command: "rm -rf /\u001b[2K\rls", "\u202egpj": "a\u200bb" } })).toBe(
      '{\n  "tool": "run",\n  "args": {\n    "command": "rm -rf /\\u001b[2K\\rls",\n    "\\u202egpj": "a\\u200bb"\n  }\n}',
    );
  });

  test("what is padded to be out of sight", () => {
    const shown = show({ args: { to: `ann@example.com${" ".repeat(300)}, eve@example.com` } });
    expect(shown).not.toMatch(/"[^"]* {9}/);
    expect(JSON.parse(shown)).toEqual({ args: { to: `ann@example.com${" ".repeat(300)}, eve@example.com` } });
  });
});

describe("show is complete:", () => {
  test("nothing is cut, however long, deep or wide", () => {
    let value: unknown = "end";
    for (let i = 0; i < 60; i++) value = { [`level ${i}`]: value };
    for (const one of [value, { text: "x".repeat(2_000_000) }, Array.from({ length: 10_000 }, (_, i) => i)]) expect(JSON.parse(show(one))).toEqual(one);
  });

  test("different values have different texts", () => {
    const values = ["\u200b", "\\u200b", "\\\\u200b", "\ud83d", "\ufffd", "", " ", "\u00a0", "null", null, "1", 1, true, "true", [], {}, [[]], [null], { "": "" }, { a: "\n" }, { a: "\\n" }, "{}", "\u{1f600}", "\ud83d\u200d\ude00", "  ", " ".repeat(9), " ".repeat(10), `${" ".repeat(8)}\\u0020`];
    expect(new Set(values.map(show)).size).toBe(values.length);
  });

  test("what stays as it is: letters of all scripts, marks on them, emoji, plain spaces and code", () => {
    const text = "Grüße, Καλημέρα, привет, 世界, नमस्ते, שלום 😀\u2009?".replace("\u2009", " ");
    expect(show(text)).toBe(JSON.stringify(text));
    expect(show({ code: "if (a) {\n    b();\n}" })).toBe('{\n  "code": "if (a) {\\n    b();\\n}"\n}');
  });

  test("what JSON can't hold is refused, not shown as something else", () => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    for (const value of [undefined, NaN, 1n, new Map([["a", 1]]), cycle, { a: Infinity }, () => {}, Symbol("x")]) expect(() => show(value)).toThrow(TypeError);
  });
});

describe("suspicious", () => {
  test("marks letters that look like Latin ones, in words that read as Latin", () => {
    expect(suspicious({ args: { to: "аnn@example.com" } })).toEqual(['args.to: U+0430 looks like "a"']);
    expect(suspicious({ tool: "ѕend", args: ["ｇoogle", "𝐩aypal"] })).toEqual(['tool: U+0455 looks like "s"', 'args[0]: U+FF47 looks like "g"', 'args[1]: U+1D429 looks like "p"']);
    expect(suspicious("сосо")).toEqual(['value: U+0441 looks like "c"', 'value: U+043E looks like "o"']);
    expect(suspicious({ "аdmin": true })).toEqual(['аdmin, its name: U+0430 looks like "a"']);
  });

  test("marks what doesn't show, by where it is", () => {
    expect(suspicious({ args: { "a\u200b": ["x\u202ey", "z"] } })).toEqual(["args.a\\u200b, its name: U+200B doesn't show", "args.a\\u200b[0]: U+202E doesn't show"]);
  });

  test("finds nothing in the lines and tabs of a text, but a line that is begun over", () => {
    expect(suspicious({ body: "Dear Ann,\n\n\tHi.\r\n" })).toEqual([]);
    expect(suspicious({ body: "rm -rf /\rls", "to\n": 1 })).toEqual(["body: U+000D doesn't show", "to\\u000a, its name: U+000A doesn't show"]);
  });

  test("finds nothing in plain text of any script", () => {
    expect(suspicious({ a: "Send the report to ann@example.com, 2 m², Übung", b: "Отправь письмо маме", c: "Στείλε το γράμμα", d: "使用API发送", e: ["नमस्ते", 3, null, true] })).toEqual([]);
  });

  test("each finding once, and all of them", () => {
    expect(suspicious({ a: "аа аа", b: "а\u200b" })).toEqual(['a: U+0430 looks like "a"', "b: U+200B doesn't show", 'b: U+0430 looks like "a"']);
  });
});
