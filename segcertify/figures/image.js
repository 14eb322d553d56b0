
// --- The image: each pixel's candidate label and how many of n noisy copies agree with it.

const [H, W] = data.size, PIXELS = H * W, n = data.n, N = data.N;
const NONE = data.parts.length;  // the place of labels that are none: abstained, or ignored
const LAST = data.levels.length - 1;

const labels = {};
let agree, tested, photo, setIndex, setCertified;
async function load() {
  for (const key in data.labels) labels[key] = await unpacked(data.labels[key]);
  agree = await unpacked(data.agree);
  tested = data.tested && await unpacked(data.tested);
  if (data.sets) [setIndex, setCertified] = [await unpacked(data.sets.index), await unpacked(data.sets.certified)];
  photo = await createImageBitmap(new Blob([decode(data.photo.bytes, Uint8Array)], { type: data.photo.type }));
}

// --- The statistics, as in segcertify.stats: one threshold on the count.

/** P(Bin(n, tau) >= k) for k = 0 .. n, rounded up. */
function pValues(n, tau) {
  const p = new Float64Array(n + 1), logit = Math.log((1 - tau) / tau);
  let log = n * Math.log(tau), tail = 0;
  for (let k = n; k > 0; k--) {
    tail += Math.exp(log);
    p[k] = Math.min(Math.max(tail * (1 + 1e-10), 2.2250738585072014e-308), 1);
    log += Math.log(k / (n - k + 1)) + logit;
  }
  p[0] = 1;
  return p;
}

/** The smallest count that a correction certifies, n + 1 if none; ``histogram`` says how many pixels have each count. */
function threshold(histogram, n, tau, alpha, correction) {
  const p = pValues(n, tau), total = histogram.reduce((sum, each) => sum + each, 0);
  let above = 0, enough = 0;
  for (let k = n; k >= 0; k--) {
    const rank = correction === "holm" ? Math.min(above + 1, total) : 1;
    if (!(p[k] <= alpha / (total + 1 - rank))) { enough = k + 1; break; }
    above += histogram[k];
  }
  return enough;
}

// --- The state.

const byId = (id) => document.getElementById(id);
const stage = byId("stage"), canvas = stage.querySelector("canvas"), context = canvas.getContext("2d");
const tip = byId("point"), divider = byId("divider");
const claim = data.explore && data.explore.claim;
const state = {
  left: "certified", right: "", opacity: 0.6, swipe: 0.5, outline: true, level: 0, settings: claim && { ...claim },
};
const exploring = () => claim && Object.keys(claim).some((key) => claim[key] !== state.settings[key]);
let view = { zoom: 1, x: 0, y: 0 }, cursor = null, histogram, levelOf, claimed, byLeast, enough;
const inFile = (each) => each.file ? `${each.text} (${each.file} in the file's pixels)` : each.text;

// --- Overlays: each says which pixels have a colour, and which are hatched.

const ABOUT = {
  certified: () => exploring() ? "labels of an exploration, no certificate" : data.share,
  radius: () => `labels that keep to R = ${data.levels[state.level].text}`,
  heat: () => `radius of each pixel, up to ${data.levels[LAST].text}`,
  prediction: () => "model without noise, no guarantee",
  target: () => "ground truth",
  sets: () => "sets: two labels in stripes, more hatched",
  "": () => "photograph",
};
const TITLES = {
  certified: `${data.word} labels`, radius: "labels at R", heat: "radius map", prediction: "model without noise",
  target: "ground truth", sets: "sets", "": "photograph",
};
const kinds = ["certified", ...(LAST < 0 ? [] : ["radius", "heat"]),
  ...["prediction", "target"].filter((key) => data.labels[key]), ...(data.sets ? ["sets"] : []), ""];

const colourOf = (hex) => {  // as a Uint32 of a picture's bytes
  const [red, green, blue] = hex.slice(1).match(/../g).map((digits) => parseInt(digits, 16));
  return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];
};
const partColours = Uint32Array.from([...data.parts.map((part) => colourOf(part.colour)), 0]);

/** The count from which on pixels have a label, at R or by an exploration; null where the certificate itself says it. */
function leastCount(kind) {
  if (kind === "radius") return data.levels[state.level].count;
  return exploring() ? enough : null;
}

