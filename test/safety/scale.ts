// How much is tried, from where, and what was counted. SAFETY_SCALE multiplies the runs of a push; SAFETY_SEED (printed by
// every run) repeats one; SAFETY_PATH, printed by fast-check, goes straight to a failing case.
import { appendFileSync } from "node:fs";
import type { Parameters } from "fast-check";

export const SCALE: number = Number(process.env["SAFETY_SCALE"] ?? 1);
export const SEED: number = Number(process.env["SAFETY_SEED"] ?? Date.now() % 2 ** 31);

/** What fast-check is told: 1,000 runs of a property in a push. */
export function runs(count = 1000): Parameters<unknown> {
  const path = process.env["SAFETY_PATH"];
  return { numRuns: Math.ceil(count * SCALE), seed: SEED, ...(path !== undefined && { path }) };
}

/** Random numbers in [0, 1) that a seed repeats (mulberry32). */
export function random(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A figure for the README and the security policy: what this run has measured. */
export function figure(name: string, value: number | string): void {
  console.log(`figure ${name}: ${value}`);
  const file = process.env["SAFETY_FIGURES"];
  if (file) appendFileSync(file, `${JSON.stringify({ name, value })}\n`);
}
