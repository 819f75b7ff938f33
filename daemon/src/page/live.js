// Keeps a page true while it is open: when the server says that something changed, the page is fetched again and <main> is changed into what is
// fetched (`patch.js`). A page that cannot be kept true says so, at once, and goes on when the daemon is back.
// Without this script the pages are complete; they only stand still.
"use strict";

const LIVE_PAUSE_MS = 400;
// The server sends a beat every 5 s; two that are missing are silence.
const SILENCE_MAX_MS = 12000;
// Between two tries to reach a daemon that is away.
const RETRY_PAUSE_MS = 2000;

let pending = null;
// The change that the page is drawn again for: what others were shown for it will do. Empty or no number: it must be as of now.
let change = "";
// The last page of the server, before it is dressed.
let newest = null;
let source = null;
// When anything was last heard of the server.
let heard = Date.now();
// Since when the page cannot be kept true.
let lostAt = null;

function clock(ms) {
  return new Date(ms).toLocaleTimeString();
}

function lost(why) {
  if (lostAt === null) {
    lostAt = heard;
  }
  const note = document.getElementById("connection");
  const text = `${why} since ${clock(lostAt)}: what you see may have changed. Trying again…`;
  if (note && note.textContent !== text) {
    note.textContent = text;
    note.hidden = false;
  }
}

function found() {
  heard = Date.now();
  lostAt = null;
  const note = document.getElementById("connection");
  if (note) {
    note.hidden = true;
    note.textContent = "";
  }
}

// A page may have other changes to wait for than before, or none: the job is over, or the session.
function follow(path) {
  if (path === document.body.dataset.live) {
    return;
  }
  if (source !== null) {
    source.close();
    source = null;
  }
  if (path) {
    document.body.dataset.live = path;
    connect();
  } else {
    delete document.body.dataset.live;
  }
}

function draw(page) {
  const fresh = page.querySelector("main");
  const old = document.querySelector("main");
  if (!fresh || !old) {
    return;
  }
  dress(fresh);
  renewTree(old, fresh);
  document.title = page.title;
}

async function refresh() {
  pending = null;
  const headers = { accept: "text/html" };
  if (change) {
    headers["x-hanno-change"] = change;
  }
  let answer;
  let text;
  try {
    answer = await fetch(location.href, { headers, cache: "no-store" });
    text = await answer.text();
  } catch {
    lost("No connection");
    retry();
    return;
  }
  const isPage = (answer.headers.get("content-type") || "").startsWith("text/html");
  // A refusal is a page, too: the job is gone, or the session is over.
  if (!isPage || answer.status >= 500) {
    lost(`The server has answered ${answer.status}`);
    retry();
    return;
  }
  found();
  newest = text;
  const page = new DOMParser().parseFromString(text, "text/html");
  draw(page);
  follow(page.body.dataset.live);
}

function schedule(pause = LIVE_PAUSE_MS) {
  if (pending === null && !document.hidden) {
    pending = setTimeout(refresh, pause);
  }
}

function retry() {
  change = "";
  schedule(RETRY_PAUSE_MS);
}

function told(event) {
  heard = Date.now();
  if (pending === null || change) {
    change = event.data;
  }
  schedule();
}

function renew() {
  change = "";
  schedule();
}

function connect() {
  source = new EventSource(document.body.dataset.live);
  // What changed between the drawing of the page and now, or while the daemon was away, is told by no event.
  source.addEventListener("open", renew);
  source.addEventListener("change", told);
  source.addEventListener("beat", () => {
    heard = Date.now();
  });
  source.addEventListener("end", () => {
    source.close();
    source = null;
    renew();
    // Unless the page that is fetched now has nothing more to wait for.
    setTimeout(reconnect, RETRY_PAUSE_MS);
  });
  source.addEventListener("error", () => {
    lost("No connection");
    // Perhaps it is back already, or it is only the stream that is refused.
    change = "";
    schedule(0);
    // The browser tries again by itself, unless the answer was no stream.
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(reconnect, RETRY_PAUSE_MS);
    }
  });
}

function reconnect() {
  if (source === null && document.body.dataset.live) {
    connect();
  }
}

// A connection that is silent may be gone without an end: the daemon hangs, or its machine is off.
function watchSilence() {
  if (source !== null && !document.hidden && Date.now() - heard > SILENCE_MAX_MS) {
    lost("No word from the server");
    source.close();
    connect();
  }
}

function listen() {
  if (!document.body.dataset.live) {
    return;
  }
  connect();
  setInterval(watchSilence, SILENCE_MAX_MS / 4);
  document.addEventListener("visibilitychange", () => {
    // Time that the page slept is no silence of the server.
    heard = Date.now();
    renew();
  });
}

document.addEventListener("stale", renew);

document.addEventListener("reorder", () => draw(new DOMParser().parseFromString(newest, "text/html")));

document.addEventListener("keydown", (event) => {
  const field =
    document.querySelector("main input[type=search]") || document.querySelector("input[type=search]");
  const typing = document.activeElement && document.activeElement.matches("input, select, textarea");
  if (event.key === "/" && field && !typing) {
    event.preventDefault();
    field.focus();
  }
});

newest = document.documentElement.outerHTML;
dress(document.querySelector("main"));
listen();
