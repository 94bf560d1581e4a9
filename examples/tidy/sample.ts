import { mkdir, mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** An untidy folder to try the example on: the same one each time, filled when it doesn't exist yet. */
export async function sampleFolder(): Promise<string> {
  const folder = join(tmpdir(), "yieldagent-tidy-sample");
  if (await exists(folder)) return folder;
  // Filled under another name first, so that it is never there half filled.
  const draft = await mkdtemp(`${folder}-`);
  try {
    for (const [path, content] of Object.entries(FILES)) {
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

const FILES: Record<string, string> = {
  ".DS_Store": "Bud1",
  "beach.jpg": "a picture of a beach",
  "sunset.jpg": "a picture of a sunset",
  "cat (1).jpg": "a picture of a cat",
  "pictures/cat.jpg": "a picture of a cat",
  "report copy.txt": "Everything is in order.\n",
  "taxes/report.txt": "Everything is in order.\n",
  "taxes/2025.txt": "Paid.\n",
  "invoice.txt": "March: 120.00\n",
  "draft.tmp": "half a sen",
  "letter.txt~": "Dear Sir\n",
  "empty.log": "",
  "untitled.md": "\n",
};
