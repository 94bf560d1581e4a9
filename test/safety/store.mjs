// A table of runs in a real database, as an application would have it: a state is text, and saving it is compare-and-set on
// its revision. `between` is called when the row is written but not committed.
import Database from "better-sqlite3";
import pg from "pg";

const TABLES = ["CREATE TABLE IF NOT EXISTS runs (id text PRIMARY KEY, revision integer NOT NULL, state text NOT NULL)",
  "CREATE TABLE IF NOT EXISTS history (id text, revision integer, state text NOT NULL, PRIMARY KEY (id, revision))",
  "CREATE TABLE IF NOT EXISTS leases (id text PRIMARY KEY, worker text, until bigint NOT NULL)"];

/** @param {{ kind: "sqlite" | "postgres", at: string }} where a file, or the folder of a server's socket */
export async function open({ kind, at }) {
  const run = kind === "sqlite" ? sqlite(at) : await postgres(at);
  return {
    create: async () => {
      for (const table of TABLES) await run(table);
    },
    load: async (id) => (await run("SELECT state FROM runs WHERE id = $1", id)).rows[0]?.state,
    history: async (id) => (await run("SELECT state FROM history WHERE id = $1 ORDER BY revision", id)).rows.map(({ state }) => JSON.parse(state)),
    /** Throws, and changes nothing, unless the row is of the revision before this one. */
    save: async (state, between = async () => {}) => {
      const text = JSON.stringify(state);
      await run("BEGIN");
      try {
        const { count } = state.revision === 1
          ? await run("INSERT INTO runs (id, revision, state) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", state.id, 1, text)
          : await run("UPDATE runs SET revision = $2, state = $3 WHERE id = $1 AND revision = $2 - 1", state.id, state.revision, text);
        if (count !== 1) throw new Error("somebody else goes on with this run");
        await run("INSERT INTO history (id, revision, state) VALUES ($1, $2, $3)", state.id, state.revision, text);
        await between();
        await run("COMMIT");
      } catch (error) {
        await run("ROLLBACK");
        throw error;
      }
    },
    /** Without compare-and-set: whoever comes last has the row. A variant that must be caught. */
    overwrite: async (state) => {
      await run("INSERT INTO runs (id, revision, state) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, state = excluded.state", state.id, state.revision, JSON.stringify(state));
    },
    /** Takes, or keeps, the lease on a run. */
    lease: async (id, worker, milliseconds) => {
      const now = Date.now();
      return (await run("INSERT INTO leases (id, worker, until) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET worker = excluded.worker, until = excluded.until WHERE leases.worker = excluded.worker OR leases.until < $4", id, worker, now + milliseconds, now)).count === 1;
    },
    close: () => run.close(),
  };
}

function sqlite(file) {
  const database = new Database(file, { timeout: 20_000 });
  database.pragma("journal_mode = WAL");
  database.pragma("synchronous = FULL");
  const run = async (sql, ...values) => {
    // BEGIN IMMEDIATE: a reader that becomes a writer would be refused instead of waiting.
    const statement = database.prepare(sql === "BEGIN" ? "BEGIN IMMEDIATE" : sql.replaceAll("$", "?"));
    const named = values.length > 0 ? [Object.fromEntries(values.map((value, i) => [String(i + 1), value]))] : [];
    return statement.reader ? { rows: statement.all(...named), count: 0 } : { rows: [], count: statement.run(...named).changes };
  };
  return Object.assign(run, { close: async () => database.close() });
}

async function postgres(host) {
  const client = new pg.Client({ host, user: "postgres", database: "postgres" });
  await client.connect();
  const run = async (sql, ...values) => {
    const { rows, rowCount } = await client.query(sql.replaceAll("$2 - 1", "$2::int - 1"), values);
    return { rows, count: rowCount ?? 0 };
  };
  return Object.assign(run, { close: () => client.end() });
}
