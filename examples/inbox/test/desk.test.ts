// What a page says at any moment, and what it is told once it listens. The test decides when the model answers and when a
// save that is written returns.
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Call, Reply, Tools } from "yieldagent";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Desk } from "../src/desk.ts";
import { inboxServer } from "../src/server.ts";
import { Door } from "../src/session.ts";
import { openStore, type Store } from "../src/store.ts";
import { Signal } from "./inbox.ts";

const PASSWORD = "open sesame";
const AUTHORIZATION = `Basic ${Buffer.from(`shop:${PASSWORD}`).toString("base64")}`;
const door = new Door(randomBytes(32), PASSWORD);
const cookie = `inbox=${door.cookie("Mia", Date.now())}`;

/** One thing that the server does, held: it has come that far, and goes on when the test says so. */
class Hold {
  readonly reached = new Signal();
  readonly released = new Signal();

  async pass(): Promise<void> {
    this.reached.resolve();
    await this.released.promise;
  }
}

let folder: string;
let store: Store;
let desk: Desk;
let server: Server;
let address: string;
/** What the next save, once it is written, the next load, once it has read, or the next start, before it reads, waits for. */
let [heldSave, heldLoad, heldStart]: (Hold | undefined)[] = [];
/** Each time that the model was asked: the test answers. */
let asked: Signal<Reply>[];
let asking: Signal;
const opened = new Set<AbortController>();

const call: Call = async function* () {
  const answer = new Signal<Reply>();
  asked.push(answer);
  asking.resolve();
  const reply = await answer.promise;
  if (typeof reply.content === "string") yield { type: "text", text: reply.content };
  return reply;
};
const tools: Tools<unknown, unknown> = { pay: { needsApproval: true, run: () => "paid" } };
const text = (content: string): Reply => ({ role: "assistant", content, finish_reason: "stop" });
const pay: Reply = { role: "assistant", content: null, finish_reason: "tool_calls", tool_calls: [{ id: "c", type: "function", function: { name: "pay", arguments: "{}" } }] };

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "yieldagent-desk-"));
  const inner = await openStore(folder);
  store = {
    ...inner,
    save: async (value) => {
      await inner.save(value);
      const hold = heldSave;
      heldSave = undefined;
      await hold?.pass();
    },
    all: async function* () {
      const hold = heldStart;
      heldStart = undefined;
      await hold?.pass();
      yield* inner.all();
    },
    load: async (id) => {
      const hold = heldLoad;
      heldLoad = undefined;
      const found = await inner.load(id);
      await hold?.pass();
      return found;
    },
  };
  await serve();
});
afterEach(async () => {
  await end();
  store.close();
  await rm(folder, { recursive: true });
});

/** As `main.ts` does it: the port first. */
async function serve(): Promise<void> {
  [asked, asking] = [[], new Signal()];
  desk = new Desk(store, call, tools);
  server = inboxServer(desk, door);
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await desk.open();
}

async function end(): Promise<void> {
  for (const one of opened) one.abort();
  opened.clear();
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeAllConnections();
  await closed;
}

const get = (path: string, signal?: AbortSignal): Promise<Response> => fetch(address + path, { redirect: "manual", headers: { cookie }, ...(signal && { signal }) });

interface Shown {
  status: string;
  questions: number;
  events: string;
}

/** The page of a run: its status, how many calls it asks about, and where its news come from. */
async function page(id: string): Promise<Shown> {
  const html = await (await get(`/runs/${id}`)).text();
  return { status: /class="chip (\w+)"/.exec(html)?.[1] ?? "", questions: html.split('class="card question"').length - 1, events: eventsOf(html) };
}

const eventsOf = (html: string): string => /data-events="([^"]*)"/.exec(html)?.[1]?.replaceAll("&#38;", "&") ?? "";
const list = async (): Promise<{ rows: string[]; events: string }> => {
  const html = await (await get("/")).text();
  return { rows: [...html.matchAll(/class="row (\w+)"/g)].map(([, status]) => String(status)), events: eventsOf(html) };
};

