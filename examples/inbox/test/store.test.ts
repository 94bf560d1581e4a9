import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { State } from "yieldagent";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Case, Conflict, openStore } from "../src/store.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "yieldagent-store-"));
});
afterAll(() => rm(folder, { recursive: true }));

const state = (id: string, revision: number): State => ({ version: 1, id, revision, messages: [], calls: [], steps: 0, usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } });
const value = (id: string, revision: number, askedBy = ""): Case => ({ state: state(id, revision), request: "", askedBy, askedAt: 0, changedAt: 0, audit: [] });

describe("the store", () => {
  test("of many who save the same revision takes one, at every revision", async () => {
    const stores = await Promise.all([1, 2, 3].map(() => openStore(folder)));
    for (let revision = 0; revision < 20; revision++) {
      const tried = await Promise.allSettled(stores.flatMap((store, i) => [store.save(value("a", revision, `${i}`)), store.save(value("a", revision, `${i} again`))]));
      expect(tried.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      for (const one of tried) if (one.status === "rejected") expect(one.reason).toBeInstanceOf(Conflict);
      expect((await stores[0]?.load("a"))?.state.revision).toBe(revision);
    }
    for (const store of stores) store.close();
  });

  test("takes no revision but the next", async () => {
    const store = await openStore(folder);
    for (const wrong of [0, 18, 19, 21]) await expect(store.save(value("a", wrong))).rejects.toBeInstanceOf(Conflict);
    await expect(store.save(value("new", 1))).rejects.toBeInstanceOf(Conflict);
    expect([await store.load("new"), await store.load("nobody")]).toEqual([undefined, undefined]);
    await store.save(value("a", 20));
    store.close();
  });

  test("opened anew has every run as it was saved last, whatever a dead process left behind", async () => {
    const before = await openStore(folder);
    await before.save(value("b", 0, "Ann"));
    before.close();
    const runs = join(folder, "runs");
    const files = (await readdir(folder)).includes("runs");
    if (files) await writeFile(join(runs, "b", "0a1b2c.new"), '{"state":');
    const store = await openStore(folder);
    const all: string[] = [];
    for await (const { state } of store.all()) all.push(`${state.id} ${state.revision}`);
    expect(all.sort()).toEqual(["a 20", "b 0"]);
    expect(files).toBe(!isBuiltin("node:sqlite"));
    if (files) expect([await readdir(join(runs, "b")), (await readdir(join(runs, "a"))).sort()]).toEqual([["000000000.json"], ["000000019.json", "000000020.json"]]);
    store.close();
  });
});
