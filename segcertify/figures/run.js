
// --- The run: for each claim the counts of each scene, and of each class in it.

const byId = (id) => document.getElementById(id);
const UNKNOWN = 65535;
const CHUNK = 60;  // cards that are made at once
const SORTS = {
  abstained: "abstention, most first", wrong: "wrong, most first", iou: "worst IoU, lowest first", name: "name",
};
const VIEWS = { scenes: "Scenes", curves: "Curves", tables: "Tables" };
const claims = [];
let present, placesOf;  // of each class: the places of its scenes

async function load() {
  present = {};
  for (const key in data.present) present[key] = await unpacked(data.present[key]);
  for (const claim of data.claims) {
    const loaded = { scenes: {}, parts: {}, worst: await unpacked(claim.worst) };
    for (const key in claim.scenes) loaded.scenes[key] = await unpacked(claim.scenes[key]);
    for (const key in claim.of_classes) loaded.parts[key] = await unpacked(claim.of_classes[key]);
    claims.push(loaded);
  }
  placesOf = data.classes.map(() => new Map());
  present.scene.forEach((scene, i) => placesOf[present.class[i]].set(scene, i));
}

const FIRST = Math.max(0, data.claims.findIndex((claim) => !claim.base));
const state = { claim: FIRST, sort: "abstained", reverse: false, part: -1, query: "" };
let order = [], made = 0, open = -1;  // the scenes in sight, how many of them have cards, and the place of the open one

/** The counts of a scene, or of one class in it, under a claim. */
function countsOf(scene, part = -1, claim = state.claim) {
  const { scenes, parts, worst } = claims[claim], i = part < 0 ? scene : placesOf[part].get(scene);
  const [from, all] = part < 0 ? [scenes, scenes.all[i]] : [parts, present.all[i]];
  const [right, abstained, iou] = [from.right[i], from.abstained[i], (part < 0 ? worst : parts.worst)[i]];
  return { all, right, abstained, wrong: all - right - abstained, iou: iou === UNKNOWN ? null : iou / 10000 };
}

const iouText = (iou) => iou === null ? "-" : iou.toFixed(4);

// --- Which scenes, in which order.

function valueOf(scene) {
  const found = countsOf(scene, state.part), whole = found.all || 1;
  if (state.sort === "iou") return found.iou === null ? 2 : found.iou;
  return state.sort === "name" ? 0 : -found[state.sort] / whole;
}

function chosen() {
  const asked = state.query.trim().toLowerCase();
  const all = state.part < 0 ? [...data.scenes.keys()] : [...placesOf[state.part].keys()];
  const scenes = all.filter((scene) => data.scenes[scene].toLowerCase().includes(asked));
  const values = new Map(scenes.map((scene) => [scene, valueOf(scene)]));
  const byName = new Intl.Collator("en", { numeric: true }).compare;
  scenes.sort((a, b) => values.get(a) - values.get(b) || byName(data.scenes[a], data.scenes[b]) || a - b);
  return state.reverse ? scenes.reverse() : scenes;
}

// --- The gallery.

/** Draws a scene's thumbnail as soon as it can be seen. */
const drawn = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    drawn.unobserve(target);
    picture(target, +target.dataset.scene);
  }
}, { rootMargin: "200px" });

async function picture(canvas, scene) {
  const bytes = data.claims[state.claim].pictures[scene];
  try {
    const bitmap = await createImageBitmap(new Blob([decode(bytes, Uint8Array)], { type: "image/jpeg" }));
    [canvas.width, canvas.height] = [bitmap.width, bitmap.height];
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    canvas.dataset.drawn = "yes";
  } catch {
    canvas.hidden = true;
  }
}

function card(scene, place) {
  const found = countsOf(scene, state.part), { word, base } = data.claims[state.claim];
  const button = element(element(byId("gallery"), "li"), "button", "", { type: "button", onclick: () => openAt(place) });
  if (data.claims[state.claim].pictures[scene]) {
    const canvas = element(button, "canvas");
    canvas.dataset.scene = scene;
    drawn.observe(canvas);
  } else element(button, "span", "no thumbnail", { className: "blank" });
  element(button, "span", data.scenes[scene], { className: "title" });
  const bar = element(button, "span", "", { className: "bar" });
  for (const key of ["right", "wrong"]) {
    element(bar, "span", "", { className: key }).style.width = `${found.all ? 100 * found[key] / found.all : 0}%`;
  }
  const line = element(button, "span", "", { className: "small" });
  element(line, "b", `${nearest(found.abstained, found.all)} abstained, `);
  element(line, "b", `${nearest(found.wrong, found.all)} wrong`, { className: found.wrong ? "wrong" : "" });
  const right = `${share(found.right, found.all)} ${base ? "" : `${word} and `}right`;
  element(line, "span", `, ${right}, ${base ? "" : "worst "}IoU ${iouText(found.iou)}`);
}

