// `replay.mjs <the package's dist/index.js>`: bundles the workflow and replays histories. Prints, for each, what came of it.
import { fileURLToPath } from "node:url";
import { bundleWorkflowCode, Runtime, DefaultLogger, Worker } from "@temporalio/worker";
import { history } from "./history.mjs";

const logger = new DefaultLogger("ERROR", () => {});
Runtime.install({ logger, telemetryOptions: { logging: { forward: {}, filter: "ERROR" } } });
const workflowBundle = await bundleWorkflowCode({
  workflowsPath: fileURLToPath(new URL("workflow.mjs", import.meta.url)),
  logger,
  webpackConfigHook: (config) => ({ ...config, resolve: { ...config.resolve, alias: { ...config.resolve?.alias, yieldagent$: process.argv[2] } } }),
});

const HISTORIES = {
  "as it happened": history(),
  "another activity paid": history({ paidBy: "refund" }),
  "it paid twice": history({ paidTwice: true }),
  "a person said no, and yet it paid": history({ decision: false }),
  "the model asked for nothing, and yet it paid": history({ secondReply: { role: "assistant", content: "Nothing is owed." } }),
};
const results = {};
for (const [name, events] of Object.entries(HISTORIES)) {
  try {
    await Worker.runReplayHistory({ workflowBundle }, events, "w-1");
    results[name] = "replayed";
  } catch (error) {
    results[name] = error.name;
    if (process.env.VERBOSE) console.error(name, error.message);
  }
}
console.log(JSON.stringify(results));
