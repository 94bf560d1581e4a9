// What a release says, in Markdown: the subjects of its commits, newest first, since the tag before it.
//   node .github/changelog.mjs            since the last tag: what the next release would say
//   node .github/changelog.mjs v1.2.3     of that tag, which must be the version in package.json
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const [tag] = process.argv.slice(2);
const git = (...args) => execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
const { version } = JSON.parse(readFileSync("package.json", "utf8"));
if (tag !== undefined && tag !== `v${version}`) {
  console.error(`the tag is ${tag}, but package.json says ${version}`);
  process.exit(1);
}

const tags = git("tag", "--list", "v*", "--merged", tag ?? "HEAD", "--sort=-version:refname").split("\n").filter((name) => name && name !== tag);
const range = tags[0] === undefined ? (tag ?? "HEAD") : `${tags[0]}..${tag ?? "HEAD"}`;
const commits = git("log", "--no-merges", "--format=- %s (%h)", range);
console.log(`${tags[0] === undefined ? "The first release." : `Changes since ${tags[0]}:`}\n\n${commits || "- none"}`);