function grow() {
  for (const end = Math.min(made + CHUNK, order.length); made < end; made++) card(order[made], made);
  byId("more").hidden = made >= order.length;
}
const bottom = new IntersectionObserver((entries) => { if (entries.some((each) => each.isIntersecting)) grow(); }, { rootMargin: "600px" });

function fill() {
  order = chosen();
  made = 0;
  drawn.disconnect();
  byId("gallery").replaceChildren();
  const of = state.part < 0 ? "" : ` that have ${data.classes[state.part]}, with the numbers of this class`;
  const { shown, base } = data.claims[state.claim];
  const bars = base ? "right and wrong" : "right, wrong, and grey for abstained";
  byId("said").textContent = `${format(order.length)} of ${format(data.scenes.length)} scenes${of}. Bars: ${bars}. ${shown}`.trim();
  grow();
  bottom.unobserve(byId("more"));
  bottom.observe(byId("more"));
}

// --- One scene, larger.

function openAt(place) {
  open = limit(place, 0, order.length - 1);
  const scene = order[open], claim = data.claims[state.claim], dialog = byId("scene"), canvas = dialog.querySelector("canvas");
  byId("name").textContent = data.scenes[scene];
  canvas.hidden = !claim.pictures[scene];
  canvas.dataset.drawn = "";
  if (!canvas.hidden) picture(canvas, scene);
  byId("links").replaceChildren();
  for (const [name, address] of claim.links[scene]) {
    element(byId("links"), "a", `Open ${name}`, { href: address });
    element(byId("links"), "span", " ");
  }
  byId("place").textContent = `${format(open + 1)} of ${format(order.length)}`;
  rows(byId("settings"), ["setting", ...HEADS], data.claims.map((each, i) => [each.label, ...numbers(countsOf(scene, -1, i), each.base)]), state.claim);
  const parts = [...data.classes.keys()].filter((part) => placesOf[part].has(scene));
  rows(byId("parts"), ["class", ...HEADS], parts.map((part) => [data.classes[part], ...numbers(countsOf(scene, part), claim.base)]), parts.indexOf(state.part));
  if (!dialog.open) dialog.showModal();
}

const HEADS = ["with truth", "right", "wrong", "abstained", "worst IoU"];
const numbers = ({ all, right, wrong, abstained, iou }, base) => [
  format(all), share(right, all), nearest(wrong, all), nearest(abstained, all),
  base ? `${iouText(iou)} without attack` : iouText(iou),  // of the base model nothing is known under attack
];

function rows(table, heads, lines, own) {
  const [head, body] = [table.querySelector("thead tr"), table.querySelector("tbody")];
  head.replaceChildren();
  body.replaceChildren();
  for (const text of heads) element(head, "th", text);
  lines.forEach((cells, i) => {
    const line = element(body, "tr", "", { className: i === own ? "own" : "" });
    for (const cell of cells) element(line, "td", cell);
  });
}

// --- Tables that can be sorted.

const numeric = (text) => /^[-+]?[\d.,]+(e[-+]?\d+)?%?$/.test(text) ? parseFloat(text.replaceAll(",", "")) : null;

function sortBy(lines, column, falling) {
  const values = new Map(lines.map((cells) => [cells, numeric(cells[column])]));
  const known = lines.filter((cells) => values.get(cells) !== null), rest = lines.filter((cells) => values.get(cells) === null);
  const compare = new Intl.Collator("en", { numeric: true }).compare, sign = falling ? -1 : 1;
  known.sort((a, b) => sign * (values.get(a) - values.get(b)));
  rest.sort((a, b) => sign * compare(a[column], b[column]));
  return [...known, ...rest];
}

function showTable({ title, heads, rows: lines, notes }) {
  const block = element(byId("tables"), "div", "", { className: "table" });
  element(block, "h2", title);
  const table = element(element(block, "div", "", { className: "wide" }), "table");
  const head = element(element(table, "thead"), "tr"), body = element(table, "tbody");
  const show = (sorted) => {
    body.replaceChildren();
    for (const cells of sorted) {
      const line = element(body, "tr");
      for (const cell of cells) element(line, "td", cell);
    }
  };
  const cells = heads.map((text, column) => {
    const cell = element(head, "th");
    const onclick = () => {
      const falling = cell.ariaSort !== "descending";
      for (const each of cells) each.ariaSort = null;
      cell.ariaSort = falling ? "descending" : "ascending";
      show(sortBy(lines, column, falling));
    };
    element(cell, "button", text, { type: "button", onclick });
    return cell;
  });
  show(lines);
  const list = element(block, "ul");
  for (const note of notes) element(list, "li", note);
}

