// What the server lets in and gives out, without a browser.
import { readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Inbox, until } from "./inbox.ts";

let inbox: Inbox;
let cookie: string;
beforeAll(async () => {
  inbox = new Inbox();
  await inbox.start();
  cookie = await inbox.signIn("Mia");
});
afterAll(() => inbox.remove());

const tokenIn = (page: string): string => /name="token" value="([\w-]+)"/.exec(page)?.[1] ?? "";
const formFor = async (cookie: string): Promise<string> => tokenIn(await (await inbox.get("/", cookie)).text());
async function waiting(request = "Where is order B-5?"): Promise<string> {
  const id = await inbox.ask(request);
  await until(async () => (await inbox.look(id)).status === "waiting");
  return id;
}

describe("the server", () => {
  test("shows nothing to whoever is not signed in, and takes nothing from them", async () => {
    const id = await waiting();
    for (const path of ["/", `/runs/${id}`]) {
      const response = await inbox.get(path, "");
      expect([response.status, response.headers.get("location"), await response.text()]).toEqual([303, "/sign-in", ""]);
    }
    for (const path of ["/events", `/runs/${id}/events`]) expect((await inbox.get(path, "")).status).toBe(401);
    const decision = { call: "call_2_1", reason: "approval", kind: "approve" };
    expect((await inbox.post(`/runs/${id}/decide`, decision)).headers.get("location")).toBe("/sign-in");
    expect((await fetch(`${inbox.address}/api/runs`, { method: "POST", body: "{}" })).status).toBe(401);
    const forged = Buffer.from(JSON.stringify({ name: "Mia", until: Date.now() + 1e9 })).toString("base64url");
    for (const bad of [`inbox=${forged}.${"a".repeat(43)}`, `inbox=${forged}.${"é".repeat(43)}`, "inbox=", `${cookie}x`, cookie.replace("inbox=", "inbox=e")]) {
      expect((await inbox.get("/", encodeURI(bad))).status).toBe(303);
    }
    expect((await inbox.look(id)).status).toBe("waiting");
  });

  test("takes a decision only from a form of its own page, of the same person and the same site", async () => {
    const id = await waiting();
    const token = await formFor(cookie);
    const form = { call: "call_2_1", reason: "approval", kind: "approve" };
    const others = await formFor(await inbox.signIn("Tom"));
    expect(others).not.toBe(token);
    for (const [given, headers] of [["", {}], [others, {}], [token, { "sec-fetch-site": "cross-site" }], [token, { "sec-fetch-site": "same-site" }], [token, { origin: "http://evil.example" }], [token, { origin: "null" }]] as const) {
      expect((await inbox.post(`/runs/${id}/decide`, { ...form, token: given }, { cookie, ...headers })).status).toBe(403);
    }
    expect(await inbox.look(id)).toMatchObject({ status: "waiting" });
    const response = await inbox.post(`/runs/${id}/decide`, { ...form, token }, { cookie, origin: inbox.address });
    expect([response.status, response.headers.get("location")]).toEqual([303, `/runs/${id}`]);
    await until(async () => (await inbox.look(id)).status === "done");
    expect(inbox.mails().map(({ key }) => key)).toEqual([`${id}/call_2_1`]);
  });

  test("keeps states, passwords and keys out of its pages, and says what may load there", async () => {
    const id = await waiting("Ann's coat, order A-60, came torn.");
    const { secret } = JSON.parse(readFileSync(join(inbox.folder, "secret.json"), "utf8")) as { secret: string };
    for (const path of ["/", `/runs/${id}`]) {
      const response = await inbox.get(path, cookie);
      const page = await response.text();
      for (const hidden of ['"revision"', "prompt_tokens", '"calls"', "You work in the back office", inbox.password, secret, inbox.folder, cookie.slice(6)]) expect(page.includes(hidden), hidden).toBe(false);
      expect(response.headers.get("content-security-policy")).toBe("default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
      expect([response.headers.get("cache-control"), response.headers.get("x-content-type-options"), response.headers.get("referrer-policy")]).toEqual(["no-store", "nosniff", "same-origin"]);
      expect(page).not.toMatch(/<script>|style=|onclick|javascript:/);
    }
    const set = (await inbox.post("/sign-in", { name: "Mia", password: inbox.password })).headers.get("set-cookie");
    expect(set).toMatch(/^inbox=[\w.-]+; Max-Age=2592000; Path=\/; HttpOnly; SameSite=Lax$/);
  });

  test("takes no body that is too long, of another kind, or that doesn't end", async () => {
    const id = await waiting();
    expect((await inbox.post(`/runs/${id}/decide`, { token: "x".repeat(300_000) }, { cookie })).status).toBe(413);
    expect((await inbox.post("/runs", { token: await formFor(cookie), request: "x".repeat(4001) }, { cookie })).status).toBe(422);
    expect((await fetch(`${inbox.address}/sign-in`, { method: "POST", body: "name=Mia" })).status).toBe(415);
    const endless = connect(inbox.port, "127.0.0.1");
    const answer = new Promise<string>((resolve) => endless.once("data", (data: Buffer) => resolve(String(data))));
    endless.on("error", () => {}).write(`POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n`);
    for (let i = 0; i < 10; i++) endless.write(`8000\r\n${"x".repeat(0x8000)}\r\n`);
    expect(await answer).toMatch(/^HTTP\/1.1 413 /);
    endless.destroy();
  });

  test("answers what isn't there, and decisions that are none, with no inside of it", async () => {
    const id = await waiting();
    const token = await formFor(cookie);
    for (const path of ["/runs/../../etc/passwd", "/runs/constructor", "/constructor", "/runs/nobody", "/nothing", `/runs/${id}/nothing`]) expect((await inbox.get(path, cookie)).status, path).toBe(404);
    const form = { token, call: "call_2_1", reason: "approval" };
    expect((await inbox.post(`/runs/${id}/decide`, { ...form, kind: "always" }, { cookie })).status).toBe(400);
    for (const said of [{ kind: "approve", call: "call_9" }, { kind: "approve", reason: "answer" }, { kind: "rerun", reason: "interrupted" }]) {
      expect((await inbox.post(`/runs/${id}/decide`, { ...form, ...said }, { cookie })).status).toBe(409);
    }
    const response = await inbox.post(`/runs/${id}/decide`, { ...form, kind: "rerun" }, { cookie });
    expect([response.status, (await response.text()).includes("it never ran")]).toEqual([422, true]);
    expect(await inbox.look(id)).toMatchObject({ status: "waiting", pending: [{ id: "call_2_1" }] });
    expect(readdirSync(inbox.folder).filter((name) => name === "payments")).toEqual([]);
  });

  test("stops listening to guesses of the password", async () => {
    const other = new Inbox();
    try {
      await other.start();
      for (let i = 0; i < 20; i++) expect((await other.post("/sign-in", { name: "Eve", password: `${i}` })).status).toBe(403);
      expect((await other.post("/sign-in", { name: "Eve", password: other.password })).status).toBe(403);
      expect((await inbox.post("/sign-in", { name: "<b>", password: inbox.password })).status).toBe(422);
    } finally {
      await other.remove();
    }
  });

  test("tells a program what became of its run", async () => {
    const id = await inbox.ask("What about order Q-99999999999?");
    await until(async () => (await inbox.look(id)).status === "done");
    expect(await inbox.look(id)).toEqual({ id, status: "done", pending: [], text: "I could not find the order Q-99999999999, so I did nothing." });
  });
});
