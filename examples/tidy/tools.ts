import { createHash } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { type FileHandle, link, lstat, mkdir, open, readdir, unlink } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { tool, type Tool } from "yieldagent";
import { fields } from "../terminal/fields.ts";

/** Bounds on what one call reads. */
export const LIST_LIMIT: number = 2000;
export const READ_LIMIT: number = 16 * 1024;
export const HASH_LIMIT: number = 256 * 1024 * 1024;

export interface Entry {
  path: string;
  type: "file" | "folder" | "link" | "other";
  size: number;
}

export interface Listing {
  entries: Entry[];
  /** Folders that could not be looked into. */
  unreadable: string[];
  /** There is more than the listing holds. */
  more: boolean;
}

/** Thrown before anything was done. */
class Refused extends Error {}

/** What the model reads of what a tool threw. */
export function toolError(error: unknown): string {
  const { message } = error as Error;
  // Node adds the path as it is, which says where the folder is and may hold anything: `EACCES: permission denied, open '…'`.
  return error instanceof Refused ? `not done: ${message}` : `failed, and may have been done in part: ${message.replace(/, \w+ '.*$/s, "")}`;
}

export interface FileTools {
  list: Tool<{ path?: string }>;
  read: Tool<{ path: string }>;
  hash: Tool<{ path: string }>;
  delete: Tool<{ path: string; size?: number; sameAs?: string }>;
  move: Tool<{ from: string; to: string }>;
}

/**
 * File tools that see one folder and nothing else. `root` is its real path. Looking is free, and `idempotent`: after a
 * crash it is simply done again. What changes something waits for a person.
 */
export function fileTools(root: string): FileTools {
  return {
    list: tool({
      description: `Lists a folder and what is in it, at most ${LIST_LIMIT} entries. Hidden folders, node_modules and links are named but not entered. Without a path: the whole folder.`,
      parameters: fields<{ path?: string }>({ path: "string?" }),
      idempotent: true,
      run: ({ path = "." }) => list(root, path),
    }),

    read: tool({
      description: `Reads the beginning of a file as text, at most ${READ_LIMIT} bytes.`,
      parameters: fields<{ path: string }>({ path: "string" }),
      idempotent: true,
      run: ({ path }) => reading(root, path, async (file, size) => {
        const { buffer, bytesRead } = await file.read(Buffer.alloc(READ_LIMIT), 0, READ_LIMIT, 0);
        const more = size > bytesRead;
        // `stream`: a character that is cut off at the end is left out, not replaced.
        return { text: new TextDecoder().decode(buffer.subarray(0, bytesRead), { stream: more }), size, more };
      }),
    }),

    hash: tool({
      description: `The SHA-256 of a file of at most ${HASH_LIMIT} bytes. Files with the same one have the same content.`,
      parameters: fields<{ path: string }>({ path: "string" }),
      idempotent: true,
      run: async ({ path }) => ({ sha256: await sha256(root, path) }),
    }),

    delete: tool({
      description: "Deletes a file. size: its size as listed. sameAs: another file with the same content, which stays. It is refused if one of them is not so any more.",
      parameters: fields<{ path: string; size?: number; sameAs?: string }>({ path: "string", size: "number?", sameAs: "string?" }),
      needsApproval: true,
      run: async ({ path, size, sameAs }) => {
        const { place, stats } = await fileAt(root, path);
        // Days may lie between the question and the answer: what the person was shown must be true now.
        if (size !== undefined && size !== stats.size) throw new Refused(`${quoted(path)} has ${stats.size} bytes now, not ${size}`);
        if (sameAs !== undefined) await checkCopy(root, path, stats, sameAs);
        await unlink(place);
        return { deleted: path };
      },
    }),

    move: tool({
      description: "Moves or renames a file. Missing folders on the way are made. Never overwrites.",
      parameters: fields<{ from: string; to: string }>({ from: "string", to: "string" }),
      needsApproval: true,
      run: async ({ from, to }) => {
        const { place } = await fileAt(root, from);
        const target = await inside(root, to);
        if (await statsOf(target)) throw new Refused(`there is something at ${quoted(to)} already`);
        await mkdir(dirname(target), { recursive: true });
        // rename() would overwrite a file that has come there since; link() fails, as it does where the file system has
        // no hard links. A crash in between leaves both names.
        await link(place, target);
        await unlink(place);
        return { moved: from, to };
      },
    }),
  };
}

