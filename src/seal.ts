import { isObject } from "./json.ts";
import type { State } from "./state.ts";

/** By key id, the keys: 32 random bytes each. */
export type SealKeys = Readonly<Record<string, Uint8Array>>;

export interface SealOptions {
  keys: SealKeys;
  /** The one of `keys` to seal with. */
  keyId: string;
  /** What the token is for; it opens for nothing else. */
  purpose: string;
  /** How long the token can be opened, in ms. */
  expiresIn: number;
}

export interface OpenOptions {
  /** Keys that tokens may have been sealed with. */
  keys: SealKeys;
  purpose: string;
  /** The run that the state must belong to. Default: not checked. */
  id?: string | undefined;
  /** The lowest revision that the state may have: from your own records, against a token of before. Default: not checked. */
  minRevision?: number | undefined;
}

/**
 * - `expired`: the token can't be opened any more
 * - `stale`: its state is of before `minRevision`
 * - `invalid`: anything else. Of a token nothing more is said; wrong options are named
 */
export type SealErrorCode = "expired" | "stale" | "invalid";

/** Thrown by `seal` and `open` for whatever is wrong with a token, or with their options. */
export class SealError extends Error {
  override readonly name = "SealError";
  readonly code: SealErrorCode;

  constructor(code: SealErrorCode, message: string) {
    super(message);
    this.code = code;
  }

  /** A process may hold this class twice, as an ES module and as CommonJS: each knows the other's errors. */
  static override [Symbol.hasInstance](value: unknown): value is SealError {
    return (value as SealError | undefined)?.name === "SealError" && "code" in (value as SealError);
  }
}

/**
 * A state as a token that can leave the server: encrypted and authenticated (AES-256-GCM, WebCrypto), so that whoever
 * holds it can neither read nor change it. It is ASCII that fits into a URL, and about a third longer than the state.
 * A token can be opened any number of times until it expires: `open` with `minRevision`, or keep your own records, if
 * that matters. To change keys, add the new one, seal with it, and drop the old one after the longest `expiresIn`.
 *
 * Throws `SealError` `invalid` for wrong options.
 */
export async function seal(state: State, { keys, keyId, purpose, expiresIn }: SealOptions): Promise<string> {
  if (!isObject(state) || typeof state.id !== "string" || !Number.isInteger(state.revision)) throw wrong("seal: the state is none");
  if (!/^[\w-]+$/.test(keyId)) throw wrong("keyId must be letters, digits, - and _");
  if (!(typeof expiresIn === "number" && expiresIn > 0 && expiresIn < Infinity)) throw wrong("expiresIn must be a time in ms");
  const { subtle, getRandomValues } = await crypto();
  const iv = getRandomValues(new Uint8Array(12));
  const text = JSON.stringify({ expires: Date.now() + expiresIn, state });
  const key = await keyOf(subtle, keys, keyId);
  const data = await subtle.encrypt({ name: "AES-GCM", iv, additionalData: bound(keyId, purpose) }, key, new TextEncoder().encode(text));
  return ["v1", keyId, base64url(iv), base64url(new Uint8Array(data))].join(".");
}

/**
 * The state in a token of `seal`. Throws `SealError`; `agent()` still checks the state, as it does any.
 */
export async function open(token: string, { keys, purpose, id, minRevision }: OpenOptions): Promise<State> {
  if (minRevision !== undefined && !Number.isInteger(minRevision)) throw wrong("minRevision must be a whole number");
  const refused = new SealError("invalid", "the token is invalid");
  const [, keyId = "", iv = "", data = ""] = /^v1\.([\w-]+)\.([\w-]{16})\.([\w-]+)$/.exec(typeof token === "string" ? token : "") ?? [];
  if (keyId === "" || !isObject(keys) || !Object.hasOwn(keys, keyId)) throw refused;
  const { subtle } = await crypto();
  const key = await keyOf(subtle, keys, keyId);
  const additionalData = bound(keyId, purpose);
  let opened: { expires: number; state: State };
  try {
    const text = await subtle.decrypt({ name: "AES-GCM", iv: bytes(iv), additionalData }, key, bytes(data));
    opened = JSON.parse(new TextDecoder().decode(text)) as typeof opened;
  } catch {
    throw refused;
  }
  if (opened.expires <= Date.now()) throw new SealError("expired", "the token has expired");
  if (id !== undefined && opened.state.id !== id) throw refused;
  if (minRevision !== undefined && opened.state.revision < minRevision) throw new SealError("stale", "the token is of an older state");
  return opened.state;
}

function wrong(what: string): SealError {
  return new SealError("invalid", what);
}

/** WebCrypto. In Node 18 it is no global. */
async function crypto(): Promise<{ subtle: SubtleCrypto; getRandomValues: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer> }> {
  // Not a literal: bundlers for browsers would look for it.
  const builtIn = "node:crypto";
  const web = globalThis.crypto ?? ((await import(builtIn)) as { webcrypto: Crypto }).webcrypto;
  return { subtle: web.subtle, getRandomValues: (array) => web.getRandomValues(array) };
}

async function keyOf(subtle: SubtleCrypto, keys: SealKeys, keyId: string): Promise<CryptoKey> {
  const key = isObject(keys) && Object.hasOwn(keys, keyId) ? keys[keyId] : undefined;
  if (!key || Object.prototype.toString.call(key) !== "[object Uint8Array]" || key.length !== 32) throw wrong(`keys must hold a key of 32 bytes, a Uint8Array, under ${JSON.stringify(keyId)}`);
  return subtle.importKey("raw", new Uint8Array(key), "AES-GCM", false, ["encrypt", "decrypt"]);
}

/** What a token is bound to beside its key. */
function bound(keyId: string, purpose: string): Uint8Array<ArrayBuffer> {
  if (typeof purpose !== "string" || purpose === "") throw wrong("purpose must be a string, not empty");
  return new TextEncoder().encode(JSON.stringify(["yieldagent/seal", 1, keyId, purpose]));
}

function base64url(data: Uint8Array): string {
  let binary = "";
  for (let i = 0; i < data.length; i += 0x8000) binary += String.fromCharCode(...data.subarray(i, i + 0x8000));
  return btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** The bytes of a text of `base64url`, and of no other that would give the same. */
function bytes(text: string): Uint8Array<ArrayBuffer> {
  const data = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (character) => character.charCodeAt(0));
  if (base64url(data) !== text) throw wrong("the text is not as it was written");
  return data;
}
