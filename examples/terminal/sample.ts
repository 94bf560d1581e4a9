import { mkdir, mkdtemp, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

/** The real path of the folder that the user named, or of a sample. */
export async function folderFor(named: string | undefined, sample: string, files: Readonly<Record<string, string>>): Promise<string> {
  if (named === undefined) return realpath(await sampleFolder(sample, files));
  // npm runs scripts in the package's folder; INIT_CWD is where the user is.
  const folder = resolve(process.env["INIT_CWD"] ?? "", named);
  if (!(await stat(folder).catch(() => undefined))?.isDirectory()) throw new Error(`there is no folder ${folder}`);
  const root = await realpath(folder);
  if (dirname(root) === root) throw new Error(`${root} is not a folder to work in: there is no place beside it for the state`);
  return root;
}

/** A folder to try an example on: the same one each time, filled when it doesn't exist yet. */
async function sampleFolder(name: string, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = join(tmpdir(), `yieldagent-${name}-sample`);
  if (await exists(folder)) return folder;
  // Filled under another name first, so that it is never there half filled.
  const draft = await mkdtemp(`${folder}-`);
  try {
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(draft, path)), { recursive: true });
      await writeFile(join(draft, path), content);
    }
    await rename(draft, folder);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    if (!(await exists(folder))) throw error; // else another process has just made it
  }
  return folder;
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(() => true, () => false);
}