/** Which pixels have a label: 1 or 0 for each. */
function kept(kind) {
  const found = new Uint8Array(PIXELS), least = leastCount(kind);
  for (let i = 0; i < PIXELS; i++) {
    found[i] = least === null ? labels.certified[i] !== NONE : agree[i] >= least && (!tested || tested[i]);
  }
  return found;
}

const HATCH = 1;  // instead of a colour: nothing is said of the pixel

/** What an overlay shows at pixel i: a colour as a Uint32, HATCH, or 0 for the photograph alone. */
function looks(kind) {
  const { candidate, certified } = labels, least = leastCount(kind), counts = agree, mask = tested, colours = partColours;
  const own = labels[kind];
  if (kind === "prediction" || kind === "target") return (i) => colours[own[i]];
  if (kind === "sets") return lookOfSet;
  if (kind === "heat") {
    const table = new Uint32Array(n + 1).fill(HATCH);
    for (const level of data.levels) table[level.count] = colourOf(level.colour);
    return (i) => mask && !mask[i] ? HATCH : table[counts[i]];
  }
  if (least === null) return (i) => certified[i] === NONE ? HATCH : colours[candidate[i]];
  return (i) => counts[i] < least || (mask && !mask[i]) ? HATCH : colours[candidate[i]];
}

function lookOfSet(i) {
  const members = data.sets.members[setIndex[i]], wide = Math.max(1, Math.round(Math.max(H, W) / 160));
  if (setCertified[i]) return partColours[members[0]];
  if (members.length > 2) return HATCH;
  const odd = Math.floor((i % W + Math.floor(i / W)) / wide) & 1;
  if (members.length === 2) return partColours[members[odd]];
  return odd ? partColours[members[0]] : 0xffffffff;
}

// --- Drawing.

const fit = () => Math.min(canvas.width / W, canvas.height / H);
function place() {  // the picture's scale and corner, in pixels of the canvas
  const scale = fit() * view.zoom;
  return { scale, x: (canvas.width - scale * W) / 2 + view.x, y: (canvas.height - scale * H) / 2 + view.y };
}

const film = new OffscreenCanvas(1, 1), ink = film.getContext("2d");
const OUTLINE = colourOf("#ff00c8"), DARK = 0xc0000000, LIGHT = 0xe6ffffff;
let filmed = "";  // what the film shows

/** Paints the overlays for the canvas's own pixels, so that the time does not grow with the picture. */
function expose() {
  const { scale, x, y } = place(), { width, height } = canvas, middle = comparing() ? state.swipe * width : width;
  const now = JSON.stringify([width, height, view, middle, state, Boolean(exploring())]);
  if (now === filmed) return;
  filmed = now;
  if (film.width !== width || film.height !== height) [film.width, film.height] = [width, height];
  const image = new ImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const columns = Int32Array.from({ length: width }, (_, u) => inside(Math.floor((u + 0.5 - x) / scale), W));
  const kinds = [state.left, state.right], wrong = labels.target && state.outline ? new Uint8Array(width * height) : null;
  for (const [side, from, to] of [[0, 0, Math.ceil(middle)], [1, Math.ceil(middle), width]]) {
    if (!kinds[side] || from >= to) continue;
    const marks = wrong && ["certified", "radius"].includes(kinds[side]) ? wrong : null;
    fill(pixels, marks, looks(kinds[side]), columns, from, to);
  }
  if (wrong) outlined(pixels, wrong, width);
  ink.putImageData(image, 0, 0);
}

const inside = (place, side) => place < 0 || place >= side ? -1 : place;

function fill(pixels, wrong, look, columns, from, to) {
  const { scale, y } = place(), width = canvas.width, { candidate, target } = labels;
  const period = Math.round(7 * devicePixelRatio), bright = period / 2, seen = Math.round(255 * state.opacity);
  const faint = (colour) => ((colour & 0xffffff) | (Math.round((colour >>> 24) * seen / 255) << 24)) >>> 0;
  const [dark, light] = [faint(DARK), faint(LIGHT)];
  for (let v = 0; v < canvas.height; v++) {
    const row = inside(Math.floor((v + 0.5 - y) / scale), H);
    if (row < 0) continue;
    for (let u = from; u < to; u++) {
      if (columns[u] < 0) continue;
      const i = row * W + columns[u], colour = look(i);
      if (colour === HATCH) pixels[v * width + u] = (u + v) % period < bright ? dark : light;
      else if (colour) {
        pixels[v * width + u] = ((colour & 0xffffff) | (seen << 24)) >>> 0;
        if (wrong && target[i] !== NONE && target[i] !== candidate[i]) wrong[v * width + u] = 1;
      }
    }
  }
}

