import { AgentError, type AgentErrorCode, messageOf, quote } from "./error.ts";

/** A call's arguments: a JSON object. */
export type Args = Record<string, unknown>;

/** How deep what comes from outside may be nested; `JSON.stringify` itself gives up past some 4,000 levels. */
const MAX_DEPTH = 500;
/** A state holds what comes from outside some levels down, and more of them where it holds states of agents inside. */
export const MAX_STATE_DEPTH: number = MAX_DEPTH + 100;
/** A state of that depth still has room for what a call keeps. */
export const MAX_DATA_DEPTH: number = MAX_STATE_DEPTH - 5;
export const MAX_ARGUMENTS_DEPTH = 64;
/** Sizes are those of the JSON text, in UTF-16 code units. */
export const MAX_ARGUMENTS: number = 1024 * 1024;
export const MAX_RESULT: number = 16 * 1024 * 1024;
export const MAX_ERROR_TEXT = 2000;

/** Lists of frozen copies, each as deep as what comes from outside may be. */
const COPIED = new WeakSet<readonly unknown[]>();

/** Says of a frozen list that `keep` made all that is in it, so that the conversation of an agent inside isn't copied anew at each step. */
export function copied(list: readonly unknown[]): void {
  COPIED.add(list);
}

/**
 * A frozen copy of what JSON keeps of a value: it equals its own JSON round trip, and nobody can change it.
 * Goes by the rules of `JSON.stringify`, but throws a TypeError for what that would lose without a word (a Map, an
 * Error, a promise), for a BigInt, a key `__proto__`, and a nesting deeper than `depth` levels, which a cycle has too.
 * `strict` refuses numbers that JSON can't hold, instead of making them null.
 */
export function keep(value: unknown, depth: number = MAX_DEPTH, strict = false, frozen = true): unknown {
  switch (typeof value) {
    case "string": case "boolean": return value;
    case "number":
      if (Number.isFinite(value)) return value + 0; // JSON has no -0
      if (strict) throw new TypeError(`JSON can't hold ${value}`);
      return null;
    case "bigint": throw new TypeError("JSON can't hold a BigInt");
    case "object": break;
    default: return undefined;
  }
  if (value === null) return null;
  if (depth === 0) throw new TypeError("it is nested too deep, or contains itself");
  if (Array.isArray(value)) {
    if (depth > MAX_DEPTH && COPIED.has(value)) return value;
    const copy: unknown[] = [];
    for (let i = 0; i < value.length; i++) copy.push(keep(value[i], depth - 1, strict, frozen) ?? null);
    return frozen ? Object.freeze(copy) : copy;
  }
  const object = value as Args;
  if (typeof object["toJSON"] === "function") return keep(object["toJSON"](), depth - 1, strict, frozen);
  const keys = Object.keys(object);
  const kind = keys.length > 0 && !(object instanceof Error) ? "Object" : Object.prototype.toString.call(object).slice(8, -1);
  if (kind !== "Object") throw new TypeError(`JSON can't hold ${kind} objects`);
  const copy: Args = {};
  for (const key of keys) {
    if (key === "__proto__") throw new TypeError("it has a key __proto__");
    const kept = keep(object[key], depth - 1, strict, frozen);
    if (kept !== undefined) copy[key] = kept;
  }
  return frozen ? Object.freeze(copy) : copy;
}

/** The same copy, for its receiver to change. */
export function thaw<T>(value: T): T {
  return keep(value, MAX_DEPTH, false, false) as T;
}

/** The text with each unpaired surrogate, which no server takes, as U+FFFD. */
export function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\uFFFD");
}

/** An object with fields: what JSON means by the word, and neither an array nor a Map. */
export function isObject(value: unknown): value is Args {
  return typeof value === "object" && value !== null && !(Symbol.iterator in value);
}

/** What a field must be, in the words of the error. */
const KINDS = {
  "a string": (value: unknown): boolean => typeof value === "string",
  "a string, not empty": (value: unknown): boolean => typeof value === "string" && value !== "",
  "an AbortSignal": (value: unknown): boolean => isObject(value) && typeof value["addEventListener"] === "function",
  "a boolean": (value: unknown): boolean => typeof value === "boolean",
  "a function": (value: unknown): boolean => typeof value === "function",
  "a boolean or a function": (value: unknown): boolean => typeof value === "boolean" || typeof value === "function",
  "a whole number": (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0,
  "a whole number from 1, or Infinity": (value: unknown): boolean => value === Infinity || (Number.isInteger(value) && (value as number) > 0),
  "a JSON Schema or a Standard Schema (of effect 3: Schema.standardSchemaV1(schema); of effect 4: Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema)))": (value: unknown): boolean =>
    isObject(value) || (typeof value === "function" && "~standard" in value),
  "an array": (value: unknown): boolean => Array.isArray(value),
  "an object": (value: unknown): boolean => isObject(value),
  "true": (value: unknown): boolean => value === true,
  "anything": (_: unknown): boolean => true,
};
type Kind = keyof typeof KINDS;

/**
 * Checks an object that came from outside, field by field: `{ id: "a string", save: "a function?" }`, where a `?` allows
 * undefined too. `others`: may it have fields that aren't named?
 */
export function check(code: AgentErrorCode, where: string, value: unknown, fields: Readonly<Record<string, Kind | `${Kind}?`>>, others = true): asserts value is Args {
  if (!isObject(value)) throw new AgentError(code, `${where} must be an object`);
  for (const [field, kind] of Object.entries(fields)) {
    const name = kind.replace("?", "") as Kind;
    if (!KINDS[name](value[field]) && (name === kind || value[field] !== undefined)) throw new AgentError(code, `${where}.${field} must be ${name}`);
  }
  if (others) return;
  // A misspelt needsApproval, or approve, would be a gate that stands open.
  const unknown = Object.keys(value).find((field) => !Object.hasOwn(fields, field));
  if (unknown !== undefined) throw new AgentError(code, `${where} has no field ${quote(unknown)}, only ${Object.keys(fields).join(", ")}`);
}

/** `keep` for what came from outside: what JSON can't hold is an error that says where it was. */
export function keepChecked(code: AgentErrorCode, where: string, value: unknown, depth?: number): unknown {
  try {
    return keep(value, depth);
  } catch (error) {
    throw new AgentError(code, `${where} must be plain JSON: ${messageOf(error)}`);
  }
}
