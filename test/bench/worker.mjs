// One subject in a process of its own: it measures when it is told to. `node --expose-gc worker.mjs <subject>`
import { pathToFileURL } from "node:url";
import * as measures from "./measures.mjs";

// What peers print of themselves is not the report.
console.log = console.info = console.debug = console.warn = () => {};

const subject = await import(pathToFileURL(process.argv[2]).href);
process.on("message", async ({ measure, size, moment }) => {
  try {
    measures.setMoment(moment);
    process.send({ result: await measures[measure](subject, size) });
  } catch (error) {
    process.send({ error: String(error?.stack ?? error).slice(0, 2000) });
  }
});
process.on("disconnect", () => process.exit());
const { name, packages = [], imports, program } = subject;
process.send({ subject: { name, packages, imports, program, can: Object.keys(subject) } });
