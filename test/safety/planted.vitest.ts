import type { ViteUserConfig } from "vitest/config";
import base from "./vitest.config.ts";

const EYES = { rules: "test/{agent,cases,decision,state,subagent,tool}.test.ts", simulated: "test/safety/{properties,crashes}.test.ts" };
const only = process.env["SAFETY_EYES"] as keyof typeof EYES | undefined;

// What planted bugs are tried against: the tests of the rules, the properties and the simulated crashes, in one process;
// SAFETY_EYES=rules or SAFETY_EYES=simulated tells what each would see without the other.
const config: ViteUserConfig = {
  ...base,
  test: { ...base.test, include: only ? [EYES[only]] : Object.values(EYES), testTimeout: 20_000, isolate: false, fileParallelism: false },
};

export default config;