/**
 * Where a path of the model's leads. It must be relative, stay in the folder, and no part of it may be a symbolic link:
 * what isn't there yet has no links. (Against a program that puts a link there between this check and the use, node
 * has no remedy: that would take openat().)
 */
async function inside(root: string, path: string): Promise<string> {
  const target = resolve(root, path);
  const names = relative(root, target).split(sep);
  if (isAbsolute(path) || names[0] === ".." || isAbsolute(names.join(sep))) throw new Refused(`${quoted(path)} is not inside the folder: paths are relative to it`);
  let place = root;
  for (const name of ["", ...names]) {
    place = join(place, name);
    const stats = await statsOf(place);
    if (!stats) break;
    if (stats.isSymbolicLink()) throw new Refused(`${quoted(path)} goes through a symbolic link`);
  }
  return target;
}

async function fileAt(root: string, path: string): Promise<{ place: string; stats: Stats }> {
  const place = await inside(root, path);
  const stats = await statsOf(place);
  if (!stats?.isFile()) throw new Refused(stats ? `${quoted(path)} is not a file` : `there is no file ${quoted(path)}`);
  return { place, stats };
}

/** What is at a place, links not followed; undefined if nothing is. */
async function statsOf(place: string): Promise<Stats | undefined> {
  try {
    return await lstat(place);
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(String((error as NodeJS.ErrnoException).code))) return undefined;
    throw error;
  }
}

async function reading<T>(root: string, path: string, use: (file: FileHandle, size: number) => Promise<T>): Promise<T> {
  const { place } = await fileAt(root, path);
  // If a link or a pipe has come there since the check: don't follow it, don't wait for it. Windows has neither flag.
  const file = await open(place, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw new Refused(`${quoted(path)} is not a file`);
    return await use(file, stats.size);
  } finally {
    await file.close();
  }
}

function sha256(root: string, path: string): Promise<string> {
  return reading(root, path, async (file, size) => {
    if (size > HASH_LIMIT) throw new Refused(`${quoted(path)} has ${size} bytes, more than ${HASH_LIMIT}`);
    const hash = createHash("sha256");
    for await (const bytes of file.createReadStream({ end: HASH_LIMIT - 1, autoClose: false })) hash.update(bytes as Buffer);
    return hash.digest("hex");
  });
}

async function checkCopy(root: string, path: string, stats: Stats, sameAs: string): Promise<void> {
  const other = await fileAt(root, sameAs);
  // One file under two names, such as a.txt and A.TXT where case doesn't count, is no copy.
  if (other.stats.dev === stats.dev && other.stats.ino === stats.ino) throw new Refused(`${quoted(sameAs)} is the same file as ${quoted(path)}`);
  if ((await sha256(root, path)) !== (await sha256(root, sameAs))) throw new Refused(`${quoted(path)} and ${quoted(sameAs)} are not the same any more`);
}

async function list(root: string, path: string): Promise<Listing> {
  const start = await inside(root, path);
  if (!(await statsOf(start))?.isDirectory()) throw new Refused(`there is no folder ${quoted(path)}`);
  const listing: Listing = { entries: [], unreadable: [], more: false };
  const folders = [start];
  for (const folder of folders) {
    const names = await readdir(folder).catch(() => undefined);
    if (!names) listing.unreadable.push(named(root, folder));
    for (const name of (names ?? []).sort()) {
      const place = join(folder, name);
      const stats = await statsOf(place);
      if (!stats) continue; // gone since
      if (listing.entries.length === LIST_LIMIT) return { ...listing, more: true };
      const type = stats.isFile() ? "file" : stats.isDirectory() ? "folder" : stats.isSymbolicLink() ? "link" : "other";
      listing.entries.push({ path: named(root, place), type, size: type === "file" ? stats.size : 0 });
      if (type === "folder" && !name.startsWith(".") && name !== "node_modules") folders.push(place);
    }
  }
  return listing;
}

/** A place as the model names it: relative to the folder, with slashes everywhere. */
function named(root: string, place: string): string {
  return relative(root, place).split(sep).join("/") || ".";
}

function quoted(path: string): string {
  return JSON.stringify(path);
}
