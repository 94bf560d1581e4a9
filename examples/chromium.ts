import { existsSync } from "node:fs";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "C:/Program Files/Google/Chrome/Application/chrome.exe"];

/** What playwright-core needs to start the browser of this machine, which the tests of the examples share. */
export function chromium(): { executablePath: string; args: string[] } {
  const executablePath = [process.env["CHROMIUM"] ?? "", ...PLACES].find((place) => place && existsSync(place));
  if (!executablePath) throw new Error("there is no Chromium; install it, or say where it is in CHROMIUM");
  return { executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] };
}
