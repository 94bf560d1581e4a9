import { type Message, type OpenCall, pending, type PendingCall, type Tools } from "yieldagent";
import { suspicious } from "yieldagent/show";
import type { Status, Summary, View } from "./desk.ts";
import { inputs } from "./form.ts";
import { html, type Html, prose, shown } from "./html.ts";
import type { Session } from "./session.ts";
import type { Entry } from "./store.ts";

interface Layout {
  title: string;
  session?: Session | undefined;
  /** Where this page can be had again, and where its news come from. */
  address?: string | undefined;
  events?: string | undefined;
}

function layout({ title, session, address, events }: Layout, body: Html): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="stylesheet" href="/style.css">
<link rel="icon" href="data:,">
<script src="/live.js" defer></script>
</head>
<body${address && html` data-address="${address}"`}${events && html` data-events="${events}"`}>
<header><a href="/" class="home">Inbox</a>${session && html`<form method="post" action="/sign-out"><span>${session.name}</span>${token(session)}<button class="plain">Sign out</button></form>`}</header>
<p id="stale" hidden>There is news. <a href="${address ?? "/"}">Show it</a> (what you are typing would be lost).</p>
${body}
</body>
</html>
`.text;
}

function token(session: Session): Html {
  return html`<input type="hidden" name="token" value="${session.token}">`;
}

export function signInPage(problem?: string): string {
  return layout({ title: "Sign in" }, html`<main class="narrow">
<h1>Sign in</h1>
${problem && html`<p class="notice">${problem}</p>`}
<form method="post" action="/sign-in" class="card">
<label>Your name <small>(stands beside what you decide)</small><input name="name" autocomplete="name" required maxlength="40"></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<button class="primary">Sign in</button>
</form>
</main>`);
}

export function listPage(session: Session, lists: Record<Status, Summary[]>, seen: string, page: number, now: number): string {
  const { waiting, running, failed, done } = lists;
  const size = 100;
  const pages = Math.max(1, Math.ceil(waiting.length / size));
  const at = Math.min(page, pages);
  const row = ({ id, request, askedBy, askedAt, changedAt, status, waiting }: Summary): Html => html`<li><a href="/runs/${id}" class="row ${status}">
<strong>${line(request)}</strong>
<span>${waiting.length > 0 && html`<b>${[...new Set(waiting)].join(", ")}</b> · `}${askedBy} · ${age(status === "done" ? changedAt : askedAt, now)}</span></a></li>`;
  const section = (title: string, rows: Summary[]): Html | false => rows.length > 0 && html`<section><h2>${title}</h2><ul class="rows">${rows.map(row)}</ul></section>`;
  return layout({ title: waiting.length > 0 ? `(${waiting.length}) Inbox` : "Inbox", session, address: `/?page=${at}`, events: `/events?seen=${seen}` }, html`<main>
<h1>${waiting.length > 0 ? html`${waiting.length} waiting for a decision` : "Nothing waits for you"}</h1>
${waiting.length > 0 && html`<ul class="rows">${waiting.slice((at - 1) * size, at * size).map(row)}</ul>`}
${pages > 1 && html`<nav>${at > 1 && html`<a href="/?page=${at - 1}">older</a>`} page ${at} of ${pages} ${at < pages && html`<a href="/?page=${at + 1}">newer</a>`}</nav>`}
${section("Could not go on", failed)}
${section("At work", running.slice(0, 50))}
<details class="card ask"><summary>Ask for something</summary>
<form method="post" action="/runs">${token(session)}
<label>What is it about?<textarea name="request" rows="3" required maxlength="4000" placeholder="Ann's coat, order A-60, came torn. She wants her money back."></textarea></label>
<button class="primary">Ask the agent</button></form></details>
${section("Done", done.slice(-50).reverse())}
</main>`);
}

/** What a person was typing when it was refused, so that it isn't lost. */
export interface Draft {
  call: string;
  args: PendingCall["args"];
}

export function casePage(session: Session, { found: { state, request, askedBy, askedAt, audit }, status, failure, seen }: View, tools: Tools<unknown, unknown>, now: number, notice?: string, draft?: Draft): string {
  const waiting = pending(state);
  const address = `/runs/${state.id}`;
  // What is said once stands outside of what the page renews.
  return layout({ title: line(request), session, address, events: `${address}/events?seen=${seen}` }, html`${notice && html`<p id="notice" role="alert">${notice}</p>`}
