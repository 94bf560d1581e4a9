import base from "../vitest.config.ts";
import type { ViteUserConfig } from "vitest/config";

// What mutants are tried against: the tests of the rules, not those that start processes or build the package.
const config: ViteUserConfig = { ...base, test: { ...base.test, include: ["test/{agent,cases,decision,state,subagent,testing,tool}.test.ts"] } };

export default config;
