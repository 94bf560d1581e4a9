// Keeps an open page up to date: text as the model says it, and the page anew when something has changed. Without it
// everything still works, by reloading.
const { address, events } = document.body.dataset;

// What somebody is typing must not go away under their fingers.
const isTyping = () => document.querySelector("main details[open] form") !== null
  || [...document.querySelectorAll("main textarea, main input:not([type=hidden])")].some((field) => field.value !== field.defaultValue);

// How much of what the model has said is in the conversation by now, and so is shown by the page anew.
let settled = 0;
let asked = false;
let again = false;
async function renew() {
  if (asked) return void (again = true);
  asked = true;
  const shown = settled;
  try {
    const response = await fetch(address);
    if (response.redirected || !response.ok) return location.assign(address); // signed out meanwhile
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (isTyping()) return void (document.querySelector("#stale").hidden = false);
    document.title = page.title;
    document.querySelector("main").replaceWith(page.querySelector("main"));
    const live = document.querySelector("#live");
    if (live) live.textContent = live.textContent.slice(shown);
    settled -= shown;
  } catch {
    // The server is away; the events tell when it is back.
  } finally {
    asked = false;
    if (again) {
      again = false;
      renew();
    }
  }
}

if (events) {
  const source = new EventSource(events);
  let lost = false;
  source.onerror = () => (lost = true);
  source.onopen = () => {
    const live = document.querySelector("#live");
    if (live) live.textContent = ""; // it is told again from the beginning
    settled = 0;
    if (lost) renew();
    lost = false;
  };
  source.onmessage = ({ data }) => {
    const news = JSON.parse(data);
    const live = document.querySelector("#live");
    if (news.kind === "text") return void (live.textContent += news.text);
    settled = live?.textContent.length ?? 0;
    renew();
  };
}
