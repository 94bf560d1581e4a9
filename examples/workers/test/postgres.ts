import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Where PostgreSQL's programs are: Debian keeps them out of the path. */
function programs(): string {
  const debian = "/usr/lib/postgresql";
  const folders = [...(existsSync(debian) ? readdirSync(debian).sort().reverse().map((version) => join(debian, version, "bin")) : []), ...(process.env["PATH"] ?? "").split(":")];
  const found = folders.find((folder) => existsSync(join(folder, "initdb")) && existsSync(join(folder, "postgres")));
  if (!found) throw new Error("there is no PostgreSQL; install it (Debian: apt-get install postgresql)");
  return found;
}

/** A cluster of its own, that is thrown away; reached by a socket in its folder only. */
export async function postgres(): Promise<{ url: string; stop(): Promise<void> }> {
  const bin = programs();
  const folder = mkdtempSync(join(tmpdir(), "yieldagent-pg-"));
  // It refuses to run as root.
  const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid);
  const data = join(folder, "data");
  const options = { cwd: folder, ...user };
  execFileSync(join(bin, "initdb"), ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"], { ...options, stdio: "ignore" });
  const server: ChildProcess = spawn(join(bin, "postgres"), ["-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "max_connections=60"], { ...options, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => server.once("exit", resolve));
  await new Promise<void>((resolve, reject) => {
    let log = "";
    server.stderr?.on("data", (text: Buffer) => {
      log += String(text);
      if (log.includes("ready to accept connections")) resolve();
    });
    server.once("exit", () => reject(new Error(log)));
  });
  return {
    url: `postgresql://postgres@/postgres?host=${encodeURIComponent(folder)}`,
    stop: async () => {
      server.kill("SIGQUIT");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
