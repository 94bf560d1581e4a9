// People at the page, in a browser, with the server as a process of its own.
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, chromium as playwright, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Delta, Reply, Tools } from "yieldagent";
import { chromium } from "../../chromium.ts";
import { Desk } from "../src/desk.ts";
import { inboxServer } from "../src/server.ts";
import { Door } from "../src/session.ts";
import { openStore } from "../src/store.ts";
import { Inbox, Signal, until } from "./inbox.ts";

const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const DESKTOP = { viewport: { width: 1100, height: 800 } };
const pictures = process.env["UPDATE"] ? fileURLToPath(new URL("../pictures", import.meta.url)) : mkdtempSync(join(tmpdir(), "yieldagent-pictures-"));
const picture = (page: Page, name: string): Promise<unknown> => page.screenshot({ path: join(pictures, `${name}.png`), fullPage: name.startsWith("desktop"), scale: "css" });

let browser: Browser;
let inbox: Inbox;
const problems: string[] = [];

beforeAll(async () => {
  browser = await playwright.launch(chromium());
});
afterAll(async () => {
  await browser?.close();
  if (!process.env["UPDATE"]) rmSync(pictures, { recursive: true });
});
beforeEach(async () => {
  inbox = new Inbox();
  await inbox.start();
});
afterEach(async () => {
  for (const context of browser.contexts()) await context.close();
  await inbox.remove();
  // Neither an error in a script nor something that the policy of the page forbids.
  expect(problems.splice(0)).toEqual([]);
});

/** Somebody who has signed in, with a browser of their own. */
async function person(name: string, device: object = DESKTOP, at: Pick<Inbox, "address" | "signIn"> = inbox): Promise<Page> {
  const context = await browser.newContext(device);
  const [cookie = "", value = ""] = (await at.signIn(name)).split("=");
  await context.addCookies([{ name: cookie, value, url: at.address }]);
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && /policy|Error:/i.test(message.text())) problems.push(message.text());
  });
  await page.goto(at.address);
  return page;
}

async function asks(page: Page, request: string): Promise<void> {
  await page.getByText("Ask for something").click();
  await page.getByLabel("What is it about?").fill(request);
  await page.getByRole("button", { name: "Ask the agent" }).click();
  await page.waitForURL("**/runs/*"); // the list, too, says what becomes of it, until the run's own page is there
}

/** Presses it, and waits for the page that answers: until then the old one renews itself, and may say the same. */
async function press(page: Page, button: string, tool: string): Promise<void> {
  const answered = page.waitForEvent("load");
  await card(page, tool).getByRole("button", { name: button }).click();
  await answered;
}

const card = (page: Page, tool: string): ReturnType<Page["locator"]> => page.locator(".question", { has: page.getByRole("heading", { name: tool, exact: true }) });
const status = (page: Page, says: string): Promise<void> => page.locator(".chip", { hasText: says }).waitFor();
const TORN = "Ann's coat, order A-60, came torn. She wants her money back.";