// --- Curves.

const COLOURS = ["#2f7fc1", "#d98300", "#0a9b72", "#d55e00", "#c2629b", "#4aa8dd"];
const [WIDE, HIGH, LEFT, TOP] = [640, 320, 48, 12];

/** The height of a series at R; null where it has none. */
function heightAt({ kind, points }, radius) {
  if (kind === "level") return points[0][1];
  if (kind === "steps") {
    const found = points.find(([x]) => radius <= x);
    return found ? found[1] : 0;
  }
  return null;
}

function shape({ kind, points }, across, down) {
  if (kind === "level") return `M${across(0)},${down(points[0][1])}H${WIDE - 12}`;
  if (kind === "line") return `M${points.map(([x, y]) => `${across(x)},${down(y)}`).join("L")}`;
  return `M${across(0)},${down(points[0][1])}${points.map(([x, y]) => `V${down(y)}H${across(x)}`).join("")}V${down(0)}`;
}

/** A step of 1, 2 or 5 times a power of ten, with at most eight of them up to a number. */
function tick(far) {
  const power = 10 ** Math.floor(Math.log10(far / 8));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => far / each <= 8);
}

function showChart({ title, y, series, words }) {
  const sound = series.filter((each) => each.points.length), block = element(byId("curves"), "figure");
  element(block, "h2", title);
  const points = sound.flatMap((each) => each.points);
  const far = Math.max(...points.map(([x]) => x)) || 1, top = Math.max(1, ...points.map((each) => each[1]));
  const across = (x) => LEFT + (WIDE - LEFT - 12) * x / far, down = (value) => HIGH - 40 - (HIGH - 40 - TOP) * value / top;
  const plot = svg(block, "svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": title });
  for (let i = 0; i <= 4; i++) {
    const value = top * i / 4;
    svg(plot, "line", { x1: LEFT, x2: WIDE - 12, y1: down(value), y2: down(value), stroke: "var(--line)" });
    svg(plot, "text", { x: LEFT - 6, y: down(value) + 4, "text-anchor": "end" }, value.toFixed(2));
  }
  const unit = tick(far);
  for (let i = 0; i * unit <= far * (1 + 1e-9); i++) {
    svg(plot, "text", { x: across(i * unit), y: HIGH - 24, "text-anchor": "middle" }, String(+(i * unit).toPrecision(6)));
  }
  svg(plot, "text", { x: WIDE - 12, y: HIGH - 6, "text-anchor": "end" }, `R (upwards: ${y})`);
  const groups = [...new Set(sound.map((each) => each.group))].filter((group) => group !== null);
  const list = element(block, "ul", "", { className: "series" });
  for (const each of sound) {
    const colour = each.group === null ? "var(--soft)" : COLOURS[groups.indexOf(each.group) % COLOURS.length];
    const style = { stroke: colour, "stroke-width": 2, "stroke-dasharray": { line: "6 3", level: "2 3" }[each.kind] || "none" };
    const item = element(list, "li"), sign = svg(item, "svg", { viewBox: "0 0 32 16", "aria-hidden": "true" });
    if (each.kind === "dots") {
      for (const [x, value] of each.points) svg(plot, "circle", { cx: across(x), cy: down(value), r: 4.5, fill: colour });
      svg(sign, "circle", { cx: 16, cy: 8, r: 6, fill: colour });
    } else {
      svg(plot, "path", { d: shape(each, across, down), ...style });
      if (each.kind === "line") for (const [x, value] of each.points) svg(plot, "circle", { cx: across(x), cy: down(value), r: 3, fill: colour });
      svg(sign, "line", { x1: 0, x2: 32, y1: 8, y2: 8, ...style });
    }
    element(item, "span", each.name);
  }
  const reading = element(block, "p", "Point at the curves to read them.", { className: "reading" });
  const marker = svg(plot, "line", { y1: TOP, y2: down(0), x1: LEFT, x2: LEFT, stroke: "var(--ink)", visibility: "hidden" });
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect(), u = (event.clientX - box.left) / box.width * WIDE;
    const text = (limit((u - LEFT) / (WIDE - LEFT - 12), 0, 1) * far).toPrecision(3), radius = +text;  // read at the R that is shown
    marker.setAttribute("visibility", "visible");
    for (const end of ["x1", "x2"]) marker.setAttribute(end, across(radius));
    const known = sound.map((each) => [each.name, heightAt(each, radius)]).filter((each) => each[1] !== null);
    const read = known.map(([name, value]) => `${name}: ${(Math.floor(1e4 * value) / 1e4).toFixed(4)}`);
    reading.textContent = `R = ${text}: ${read.join("; ")}`;
  });
  const caption = element(block, "figcaption");
  for (const text of words) element(caption, "p", text);
}

