import * as core from "yieldagent";
import * as anthropic from "yieldagent/anthropic";
import * as mcp from "yieldagent/mcp";
import * as openai from "yieldagent/openai";
import * as seal from "yieldagent/seal";
import * as show from "yieldagent/show";
import * as subagent from "yieldagent/subagent";
import * as testing from "yieldagent/testing";
import { conformance } from "./conformance.mjs";

const lib = Object.assign({}, core, anthropic, mcp, openai, seal, show, subagent, testing);

export const run = (origin) => conformance(lib, origin);
