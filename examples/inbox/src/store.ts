import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Args, Decision, PendingReason, State } from "yieldagent";
import { putWhole } from "./whole.ts";

/** What one person said of one call: a line of the audit trail. */
export interface Entry {
  at: number;
  who: string;
  call: string;
  tool: string;
  /** What the person was shown. */
  args: Readonly<Args>;
  reason: PendingReason;
  decision: Decision;
}

/** One run of the agent, with who asked for it and who decided what. It is saved as one value, so that none can be without the other. */
export interface Case {
  state: State;
  request: string;
  askedBy: string;
  askedAt: number;
  changedAt: number;
  audit: readonly Entry[];
}

/** Somebody else has saved this run meanwhile; nothing was saved. */
export class Conflict extends Error {}

export interface Store {
  load(id: string): Promise<Case | undefined>;
  /** Compare-and-set: throws `Conflict` unless the stored revision is the one before. Revision 0 is a new run. */
  save(value: Case): Promise<void>;
  /** Every run, for the start of the server. */
  all(): AsyncIterable<Case>;
  close(): void;
}

/** SQLite where this Node has it, else plain files. A folder of the one kind stays of that kind. */
export async function openStore(folder: string): Promise<Store> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const [files, database] = [join(folder, "runs"), join(folder, "inbox.db")];
  // Not a literal, since bundlers take "node:" off and then look for a package of that name.
  const sqlite = existsSync(files) ? undefined : ((await import(["node", "sqlite"].join(":")).catch(() => undefined)) as Sqlite | undefined);
  if (sqlite) return sqliteStore(new sqlite.DatabaseSync(database));
  if (existsSync(database)) throw new Error(`${database} needs a Node with node:sqlite (22.13 or later)`);
  return fileStore(files);
}

/** The part of node:sqlite that is used here; the types of older Nodes don't have it. */
interface Sqlite {
  DatabaseSync: new (file: string) => Database;
}
interface Database {
  exec(sql: string): void;
  prepare(sql: string): { run(...values: unknown[]): { changes: number | bigint }; get(...values: unknown[]): unknown; iterate(): Iterable<unknown> };
  close(): void;
}

function sqliteStore(database: Database): Store {
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;");
  database.exec("CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, revision INTEGER NOT NULL, value TEXT NOT NULL)");
  const select = database.prepare("SELECT value FROM runs WHERE id = ?");
  const every = database.prepare("SELECT value FROM runs");
  const insert = database.prepare("INSERT OR IGNORE INTO runs (id, revision, value) VALUES (?, ?, ?)");
  const update = database.prepare("UPDATE runs SET revision = ?, value = ? WHERE id = ? AND revision = ?");
  const read = (row: unknown): Case => JSON.parse((row as { value: string }).value) as Case;
  return {
    load: async (id) => {
      const row = select.get(id);
      return row === undefined ? undefined : read(row);
    },
    save: async (value) => {
      const { id, revision } = value.state;
      const text = JSON.stringify(value);
      const { changes } = revision === 0 ? insert.run(id, revision, text) : update.run(revision, text, id, revision - 1);
      if (Number(changes) !== 1) throw new Conflict();
    },
    all: async function* () {
      for (const row of every.iterate()) yield read(row);
    },
    close: () => database.close(),
  };
}

/**
 * A folder for each run, and in it a file for each revision. A file comes into being whole, and only if there is
 * none of that name: of two who save the same revision one wins. The last two stay, older ones are removed.
 */
async function fileStore(folder: string): Promise<Store> {
  await mkdir(folder, { recursive: true });
  const fileOf = (revision: number): string => `${String(revision).padStart(9, "0")}.json`;
  const revisions = async (id: string): Promise<number[]> => {
    const names = await readdir(join(folder, id)).catch(() => []);
    return names.filter((name) => name.endsWith(".json")).map((name) => parseInt(name, 10)).sort((a, b) => b - a);
  };

  const load = async (id: string): Promise<Case | undefined> => {
    for (;;) {
      const [last] = await revisions(id);
      if (last === undefined) return undefined;
      try {
        return JSON.parse(await readFile(join(folder, id, fileOf(last)), "utf8")) as Case;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error; // removed meanwhile: there is a newer one
      }
    }
  };

  return {
    load,
    save: async (value) => {
      const { id, revision } = value.state;
      const place = join(folder, id);
      await mkdir(place, { recursive: true });
      const found = await revisions(id);
      if ((found[0] ?? -1) !== revision - 1) throw new Conflict();
      if (!(await putWhole(join(place, fileOf(revision)), JSON.stringify(value)))) throw new Conflict();
      // Whoever was held up before that may have taken a place that others had already passed and cleared.
      const now = await revisions(id);
      if (now[0] !== revision) {
        if (!now.includes(revision + 1)) await rm(join(place, fileOf(revision)), { force: true });
        throw new Conflict();
      }
      for (const old of now.slice(2)) await rm(join(place, fileOf(old)), { force: true });
    },
    all: async function* () {
      for (const id of await readdir(folder)) {
        for (const name of await readdir(join(folder, id))) if (name.endsWith(".new")) await rm(join(folder, id, name)); // a dead process's
        const value = await load(id);
        if (value) yield value;
      }
    },
    close: () => {},
  };
}