describe("a person", () => {
  test("signs in with the shared password and a name, and out again", async () => {
    const page = await (await browser.newContext(PHONE)).newPage();
    await page.goto(inbox.address);
    expect(page.url()).toBe(`${inbox.address}/sign-in`);
    for (const password of ["guess", inbox.password]) {
      await page.getByLabel("Your name").fill("Mia");
      await page.getByLabel("Password").fill(password);
      await page.getByRole("button", { name: "Sign in" }).click();
      if (password === "guess") await page.getByText("That is not the password").waitFor();
    }
    await page.getByRole("heading", { name: "Nothing waits for you" }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.goto(inbox.address);
    expect(page.url()).toBe(`${inbox.address}/sign-in`);
  });

  test("asks on a phone, sees the calls in full, edits one and approves the other, and the audit trail says so", async () => {
    const page = await person("Mia", PHONE);
    await asks(page, "The tea pot of order A-7 is late. What can I tell them?");
    await status(page, "waits for a decision");
    await page.goto(inbox.address);
    await asks(page, TORN);
    await status(page, "waits for a decision");
    expect(await card(page, "refund").locator(".args").innerText()).toBe('order\n"A-60"\neuros\n89.9\nwhy\n"the rain coat is not as ordered"');
    expect(await card(page, "sendEmail").locator("dd").last().innerText()).toBe(
      '"Dear Ann,\n\nwe are sorry about your rain coat. We pay €89.90 back; it should arrive within three days.\n\nKind regards,\nthe shop"');
    await picture(page, "phone-decide");
    await page.goto(inbox.address);
    await page.emulateMedia({ colorScheme: "dark" });
    await picture(page, "phone-inbox");
    await page.emulateMedia({ colorScheme: "light" });
    expect(await page.title()).toBe("(2) Inbox");

    await page.getByText(TORN).click();
    const refund = card(page, "refund");
    await refund.getByText("Edit").click();
    await refund.getByLabel("euros").fill("45");
    await refund.getByText("Edit").evaluate((element) => element.scrollIntoView());
    await picture(page, "phone-edit");
    await refund.getByRole("button", { name: "Approve with these" }).click();
    await page.getByText("changed and approved").first().waitFor();
    await card(page, "sendEmail").getByRole("button", { name: "Approve" }).click();
    await status(page, "done");
    expect(inbox.payments()).toMatchObject([{ order: "A-60", euros: 45 }]);
    expect(inbox.mails()).toMatchObject([{ to: "ann@example.com" }]);
    expect(await page.locator(".audit li").allInnerTexts()).toEqual([
      expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\s+Mia changed and approved refund call_2_1$/),
      expect.stringMatching(/UTC\s+Mia approved sendEmail call_2_2$/),
    ]);
    expect(await page.locator(".decided del").innerText()).toBe("89.9");
    expect(await page.locator(".decided ins").innerText()).toBe("45");
    await page.setViewportSize(DESKTOP.viewport);
    await page.locator(".agent", { hasText: "The refund is on its way." }).waitFor();
    await picture(page, "desktop-done");
  });

  test("rejects with a reason, which the agent reads", async () => {
    const page = await person("Mia");
    await asks(page, "Where is order B-5?");
    const mail = card(page, "sendEmail");
    await mail.getByText("Reject").first().click();
    await mail.getByLabel("Why?").fill("I'll call her <b>myself</b>");
    await mail.getByRole("button", { name: "Reject" }).click();
    await status(page, "done");
    expect(inbox.mails()).toEqual([]);
    expect(await page.locator(".decided").innerText()).toMatch(/^Mia rejected just now\s*I'll call her <b>myself<\/b>$/);
    expect(await page.locator(".agent").last().innerText()).toBe("The email to Bo was not made: not run: it was rejected: I'll call her <b>myself</b>.");
  });

  test("answers what the agent asks", async () => {
    const page = await person("Mia");
    await asks(page, "Where is it?");
    const question = card(page, "askColleague");
    expect(await question.locator("dd").innerText()).toBe('"Which order is this about? Orders look like A-17."');
    await question.getByLabel("Your answer").fill("C-6, I think");
    await question.getByRole("button", { name: "Answer" }).click();
    await card(page, "sendEmail").getByRole("button", { name: "Approve" }).click();
    await status(page, "done");
    expect(inbox.mails()).toMatchObject([{ to: "carla@example.com", subject: "Your order C-6" }]);
  });

  test("whose edit the tool's schema refuses is told why, and what they typed is still there", async () => {
    const page = await person("Mia");
    await asks(page, TORN);
    for (const [typed, says] of [["4000", "Too big"], ["a lot", "euros must be a number"]] as const) {
      const refund = card(page, "refund");
      if (!(await refund.getByLabel("euros").isVisible())) await refund.getByText("Edit").click();
      await refund.getByLabel("why", { exact: true }).fill("she is a friend");
      await refund.getByLabel("euros").fill(typed);
      await refund.getByRole("button", { name: "Approve with these" }).click();
      await page.getByRole("alert").filter({ hasText: says }).waitFor();
      if (typed === "4000") expect(await card(page, "refund").getByLabel("why", { exact: true }).inputValue()).toBe("she is a friend");
    }
    expect(inbox.payments()).toEqual([]);
    await status(page, "waits for a decision");
  });

  test("sees steps as they happen and text as it is said, without reloading", async () => {
    // This server is in the test's process: the test says when the model goes on, and when the money has arrived.
    const [word, end, paid] = [new Signal(), new Signal(), new Signal<string>()];
    const turns: AsyncGenerator<Delta, Reply>[] = [
      (async function* () {
        return { role: "assistant" as const, content: "I look the order up.", tool_calls: [{ id: "a", type: "function" as const, function: { name: "look", arguments: "{}" } }], finish_reason: "tool_calls" };
      })(),
      (async function* () {
        yield { type: "text" as const, text: "Ann " };
        await word.promise;
        yield { type: "text" as const, text: "paid €89.90." };
        await end.promise;
        return { role: "assistant" as const, content: "Ann paid €89.90.", tool_calls: [{ id: "b", type: "function" as const, function: { name: "refund", arguments: "{}" } }], finish_reason: "tool_calls" };
      })(),
      (async function* () {
        return { role: "assistant" as const, content: "She has it back.", finish_reason: "stop" };
      })(),
    ];
    const tools: Tools<unknown, unknown> = { look: { run: () => "a rain coat" }, refund: { needsApproval: true, run: () => paid.promise } };
    const door = new Door(randomBytes(32), inbox.password);
    const store = await openStore(join(inbox.folder, "another"));
    const desk = new Desk(store, () => turns.shift() as AsyncGenerator<Delta, Reply>, tools);
    const server = inboxServer(desk, door);
    await desk.open();
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      const page = await person("Mia", DESKTOP, { address, signIn: async (name) => `inbox=${door.cookie(name, Date.now())}` });
      const says = (text: string): Promise<unknown> => page.waitForFunction((text) => document.querySelector("#live")?.textContent === text, text);
      await asks(page, TORN);
      await says("Ann ");
      word.resolve();
      await says("Ann paid €89.90.");
      await page.locator(".call", { hasText: "look" }).waitFor();
      expect(await page.locator(".story > *").allInnerTexts()).toEqual([TORN, "I look the order up.", expect.stringMatching(/^look\s+a rain coat$/)]);
      end.resolve();
      await page.locator(".agent", { hasText: "Ann paid €89.90." }).waitFor();
      await says("");
      await card(page, "refund").getByRole("button", { name: "Approve" }).click();
      await page.locator(".call", { hasText: "is running…" }).waitFor();
      expect(await card(page, "refund").count()).toBe(0);
      paid.resolve("paid back");
      await page.locator(".call .result", { hasText: "paid back" }).waitFor();
      await status(page, "done");
    } finally {
      for (const context of browser.contexts()) await context.close();
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
      store.close();
    }
  });
});