/** The news of a page, one after the other. */
async function listen(path: string): Promise<{ next(): Promise<string> }> {
  const abort = new AbortController();
  opened.add(abort);
  const { body } = await get(path, abort.signal);
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  let rest = "";
  return {
    next: async () => {
      for (;;) {
        const end = rest.indexOf("\n\n");
        const event = rest.slice(0, Math.max(end, 0));
        if (end >= 0) rest = rest.slice(end + 2);
        if (event.startsWith("data: ")) {
          const { kind, text } = JSON.parse(event.slice(6)) as { kind: string; text?: string };
          return text ?? kind;
        }
        if (end >= 0) continue; // a comment
        const { value, done } = await reader.read();
        if (done) throw new Error("the stream has ended");
        rest += Buffer.from(value).toString();
      }
    },
  };
}

async function modelAsked(times: number): Promise<Signal<Reply>> {
  while (asked.length < times) {
    asking = new Signal();
    if (asked.length < times) await asking.promise;
  }
  return asked[times - 1] as Signal<Reply>;
}

/** Until the desk has told of something. */
function told(id: string): Promise<void> {
  return new Promise((resolve) => {
    const stop = desk.watch(id, desk.seen(id), ({ kind }) => {
      if (kind !== "changed") return;
      stop();
      resolve();
    });
  });
}

const api = async (id: string): Promise<unknown> => (await fetch(`${address}/api/runs/${id}`, { headers: { authorization: AUTHORIZATION } })).json();

describe("between the moment when a state is written and the moment when the desk hears that it is", () => {
  test("a page and the HTTP call say what is written, and the page is told of nothing it doesn't show for ever", async () => {
    const id = await desk.start("hello", "Mia");
    const hold = (heldSave = new Hold());
    (await modelAsked(1)).resolve(text("bye"));
    await hold.reached.promise;
    expect(await api(id)).toEqual({ id, status: "done", pending: [], text: "bye" });
    const shown = await page(id);
    expect(shown).toMatchObject({ status: "done", questions: 0 });
    const news = told(id);
    hold.released.resolve();
    await news;
    expect(await (await listen(shown.events)).next()).toBe("changed");
    expect(await list()).toMatchObject({ rows: ["done"] });
  });

  test("a run that waits is shown as waiting, with its question", async () => {
    const id = await desk.start("pay", "Mia");
    const hold = (heldSave = new Hold());
    (await modelAsked(1)).resolve(pay);
    await hold.reached.promise;
    expect(await page(id)).toMatchObject({ status: "running", questions: 0 }); // the call has not been looked at
    const waits = (heldSave = new Hold());
    hold.released.resolve();
    await waits.reached.promise;
    expect(await page(id)).toMatchObject({ status: "waiting", questions: 1 });
    expect(await api(id)).toMatchObject({ status: "waiting", pending: [{ id: "c" }] });
    waits.released.resolve();
  });
});

