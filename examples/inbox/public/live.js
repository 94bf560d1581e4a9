// Keeps an open page up to date: text as the model says it, and the page anew when something has changed. Without it
// everything still works, by reloading.
const { address, events } = document.body.dataset;
const live = document.querySelector("#live");
const stale = document.querySelector("#stale");

// What somebody is typing, or about to, must not go away under their fingers.
const isTyping = () => document.querySelector("main details[open] form, main textarea:focus, main input:focus") !== null
  || [...document.querySelectorAll("main textarea, main input:not([type=hidden])")].some((field) => field.value !== field.defaultValue);

// A button that is being pressed stays where it is, or the press would be lost, or meant for another.
let released = Promise.resolve();
document.addEventListener("pointerdown", () => {
  released = new Promise((resolve) => {
    for (const over of ["pointerup", "pointercancel"]) document.addEventListener(over, () => setTimeout(resolve), { capture: true, once: true });
  });
}, true);

// What of the model's words is in the conversation by now, and so is shown by the page anew.
let settled = [];
let asked = false;
let again = false;
async function renew() {
  if (asked) return void (again = true);
  asked = true;
  again = false;
  const shown = settled;
  try {
    const response = await fetch(address);
    if (response.redirected || response.status === 404) return location.assign(address); // signed out meanwhile
    if (!response.ok) throw new Error(`${response.status}`);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    await released;
    stale.hidden = !isTyping();
    if (!stale.hidden) return;
    document.title = page.title;
    document.querySelector("main").replaceWith(page.querySelector("main"));
    for (const words of shown) words.remove();
  } catch {
    setTimeout(renew, 2000); // the server is away, or a proxy says that it is
  } finally {
    asked = false;
    if (again) renew();
  }
}

function listen() {
  const source = new EventSource(events);
  let lost = false;
  source.onerror = () => {
    lost = true;
    if (source.readyState !== EventSource.CLOSED) return; // the browser comes again by itself
    // Refused: not signed in any more, which the page will say, or a proxy whose server is away.
    renew();
    setTimeout(listen, 2000);
  };
  source.onopen = () => {
    live?.replaceChildren(); // it is told again from the beginning
    if (lost) renew();
    lost = false;
  };
  source.onmessage = ({ data }) => {
    const news = JSON.parse(data);
    if (news.kind === "text") return void live?.append(news.text);
    settled = [...(live?.childNodes ?? [])];
    renew();
  };
}

if (events) {
  listen();
  // What was kept back is shown when nothing stands in its way any more, and a device that has slept looks for itself.
  for (const happens of ["toggle", "input", "focusout"]) document.addEventListener(happens, () => stale.hidden || isTyping() || renew(), true);
  document.addEventListener("visibilitychange", () => document.hidden || renew());
}