/** A line around what is marked. */
function outlined(pixels, marked, width) {
  const far = Math.max(1, Math.round(1.5 * devicePixelRatio)), shifts = [-far, far, -far * width, far * width];
  for (let k = 0; k < marked.length; k++) {
    if (!marked[k]) continue;
    for (const shift of shifts) if (!marked[k + shift]) pixels[k + shift] = OUTLINE;
  }
}

function draw() {
  const { scale, x, y } = place();
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = scale < 1;
  context.drawImage(photo, x, y, scale * W, scale * H);
  expose();
  context.drawImage(film, 0, 0);
  if (cursor) drawCursor(x + scale * cursor[0], y + scale * cursor[1], scale);
}

function drawCursor(x, y, scale) {
  const size = Math.max(scale, 6 * devicePixelRatio), shift = (scale - size) / 2;
  for (const [colour, width] of [["#000", 4], ["#fff", 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = width * devicePixelRatio / 1.5;
    context.strokeRect(x + shift, y + shift, size, size);
  }
}

let queued = 0;
function redraw() {
  queued ||= requestAnimationFrame(() => { queued = 0; draw(); });
}

// --- What follows from the state.

const comparing = () => state.right !== state.left && byId("right").value !== "none";

/** Counts the pixels of each class: all, and those with a label; of a true class also right and wrong ones. */
function counted(has) {
  const truth = labels.target, of = truth || labels.candidate;
  const rows = Array.from({ length: NONE + 1 }, () => ({ all: 0, kept: 0, right: 0, wrong: 0 }));
  for (let i = 0; i < PIXELS; i++) {
    if (tested && !tested[i]) continue;
    const row = rows[of[i]];
    row.all++;
    if (!has[i]) continue;
    row.kept++;
    if (truth && of[i] !== NONE) of[i] === labels.candidate[i] ? row.right++ : row.wrong++;
  }
  return rows;
}

/** The same for every least count k = 0 .. n + 1: rows[part].kept[k], and so on. */
function countedByLeast() {
  const truth = labels.target, of = truth || labels.candidate;
  const table = () => new Float64Array(n + 2);
  const rows = Array.from({ length: NONE + 1 }, () => ({ kept: table(), right: table(), wrong: table() }));
  for (let i = 0; i < PIXELS; i++) {
    if (tested && !tested[i]) continue;
    const row = rows[of[i]], k = agree[i];
    row.kept[k]++;
    if (truth && of[i] !== NONE) row[of[i] === labels.candidate[i] ? "right" : "wrong"][k]++;
  }
  for (const row of rows) for (const key in row) for (let k = n; k >= 0; k--) row[key][k] += row[key][k + 1];
  return rows;
}

/** How many pixels have a label by the claim, by an exploration, or at R: for each class, and in all. */
function tally(kind) {
  const least = leastCount(kind);
  const rows = least === null ? claimed : byLeast.map((row) => (
    { all: row.kept[0], kept: row.kept[least], right: row.right[least], wrong: row.wrong[least] }
  ));
  const known = rows.slice(0, NONE), sum = (key, from) => from.reduce((total, row) => total + row[key], 0);
  return {
    rows: known, kept: sum("kept", rows), valid: sum("all", known), right: sum("right", known), wrong: sum("wrong", known),
  };
}

const judged = () => state.left === "radius" || state.left === "heat" ? "radius" : "certified";

function update() {
  const settings = state.settings;
  enough = data.needed;
  if (exploring()) enough = threshold(histogram, n, settings.tau, settings.alpha, settings.correction);
  byId("badge").hidden = !exploring();
  byId("left").options[0].textContent = byId("right").options[1].textContent = exploring() ? "exploration" : TITLES.certified;
  const found = tally(judged());
  showRadius();
  showClasses(found);
  showKey(found);
  showSettings(found);
  byId("caption").textContent = caption(found);
  divider.hidden = byId("swiping").hidden = !comparing();
  divider.style.left = `${100 * state.swipe}%`;
  ask();
  redraw();
}

function caption(found) {
  const said = ABOUT[state.left](), right = comparing() ? ` | ${ABOUT[state.right]()}` : "";
  const wrong = labels.target && ["certified", "radius"].includes(state.left) && found.wrong;
  return `${said}${wrong ? `, ${format(found.wrong)} of them wrong (outlined)` : ""}${right}`;
}

/** Whether some pixels of an overlay are hatched. */
function hatches(kind, found) {
  if (kind === "heat") return byLeast.reduce((sum, row) => sum + row.kept[data.least], 0) < PIXELS;
  return ["certified", "radius"].includes(kind) && found.kept < PIXELS;
}

/** The legend: what colours, hatches and outlines of the overlay stand for. */
function showKey(found) {
  const { rows } = found, key = byId("key"), kind = state.left, colours = !["heat", ""].includes(kind);
  const add = (name, style) => {
    const item = element(key, "li"), swatch = element(item, "span", "", { className: `swatch ${style}` });
    element(item, "span", name);
    return swatch;
  };
  key.replaceChildren();
  const frequent = [...rows.keys()].filter((part) => rows[part].all).sort((a, b) => rows[b].all - rows[a].all);
  if (colours) for (const part of frequent.slice(0, 12)) add(data.parts[part].name, "").style.background = data.parts[part].colour;
  if (colours && frequent.length > 12) add(`and ${frequent.length - 12} more`, "");
  if (kind === "heat") add(`R from 0 to ${data.levels[LAST].text}`, "scale");
  if (kind === "sets") add("three or more labels", "hatched");
  else if (kind && hatches(kind, found)) add(kind === "certified" ? "abstained" : kind === "heat" ? "no radius" : "does not keep its label at this R", "hatched");
  if (["certified", "radius"].includes(kind) && found.wrong && labels.target && state.outline) add("wrong", "outlined");
  key.hidden = !key.children.length;
}

function showRadius() {
  if (LAST < 0) return;
  const level = data.levels[state.level], found = tally("radius");
  const right = labels.target ? ` ${format(found.right)} (${share(found.right, found.valid)} of those with a true label) are `
    + `right, ${format(found.wrong)} are wrong.` : "";
  byId("kept").textContent = `R = ${inFile(level)}: ${format(found.kept)} of ${format(N)} pixels (${share(found.kept, N)}) `
    + `keep their label under every change up to R.${right}`;
  byId("level").value = state.level;
  byId("level").ariaValueText = `R = ${level.text}`;
  marker.setAttribute("x1", across(level.radius));
  marker.setAttribute("x2", across(level.radius));
}

function showClasses({ rows }) {
  const body = document.querySelector("#classes tbody"), at = judged() === "radius";
  const word = at ? "kept" : exploring() ? "labelled" : data.word;
  document.querySelector("#classes h2").textContent = at
    ? `Classes at R = ${data.levels[state.level].text}` : `Classes, ${exploring() ? "exploration" : data.word}`;
  document.querySelectorAll("#classes th")[labels.target ? 2 : 1].textContent = word;
  body.replaceChildren();
  rows.forEach((row, part) => {
    if (!row.all) return;
    const line = element(body, "tr"), name = element(line, "td");
    element(name, "span", "", { className: "swatch" }).style.background = data.parts[part].colour;
    element(name, "span", data.parts[part].name);
    const cells = labels.target
      ? [format(row.all), share(row.kept, row.all), share(row.right, row.all), share(row.wrong, row.all)]
      : [format(row.kept), format(row.all), share(row.kept, row.all)];
    for (const cell of cells) element(line, "td", cell);
  });
}

function showSettings(found) {
  if (!claim) return;
  const { taus, alphas } = data.explore, settings = state.settings;
  const tau = taus.findIndex((each) => each.value === settings.tau);
  const alpha = alphas.findIndex((each) => each.value === settings.alpha);
  for (const [id, at, each] of [["tau", tau, taus[tau]], ["alpha", alpha, alphas[alpha]]]) {
    byId(id).value = at;
    byId(id).nextElementSibling.textContent = byId(id).ariaValueText = each.text;
  }
  byId("correction").value = settings.correction;
  const all = judged() === "certified" ? found : tally("certified");
  const least = enough > n ? `Even ${n} of ${n} are not enough.` : `It takes ${enough} of ${n}.`;
  byId("explored").textContent = `tau = ${taus[tau].text}, alpha = ${alphas[alpha].text}, ${settings.correction}: R would be `
    + `${inFile(taus[tau])}, for ${format(all.kept)} of ${format(N)} pixels (${share(all.kept, N)}). ${least}`;
}

function explore(change) {
  Object.assign(state.settings, change);
  state.left = "certified";
  byId("left").value = "certified";
  update();
}

// --- The curve of shares against the radius.

const across = (radius) => 32 + 258 * radius / Math.max(data.levels[LAST].radius, data.radius.value);
const down = (part) => 126 - 116 * part;
let marker;

function steps(parts) {  // the share of R in (one level's radius, the next one's] is that of the next
  let path = `M${across(0)},${down(parts[0])}`;
  data.levels.forEach((level, i) => { path += `V${down(parts[i])}H${across(level.radius)}`; });
  return `${path}V${down(0)}`;
}

function drawCurve() {
  const curve = byId("curve"), total = (key, k) => byLeast.reduce((sum, row) => sum + row[key][k], 0), { valid } = tally("certified");
  for (const [part, text] of [[0, "0"], [0.5, "50%"], [1, "100%"]]) {
    svg(curve, "line", { x1: across(0), x2: 290, y1: down(part), y2: down(part), stroke: "var(--line)" });
    svg(curve, "text", { x: 28, y: down(part) + 3, "text-anchor": "end" }, text);
  }
  svg(curve, "text", { x: across(0), y: 138 }, "R = 0");
  svg(curve, "text", { x: 290, y: 148, "text-anchor": "end" }, `R (${data.threat})`);
  svg(curve, "text", { x: across(data.levels[LAST].radius), y: 138, "text-anchor": "end" }, data.levels[LAST].text);
  svg(curve, "path", { d: steps(data.levels.map((level) => total("kept", level.count) / N)), stroke: "var(--kept)", "stroke-width": 2 });
  if (labels.target && valid) {
    const right = steps(data.levels.map((level) => total("right", level.count) / valid));
    svg(curve, "path", { d: right, stroke: "var(--right)", "stroke-width": 2, "stroke-dasharray": "4 2" });
  }
  const { value, dot } = data.radius;  // null where the labels are no certificates
  if (dot !== null) svg(curve, "circle", { cx: across(value), cy: down(dot), r: 4, fill: "var(--ink)" });
  marker = svg(curve, "line", { y1: down(1), y2: down(0), stroke: "var(--ink)" });
  const legend = byId("legend"), text = (colour, words) => { element(legend, "span", words).style.color = colour; };
  text("var(--kept)", "Line: pixels that keep their label. ");
  if (labels.target && valid) text("var(--right)", "Dashes: those that are also right. ");
  if (dot !== null) text("var(--ink)", `Dot: the labels' own claim, at R = ${inFile(data.radius)}.`);
}

// --- Asking about a pixel.

const nameOf = (part, none) => part === NONE ? none : data.parts[part].name;

/** What is known of pixel i, in lines. */
function answers(i) {
  const count = agree[i], own = labels.candidate[i], has = `${count} of ${n}`;
  if (tested && !tested[i]) return [`pixel ${Math.floor(i / W)}, ${i % W}`, "not tested"];
  const said = [`pixel ${Math.floor(i / W)}, ${i % W}`, `${nameOf(own)} in ${has} noisy copies`];
  const found = exploring() ? count >= enough : labels.certified[i] !== NONE;
  const what = exploring() ? "exploration" : data.word;
  if (found) said.push(`${what}: ${nameOf(own)}`);
  else if (data.looks) said.push(`abstained: not enough at any of its looks`);
  else if (enough === null) said.push(`abstained: ${has} are not enough`);
  else if (enough > n) said.push(`abstained: even ${n} of ${n} are not enough`);
  else said.push(`abstained: needs at least ${enough} of ${n}, has ${count}`);
  if (LAST >= 0) {
    const level = levelOf.get(count);
    said.push(level ? `radius ${inFile(level)}` : `no radius: needs at least ${data.least} of ${n}, has ${count}`);
  }
  if (labels.prediction) said.push(`without noise: ${nameOf(labels.prediction[i])}`);
  if (data.sets) said.push(`set: ${data.sets.members[setIndex[i]].map((part) => data.parts[part].name).join(" or ")}`);
  if (labels.target) said.push(`ground truth: ${nameOf(labels.target[i], "ignored")}`);
  return said;
}

/** Shows or hides what is known of the pixel under the cursor. */
function ask() {
  tip.hidden = !cursor;
  if (!cursor) return;
  tip.replaceChildren();
  for (const line of answers(cursor[1] * W + cursor[0])) element(tip, "div", line);
  const { scale, x, y } = place(), ratio = canvas.width / canvas.clientWidth;
  const [left, top] = [(x + scale * (cursor[0] + 1)) / ratio + 10, (y + scale * (cursor[1] + 1)) / ratio + 10];
  tip.style.left = `${limit(left, 0, Math.max(0, stage.clientWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${limit(top, 0, Math.max(0, stage.clientHeight - tip.offsetHeight - 8))}px`;
}

/** The pixel under a point of the page; null outside the picture. */
function pixelAt(u, v) {
  const { scale, x, y } = place(), ratio = canvas.width / canvas.clientWidth;
  const [column, row] = [Math.floor((u * ratio - x) / scale), Math.floor((v * ratio - y) / scale)];
  return column < 0 || row < 0 || column >= W || row >= H ? null : [column, row];
}

function point(pixel) {
  cursor = pixel;
  ask();
  redraw();
}

function step(right, below) {
  const [column, row] = cursor || [Math.floor(W / 2), Math.floor(H / 2)];
  const next = cursor ? [limit(column + right, 0, W - 1), limit(row + below, 0, H - 1)] : [column, row];
  const { scale, x, y } = place();
  const [u, v] = [x + scale * next[0], y + scale * next[1]];
  view.x -= u - limit(u, 0, canvas.width - scale);
  view.y -= v - limit(v, 0, canvas.height - scale);
  point(next);
}

// --- Moving and zooming.

/** Zooms so that what lies at (u, v), from the middle, stays there. */
function zoomAt(u, v, factor) {
  const zoom = limit(view.zoom * factor, 1, 60), ratio = zoom / view.zoom;
  view = { zoom, x: u - (u - view.x) * ratio, y: v - (v - view.y) * ratio };
  held();
}

/** Keeps the picture in sight. */
function held() {
  const { scale } = place();
  const [x, y] = [Math.max(0, scale * W - canvas.width) / 2, Math.max(0, scale * H - canvas.height) / 2];
  view.x = limit(view.x, -x, x);
  view.y = limit(view.y, -y, y);
  ask();
  redraw();
}

function reset() {
  view = { zoom: 1, x: 0, y: 0 };
  cursor = null;
  held();
}

const pressed = new Map();
canvas.addEventListener("pointerdown", (event) => {
  if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
  pressed.set(event.pointerId, [event.offsetX, event.offsetY]);
  point(pixelAt(event.offsetX, event.offsetY));
});
canvas.addEventListener("pointermove", (event) => {
  const [u, v] = [event.offsetX, event.offsetY], before = pressed.get(event.pointerId);
  if (!before) return point(pixelAt(u, v));
  const ratio = canvas.width / canvas.clientWidth;
  pressed.set(event.pointerId, [u, v]);
  if (pressed.size === 2) {
    const [other] = [...pressed].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    const apart = (at) => Math.hypot(at[0] - other[0], at[1] - other[1]) || 1;
    zoomAt(other[0] * ratio - canvas.width / 2, other[1] * ratio - canvas.height / 2, apart([u, v]) / apart(before));
  } else {
    view.x += (u - before[0]) * ratio;
    view.y += (v - before[1]) * ratio;
    held();
  }
});
for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => pressed.delete(event.pointerId));
canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse" && !pressed.size) point(null); });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const ratio = canvas.width / canvas.clientWidth, lines = event.deltaY * (event.deltaMode ? 30 : 1);
  zoomAt(event.offsetX * ratio - canvas.width / 2, event.offsetY * ratio - canvas.height / 2, Math.exp(-lines / 600));
}, { passive: false });