describe("two people", () => {
  test("of two who decide at once one is told that it was decided already, by whom, and it happens once", async () => {
    // Without scripts, so that neither page renews itself before its button is pressed.
    const still = { ...DESKTOP, javaScriptEnabled: false };
    const [mia, tom] = [await person("Mia", still), await person("Tom", still)];
    const id = await inbox.ask("Where is order B-5?");
    await until(async () => (await inbox.look(id)).status === "waiting");
    for (const page of [mia, tom]) await page.goto(`${inbox.address}/runs/${id}`);
    await Promise.all([mia, tom].map((page) => card(page, "sendEmail").getByRole("button", { name: "Approve" }).click()));
    for (const page of [mia, tom]) await page.locator(".decided").waitFor(); // as neither page had it before
    const told = [mia, tom].map(async (page) => ((await page.getByRole("alert").count()) > 0 ? await page.getByRole("alert").innerText() : ""));
    const [winner, loser] = (await Promise.all(told)).sort();
    await until(async () => (await inbox.look(id)).status === "done");
    await mia.goto(`${inbox.address}/runs/${id}`);
    const names = await mia.locator(".audit strong").allInnerTexts();
    expect(names).toHaveLength(1);
    expect([winner, loser]).toEqual(["", `Already decided, by ${names[0]}. What you sent changed nothing.`]);
    expect(inbox.mails()).toHaveLength(1);
  });

  test("of which one has a stale page open: it renews itself, and what it sends without that changes nothing", async () => {
    const mia = await person("Mia");
    const tom = await person("Tom", { ...DESKTOP, javaScriptEnabled: false });
    await asks(mia, TORN);
    await status(mia, "waits for a decision");
    await tom.goto(mia.url());
    const liz = await person("Liz");
    await liz.goto(mia.url());
    const mail = card(mia, "sendEmail");
    await mail.getByText("Reject").first().click();
    await mail.getByRole("button", { name: "Reject" }).click();
    await liz.getByText("Mia rejected").first().waitFor();
    expect(await card(liz, "sendEmail").count()).toBe(0);
    await card(tom, "sendEmail").getByRole("button", { name: "Approve" }).click();
    expect(await tom.getByRole("alert").innerText()).toBe("Already decided, by Mia. What you sent changed nothing.");
    expect(await card(tom, "refund").count()).toBe(1);
    expect(inbox.mails()).toEqual([]);
    // The other call of the same page still waits, and can be decided.
    await card(tom, "refund").getByRole("button", { name: "Approve" }).click();
    await status(mia, "done");
    expect([inbox.payments().length, inbox.mails().length]).toEqual([1, 0]);
  });

  test("somebody who is typing isn't disturbed, but told", async () => {
    const [mia, tom] = [await person("Mia"), await person("Tom")];
    await asks(mia, TORN);
    await status(mia, "waits for a decision");
    await tom.goto(mia.url());
    await card(tom, "sendEmail").getByText("Reject").first().click();
    await card(tom, "sendEmail").getByLabel("Why?").fill("not yet");
    await card(mia, "refund").getByRole("button", { name: "Approve" }).click();
    await tom.getByText("There is news.").waitFor();
    expect(await card(tom, "sendEmail").getByLabel("Why?").inputValue()).toBe("not yet");
    await card(tom, "sendEmail").getByRole("button", { name: "Reject" }).click();
    await status(tom, "done");
    expect(await tom.locator(".audit strong").allInnerTexts()).toEqual(["Mia", "Tom"]);
  });
});