<main>
<h1 class="request">${prose(request)}</h1>
<p class="meta"><span class="chip ${status}">${STATUS[status]}</span> ${askedBy} asked ${age(askedAt, now)}</p>
${failure !== undefined && html`<section class="card failed"><p>It could not go on: ${prose(failure)}</p><form method="post" action="${address}/retry">${token(session)}<button class="primary">Try again</button></form></section>`}
${waiting.map((call) => question(session, address, call, tools, draft))}
<section><h2>What happened</h2>
<ol class="story">${story(state.messages, state.calls, audit, now)}</ol></section>
${audit.length > 0 && html`<section><h2>Who decided what</h2><ul class="audit">${audit.map((entry) => html`<li><time>${new Date(entry.at).toISOString().replace("T", " ").slice(0, 19)} UTC</time> <strong>${entry.who}</strong> ${verdict(entry)} <b>${entry.tool}</b> <code>${entry.call}</code></li>`)}</ul></section>`}
</main>
<p id="live" aria-live="polite"></p>`);
}

const STATUS: Record<Status, string> = { waiting: "waits for a decision", running: "at work", done: "done", failed: "could not go on" };

const QUESTIONS = { approval: "May it run?", answer: "It asks you", interrupted: "It may or may not have run" };

/** One call that waits, and everything a person may say of it. */
function question(session: Session, address: string, { id, tool, args, reason }: PendingCall, tools: Tools<unknown, unknown>, draft: Draft | undefined): Html {
  const marks = suspicious({ tool, args });
  const form = (kind: string, body: Html): Html => html`<form method="post" action="${address}/decide">${token(session)}
<input type="hidden" name="call" value="${id}"><input type="hidden" name="reason" value="${reason}"><input type="hidden" name="kind" value="${kind}">${body}</form>`;
  const reject = (label: string): Html => html`<details><summary class="button">${label}</summary>${form("reject", html`<label>Why? <small>(the agent reads it)</small><input name="why" maxlength="2000"></label><button class="danger">${label}</button>`)}</details>`;
  const edited = draft?.call === id;
  return html`<section class="card question" data-call="${id}">
<p class="meta">${QUESTIONS[reason]}</p>
<h2>${tool}</h2>
${argsOf(args)}
${marks.length > 0 && html`<ul class="marks">${marks.map((mark) => html`<li>${mark}</li>`)}</ul>`}
${reason === "approval" && html`<div class="actions">${form("approve", html`<button class="primary">Approve</button>`)}
<details${edited && html` open`}><summary class="button">Edit</summary>${form("edit", html`${inputs(tools, tool, edited ? draft.args : args)}<button class="primary">Approve with these</button>`)}</details>
${reject("Reject")}</div>`}
${reason === "answer" && html`<div class="actions">${form("answer", html`<label>Your answer<textarea name="answer" rows="3" required></textarea></label><button class="primary">Answer</button>`)}${reject("Don't answer")}</div>`}
${reason === "interrupted" && html`<p>The server stopped while this was running. Look whether it took effect, then say what is so.</p>
<div class="actions"><details><summary class="button">It did run</summary>${form("result", html`<label>Its result<input name="answer" required value="done"></label><button class="primary">It did run</button>`)}</details>
<details><summary class="button">Run it again</summary>${form("rerun", html`<p>If it did run, this makes it twice.</p><button class="danger">Run it again</button>`)}</details>
${reject("Leave it")}</div>`}
</section>`;
}

function argsOf(args: PendingCall["args"]): Html {
  return html`<dl class="args">${Object.entries(args).map(([name, value]) => html`<dt>${shown(name).slice(1, -1)}</dt><dd>${shown(value)}</dd>`)}</dl>`;
}

/** The conversation as it is stored, each call with who decided it and what came of it. */
function story(messages: readonly Message[], open: readonly OpenCall[], audit: readonly Entry[], now: number): Html[] {
  const results = new Map(messages.map(({ tool_call_id: id, content }) => [id, String(content)]));
  const calls = new Map(open.map((call) => [call.id, call]));
  return messages.flatMap(({ role, content, tool_calls: asked }) => {
    const said = textOf(content);
    if (role === "user") return [html`<li class="user">${prose(said)}</li>`];
    if (role !== "assistant") return [];
    return [
      ...(said ? [html`<li class="agent">${prose(said)}</li>`] : []),
      ...(asked ?? []).map(({ id = "", function: { name, arguments: args } }) => {
        const call = calls.get(id);
        const result = results.get(id) ?? (call?.message && textOf(call.message.content));
        return html`<li class="call"><details><summary><b>${name}</b> ${progress(call, result)}</summary>${argsOf(parsed(args))}</details>