describe("what happens after a page was made and before its events are listened to is told at once:", () => {
  test("a run that could not go on", async () => {
    const id = await desk.start("hello", "Mia");
    const model = await modelAsked(1);
    const shown = await page(id);
    const [news, all] = [told(id), await list()];
    expect([shown.status, all.rows]).toEqual(["running", ["running"]]);
    model.reject(new Error("no such model"));
    await news;
    expect(await (await listen(shown.events)).next()).toBe("changed");
    expect(await (await listen(all.events)).next()).toBe("changed");
    expect([(await page(id)).status, (await list()).rows, await api(id)]).toEqual(["failed", ["failed"], { id, status: "failed", pending: [], text: null }]);
  });

  test("a run that goes on after somebody has tried it again, and fails again", async () => {
    const id = await desk.start("hello", "Mia");
    const first = told(id);
    (await modelAsked(1)).reject(new Error("no such model"));
    await first;
    const [failed, list0] = [await page(id), await list()];
    await desk.retry(id);
    const model = await modelAsked(2);
    const again = await page(id);
    expect([again.status, (await list()).rows]).toEqual(["running", ["running"]]);
    for (const { events } of [failed, list0]) expect(await (await listen(events)).next()).toBe("changed");
    const second = told(id);
    model.reject(new Error("no such model"));
    await second;
    for (const { events } of [failed, again]) expect(await (await listen(events)).next()).toBe("changed");
    expect((await page(id)).status).toBe("failed");
  });

  test("on the list a run that somebody has asked for, and one that is done", async () => {
    const empty = await list();
    const id = await desk.start("hello", "Mia");
    expect(await (await listen(empty.events)).next()).toBe("changed");
    const { rows, events } = await list();
    expect(rows).toEqual(["running"]);
    const news = told("");
    (await modelAsked(1)).resolve(text("bye"));
    await news;
    expect(await (await listen(events)).next()).toBe("changed");
    expect(await desk.load(id)).toMatchObject({ state: { revision: 1 } });
  });

  test("that the server was started anew", async () => {
    const id = await desk.start("pay", "Mia");
    const [shown, all] = [await page(id), await list()];
    await end();
    await serve();
    for (const { events } of [shown, all]) expect(await (await listen(events)).next()).toBe("changed");
  });
});

test("whoever comes while a server that was started anew still reads what is there waits for it", async () => {
  const id = await desk.start("pay", "Mia");
  const shown = await page(id);
  await end();
  const reads = (heldStart = new Hold());
  const serving = serve();
  await reads.reached.promise;
  let came = 0;
  const arrived = new Promise<void>((resolve) => server.on("request", () => ++came === 4 && resolve()));
  const answers = Promise.all([page(id), list(), api(id), listen(shown.events)]);
  await arrived;
  reads.released.resolve();
  const [again, all, told] = await answers;
  await serving;
  expect([again.status, all.rows, told]).toEqual(["running", ["running"], { id, status: "running", pending: [], text: null }]);
});

test("a page that is as new as what is there is told of the next news, and of nothing before", async () => {
  const id = await desk.start("hello", "Mia");
  const model = await modelAsked(1);
  const news = await listen((await page(id)).events);
  const all = await listen((await list()).events);
  model.resolve(text("bye"));
  expect([await news.next(), await news.next()]).toEqual(["bye", "changed"]);
  expect(await all.next()).toBe("changed");
  const now = await list();
  expect(now.rows).toEqual(["done"]);
});

test("what was read before a later save was told doesn't make the desk forget that save", async () => {
  const id = await desk.start("pay", "Mia");
  (await modelAsked(1)).resolve(pay);
  await vi.waitFor(() => expect(desk.list("waiting")).toHaveLength(1));
  // Somebody tries again what waits: it reads, and is slow.
  const slow = (heldLoad = new Hold());
  const retried = desk.retry(id);
  await slow.reached.promise;
  await desk.decide(id, { who: "Mia", call: "c", reason: "approval", decision: true });
  (await modelAsked(2)).resolve(text("bye"));
  await vi.waitFor(() => expect(desk.list("done")).toHaveLength(1));
  slow.released.resolve();
  await retried;
  expect(asked).toHaveLength(2);
  expect([desk.list("waiting").length, desk.list("done").length, (await page(id)).status]).toEqual([0, 1, "done"]);
});

test("somebody who has gone before their events began is not listened for", async () => {
  const id = await desk.start("hello", "Mia");
  const { events } = await page(id);
  const watch = vi.spyOn(desk, "watch");
  const hold = (heldLoad = new Hold());
  const gone = new Promise<void>((resolve) => server.once("request", (_, response) => response.once("close", resolve)));
  const abort = new AbortController();
  const asking = get(events, abort.signal).catch(() => "gone");
  await hold.reached.promise;
  abort.abort();
  await Promise.all([asking, gone]);
  const answered = new Promise<void>((resolve) => setImmediate(resolve));
  hold.released.resolve();
  await answered;
  expect(watch).not.toHaveBeenCalled();
});
