// The package as users get it: packed, and installed in a folder of its own.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root: string = fileURLToPath(new URL("../..", import.meta.url));

export interface Packed {
  /** A project with the package in its node_modules. */
  folder: string;
  tarball: string;
  remove(): void;
}

/** Packs what `npm run build` built: two test files that pack at a time must not build over each other. */
export function packed(): Packed {
  if (!existsSync(join(root, "dist/index.js"))) throw new Error("there is no dist: npm run build comes first");
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "yieldagent-packed-")));
  const npm = (...args: string[]): string => execFileSync("npm", args, { cwd: folder, encoding: "utf8", shell: process.platform === "win32" });
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  npm("pack", "--silent", "--ignore-scripts", "--pack-destination", folder, root);
  const tarball = join(folder, readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "none");
  npm("install", "--no-audit", "--no-fund", tarball);
  return { folder, tarball, remove: () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }) };
}
