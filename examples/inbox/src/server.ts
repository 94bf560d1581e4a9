import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { AgentError, type Decision, pending, type PendingReason } from "yieldagent";
import { AlreadyDecided, type Desk, type News, type View } from "./desk.ts";
import { BadInput, readArgs } from "./form.ts";
import { prose } from "./html.ts";
import { casePage, type Draft, listPage, messagePage, signInPage } from "./page.ts";
import { type Door, readName, type Session } from "./session.ts";
import type { Case, Entry } from "./store.ts";

const MAX_BODY = 256 * 1024;
const MAX_REQUEST = 4000;

/** An answer other than a page, thrown from wherever it is known. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const file = (name: string): Buffer => readFileSync(new URL(`../public/${name}`, import.meta.url));

export function inboxServer(desk: Desk, door: Door): Server {
  const assets: Record<string, [type: string, bytes: Buffer]> = { "/style.css": ["text/css", file("style.css")], "/live.js": ["text/javascript", file("live.js")] };

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      const status = error instanceof Refusal ? error.status : 500;
      if (status === 500) console.error(error);
      // Whoever reads the answer gets no inside of the server.
      const text = error instanceof Refusal ? error.message : "Something went wrong. Nothing that was saved is lost.";
      if (response.headersSent) return response.destroy();
      // The rest of a body that is too long isn't read.
      if (status === 413) response.setHeader("connection", "close");
      if (request.url?.startsWith("/api/")) return sendJson(response, status, { error: text });
      send(response, status, messagePage(undefined, status === 404 ? "Not found" : "Sorry", text));
    });
  });
  server.headersTimeout = 10_000;
  server.requestTimeout = 30_000;
  return server;

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname: path, searchParams: query } = new URL(request.url ?? "/", "http://localhost");
    response.setHeader("content-security-policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
    response.setHeader("x-content-type-options", "nosniff");
    response.setHeader("referrer-policy", "same-origin");
    response.setHeader("cache-control", "no-store");

    const asset = Object.hasOwn(assets, path) ? assets[path] : undefined;
    if (asset) return void response.writeHead(200, { "content-type": asset[0] }).end(asset[1]);
    await desk.ready;
    if (path.startsWith("/api/")) return await api(request, response, path);

    const [, cookie] = /(?:^|; )inbox=([^;]+)/.exec(request.headers.cookie ?? "") ?? [];
    const session = door.session(cookie, Date.now());
    if (request.method === "POST") {
      checkOrigin(request);
      const form = new URLSearchParams(await body(request, "application/x-www-form-urlencoded"));
      if (path === "/sign-in") return signIn(response, form);
      if (!session) return redirect(response, "/sign-in");
      if (!door.owns(session, form.get("token") ?? "")) throw new Refusal(403, "This form is not from here, or from before you signed in. Go back, reload the page and try again.");
      return await act(response, path, session, form);
    }
    if (request.method !== "GET") throw new Refusal(405, "There is nothing like that here.");
    if (path === "/sign-in") return send(response, 200, signInPage());
    if (!session) return path.endsWith("/events") ? void response.writeHead(401).end() : redirect(response, "/sign-in");

    if (path === "/") {
      const lists = { waiting: desk.list("waiting"), running: desk.list("running"), failed: desk.list("failed"), done: desk.list("done") };
      return send(response, 200, listPage(session, lists, desk.seen(""), Math.max(1, Number(query.get("page")) || 1), Date.now()));
    }
    if (path === "/events") return listen(response, "", query.get("seen"));
    const [id, rest] = runIn(path);
    const view = await look(id);
    if (rest === "/events") return listen(response, id, query.get("seen"));
    if (rest !== "") throw new Refusal(404, "There is no such page.");
    showCase(response, 200, session, view);
  }

  /** What a signed-in person does. Each ends with a redirect, so that a reload does nothing again. */
  async function act(response: ServerResponse, path: string, session: Session, form: URLSearchParams): Promise<void> {
    if (path === "/sign-out") return redirect(response, "/sign-in", "inbox=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax");
    if (path === "/runs") return redirect(response, `/runs/${await desk.start(readRequest(form.get("request")), session.name)}`);
    const [id, rest] = runIn(path);
    if (rest === "/retry") {
      await look(id);
      await desk.retry(id);
      return redirect(response, `/runs/${id}`);
    }
    if (rest !== "/decide") throw new Refusal(404, "There is no such page.");
    const { found } = await look(id);
    const call = form.get("call") ?? "";
    const reason = form.get("reason") as PendingReason;
    let draft: Draft | undefined;
    try {
      const open = pending(found.state).find((open) => open.id === call && open.reason === reason);
      if (!open) throw new AlreadyDecided();
      const kind = form.get("kind");
      if (kind === "edit") draft = { call, args: open.args };
      const decision = readDecision(kind, form, () => (draft = { call, args: readArgs(desk.tools, open.tool, open.args, form) }).args);
      await desk.decide(id, { who: session.name, call, reason, decision });
      redirect(response, `/runs/${id}`);
    } catch (error) {
      const now = await look(id);
      if (error instanceof AlreadyDecided) return showCase(response, 409, session, now, `${alreadyDecided(now.found, call)} What you sent changed nothing.`);
      if (error instanceof BadInput || (error instanceof AgentError && error.code === "bad-decision")) return showCase(response, 422, session, now, `Not taken: ${prose(error.message)}`, draft);
      throw error;
    }
  }

  function showCase(response: ServerResponse, status: number, session: Session, view: View, notice?: string, draft?: Draft): void {
    send(response, status, casePage(session, view, desk.tools, Date.now(), notice, draft));
  }

  async function look(id: string): Promise<View> {
    const view = await desk.view(id);
    if (!view) throw new Refusal(404, "There is no such run.");
    return view;
  }

  function signIn(response: ServerResponse, form: URLSearchParams): void {
    const name = readName(form.get("name") ?? "");
    if (name === undefined) return send(response, 422, signInPage("A name has letters, and at most 40 characters."));
    if (!door.admits(form.get("password") ?? "")) return send(response, 403, signInPage("That is not the password, or there were too many wrong ones in the last minute."));
    redirect(response, "/", `inbox=${door.cookie(name, Date.now())}; Max-Age=${30 * 24 * 3600}; Path=/; HttpOnly; SameSite=Lax`);
  }

  /** For programs: Basic credentials, which no browser sends by itself here, since it is never asked for them. */
  async function api(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const [name = "", ...password] = Buffer.from(/^Basic (\S+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "", "base64").toString().split(":");
    const askedBy = readName(name);
    if (askedBy === undefined || !door.admits(password.join(":"))) throw new Refusal(401, "Say who you are: curl -u name:password");
    if (request.method === "POST" && path === "/api/runs") {
      let said: unknown;
      const text = await body(request, "application/json");
      try {
        said = Object(JSON.parse(text)) as Record<string, unknown>;
      } catch {
        throw new Refusal(400, "The body is not JSON.");
      }
      return sendJson(response, 201, { id: await desk.start(readRequest((said as Record<string, unknown>)["request"]), askedBy) });
    }
    const id = /^\/api\/runs\/([\w-]+)$/.exec(path)?.[1];
    if (request.method !== "GET" || id === undefined) throw new Refusal(404, "There is only POST /api/runs and GET /api/runs/<id>.");
    const { found: { state }, status } = await look(id);
    const last = state.messages.at(-1);
    sendJson(response, 200, { id, status, pending: pending(state), text: status === "done" ? (last?.content ?? null) : null });
  }

  /** News as server-sent events, while somebody looks. `seen`: what the page shows already. */
  function listen(response: ServerResponse, id: string, seen: string | null): void {
    if (response.destroyed) return; // gone while the run was read: nothing would tell it any more
    response.writeHead(200, { "content-type": "text/event-stream" });
    const tell = (news: News): void => {
      // Somebody who doesn't read must not fill the memory; their browser comes again by itself.
      if (response.writableLength > 1024 * 1024) return void response.destroy();
      response.write(`data: ${JSON.stringify(news.kind === "text" ? { kind: "text", text: prose(news.text) } : news)}\n\n`);
    };
    response.write(": hello\n\n");
    const end = desk.watch(id, seen, tell);
    const beat = setInterval(() => response.write(": still here\n\n"), 20_000);
    response.on("close", () => {
      clearInterval(beat);
      end();
    });
  }
}

