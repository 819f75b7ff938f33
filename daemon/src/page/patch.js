// Changes a tree of the page into a fresh one in place. What did not change stays the same node, so focus, selection, scroll positions and what
// somebody types or opened survive.
//
// Invariants: nodes with the same key stay the same node, wherever they go. What belongs to the user is never overwritten: the value of a field, an
// open section, whatever has `data-busy`.
"use strict";

// A name by which an element is found again among its siblings: its id, or what a row links to first.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    return null;
  }
  if (node.id) {
    return `#${node.id}`;
  }
  if (node.nodeName === "TR") {
    const link = node.querySelector("a[href]");
    return link ? `@${link.getAttribute("href")}` : null;
  }
  return null;
}

// Attributes that the user has changed, by name of the element.
const OWN = { DETAILS: ["open"], DIALOG: ["open"], INPUT: ["value", "checked"] };

function patchAttributes(old, fresh) {
  const own = OWN[old.nodeName] || [];
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !own.includes(name)) {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !own.includes(name)) {
      old.setAttribute(name, value);
    }
  }
}

// For each wanted child the one of `old` that becomes it, or a new one.
function matched(old, fresh) {
  const keyed = new Map();
  const others = [];
  for (const child of old.childNodes) {
    const key = keyOf(child);
    if (key !== null && !keyed.has(key)) {
      keyed.set(key, child);
    } else {
      others.push(child);
    }
  }
  let at = 0;
  return [...fresh.childNodes].map((wanted) => {
    const key = keyOf(wanted);
    let found = keyed.get(key) || null;
    keyed.delete(key);
    if (key === null) {
      let ahead = at;
      while (ahead < others.length && others[ahead].nodeName !== wanted.nodeName) {
        ahead += 1;
      }
      if (ahead < others.length) {
        found = others[ahead];
        at = ahead + 1;
      }
    }
    if (found === null || found.nodeName !== wanted.nodeName) {
      return document.importNode(wanted, true);
    }
    patch(found, wanted);
    return found;
  });
}

function patchChildren(old, fresh) {
  const children = matched(old, fresh);
  const stays = new Set(children);
  for (const child of [...old.childNodes]) {
    if (!stays.has(child)) {
      child.remove();
    }
  }
  let place = old.firstChild;
  for (const child of children) {
    if (child === place) {
      place = place.nextSibling;
    } else {
      old.insertBefore(child, place);
    }
  }
}

// Makes `old` equal to `fresh`, which has the same name.
function patch(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) {
      old.data = fresh.data;
    }
    return;
  }
  if ((old.dataset && old.dataset.busy !== undefined) || old.isEqualNode(fresh)) {
    return;
  }
  patchAttributes(old, fresh);
  if (old.nodeName === "SELECT") {
    const chosen = document.activeElement === old ? old.value : fresh.value;
    patchChildren(old, fresh);
    old.value = chosen;
  } else {
    patchChildren(old, fresh);
  }
}

// As `patch`, for the tree that may hold the focus: a node that moves loses it.
function renewTree(old, fresh) {
  const active = document.activeElement;
  patch(old, fresh);
  if (active && active !== document.activeElement && active.isConnected) {
    active.focus({ preventScroll: true });
  }
}