// --- The panel, and what follows from the state.

/** Shows what the address asks for: #scenes, #curves or #tables. */
function show() {
  const asked = location.hash.slice(1), inputs = byId("views").querySelectorAll("input");
  const view = [...inputs].some((input) => input.value === asked) ? asked : "scenes";
  for (const input of inputs) input.checked = input.value === view;
  for (const each in VIEWS) byId(each).hidden = each !== view;
}

/** The legend of the thumbnails: the classes of the most scenes, hatched and outlined. */
function showKey() {
  const add = (name, style) => {
    const item = element(byId("key"), "li"), swatch = element(item, "span", "", { className: `swatch ${style}` });
    element(item, "span", name);
    return swatch;
  };
  const frequent = [...data.classes.keys()].filter((part) => placesOf[part].size);
  frequent.sort((a, b) => placesOf[b].size - placesOf[a].size);
  for (const part of frequent.slice(0, 24)) add(data.classes[part], "").style.background = data.colours[part];
  if (frequent.length > 24) add(`and ${frequent.length - 24} more`, "");
  add("abstained", "hatched");
  add("wrong", "outlined");
  byId("key").hidden = !data.colours.length;
}

function claimTo(claim) {
  state.claim = limit(claim, 0, data.claims.length - 1);
  byId("claim").value = state.claim;
  const { sentence, proved, claim: words } = data.claims[state.claim];
  byId("sentence").textContent = sentence;
  byId("proved").textContent = proved;
  byId("proved").hidden = !proved;
  byId("claimed").textContent = proved ? `Exactly: ${words}` : words;
  fill();
}

function sortTo(sort) {
  state.sort = byId("sort").value = sort;
  fill();
}

const KEYS = {
  "/": () => byId("query").focus(), a: () => sortTo("abstained"), w: () => sortTo("wrong"), i: () => sortTo("iou"),
  n: () => sortTo("name"), "[": () => claimTo(state.claim - 1), "]": () => claimTo(state.claim + 1),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (byId("scene").open) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) openAt(open + step);
    return;
  }
  if (!KEYS[event.key] || event.target.matches?.("input, select")) return;
  event.preventDefault();
  KEYS[event.key]();
});

function setUp() {
  document.title = document.querySelector("h1").textContent = `Evaluation: ${data.title}`;
  for (const [i, claim] of data.claims.entries()) element(byId("claim"), "option", claim.label, { value: i });
  for (const sort in SORTS) element(byId("sort"), "option", SORTS[sort], { value: sort });
  element(byId("part"), "option", "all", { value: -1 });
  for (const [part, name] of data.classes.entries()) {
    if (placesOf[part].size) element(byId("part"), "option", `${name} (${format(placesOf[part].size)})`, { value: part });
  }
  for (const view in VIEWS) {
    if (view === "curves" && !data.charts.length) continue;
    const label = element(byId("views"), "label"), onchange = () => { location.hash = view; };
    element(label, "input", "", { type: "radio", name: "view", value: view, onchange });
    element(label, "span", VIEWS[view]);
  }
  for (const text of data.not_promised) element(byId("not"), "li", text);
  describe(document.querySelector("dl"), data.facts);
  byId("audit").hidden = !data.audit.command;
  document.querySelector("code").textContent = data.audit.command;
  byId("audit").lastElementChild.textContent = data.audit.note;
  data.tables.forEach(showTable);
  data.charts.forEach(showChart);
  byId("claim").onchange = (event) => claimTo(+event.target.value);
  byId("sort").onchange = (event) => sortTo(event.target.value);
  byId("reverse").onchange = (event) => { state.reverse = event.target.checked; fill(); };
  byId("part").onchange = (event) => { state.part = +event.target.value; fill(); };
  byId("query").oninput = (event) => { state.query = event.target.value; fill(); };
  byId("close").onclick = () => byId("scene").close();
  byId("before").onclick = () => openAt(open - 1);
  byId("after").onclick = () => openAt(open + 1);
  addEventListener("hashchange", show);
  if (matchMedia("(max-width: 46rem)").matches) for (const each of document.querySelectorAll("details")) each.open = false;
  showKey();
  show();
  claimTo(state.claim);
}

const ready = load().then(setUp);
