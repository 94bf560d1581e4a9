// `npm run mutation`: tries every mutant of the core against the quick tests. Fails below a score of 95 %, for a survivor that
// SURVIVORS.md doesn't explain, and for an explanation whose mutant is caught. `-- --report` only reads the last report.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { known, stated } from "./figures.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");
if (!process.argv.includes("--report")) {
  const { status } = spawnSync(process.execPath, [join(here, "node_modules/@stryker-mutator/core/bin/stryker.js"), "run", join(here, "stryker.json")], { cwd: root, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

const report = JSON.parse(readFileSync(join(here, "node_modules/.cache/mutation.json"), "utf8"));
const cell = (text) => `\`${text.replace(/\s+/g, " ").replaceAll("|", "¦").replaceAll("`", "'").slice(0, 110)}\``;
const counts = {};
const survivors = [];
for (const [file, { source, mutants }] of Object.entries(report.files)) {
  const lines = source.split("\n");
  for (const { status, location: { start, end }, replacement } of mutants) {
    counts[status] = (counts[status] ?? 0) + 1;
    if (status !== "Survived" && status !== "NoCoverage") continue;
    const text = start.line === end.line
      ? lines[start.line - 1].slice(start.column - 1, end.column - 1)
      : [lines[start.line - 1].slice(start.column - 1), ...lines.slice(start.line, end.line - 1), lines[end.line - 1].slice(0, end.column - 1)].join("\n");
    survivors.push(`| ${file.replace("src/", "")}:${lines[start.line - 1].trim().slice(0, 40).replace(/[`|]/g, "'")} | ${cell(text)} | ${cell(replacement)} |`);
  }
}
const caught = (counts.Killed ?? 0) + (counts.Timeout ?? 0);
const all = caught + survivors.length;
const score = Math.floor((caught / all) * 1000) / 10;
const explained = readFileSync(join(here, "SURVIVORS.md"), "utf8").split("\n").filter((line) => /^\| \w[\w-]*\.ts:/.test(line));
const row = (line) => line.split("|").slice(0, 4).join("|").concat("|");
const missing = survivors.filter((survivor) => !explained.some((line) => row(line) === survivor && line.split("|")[4]?.trim()));
const gone = explained.filter((line) => !survivors.includes(row(line)));
for (const survivor of missing) console.error(`not explained: ${survivor}`);
for (const line of gone) console.error(`explained, but caught: ${line}`);
console.log(`mutation score ${score} %: ${caught} of ${all} mutants caught, ${survivors.length} survived`);
if (score < 95 || missing.length > 0 || gone.length > 0) process.exitCode = 1;
else known({ ...stated(), "mutation score": score, mutants: all });