describe("an open page", () => {
  /** A run that waits, and Mia before it. */
  async function before(request = "Where is order B-5?"): Promise<{ id: string; page: Page; decide: () => Promise<void> }> {
    const page = await person("Mia");
    const id = await inbox.ask(request);
    await until(async () => (await inbox.look(id)).status === "waiting");
    const cookie = await inbox.signIn("Tom");
    const token = /name="token" value="([\w-]+)"/.exec(await (await inbox.get("/", cookie)).text())?.[1] ?? "";
    const decide = async (): Promise<void> => void (await inbox.post(`/runs/${id}/decide`, { token, call: "call_2_1", reason: "approval", kind: "approve" }, { cookie }));
    return { id, page, decide };
  }

  test("that can't be had for a moment when there is news is made anew as soon as it can", async () => {
    const { id, page, decide } = await before();
    await page.goto(`${inbox.address}/runs/${id}`);
    // What a proxy says whose server is away, and a connection that drops. Who leaves the page for that never comes back.
    let times = 0;
    await page.route(`${inbox.address}/runs/${id}`, (route) => {
      if (route.request().resourceType() === "fetch" && ++times > 2) return route.continue();
      return times === 1 ? route.fulfill({ status: 502, body: "Bad gateway" }) : route.abort();
    });
    await decide();
    await status(page, "done");
    expect(times).toBeGreaterThan(2);
  });

  test("keeps a button where it is while somebody presses it", async () => {
    const { id, page, decide } = await before(TORN);
    await page.goto(`${inbox.address}/runs/${id}`);
    await card(page, "sendEmail").getByRole("button", { name: "Approve" }).hover();
    await page.mouse.down();
    const renewed = page.waitForResponse((response) => response.url() === page.url());
    await decide(); // the other call, above it
    await renewed;
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    expect(await card(page, "refund").count()).toBe(1);
    await page.mouse.up();
    await status(page, "done");
    expect(await page.locator(".audit strong").allInnerTexts()).toEqual(["Tom", "Mia"]);
  });

  test("whose events were refused asks for them again", async () => {
    const { id, page, decide } = await before();
    const refused: string[] = [];
    await page.route("**/events?*", (route) => (refused.push(route.request().url()) > 1 ? route.continue() : route.fulfill({ status: 502, body: "Bad gateway" })));
    const again = page.waitForResponse((response) => response.url().includes("/events?") && response.status() === 200);
    await page.goto(`${inbox.address}/runs/${id}`);
    await again;
    await decide();
    await status(page, "done");
  });

  test("of somebody whose session ends leads to where they can sign in", async () => {
    const { id, page } = await before();
    await page.goto(`${inbox.address}/runs/${id}`);
    await page.context().clearCookies();
    await inbox.kill();
    await inbox.start();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
  });

  test("doesn't take the cursor away from who is about to type", async () => {
    const page = await person("Mia");
    await asks(page, "Where is it?");
    await card(page, "askColleague").getByLabel("Your answer").focus();
    await inbox.kill();
    await inbox.start();
    await page.getByText("There is news.").waitFor();
    await page.keyboard.insertText("C-6");
    await card(page, "askColleague").getByRole("button", { name: "Answer" }).click();
    await card(page, "sendEmail").waitFor();
    expect(await page.locator(".decided q").innerText()).toBe("C-6");
  });

  test("shows the news that it has kept back once nobody types in it any more", async () => {
    const { id, page, decide } = await before();
    await page.goto(`${inbox.address}/runs/${id}`);
    await card(page, "sendEmail").getByText("Reject").first().click();
    await decide();
    await page.getByText("There is news.").waitFor();
    await card(page, "sendEmail").getByText("Reject").first().click();
    await status(page, "done");
    expect(await page.getByText("There is news.").isVisible()).toBe(false);
  });
});

