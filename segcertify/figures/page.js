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

const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };

/** The integers that Python's ``packed`` wrote. */
async function unpacked({ kind, bytes }) {
  const stream = new Blob([decode(bytes, Uint8Array)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new TYPES[kind](await new Response(stream).arrayBuffer());
}

const format = (count) => count.toLocaleString("en");

/** A share in percent, rounded down; never 0 of something. */
function share(part, whole) {
  if (!part || !whole) return "0%";
  const tenths = Math.floor(1000 * part / whole);
  return tenths ? `${(tenths / 10).toFixed(1)}%` : "below 0.1%";
}

/** A share in percent, to the nearest tenth; 0 and 100 stand for nothing else. */
function nearest(part, whole) {
  if (!whole) return "-";
  const tenths = limit(Math.round(1000 * part / whole), part ? 1 : 0, part < whole ? 999 : 1000);
  return `${(tenths / 10).toFixed(1)}%`;
}

/** Terms and texts at the end of a list of them. */
function describe(list, facts) {
  for (const [term, text] of Object.entries(facts)) {
    element(list, "dt", term);
    element(list, "dd", text);
  }
}

const SVG = "http://www.w3.org/2000/svg";

/** A new part of a drawing, with a text. */
function svg(parent, tag, attributes, text = "") {
  const made = parent.appendChild(document.createElementNS(SVG, tag));
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
