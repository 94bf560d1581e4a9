// The loop inside Temporal's workflow sandbox: bundled from the packed tarball, and replayed from histories that were made
// without a server. That a replay goes through says that the loop asks for the same things in the same order, and needs nothing
// that the sandbox hasn't got; that a changed history is noticed says that the replay looks.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packed, type Packed } from "./packed.ts";

let project: Packed;
beforeAll(() => void (project = packed()), 120_000);
afterAll(() => project?.remove());

test("a run replays in a workflow sandbox, and what didn't happen so is noticed", { timeout: 240_000 }, async () => {
  const replay = fileURLToPath(new URL("runtimes/temporal/replay.mjs", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [replay, join(project.folder, "node_modules/yieldagent/dist/index.js")]);
  expect(JSON.parse(stdout)).toEqual({
    "as it happened": "replayed",
    "another activity paid": "DeterminismViolationError",
    "it paid twice": "DeterminismViolationError",
    "a person said no, and yet it paid": "DeterminismViolationError",
    "the model asked for nothing, and yet it paid": "DeterminismViolationError",
  });
});