describe("kill -9", () => {
  test("in the middle of an email: the same page asks what now, and after a rerun it was sent once", async () => {
    await inbox.kill();
    await inbox.start({ TOOL_DELAY: "600000" });
    const page = await person("Mia", PHONE);
    await asks(page, "Where is order B-5?");
    await press(page, "Approve", "sendEmail");
    await page.locator(".call", { hasText: "is running…" }).waitFor();
    await inbox.kill();
    await inbox.start();
    // Nobody reloads: the page finds the server again.
    const mail = card(page, "sendEmail");
    await mail.getByText("It may or may not have run").waitFor();
    await mail.getByText("Run it again").first().click();
    await mail.getByRole("button", { name: "Run it again" }).click();
    await status(page, "done");
    expect(inbox.mails()).toHaveLength(1);
    expect(await page.locator(".audit li").allInnerTexts()).toEqual([expect.stringContaining("Mia approved sendEmail"), expect.stringContaining("Mia had it run again: sendEmail")]);
  });

  test("while the model talks, and while people think: the run goes on, and the sessions too", async () => {
    await inbox.kill();
    await inbox.start({ STAND_IN_DELAY: "600000" });
    const page = await person("Mia");
    await asks(page, TORN);
    await status(page, "at work");
    await inbox.kill();
    await inbox.start();
    await status(page, "waits for a decision");
    await inbox.kill();
    await inbox.start();
    await card(page, "refund").getByRole("button", { name: "Approve" }).click();
    await page.getByText("Mia approved").first().waitFor();
    await card(page, "sendEmail").getByRole("button", { name: "Approve" }).click();
    await status(page, "done");
    expect([inbox.payments().length, inbox.mails().length]).toEqual([1, 1]);
  });
});

test("what a model or a stranger writes is text on the page, and what hides in it shows", async () => {
  const page = await person("Mia");
  await asks(page, 'Where is it? <img src=x onerror="document.title=1"><script>document.title=2</script>');
  await card(page, "askColleague").getByLabel("Your answer").fill("</textarea><script>document.title=3</script> B-5\u202e");
  await card(page, "askColleague").getByRole("button", { name: "Answer" }).click();
  await card(page, "sendEmail").waitFor();
  expect(await page.locator("main img, main script").count()).toBe(0);
  expect(await page.locator(".decided q").innerText()).toBe("</textarea><script>document.title=3</script> B-5\\u202e");
  // Hidden characters and look-alikes in a call are marked, and edited as escapes.
  await card(page, "sendEmail").getByText("Edit").click();
  await card(page, "sendEmail").getByLabel("subject").fill("аnn\u200b");
  await card(page, "sendEmail").getByRole("button", { name: "Approve with these" }).click();
  await status(page, "done");
  expect(await page.locator(".decided ins").innerText()).toBe('"аnn\\u200b"');
  expect(inbox.mails()[0]?.subject).toBe("аnn\u200b");
});
