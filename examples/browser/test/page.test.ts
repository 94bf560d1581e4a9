// The built page in a browser, from a server that only gives files.
import { createServer, type Server } from "node:http";
import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { type Browser, chromium as playwright, type Page } from "playwright-core";
import type { State } from "yieldagent";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "../../chromium.ts";

const TYPES: Record<string, string> = { html: "text/html", css: "text/css", js: "text/javascript" };
let server: Server;
let address: string;
let browser: Browser;
const problems: string[] = [];

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const name = request.url === "/" ? "index.html" : (request.url ?? "").slice(1);
    const bytes = await readFile(new URL(`../public/${name}`, import.meta.url)).catch(() => undefined);
    response.writeHead(bytes ? 200 : 404, { "content-type": TYPES[name.split(".").pop() ?? ""] ?? "text/plain" }).end(bytes);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  browser = await playwright.launch(chromium());
});
afterAll(async () => {
  await browser?.close();
  server.close();
});
afterEach(async () => {
  for (const context of browser.contexts()) await context.close();
  expect(problems.splice(0)).toEqual([]);
});

/** `still`: time in the page stands still, until the test lets it go on. */
async function open(viewport = { width: 1100, height: 664 }, still = false): Promise<Page> {
  const page = await (await browser.newContext({ viewport })).newPage();
  await page.clock.install();
  if (still) await stop(page);
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(address);
  return page;
}

const stop = async (page: Page): Promise<void> => page.clock.pauseAt((await page.evaluate(() => Date.now())) + 1000);
const steps = (page: Page): Promise<string[]> => page.locator("#steps li").allInnerTexts().then((lines) => lines.map((line) => line.replace(/\s+/g, " ").trim()));
const button = (page: Page, name: string): ReturnType<Page["getByRole"]> => page.getByRole("button", { name, exact: true });
const final = (page: Page): Promise<void> => page.locator("#steps .final").waitFor();
const state = async (page: Page): Promise<State> => JSON.parse((await page.evaluate(() => localStorage.getItem("yieldagent-example"))) ?? "null") as State;
const sent = (page: Page): Promise<unknown[]> => page.evaluate(() => (globalThis as unknown as { sent: unknown[] }).sent);

const TO_THE_PAUSE = [
  "text I look up the weather in Oslo.", "message calls getWeather", 'tool-start getWeather { "city": "Oslo" }', 'tool-result { "city": "Oslo", "tempC": -4 }',
  "text It is -4 °C. Ann should hear of it.", "message calls sendEmail", "approval-needed the run ends here; the state waits",
];

describe("the page", () => {
  test("shows steps as they happen, pauses, and goes on once it is approved", async () => {
    const page = await open(undefined, true);
    for (const [words, seen] of [[1, ["text I"]], [2, ["text I look up"]], [4, TO_THE_PAUSE.slice(0, 3)]] as const) {
      await page.clock.runFor(90 * words);
      expect(await steps(page)).toEqual(seen);
    }
    await page.clock.resume();
    await button(page, "Approve").waitFor();
    expect(await steps(page)).toEqual(TO_THE_PAUSE);
    expect(JSON.parse(await page.locator("#state").innerText())).toEqual(await state(page));
    expect(await page.locator(".card pre").innerText()).toBe('{\n  "to": "ann@example.com",\n  "body": "It is -4 °C in Oslo. Take a coat."\n}');
    if (process.env["UPDATE"]) await page.screenshot({ path: fileURLToPath(new URL("../pause.png", import.meta.url)) });
    await button(page, "Approve").click();
    await final(page);
    expect((await steps(page)).slice(TO_THE_PAUSE.length)).toEqual([
      'tool-start sendEmail { "to": "ann@example.com", "body": "It is -4 °C in Oslo. Take a coat." }', 'tool-result "sent to ann@example.com"',
      "text It is -4 °C in Oslo, and Ann knows.", "message", "final stop"]);
    expect(await sent(page)).toEqual([{ key: `${(await state(page)).id}/c2`, to: "ann@example.com", body: "It is -4 °C in Oslo. Take a coat." }]);
  });

  test("takes an edit and a rejection with a reason, and starts over", async () => {
    const page = await open({ width: 390, height: 844 });
    await button(page, "Edit").click();
    await page.locator("textarea").fill('{ "to": ');
    await button(page, "Approve with these").click();
    expect(await page.locator(".wrong").innerText()).toMatch(/^That is no JSON/);
    await page.locator("textarea").fill('{ "to": "bo@example.com", "body": "Brr." }');
    await button(page, "Approve with these").click();
    await final(page);
    expect(await sent(page)).toMatchObject([{ to: "bo@example.com", body: "Brr." }]);
    await button(page, "Start over").click();
    await button(page, "Reject").click();
    await page.getByPlaceholder("why?").fill("she knows");
    await button(page, "Reject").click();
    await final(page);
    expect((await steps(page)).slice(-4)).toEqual(["tool-result not run: it was rejected: she knows", "text It is -4 °C in Oslo. Ann wasn't told: not run: it was rejected: she knows.", "message", "final stop"]);
    expect(await sent(page)).toEqual([]);
  });

  test("reloaded while the model talks, while a tool runs, at the pause and in the middle of an email it goes on, and the email isn't sent again unasked", async () => {
    const page = await open(undefined, true);
    await page.clock.runFor(90 * 2); // the model talks
    const { id } = await state(page);
    await page.reload();
    await page.clock.runFor(90 * 7); // a tool runs
    expect(await steps(page)).toEqual(["reloaded it goes on from localStorage", ...TO_THE_PAUSE.slice(0, 3)]);
    await page.reload();
    await page.clock.runFor(700 + 90 * 3); // and is run again; the model talks
    expect(await steps(page)).toEqual(["reloaded it goes on from localStorage", ...TO_THE_PAUSE.slice(2, 4), "text It is -4"]);
    await page.reload();
    await page.clock.resume();
    await button(page, "Approve").waitFor();
    await page.reload();
    await button(page, "Approve").waitFor();
    expect(await steps(page)).toEqual(["reloaded it goes on from localStorage", "approval-needed the run ends here; the state waits"]);
    await stop(page);
    await button(page, "Approve").click();
    await page.locator("#steps .tool-start").waitFor();
    await page.reload();
    await page.clock.resume();
    await page.getByText("It may or may not have run").waitFor();
    expect(await sent(page)).toEqual([]);
    await button(page, "Run it again").click();
    await final(page);
    expect(await sent(page)).toMatchObject([{ key: `${id}/c2` }]);
    await page.reload();
    await final(page);
    expect(await steps(page)).toEqual(["reloaded it goes on from localStorage", "final stop"]);
  });

  test("in two tabs: only one of them can go on", async () => {
    const page = await open();
    await button(page, "Approve").waitFor();
    const other = await page.context().newPage();
    await other.goto(address);
    await button(other, "Approve").waitFor();
    await button(page, "Approve").click();
    await final(page);
    await button(other, "Approve").click();
    await other.locator("#steps .error").waitFor();
    expect((await steps(other)).at(-1)).toContain("is not pending in the state (it may have been decided already)");
    expect(await sent(other)).toEqual([]);
  });
});
