// Buttons and forms that change something. Each request carries a header that no form elsewhere can send; what comes back is told in a
// dialog of the page. Without a session the server refuses, so such elements are only drawn for who is signed in.
"use strict";

// Tries of a change whose answer is lost, and the pause before another.
const TRIES_MAX = 3;
const TRY_PAUSE_MS = 1000;

document.documentElement.classList.add("scripts");

function ask(text, options) {
  return new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    const message = document.createElement("p");
    message.id = "question";
    message.textContent = text;
    dialog.setAttribute("aria-labelledby", message.id);
    const row = document.createElement("div");
    row.className = "actions";
    const button = (name, value, kind) => {
      const each = document.createElement("button");
      each.type = "button";
      each.textContent = name;
      each.className = kind;
      each.addEventListener("click", () => dialog.close(value));
      row.append(each);
      return each;
    };
    if (options.question) {
      button("Cancel", "", "");
    }
    const last = button(options.button || "OK", "yes", options.danger ? "danger" : "primary");
    dialog.append(message, row);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
    last.focus();
  });
}

// What an answer that refuses says.
function refusal(status, text) {
  try {
    return JSON.parse(text).message || text;
  } catch {
    return text || `The server answered ${status}.`;
  }
}

// A number that no other change has.
function changeNumber() {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return String((BigInt(high) << 32n) | BigInt(low));
}

// Sends a change: what is wrong with it, or the text of the answer.
async function send(method, url, body) {
  const headers = { "x-hanno-page": "1", "x-hanno-call": changeNumber() };
  if (body) {
    headers["content-type"] = "application/json";
  }
  // The NameNode makes a change once, however often it comes under one number. The JobTracker knows no numbers.
  const tries = url.startsWith("/api/v1/files") ? TRIES_MAX : 1;
  for (let left = tries - 1; ; left -= 1) {
    try {
      const answer = await fetch(url, { method, headers, body, cache: "no-store" });
      const text = await answer.text();
      return answer.ok ? { error: null, text } : { error: refusal(answer.status, text), text: "" };
    } catch (error) {
      if (left === 0) {
        return { error: `The server cannot be reached: ${error.message}`, text: "" };
      }
    }
    await new Promise((resolve) => setTimeout(resolve, TRY_PAUSE_MS));
  }
}

async function finish(error, then) {
  if (error !== null) {
    await ask(error, { question: false });
  } else if (then) {
    location.assign(then);
  } else {
    document.dispatchEvent(new Event("stale"));
  }
}

async function press(button) {
  const { method, url, confirm, body, then } = button.dataset;
  const danger = button.classList.contains("danger");
  if (confirm && !(await ask(confirm, { question: true, button: button.textContent, danger }))) {
    return;
  }
  button.disabled = true;
  // What is drawn meanwhile leaves it alone.
  button.dataset.busy = "";
  const { error } = await send(method, url, body);
  delete button.dataset.busy;
  button.disabled = false;
  await finish(error, then);
}

// A field whose value becomes the last element of a path.
async function make(form) {
  const name = form.elements.name.value.trim();
  if (name !== "") {
    const { error } = await send("PUT", form.dataset.make + encodeURIComponent(name));
    if (error === null) {
      form.reset();
    }
    await finish(error);
  }
}

// Fields that change something. Where it lies elsewhere then, its page is opened.
async function changeFile(form) {
  const button = form.querySelector("button");
  const fields = new URLSearchParams(new FormData(form));
  button.disabled = true;
  const { error, text } = await send("POST", `${form.dataset.change}&${fields}`);
  button.disabled = false;
  const { follow } = form.dataset;
  const then = error === null && follow ? follow + encodeURIComponent(JSON.parse(text).path) : undefined;
  await finish(error, then);
}

function put(file, url, { begun, show }) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("PUT", url);
    request.setRequestHeader("x-hanno-page", "1");
    request.upload.addEventListener("progress", (event) => show(event.loaded));
    request.addEventListener("error", () => resolve("The connection broke."));
    request.addEventListener("abort", () => resolve("The upload was cancelled. Nothing of this file is kept."));
    request.addEventListener("load", () => {
      resolve(request.status < 300 ? null : refusal(request.status, request.responseText));
    });
    begun(request);
    request.send(file);
  });
}

// Sends one file after the other; what is wrong, if anything is.
async function putAll(form, files, bar) {
  const [told, cancel] = [form.querySelector("output"), form.querySelector("[data-cancel]")];
  let before = 0;
  for (const [place, file] of files.entries()) {
    told.textContent = `${place + 1} of ${files.length}: ${file.name}`;
    const begun = (request) => {
      cancel.onclick = () => request.abort();
    };
    const show = (loaded) => {
      bar.value = before + loaded;
    };
    const error = await put(file, form.dataset.upload + encodeURIComponent(file.name), { begun, show });
    before += file.size;
    if (error !== null) {
      return `${file.name}: ${error}`;
    }
  }
  return null;
}

async function upload(form) {
  const files = [...form.elements.files.files];
  const bar = form.querySelector("progress");
  const hidden = (isHidden) => {
    bar.hidden = isHidden;
    form.querySelector("[data-cancel]").hidden = isHidden;
    form.querySelector("button:not([data-cancel])").disabled = !isHidden;
  };
  form.dataset.busy = "";
  bar.value = 0;
  bar.max = files.reduce((sum, file) => sum + file.size, 0) || 1;
  hidden(false);
  const error = await putAll(form, files, bar);
  hidden(true);
  form.querySelector("output").textContent = "";
  delete form.dataset.busy;
  // What came before a failure is there, too.
  document.dispatchEvent(new Event("stale"));
  if (error === null) {
    form.reset();
  } else {
    await finish(error);
  }
}

// Listeners are on the document, because what is below it may come and go while the page is open.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-method]");
  if (button) {
    press(button);
  }
});

document.addEventListener("change", (event) => {
  const choice = event.target.closest("select[data-method]");
  if (choice) {
    const body = JSON.stringify({ [choice.name]: choice.value });
    choice.blur();
    send(choice.dataset.method, choice.dataset.url, body).then(({ error }) => finish(error));
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.make) {
    event.preventDefault();
    make(form);
  } else if (form.dataset.upload) {
    event.preventDefault();
    upload(form);
  } else if (form.dataset.change) {
    event.preventDefault();
    changeFile(form);
  }
});
