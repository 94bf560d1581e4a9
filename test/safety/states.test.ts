// Every state that a released version has saved can be resumed by this one, and then gives what it gave then.
import { readdirSync, readFileSync } from "node:fs";
import { agent, type OpenCall, pause, type State } from "yieldagent";
import { subagent } from "yieldagent/subagent";
import { afterAll, describe, expect, test } from "vitest";
import { figure } from "./scale.ts";
// @ts-expect-error: plain JavaScript, for the script to be run as it is
import { folder, resume, version } from "./states.mjs";

interface Saved { state: State; options: object; replies: unknown[]; then: { seen: string[]; messages: string[] } }

const versions = readdirSync(folder as URL).sort();
const saved = versions.flatMap((of) => readdirSync(new URL(`${of}/`, folder as URL)).map((file) => [of, file.replace(".json", ""), JSON.parse(readFileSync(new URL(`${of}/${file}`, folder as URL), "utf8")) as Saved] as const));
afterAll(() => figure("old states", saved.length));

test("this version has saved its states: npm run states, below test/safety, adds them", () => {
  expect(versions).toContain(version);
});

test("every version has saved every status, and every reason to wait", () => {
  for (const of of versions) {
    const calls = saved.filter(([each]) => each === of).flatMap(([, , { state }]) => state.calls as OpenCall[]);
    const inside = calls.flatMap(({ data }) => (data as State | undefined)?.calls ?? []);
    expect(new Set(inside.map(({ status }) => status))).toEqual(new Set(["new", "pending", "started", "done"])); // one that is ready is never kept: it starts at once
    expect(new Set(calls.map(({ status, reason }) => [status, reason].filter(Boolean).join(" ")))).toEqual(new Set(["new", "ready", "started", "done", "pending approval", "pending answer", "pending interrupted", "pending"]));
  }
});

describe("a saved state goes on as it did when it was saved:", () => {
  test.each(saved)("%s %s", async (_, __, { then, ...state }) => {
    expect(await resume({ agent, pause, subagent }, state)).toEqual(then);
  });
});
