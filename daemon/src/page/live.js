// Keeps a page true while it is open: when the server says that something changed, <main> is fetched again and replaced.
// Without this script the pages are complete; they only stand still.
"use strict";

const LIVE_PAUSE_MS = 400;

let pending = null;
// The change that the page is drawn again for: what others were shown for it will do. Empty or no number: it must be as of now.
let change = "";

async function refresh() {
  pending = null;
  const active = document.activeElement;
  if (active && active.matches("input, select") && active.closest("main")) {
    schedule();
    return;
  }
  const headers = { accept: "text/html" };
  if (change) {
    headers["x-hanno-change"] = change;
  }
  const answer = await fetch(location.href, { headers, cache: "no-store" });
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

function told(event) {
  if (pending === null || change) {
    change = event.data;
  }
  schedule();
}

function renew() {
  change = "";
  schedule();
}

function listen() {
  const path = document.body.dataset.live;
  if (!path) {
    return;
  }
  const source = new EventSource(path);
  // What changed between the drawing of the page and now, or while the daemon was away, is told by no event.
  source.addEventListener("open", renew);
  source.addEventListener("change", told);
  source.addEventListener("end", () => {
    source.close();
    renew();
  });
  document.addEventListener("visibilitychange", renew);
}

document.addEventListener("stale", renew);

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