divider.addEventListener("pointerdown", (event) => divider.setPointerCapture(event.pointerId));
divider.addEventListener("pointermove", (event) => {
  if (event.buttons) swipeTo((event.clientX - stage.getBoundingClientRect().left) / stage.clientWidth);
});

// --- The panel.

function swipeTo(part) {
  state.swipe = byId("swipe").value = limit(part, 0, 1);
  update();
}

function opacityTo(part) {
  state.opacity = byId("opacity").value = limit(part, 0, 1);
  redraw();
}

function levelTo(level) {
  if (LAST < 0) return;
  state.level = limit(level, 0, LAST);
  if (judged() !== "radius") state.left = byId("left").value = "radius";
  update();
}

function overlayTo(kind) {
  state.left = kind;
  byId("left").value = kind;
  update();
}

function compareWith(kind) {
  byId("right").value = kind;
  state.right = kind === "none" ? null : kind;
  update();
}

function outlineTo(on) {
  state.outline = byId("outline").checked = on;
  update();
}

const KEYS = {
  "[": () => levelTo(state.level - 1), "]": () => levelTo(state.level + 1),
  c: () => compareWith(comparing() ? "none" : state.left ? "" : "certified"),
  ",": () => swipeTo(state.swipe - 0.05), ".": () => swipeTo(state.swipe + 0.05),
  o: () => opacityTo(state.opacity - 0.1), p: () => opacityTo(state.opacity + 0.1),
  w: () => outlineTo(!state.outline),
  "+": () => zoomAt(0, 0, 1.25), "=": () => zoomAt(0, 0, 1.25), "-": () => zoomAt(0, 0, 1 / 1.25), 0: reset,
  Escape: () => { if (claim) explore(claim); },
};
kinds.forEach((kind, i) => { KEYS[i + 1] = () => overlayTo(kind); });
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("select")) return;
  const arrow = event.target === canvas && ARROWS[event.key];
  if (!arrow && !KEYS[event.key]) return;
  event.preventDefault();
  const by = event.shiftKey ? 10 : 1;
  if (arrow) step(by * arrow[0], by * arrow[1]);
  else KEYS[event.key]();
});
canvas.addEventListener("blur", () => point(null));

