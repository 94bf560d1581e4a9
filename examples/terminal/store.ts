import { randomBytes } from "node:crypto";
import { open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { State } from "yieldagent";

/** One run's state in one file, for one process at a time. */
export interface Store {
  /** What the file holds, as it is: `agent()` checks it. Undefined if there is no file. */
  load(): Promise<State | undefined>;
  /** Replaces what this process loaded or saved last, and nothing else. */
  save(state: State): Promise<void>;
  close(): Promise<void>;
}

/** Opens the store, or throws if another living process has it. */
export async function openStore(file: string): Promise<Store> {
  const close = await lock(file);
  let last: Version | undefined;

  const load = async (): Promise<State | undefined> => {
    let text: string;
    try {
      text = await readFile(file, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
    try {
      return JSON.parse(text) as State;
    } catch {
      throw new Error(`${file} is damaged: it is not JSON`);
    }
  };

  return {
    load: async () => {
      const state = await load();
      last = versionOf(state);
      return state;
    },

    // Compare-and-set, in a database `UPDATE … WHERE id = ? AND revision = ?`. Here it takes two steps, which the lock
    // makes one; that the file isn't what it was then means that somebody has gone round the lock.
    save: async (state) => {
      const found = versionOf(await load());
      if (found?.id !== last?.id || found?.revision !== last?.revision) throw new Error(`${file} was changed by somebody else; nothing was saved`);
      await replace(file, JSON.stringify(state));
      last = versionOf(state);
    },

    close,
  };
}

type Version = Pick<State, "id" | "revision">;

function versionOf(state: State | undefined): Version | undefined {
  return state ? { id: state.id, revision: state.revision } : undefined;
}

/** The file is the old one or the new one at any time, also after a power cut: `agent()` goes on once this returns. */
async function replace(file: string, text: string): Promise<void> {
  const temporary = `${file}.new`;
  await rm(temporary, { force: true }); // a dead process's
  const handle = await open(temporary, "wx", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
  // The new name is on the disk once its folder is. Windows can't open a folder, and needn't.
  const folder = await open(dirname(file)).catch(() => undefined);
  await folder?.sync().finally(() => folder.close());
}

/**
 * Takes the lock, and returns what gives it back. A lock file that everybody creates under one name can't be taken from
 * a dead process safely: of two that find it, the second may remove what is by then the first one's. So each process
 * has a file of its own, named after its pid, puts it there first and looks for others afterwards: of any two, at least
 * one sees the other. A dead process's file can be removed by anybody, since nobody else ever has its name.
 *
 * It sees the processes of this machine only: for more, take a database.
 */
async function lock(file: string): Promise<() => Promise<void>> {
  const folder = dirname(file);
  const prefix = `${basename(file)}.lock-`;
  const mine = `${prefix}${process.pid}-${randomBytes(4).toString("hex")}`;
  const release = (): Promise<void> => rm(join(folder, mine), { force: true });
  await writeFile(join(folder, mine), "", { flag: "wx" });
  try {
    for (let tries = 0; ; tries++) {
      const living: string[] = [];
      for (const name of await readdir(folder)) {
        if (!name.startsWith(prefix) || name === mine) continue;
        if (isAlive(parseInt(name.slice(prefix.length), 10))) living.push(name);
        else await rm(join(folder, name), { force: true });
      }
      const [other] = living;
      if (other === undefined) return release;
      // Of two that start together one must stay: the later name goes at once, the earlier one waits for that.
      if (tries === 20 || living.some((name) => name < mine)) {
        throw new Error(`process ${parseInt(other.slice(prefix.length), 10)} is at work here (if it is another program, delete ${join(folder, other)})`);
      }
      await sleep(20);
    }
  } catch (error) {
    await release();
    throw error;
  }
}

function isAlive(pid: number): boolean {
  if (pid === process.pid) return false; // an earlier process's: in a container they all get the same pid
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // another user's
  }
}
