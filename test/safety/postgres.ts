// A PostgreSQL server of its own for the tests that kill processes: a new cluster in a temporary folder, reached by a
// socket in it, and gone afterwards. Where there is none, Debian's packages are installed, if that is possible.
import { execFileSync } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Postgres {
  /** The folder of its socket, which a client takes as the host. */
  readonly host: string;
  stop(): void;
}

/** The folder of `initdb` and `pg_ctl`. */
function binaries(): string | undefined {
  const debian = "/usr/lib/postgresql";
  const folders = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)).map((version) => join(debian, version, "bin")) : [];
  return [...folders, ...(process.env["PATH"] ?? "").split(":")].find((folder) => existsSync(join(folder, "initdb")) && existsSync(join(folder, "pg_ctl")));
}

function install(): void {
  const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  const apt = (...args: string[]): void => {
    const [command = "", ...rest] = [...sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", ...args];
    execFileSync(command, rest, { stdio: ["ignore", "ignore", "inherit"] });
  };
  apt("update");
  apt("install", "-y", "--no-install-recommends", "postgresql");
}

/** Starts one. Returns why there is none, where there can be none; in CI that is an error. */
export function startPostgres(): Postgres | string {
  try {
    if (!binaries()) install();
    return start(binaries() ?? (() => { throw new Error("no initdb and pg_ctl, not on the PATH either"); })());
  } catch (error) {
    if (process.env["CI"] || process.env["SAFETY_ALL"]) throw error;
    return `no PostgreSQL here: ${(error as Error).message}`;
  }
}

function start(bin: string): Postgres {
  // The server refuses to run as root.
  const root = process.getuid?.() === 0;
  const id = (what: string, name: string): number => Number(execFileSync("id", [what, name], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
  let as: { uid?: number; gid?: number } = {};
  if (root) {
    try {
      as = { uid: id("-u", "postgres"), gid: id("-g", "postgres") };
    } catch {
      as = { uid: id("-u", "nobody"), gid: id("-g", "nobody") };
    }
  }
  const host = mkdtempSync(join(tmpdir(), "yieldagent-pg-"));
  if (as.uid !== undefined && as.gid !== undefined) chownSync(host, as.uid, as.gid);
  const data = join(host, "data");
  const run = (command: string, ...args: string[]): void => {
    execFileSync(join(bin, command), args, { ...as, cwd: host, stdio: ["ignore", "ignore", "pipe"], env: { PATH: process.env["PATH"], LC_ALL: "C" } });
  };
  try {
    run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync");
    run("pg_ctl", "-D", data, "-w", "-l", join(host, "log"), "-o", `-k ${host} -c listen_addresses=''`, "start");
  } catch (error) {
    rmSync(host, { recursive: true, force: true });
    throw error;
  }
  return {
    host,
    stop: () => {
      run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop");
      rmSync(host, { recursive: true, force: true });
    },
  };
}
