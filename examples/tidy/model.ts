import type { Args, Call, ToolCall } from "yieldagent";
import { ask, call, callsIn, type Made, say } from "../terminal/model.ts";
import type { Entry, Listing } from "./tools.ts";

/**
 * A stand-in for a model, so that the example runs without a key. Like one it knows the conversation and nothing else:
 * the same messages give the same reply, in whatever process.
 */
export const builtIn: Call = async (messages) => {
  const made = callsIn(messages);
  const listing = made.find(({ tool }) => tool === "list");
  if (!listing) return ask("I look at what is there.", [call("list", {})]);
  if (listing.error !== undefined) return say(`I could not list the folder: ${listing.error}`);

  const files = (listing.result as Listing).entries.filter(({ type }) => type === "file");
  if (!made.some(({ tool }) => LOOKS.includes(tool))) {
    const looks = [...sameSize(files).map(({ path }) => call("hash", { path })), ...files.filter(mayBeBlank).map(({ path }) => call("read", { path }))];
    if (looks.length > 0) return ask("Some files may be copies of others, or blank: I look into them.", looks);
  }
  if (!made.some(({ tool }) => CHANGES.includes(tool))) {
    const changes = proposals(files, made);
    if (changes.length > 0) return ask("This is what I would tidy up.", changes);
  }
  return say(summary(listing.result as Listing, made));
};

const LOOKS = ["hash", "read"];
const CHANGES = ["delete", "move"];

/** Files that another file has the size of: only they can be copies. */
function sameSize(files: readonly Entry[]): Entry[] {
  const count = new Map<number, number>();
  for (const { size } of files) count.set(size, (count.get(size) ?? 0) + 1);
  return files.filter((file) => file.size > 0 && !isTemporary(file.path) && (count.get(file.size) ?? 0) > 1);
}

function mayBeBlank({ path, size }: Entry): boolean {
  return size > 0 && size <= 4 && !isTemporary(path);
}

function isTemporary(path: string): boolean {
  return /(\.tmp|~|(^|\/)\.DS_Store)$/i.test(path);
}

const KINDS: Record<string, RegExp> = {
  pictures: /\.(jpe?g|png|gif|webp|heic|svg)$/i,
  documents: /\.(pdf|docx?|odt|rtf|txt|md)$/i,
  archives: /\.(zip|tar|gz|7z|rar)$/i,
  music: /\.(mp3|flac|ogg|m4a|wav)$/i,
  videos: /\.(mp4|mov|mkv|webm)$/i,
};

/** Deletes of what is temporary, empty, blank or a copy, and moves of loose files to others of their kind. */
function proposals(files: readonly Entry[], made: readonly Made[]): ToolCall[] {
  const seen = (tool: string, path: string): Record<string, unknown> => Object(made.find((one) => one.tool === tool && one.args["path"] === path)?.result);
  const deletes = new Map<string, Args>();
  const originals = new Map<unknown, string>();
  // Of copies one stays: rather one that is filed in a subfolder, then the one with the shortest name.
  const rank = ({ path }: Entry): number => path.length + (path.includes("/") ? 0 : 1e6);
  for (const { path, size } of [...files].sort((a, b) => rank(a) - rank(b))) {
    const { sha256 } = seen("hash", path);
    const { text } = seen("read", path);
    const original = sha256 === undefined ? undefined : originals.get(sha256);
    if (size === 0 || isTemporary(path) || (typeof text === "string" && text.trim() === "")) deletes.set(path, { path, size });
    else if (original !== undefined) deletes.set(path, { path, size, sameAs: original });
    else if (sha256 !== undefined) originals.set(sha256, path);
  }

  // An original stays where it is for this time: its copies' deletes name it.
  const needed = new Set([...deletes.values()].map(({ sameAs }) => sameAs));
  const taken = new Set(files.map(({ path }) => path));
  const moves = Object.entries(KINDS).flatMap(([kind, pattern]) => {
    const loose = files.map(({ path }) => path).filter((path) => pattern.test(path) && !/^\.|\//.test(path) && !deletes.has(path) && !needed.has(path) && !taken.has(`${kind}/${path}`));
    const filed = files.some(({ path }) => path.startsWith(`${kind}/`));
    return loose.length > 1 || filed ? loose.map((path) => call("move", { from: path, to: `${kind}/${path}` })) : [];
  });
  const inOrder = files.map(({ path }) => deletes.get(path)).filter((args) => args !== undefined);
  return [...inOrder.map((args) => call("delete", args)), ...moves];
}

/** What was done and what wasn't, by the results and not by the plan. */
function summary({ entries, unreadable, more }: Listing, made: readonly Made[]): string {
  const changes = made.filter(({ tool }) => CHANGES.includes(tool));
  const lines = (heading: string, items: readonly string[]): string[] => (items.length > 0 ? [heading, ...items.map((item) => `  ${item}`)] : []);
  const resulted = (field: string): Made[] => changes.filter(({ result }) => Object.hasOwn(Object(result), field));
  const [deleted, moved] = [resulted("deleted"), resulted("moved")];
  const rest = changes.filter((change) => !deleted.includes(change) && !moved.includes(change));
  const name = ({ tool, args }: Made): string => `${tool} ${JSON.stringify(args["from"] ?? args["path"])}`;
  return [
    changes.length > 0 ? "Done. This is what became of it." : `Nothing to tidy up: I looked at ${entries.length} files and folders.`,
    ...lines("Deleted:", deleted.map(({ args }) => `${JSON.stringify(args["path"])}${why(args)}`)),
    ...lines("Moved:", moved.map(({ args }) => `${JSON.stringify(args["from"])} to ${JSON.stringify(args["to"])}`)),
    ...lines("Not done, or not for certain:", rest.filter(({ error }) => error !== undefined).map((change) => `${name(change)}: ${change.error}`)),
    ...lines("Answered by a person:", rest.filter(({ error }) => error === undefined).map((change) => `${name(change)}: ${JSON.stringify(change.result)}`)),
    ...lines("Not looked into:", made.filter(({ tool, error }) => LOOKS.includes(tool) && error !== undefined).map((look) => `${name(look)}: ${look.error}`)),
    ...lines("Folders I could not read:", unreadable.map((path) => JSON.stringify(path))),
    ...(more ? [`There is more: I saw only the first ${entries.length} files and folders.`] : []),
  ].join("\n");
}

function why({ path, size, sameAs }: Args): string {
  if (sameAs !== undefined) return ` (same as ${JSON.stringify(sameAs)})`;
  if (isTemporary(String(path))) return " (temporary)";
  return size === undefined ? "" : size === 0 ? " (empty)" : ` (size ${size})`;
}
