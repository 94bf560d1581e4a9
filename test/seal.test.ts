import { afterEach, describe, expect, test, vi } from "vitest";
import { agent, type State, tool } from "yieldagent";
import { open, type OpenOptions, seal, SealError, type SealOptions } from "yieldagent/seal";
import { collect, script, toolCall } from "yieldagent/testing";

const key = (fill: number): Uint8Array => new Uint8Array(32).fill(fill);
const keys = { k1: key(1), k2: key(2) };
const sealing: SealOptions = { keys, keyId: "k1", purpose: "approval", expiresIn: 60_000 };
const opening: OpenOptions = { keys, purpose: "approval" };
const call = script(toolCall("send", { to: "ann" }, "c1"), "Done.");
const tools = { send: tool({ needsApproval: true, run: () => "sent" }) };

async function paused(): Promise<State> {
  const run = agent({ call, tools, messages: [{ role: "user", content: "Grüße 😀" }], id: "run-1" });
  await collect(run);
  return run.state;
}

async function failure(token: string, options: Partial<OpenOptions> = {}): Promise<SealError> {
  const thrown = await open(token, { ...opening, ...options }).then(() => undefined, (error: unknown) => error);
  expect(thrown).toBeInstanceOf(SealError);
  return thrown as SealError;
}

afterEach(() => void vi.useRealTimers());

describe("a sealed state", () => {
  test("comes out as it went in, and the run goes on", async () => {
    const state = await paused();
    const token = await seal(state, sealing);
    const opened = await open(token, { ...opening, id: "run-1", minRevision: state.revision });
    expect(opened).toEqual(state);
    expect((await collect(agent({ call, tools, state: opened, decisions: { c1: true } }))).map(({ type }) => type).join(" ")).toBe("tool-start tool-result message final");
  });

  test("can be read by nobody, fits into a URL, and is another token each time", async () => {
    const state = await paused();
    const tokens = await Promise.all([seal(state, sealing), seal(state, sealing)]);
    expect(tokens[0]).not.toBe(tokens[1]);
    for (const token of tokens) {
      expect(token).toMatch(/^v1\.k1\.[\w-]{16}\.[\w-]+$/);
      for (const part of token.split(".")) expect(Buffer.from(part, "base64url").toString("latin1")).not.toMatch(/send|ann|run-1/);
      expect(token.length).toBeLessThan(JSON.stringify(state).length * 1.5 + 100);
    }
  });

  test("of many megabytes is sealed as well", async () => {
    const state = { ...(await paused()), messages: [{ role: "user", content: "x".repeat(5_000_000) }] };
    expect(await open(await seal(state, sealing), opening)).toEqual(state);
  });

  test("opens twice: it is the caller who knows what was used", async () => {
    const token = await seal(await paused(), sealing);
    expect(await open(token, opening)).toEqual(await open(token, opening));
  });
});

describe("what is refused, with one error and no more than its kind:", () => {
  test("any changed, missing or added character", async () => {
    const token = await seal(await paused(), sealing);
    for (let i = 0; i < token.length; i++) {
      const others = [String.fromCharCode(token.charCodeAt(i) ^ 1), token[i] === "A" ? "B" : "A", ""];
      for (const other of others) {
        const changed = token.slice(0, i) + other + token.slice(i + 1);
        if (changed !== token) expect(await failure(changed)).toMatchObject({ code: "invalid", message: "the token is invalid" });
      }
    }
    for (const changed of [`${token}A`, `${token}=`, ` ${token}`, `${token}\n`, token.replace(/\./, ".."), token.toUpperCase(), token.slice(0, 40), "", "v1", "v1.k1.."]) expect(await failure(changed)).toMatchObject({ code: "invalid", message: "the token is invalid" });
  });

  test("every other last character, also those that decode to the same bytes", async () => {
    const token = await seal(await paused(), sealing);
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (const last of alphabet) if (last !== token.at(-1)) expect((await failure(token.slice(0, -1) + last)).code).toBe("invalid");
  });

  test("parts of two tokens", async () => {
    const [a = [], b = []] = (await Promise.all([seal(await paused(), sealing), seal(await paused(), sealing)])).map((token) => token.split("."));
    expect((await failure([...a.slice(0, 3), b[3]].join("."))).code).toBe("invalid");
    expect((await failure([a[0], "k2", ...a.slice(2)].join("."))).code).toBe("invalid");
  });

  test("another purpose, another run, another key under the same name, an unknown key", async () => {
    const token = await seal(await paused(), sealing);
    for (const options of [{ purpose: "other" }, { id: "run-2" }, { keys: { k1: key(9) } }, { keys: {} }, { keys: { k2: key(2) } }] as Partial<OpenOptions>[]) {
      expect(await failure(token, options)).toMatchObject({ code: "invalid", message: "the token is invalid" });
    }
    expect((await failure(token.replace(".k1.", ".constructor."))).code).toBe("invalid");
  });

  test("a token that has expired, from the very millisecond", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_000_000 });
    const token = await seal(await paused(), sealing);
    vi.setSystemTime(1_059_999);
    expect((await open(token, opening)).id).toBe("run-1");
    vi.setSystemTime(1_060_000);
    expect((await failure(token)).code).toBe("expired");
    expect((await failure(token, { purpose: "other" })).code).toBe("invalid");
  });

  test("a state of before", async () => {
    const state = await paused();
    const token = await seal(state, sealing);
    expect((await failure(token, { minRevision: state.revision + 1 })).code).toBe("stale");
  });

  test("keys that are none: too short, too long, a text, a list", async () => {
    const state = await paused();
    const token = await seal(state, sealing);
    for (const bad of [new Uint8Array(16), new Uint8Array(33), "x".repeat(32), Array(32).fill(1), undefined] as unknown as Uint8Array[]) {
      expect((await failure(token, { keys: { k1: bad } })).code).toBe("invalid");
      await expect(seal(state, { ...sealing, keys: { k1: bad } })).rejects.toThrow('keys must hold a key of 32 bytes, a Uint8Array, under "k1"');
    }
  });

  test("options that are none, by name", async () => {
    const state = await paused();
    const wrong = (options: Partial<SealOptions>) => expect(seal(state, { ...sealing, ...options })).rejects;
    await wrong({ purpose: "" }).toThrow("purpose must be a string, not empty");
    await wrong({ keyId: "a.b" }).toThrow("keyId must be letters, digits, - and _");
    for (const expiresIn of [0, -1, NaN, Infinity, undefined, "1"] as number[]) await wrong({ expiresIn }).toThrow("expiresIn must be a time in ms");
    await expect(seal({} as State, sealing)).rejects.toThrow("seal: the state is none");
    const token = await seal(state, sealing);
    expect((await failure(token, { minRevision: NaN })).message).toBe("minRevision must be a whole number");
    expect((await failure(token, { purpose: undefined as unknown as string })).message).toBe("purpose must be a string, not empty");
  });

  test("and a token that is no string", async () => {
    for (const token of [undefined, null, 3, {}, []] as unknown as string[]) expect((await failure(token)).code).toBe("invalid");
  });
});

test("keys are changed by adding one, sealing with it, and dropping the old one", async () => {
  const state = await paused();
  const old = await seal(state, sealing);
  const rotated = { ...keys, k3: key(3) };
  const fresh = await seal(state, { ...sealing, keys: rotated, keyId: "k3" });
  expect(await open(old, { ...opening, keys: rotated })).toEqual(state);
  expect(await open(fresh, { ...opening, keys: { k3: key(3) } })).toEqual(state);
  expect((await failure(old, { keys: { k3: key(3) } })).code).toBe("invalid");
});
