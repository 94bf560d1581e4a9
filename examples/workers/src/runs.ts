import type { Pool } from "pg";
import { agent, type Decision, type Message, pending, type PendingCall, type State } from "yieldagent";

/**
 * A row is `ready` when a worker may go on with it, `waiting` for people, or `done`. `head` is the state without its
 * messages, which are only ever added to. `lease` is drawn anew by each worker that takes the run: who comes late with
 * an old one changes nothing. `decided` counts decisions, so that one that comes while a worker is at it isn't overlooked.
 * Texts, not jsonb, which refuses \u0000.
 */
const TABLES = `
  CREATE TABLE IF NOT EXISTS runs (
    id text PRIMARY KEY, status text NOT NULL DEFAULT 'ready', revision integer NOT NULL, head text NOT NULL,
    lease bigint NOT NULL DEFAULT 0, lease_until timestamptz, decided integer NOT NULL DEFAULT 0, since timestamptz NOT NULL DEFAULT now());
  CREATE INDEX IF NOT EXISTS runs_ready ON runs (since) WHERE status = 'ready';
  CREATE TABLE IF NOT EXISTS messages (run text REFERENCES runs, place integer, value text NOT NULL, PRIMARY KEY (run, place));
  CREATE TABLE IF NOT EXISTS decisions (
    run text NOT NULL REFERENCES runs, call text NOT NULL, decision text NOT NULL, who text NOT NULL, at timestamptz NOT NULL DEFAULT now(),
    taken boolean NOT NULL DEFAULT false);
  CREATE UNIQUE INDEX IF NOT EXISTS decisions_open ON decisions (run, call) WHERE NOT taken;`;

/** A run that this process holds, until its lease ends. */
export interface Claim {
  state: State;
  decisions: Record<string, Decision>;
  lease: string;
  decided: number;
}

/** Somebody else holds the run by now. */
export class Lost extends Error {}

/** The runs in the database: what people and workers do with them. */
export class Runs {
  readonly #db: Pool;
  /** How long a worker that says nothing counts as alive, in ms. */
  readonly leaseTime: number;

  constructor(db: Pool, leaseTime: number) {
    this.#db = db;
    this.leaseTime = leaseTime;
  }

  /** Makes the tables where they aren't there yet. Only one process does: to make an index means to wait for all who write. */
  async createTables(more = ""): Promise<void> {
    const { rows: [row] } = await this.#db.query<{ there: boolean }>("SELECT to_regclass('decisions_open') IS NOT NULL AS there");
    if (!row?.there) await this.#db.query(`BEGIN; SELECT pg_advisory_xact_lock(1); ${TABLES} ${more} COMMIT;`);
  }

