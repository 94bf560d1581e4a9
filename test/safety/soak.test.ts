// What very many steps cost, and what is left of them. Measured in processes of their own, whose garbage can be collected.
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { figure, SCALE } from "./scale.ts";

interface Told { steps: number; messages: number; cost: number[]; heaps: number[]; listeners: number; timers: string[] }

/** Up to three times: that the machine was busy is no slope, one that is there is there each time. */
async function soak(kind: string): Promise<Told> {
  for (let times = 1; ; times++) {
    const told = await new Promise<Told>((done, failed) => {
      execFile(process.execPath, ["--expose-gc", join(dirname(fileURLToPath(import.meta.url)), "soak.mjs"), kind, String(Math.max(1, SCALE))], (error, stdout) => (error ? failed(error) : done(JSON.parse(stdout) as Told)));
    });
    console.log(JSON.stringify(told));
    if (growth(told) < 2 || times === 3) return told;
  }
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;

/** How much more a step cost in the second half. */
const growth = ({ cost }: Told): number => median(cost.slice(5)) / median(cost.slice(0, 5));

test("100,000 steps in short runs: the heap is flat after collection, no listener or timer is left, a step costs the same", async () => {
  const told = await soak("short");
  expect(told.steps).toBeGreaterThanOrEqual(100_000);
  expect(Math.max(...told.heaps.slice(5)) - Math.max(...told.heaps.slice(0, 5))).toBeLessThan(300_000);
  expect([told.listeners, told.timers]).toEqual([0, []]);
  expect(growth(told)).toBeLessThan(2);
  figure("steps in short runs", told.steps);
});

test("one run of 5,000 steps: the heap grows with its transcript and no more, a step costs the same", async () => {
  const told = await soak("long");
  expect([told.steps, told.messages]).toEqual([5000, 10_000]);
  expect(((told.heaps[9] as number) - (told.heaps[0] as number)) / 4500).toBeLessThan(1500); // bytes for two messages and an id
  expect([told.listeners, told.timers]).toEqual([0, []]);
  expect(growth(told)).toBeLessThan(2);
  figure("steps in one run", told.steps);
});
