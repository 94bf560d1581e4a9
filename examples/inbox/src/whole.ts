import { randomBytes } from "node:crypto";
import { link, open, rm } from "node:fs/promises";

/**
 * Puts a file there whole, or not at all, also when the process dies in the middle: what it says is written and on the disk
 * before it gets its name, by `link()`, which fails if the name is taken. Returns whether it was free: of many at a time who
 * want a name one gets it. What a dead process leaves behind ends in `.new`.
 */
export async function putWhole(file: string, text: string): Promise<boolean> {
  const temporary = `${file}.${randomBytes(6).toString("hex")}.new`;
  try {
    const handle = await open(temporary, "wx", 0o600);
    try {
      await handle.writeFile(text);
      await handle.datasync();
    } finally {
      await handle.close();
    }
    await link(temporary, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}
