import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { putWhole } from "./whole.ts";

/** A signed-in person. `token` must come with every form, and no other site can know it. */
export interface Session {
  name: string;
  token: string;
}

const DAYS_30 = 30 * 24 * 60 * 60 * 1000;

/** One password for all, and a name that each gives: enough to say in the audit trail who decided. The session is in a signed cookie. */
export class Door {
  readonly #secret: Buffer;
  readonly password: string;
  #failures = 0;

  constructor(secret: Buffer, password: string) {
    this.#secret = secret;
    this.password = password;
  }

  /** Checks the password; false also when there were too many wrong ones lately. */
  admits(password: string): boolean {
    if (this.#failures >= 20) return false;
    const hash = (text: string): Buffer => createHash("sha256").update(text).digest();
    if (timingSafeEqual(hash(password), hash(this.password))) return true;
    this.#failures++;
    setTimeout(() => this.#failures--, 60_000).unref();
    return false;
  }

  /** The cookie of a session that begins now. */
  cookie(name: string, now: number): string {
    const text = Buffer.from(JSON.stringify({ name, until: now + DAYS_30 })).toString("base64url");
    return `${text}.${this.#sign("session", text)}`;
  }

  session(cookie: string | undefined, now: number): Session | undefined {
    const [text = "", signature = ""] = (cookie ?? "").split(".");
    if (!this.#same(signature, this.#sign("session", text))) return undefined;
    const { name, until } = JSON.parse(Buffer.from(text, "base64url").toString()) as { name: string; until: number };
    return until > now ? { name, token: this.#sign("form", text) } : undefined;
  }

  owns(session: Session, token: string): boolean {
    return this.#same(token, session.token);
  }

  #sign(purpose: string, text: string): string {
    return createHmac("sha256", this.#secret).update(`${purpose}\n${text}`).digest("base64url");
  }

  #same(a: string, b: string): boolean {
    const [left, right] = [Buffer.from(a), Buffer.from(b)];
    return left.length === right.length && timingSafeEqual(left, right);
  }
}

/** The door of a data folder: its secret is drawn once, so that nobody has to sign in again after a restart. */
export async function openDoor(folder: string, password: string | undefined): Promise<Door> {
  const file = join(folder, "secret.json");
  await putWhole(file, JSON.stringify({ secret: randomBytes(32).toString("hex"), password: randomBytes(9).toString("base64url") }));
  const { secret, password: drawn } = JSON.parse(await readFile(file, "utf8")) as { secret: string; password: string };
  // Another password is another door: who knew only the old one is out.
  const key = createHmac("sha256", Buffer.from(secret, "hex")).update(password || drawn).digest();
  return new Door(key, password || drawn);
}

/** What may stand as a name: short, and nothing in it that doesn't show. */
export function readName(text: string): string | undefined {
  const name = text.trim();
  return /^[\p{L}\p{M}\p{N}][\p{L}\p{M}\p{N} .'@-]{0,39}$/u.test(name) ? name : undefined;
}