  async start(id: string, messages: Message[]): Promise<void> {
    const { state } = agent({ id, messages, call: () => Promise.reject(new Error("nobody asks")) }); // checks the messages; nothing runs
    await this.#db.query(
      `WITH run AS (INSERT INTO runs (id, revision, head) VALUES ($1, $2, $3) RETURNING id),
            added AS (INSERT INTO messages SELECT id, place - 1, value FROM run, unnest($4::text[]) WITH ORDINALITY AS new (value, place))
       SELECT pg_notify('ready', id) FROM run`,
      [id, state.revision, headOf(state), state.messages.map((message) => JSON.stringify(message))]);
  }

  /** Takes a decision on a call as the person was shown it. False: it was decided already, or waits for something else. */
  async decide(run: string, { id: call, reason }: Pick<PendingCall, "id" | "reason">, decision: Decision, who: string): Promise<boolean> {
    const client = await this.#db.connect();
    try {
      await client.query("BEGIN");
      const { rows: [row] } = await client.query<{ head: string }>("SELECT head FROM runs WHERE id = $1 FOR UPDATE", [run]);
      const waits = row !== undefined && pending(JSON.parse(row.head) as State).some((open) => open.id === call && open.reason === reason);
      const { rowCount } = waits ? await client.query("INSERT INTO decisions (run, call, decision, who) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING", [run, call, JSON.stringify(decision), who]) : { rowCount: 0 };
      if (rowCount === 1) await client.query("WITH run AS (UPDATE runs SET status = 'ready', decided = decided + 1 WHERE id = $1 RETURNING id) SELECT pg_notify('ready', id) FROM run", [run]);
      await client.query("COMMIT");
      return rowCount === 1;
    } catch (error) {
      await client.query("ROLLBACK").catch(() => {});
      throw error;
    } finally {
      client.release();
    }
  }

  /** Takes a run that nobody works on: a new one, one that was decided on, or one whose worker has died. */
  async claim(): Promise<Claim | undefined> {
    const { rows: [row] } = await this.#db.query<{ id: string; head: string; lease: string; decided: number }>(
      `UPDATE runs SET lease = lease + 1, lease_until = now() + $1 * interval '1 ms' WHERE id = (
         SELECT id FROM runs WHERE status = 'ready' AND (lease_until IS NULL OR lease_until < now()) ORDER BY since LIMIT 1 FOR UPDATE SKIP LOCKED)
       RETURNING id, head, lease, decided`, [this.leaseTime]);
    if (!row) return undefined;
    const { rows: messages } = await this.#db.query<{ value: string }>("SELECT value FROM messages WHERE run = $1 ORDER BY place", [row.id]);
    const { rows: decided } = await this.#db.query<{ call: string; decision: string }>("SELECT call, decision FROM decisions WHERE run = $1 AND NOT taken", [row.id]);
    const state = { ...(JSON.parse(row.head) as State), messages: messages.map(({ value }) => JSON.parse(value) as Message) };
    const decisions = Object.fromEntries(decided.map(({ call, decision }) => [call, JSON.parse(decision) as Decision]));
    return { state, decisions, lease: row.lease, decided: row.decided };
  }

  /**
   * Saves one change: only the messages that are new, only with the lease that is good, only upon the revision before.
   * The first save holds the decisions that it was made with, and so they are taken with it.
   */
  async save({ state: { id }, lease, decisions }: Claim, state: State, stored: number): Promise<void> {
    const added = state.messages.slice(stored).map((message) => JSON.stringify(message));
    const { rowCount } = await this.#db.query(
      `WITH run AS (UPDATE runs SET revision = $2, head = $3, lease_until = now() + $7 * interval '1 ms' WHERE id = $1 AND lease = $4 AND revision = $2 - 1 RETURNING id),
            added AS (INSERT INTO messages SELECT id, $5 + place - 1, value FROM run, unnest($6::text[]) WITH ORDINALITY AS new (value, place)),
            taken AS (UPDATE decisions SET taken = true WHERE run = (SELECT id FROM run) AND call = ANY ($8) AND NOT taken)
       SELECT id FROM run`,
      [id, state.revision, headOf(state), lease, stored, added, this.leaseTime, Object.keys(decisions)]);
    if (rowCount !== 1) throw new Lost(`another worker has run ${id}`);
  }

  /** Says that the worker is alive; false: too late. */
  async renew({ state: { id }, lease }: Claim): Promise<boolean> {
    const { rowCount } = await this.#db.query("UPDATE runs SET lease_until = now() + $3 * interval '1 ms' WHERE id = $1 AND lease = $2", [id, lease, this.leaseTime]);
    return rowCount === 1;
  }

  /** Gives a run back: it is done, or waits. If a decision came meanwhile it is ready at once. */
  async release({ state: { id }, lease, decided }: Claim, done: boolean): Promise<void> {
    await this.#db.query(
      `WITH run AS (UPDATE runs SET lease_until = NULL, since = now(), status = CASE WHEN $3 THEN 'done' WHEN decided > $4 THEN 'ready' ELSE 'waiting' END WHERE id = $1 AND lease = $2 RETURNING id, status)
       SELECT pg_notify(status, id) FROM run`, [id, lease, done, decided]);
  }

  /** What waits for people, the oldest first. */
  async waiting(): Promise<{ run: string; pending: PendingCall[] }[]> {
    const { rows } = await this.#db.query<{ id: string; head: string }>("SELECT id, head FROM runs WHERE status = 'waiting' ORDER BY since");
    return rows.map(({ id, head }) => ({ run: id, pending: pending(JSON.parse(head) as State) }));
  }
}

function headOf({ messages: _, ...head }: State): string {
  return JSON.stringify(head);
}