${audit.filter((entry) => entry.call === id).map((entry) => html`<div class="decided"><strong>${entry.who}</strong> ${verdict(entry)} <small>${age(entry.at, now)}</small>${detail(entry)}</div>`)}
${result !== undefined && html`<pre class="${result.startsWith("Error: ") ? "error" : "result"}">${prose(result)}</pre>`}</li>`;
      }),
    ];
  });
}

function textOf(content: Message["content"]): string {
  return typeof content === "string" ? content : (content ?? []).map((part) => String(part["text"] ?? `[${part.type}]`)).join("");
}

function parsed(text: string): Record<string, unknown> {
  return JSON.parse(text) as Record<string, unknown>; // the loop keeps nothing else in a conversation
}

function progress(call: OpenCall | undefined, result: string | undefined): string {
  if (result !== undefined) return "";
  return { new: "is looked at", ready: "is about to run", started: "is running…", pending: "waits for a decision", done: "" }[call?.status ?? "done"];
}

function verdict({ decision, reason }: Entry): string {
  const said = typeof decision === "boolean" ? { approved: decision } : decision;
  if ("rerun" in said) return "had it run again:";
  if ("result" in said) return reason === "answer" ? "answered" : "said that it did run:";
  if (!said.approved) return reason === "interrupted" ? "left" : "rejected";
  return "args" in said ? "changed and approved" : "approved";
}

function detail({ decision, args }: Entry): Html | undefined {
  if (typeof decision === "boolean") return undefined;
  if ("result" in decision) return html`<q>${prose(String(decision.result))}</q>`;
  if ("reason" in decision && decision.reason) return html`<q>${prose(decision.reason)}</q>`;
  if (!("args" in decision) || !decision.args) return undefined;
  const now = decision.args;
  const names = [...new Set([...Object.keys(args), ...Object.keys(now)])].filter((name) => JSON.stringify(args[name]) !== JSON.stringify(now[name]));
  const side = (value: unknown): string => (value === undefined ? "nothing" : shown(value));
  return html`<dl class="args">${names.map((name) => html`<dt>${shown(name).slice(1, -1)}</dt><dd><del>${side(args[name])}</del> <ins>${side(now[name])}</ins></dd>`)}</dl>`;
}

function line(text: string): string {
  const flat = prose(text).replace(/\s+/g, " ");
  return flat.length > 140 ? `${flat.slice(0, 140).replace(/\p{Surrogate}$/u, "")}…` : flat;
}

function age(then: number, now: number): string {
  const minutes = Math.floor((now - then) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} h ago` : `${Math.floor(minutes / 1440)} days ago`;
}

export function messagePage(session: Session | undefined, title: string, text: string): string {
  return layout({ title, session }, html`<main class="narrow"><h1>${title}</h1><p>${text}</p><p><a href="/">To the inbox</a></p></main>`);
}
