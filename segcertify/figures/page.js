"use strict";

// --- The data. All text from it enters the page through textContent: names are never read as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const decode = (text, Type) => new Type(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const limit = (value, low, high) => Math.min(Math.max(value, low), high);

/** A new element with a text, at the end of another. */
function element(parent, tag, text = "", properties = {}) {
  const made = parent.appendChild(document.createElement(tag));
  made.textContent = text;
  return Object.assign(made, properties);
}