function setUp() {
  histogram = new Float64Array(n + 1);
  for (let i = 0; i < PIXELS; i++) if (!tested || tested[i]) histogram[agree[i]]++;
  claimed = counted(kept("certified"));
  byLeast = countedByLeast();
  levelOf = new Map(data.levels.map((level) => [level.count, level]));
  document.title = document.querySelector("h1").textContent = data.title ? `${data.heading}: ${data.title}` : data.heading;
  canvas.ariaLabel = `The picture, ${W} by ${H} pixels. Arrow keys go from pixel to pixel, plus and minus zoom.`;
  byId("sentence").textContent = data.sentence || `${data.share}.`;
  byId("outlining").hidden = !labels.target;
  byId("outlining").querySelector("span").textContent = `outline ${data.word} but wrong`;
  for (const kind of kinds) element(byId("left"), "option", TITLES[kind], { value: kind });
  for (const kind of ["none", ...kinds]) element(byId("right"), "option", TITLES[kind] || "nothing", { value: kind });
  const heads = labels.target ? ["class", "pixels", "", "and right", "but wrong"] : ["class", "", "candidates", "share"];
  for (const head of heads) element(document.querySelector("#classes tr"), "th", head);
  for (const text of [data.claim, data.map && `Radius map: ${data.map}`, data.of_sets && `Sets: ${data.of_sets}`]) {
    if (text) element(byId("claims"), "p", text);
  }
  for (const text of data.not_promised) element(byId("not"), "li", text);
  describe(document.querySelector("dl"), data.facts);
  byId("audit").hidden = !data.audit;
  document.querySelector("code").textContent = data.audit;
  byId("radii").hidden = LAST < 0;
  if (LAST >= 0) {
    byId("level").max = LAST;
    drawCurve();
  }
  if (claim) setUpExploration();
  compareWith("none");
}

function setUpExploration() {
  const { taus, alphas, corrections } = data.explore;
  byId("explore").hidden = false;
  byId("tau").max = taus.length - 1;
  byId("alpha").max = alphas.length - 1;
  for (const name of corrections) element(byId("correction"), "option", name, { value: name });
  byId("tau").oninput = (event) => explore({ tau: taus[event.target.value].value });
  byId("alpha").oninput = (event) => explore({ alpha: alphas[event.target.value].value });
  byId("correction").onchange = (event) => explore({ correction: event.target.value });
  byId("back").onclick = () => explore(claim);
}

byId("level").oninput = (event) => levelTo(+event.target.value);
byId("left").onchange = (event) => overlayTo(event.target.value);
byId("right").onchange = (event) => compareWith(event.target.value);
byId("swipe").oninput = (event) => swipeTo(+event.target.value);
byId("opacity").oninput = (event) => opacityTo(+event.target.value);
byId("outline").onchange = (event) => outlineTo(event.target.checked);
byId("reset").onclick = reset;

const ready = load().then(() => {
  setUp();
  new ResizeObserver(() => {
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * devicePixelRatio));
    held();
    draw();  // at once: the new canvas is empty
  }).observe(stage);
});
