// Keeps a page true while it is open: when the server says that something changed, <main> is fetched again and replaced.
// Without this script the pages are complete; they only stand still.
"use strict";

const LIVE_PAUSE_MS = 400;

let pending = null;

async function refresh() {
  pending = null;
  const active = document.activeElement;
  if (active && active.matches("input, select") && active.closest("main")) {
    schedule();
    return;
  }
  const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
  if (!answer.ok) {
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.querySelector("main");
  const old = document.querySelector("main");
  if (!fresh || !old) {
    return;
  }
  const open = new Set([...old.querySelectorAll("details[open]")].map((each) => each.id));
  fresh.querySelectorAll("details").forEach((each) => {
    each.open = open.has(each.id);
  });
  old.replaceWith(document.adoptNode(fresh));
  document.title = page.title;
}

function schedule() {
  if (pending === null && !document.hidden) {
    pending = setTimeout(refresh, LIVE_PAUSE_MS);
  }
}

function listen() {
  const path = document.body.dataset.live;
  if (!path) {
    return;
  }
  const source = new EventSource(path);
  // What changed between the drawing of the page and now, or while the daemon was away, is told by no event.
  source.addEventListener("open", schedule);
  source.addEventListener("change", schedule);
  source.addEventListener("end", () => {
    source.close();
    schedule();
  });
  document.addEventListener("visibilitychange", schedule);
}

document.addEventListener("stale", schedule);

document.addEventListener("keydown", (event) => {
  const field =
    document.querySelector("main input[type=search]") || document.querySelector("input[type=search]");
  const typing = document.activeElement && document.activeElement.matches("input, select, textarea");
  if (event.key === "/" && field && !typing) {
    event.preventDefault();
    field.focus();
  }
});

listen();