/** A form of another site carries that site's origin. Browsers say which; what says nothing is no browser, and has no cookie to abuse. */
function checkOrigin({ headers }: IncomingMessage): void {
  const site = headers["sec-fetch-site"];
  const own = site === undefined ? headers.origin === undefined || headers.origin.replace(/^https?:\/\//, "") === headers.host : site === "same-origin";
  if (!own) throw new Refusal(403, "This form is not from here.");
}

async function body(request: IncomingMessage, type: string): Promise<string> {
  if (request.headers["content-type"]?.split(";")[0] !== type) throw new Refusal(415, `The body must be ${type}.`);
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY) throw new Refusal(413, "That is too long.");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function runIn(path: string): [id: string, rest: string] {
  const [, id, rest] = /^\/runs\/([\w-]+)(\/\w+)?$/.exec(path) ?? [];
  if (id === undefined) throw new Refusal(404, "There is no such page.");
  return [id, rest ?? ""];
}

function readRequest(text: unknown): string {
  if (typeof text !== "string" || text.trim() === "" || text.length > MAX_REQUEST) throw new Refusal(422, `A request is a text of 1 to ${MAX_REQUEST} characters.`);
  return text.trim();
}

function readDecision(kind: string | null, form: URLSearchParams, edited: () => Draft["args"]): Decision {
  const why = form.get("why")?.trim();
  switch (kind) {
    case "approve": return { approved: true };
    case "edit": return { approved: true, args: edited() };
    case "reject": return why ? { approved: false, reason: why } : { approved: false };
    case "answer": case "result": return { result: (form.get("answer") ?? "").replace(/\r\n?/g, "\n") };
    case "rerun": return { rerun: true };
    default: throw new Refusal(400, "There is no such decision.");
  }
}

function alreadyDecided({ state, audit }: Case, call: string): string {
  const entry: Entry | undefined = audit.findLast((entry) => entry.call === call);
  if (pending(state).some(({ id }) => id === call)) return "This call waits for something else by now: see below.";
  return entry ? `Already decided, by ${entry.who}.` : "Already decided.";
}

function send(response: ServerResponse, status: number, page: string): void {
  response.writeHead(status, { "content-type": "text/html; charset=utf-8" }).end(page);
}

function sendJson(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

function redirect(response: ServerResponse, to: string, cookie?: string): void {
  response.writeHead(303, { location: to, ...(cookie !== undefined && { "set-cookie": cookie }) }).end();
}
