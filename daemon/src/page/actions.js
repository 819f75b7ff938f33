// Buttons and forms that change something. Each request carries a header that no form elsewhere can send; what comes back is told in a
// dialog of the page. Without a session the server refuses, so such elements are only drawn for who is signed in.
"use strict";

document.documentElement.classList.add("scripts");

function ask(text, options) {
  return new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    const message = document.createElement("p");
    message.textContent = text;
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

async function send(method, url, body) {
  const headers = { "x-hanno-page": "1" };
  if (body) {
    headers["content-type"] = "application/json";
  }
  try {
    const answer = await fetch(url, { method, headers, body, cache: "no-store" });
    return answer.ok ? null : refusal(answer.status, await answer.text());
  } catch (error) {
    return `The server cannot be reached: ${error.message}`;
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
  const error = await send(method, url, body);
  delete button.dataset.busy;
  button.disabled = false;
  await finish(error, then);
}

// A field whose value becomes the last element of a path.
async function make(form) {
  const name = form.elements.name.value.trim();
  if (name !== "") {
    const error = await send("PUT", form.dataset.make + encodeURIComponent(name));
    if (error === null) {
      form.reset();
    }
    await finish(error);
  }
}

function put(file, url, show) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("PUT", url);
    request.setRequestHeader("x-hanno-page", "1");
    request.upload.addEventListener("progress", (event) => show(event.loaded));
    request.addEventListener("error", () => resolve("The connection broke."));
    request.addEventListener("load", () => {
      resolve(request.status < 300 ? null : refusal(request.status, request.responseText));
    });
    request.send(file);
  });
}

async function upload(form) {
  const files = [...form.elements.files.files];
  const bar = form.querySelector("progress");
  form.dataset.busy = "";
  bar.max = files.reduce((sum, file) => sum + file.size, 0) || 1;
  bar.hidden = false;
  let before = 0;
  for (const file of files) {
    const url = form.dataset.upload + encodeURIComponent(file.name);
    const error = await put(file, url, (loaded) => {
      bar.value = before + loaded;
    });
    before += file.size;
    if (error !== null) {
      bar.hidden = true;
      delete form.dataset.busy;
      await finish(`${file.name}: ${error}`);
      return;
    }
  }
  bar.hidden = true;
  delete form.dataset.busy;
  form.reset();
  await finish(null);
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
    send(choice.dataset.method, choice.dataset.url, body).then((error) => finish(error));
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
  }
});
