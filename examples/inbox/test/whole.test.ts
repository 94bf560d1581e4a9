// What kill -9 leaves behind, simulated: at each operation on a file, in turn, the program stops for ever. Then it is
// started anew, and must find everything whole.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Args, Tool } from "yieldagent";
import { describe, expect, test, vi } from "vitest";
import { openDoor } from "../src/session.ts";
import { shopTools } from "../src/tools.ts";

/** How many operations still happen, what is called at the first that doesn't, and the files that are open then. */
const life = vi.hoisted(() => ({ left: Infinity, killed: (): void => {}, open: new Set<{ close(): Promise<void> }>() }));

vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  const mortal = <A extends unknown[], R>(operation: (...args: A) => Promise<R>) => async (...args: A): Promise<R> => {
    if (life.left-- > 0) return await operation(...args);
    life.killed();
    return await new Promise<R>(() => {});
  };
  const open = async (...args: Parameters<typeof real.open>): Promise<object> => {
    const handle = await real.open(...args);
    life.open.add(handle);
    const close = async (): Promise<void> => {
      life.open.delete(handle);
      await handle.close();
    };
    return { writeFile: mortal((text: string) => handle.writeFile(text)), datasync: mortal(() => handle.datasync()), close: mortal(close) };
  };
  return { ...real, mkdir: mortal(real.mkdir), link: mortal(real.link), rm: mortal(real.rm), readFile: mortal(real.readFile), open: mortal(open) };
});

/** Does it in a folder of its own for each operation that it may be killed at; then `again`, unharmed. Returns how many those were. */
async function killedAtEach(first: (folder: string) => Promise<unknown>, again: (folder: string) => Promise<void>): Promise<number> {
  for (let point = 0; ; point++) {
    const folder = mkdtempSync(join(tmpdir(), "yieldagent-whole-"));
    try {
      life.left = point;
      const killed = new Promise<"killed">((resolve) => (life.killed = () => resolve("killed")));
      const end = await Promise.race([first(folder).then(() => "done"), killed]);
      life.left = Infinity;
      await again(folder);
      if (end === "done") return point;
    } finally {
      for (const handle of life.open) await handle.close();
      life.open.clear();
      rmSync(folder, { recursive: true });
    }
  }
}

const filesIn = (folder: string): unknown[] => readdirSync(folder).filter((name) => name.endsWith(".json")).map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as unknown);

/** Runs a tool as the call `run/call` would. */
function does(name: "refund" | "sendEmail", args: Args): (folder: string) => Promise<unknown> {
  return async (folder) => await (shopTools(folder, 0) as Record<string, Tool>)[name]?.run?.(args, { key: "run/call" } as never);
}

const refund = { order: "A-17", euros: 40, why: "broken" };
const pay = does("refund", refund);

describe("killed at any moment", () => {
  test("of a payment, it is made once when it is asked for again, and is the payment that was approved", async () => {
    const points = await killedAtEach(pay, async (folder) => {
      expect(await pay(folder)).toEqual({ key: "run/call", ...refund });
      expect(filesIn(join(folder, "payments"))).toEqual([{ key: "run/call", ...refund }]);
    });
    expect(points).toBeGreaterThan(4);
  });

  test("of an email, it was sent whole or not at all", async () => {
    const email = { to: "ann@example.com", subject: "Your lamp", body: "It comes again." };
    const points = await killedAtEach(does("sendEmail", email), async (folder) => {
      const outbox = readdirSync(folder).includes("outbox") ? filesIn(join(folder, "outbox")) : [];
      expect([[], [{ key: "run/call", ...email }]]).toContainEqual(outbox);
    });
    expect(points).toBeGreaterThan(4);
  });

  test("of its first start, it starts again, with one secret from then on", async () => {
    const points = await killedAtEach((folder) => openDoor(folder, undefined), async (folder) => {
      const { password } = await openDoor(folder, undefined);
      expect((await openDoor(folder, undefined)).password).toBe(password);
    });
    expect(points).toBeGreaterThan(4);
  });
});

test("of many who put a file there at a time one does, and it is that one's", async () => {
  const folder = mkdtempSync(join(tmpdir(), "yieldagent-whole-"));
  try {
    const doors = await Promise.all(Array.from({ length: 20 }, () => openDoor(folder, undefined)));
    expect(new Set(doors.map(({ password }) => password)).size).toBe(1);
    expect(readdirSync(folder)).toEqual(["secret.json"]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
