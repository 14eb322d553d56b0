
// --- The components: each one's candidate label and how many of n noisy copies agree with it.

const n = data.n, N = data.N, UNIT = data.unit;
const NONE = data.parts.length;  // the place of labels that are none: abstained, or ignored
const LAST = data.levels.length - 1;
document.body.inert = true;  // until the labels are there
const labels = {};
let agree, tested, setIndex, setCertified;
async function loadLabels() {
  for (const key in data.labels) labels[key] = await unpacked(data.labels[key]);
  agree = await unpacked(data.agree);
  tested = data.tested && await unpacked(data.tested);
  if (data.sets) [setIndex, setCertified] = [await unpacked(data.sets.index), await unpacked(data.sets.certified)];
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

/** The smallest count that a correction certifies, n + 1 if none; ``histogram`` says how many components have each. */
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

// --- The state. A page adds what is its own.

const byId = (id) => document.getElementById(id);
const stage = byId("stage"), canvas = stage.querySelector("canvas"), tip = byId("point");
const claim = data.explore && data.explore.claim;
const state = { left: "certified", outline: true, level: 0, settings: claim && { ...claim } };
const exploring = () => claim && Object.keys(claim).some((key) => claim[key] !== state.settings[key]);
let histogram, levelOf, claimed, byLeast, enough;
const inFile = (each) => each.file ? `${each.text} (${each.file} in the file's pixels)` : each.text;

// --- What may be shown.

const ABOUT = {
  certified: () => exploring() ? "labels of an exploration, no certificate" : data.share,
  radius: () => `labels that keep to R = ${data.levels[state.level].text}`,
  heat: () => `radius of each ${UNIT.slice(0, -1)}, up to ${data.levels[LAST].text}`,
  prediction: () => "model without noise, no guarantee",
  target: () => "ground truth",
  sets: () => "sets: two labels in stripes, more hatched",
  "": () => "photograph",
};
const TITLES = {
  certified: `${data.word} labels`, radius: "labels at R", heat: "radius map", prediction: "model without noise",
  target: "ground truth", sets: "sets", "": "photograph",
};
for (const [kind, said] of Object.entries(data.attacked)) {
  TITLES[kind] = said.split(":")[0];
  ABOUT[kind] = () => said;
}
const PLAIN_LABELS = ["prediction", ...Object.keys(data.attacked), "target"];  // maps that show themselves
const kinds = ["certified", ...(LAST < 0 ? [] : ["radius", "heat"]),
  ...PLAIN_LABELS.filter((key) => data.labels[key]), ...(data.sets ? ["sets"] : []),
  ...(data.photo ? [""] : [])];
const marksWrong = (kind) => labels.target && state.outline && ["certified", "radius"].includes(kind);

/** The count from which on components have a label or a radius, at R or by an exploration; null where the certificate says it. */
function leastCount(kind) {
  if (kind === "radius") return data.levels[state.level].count;
  if (kind === "heat") return data.least;
  return exploring() ? enough : null;
}

/** Which components have a label: 1 or 0 for each. */
function kept(kind) {
  const found = new Uint8Array(agree.length), least = leastCount(kind);
  for (let i = 0; i < found.length; i++) {
    found[i] = least === null ? labels.certified[i] !== NONE : agree[i] >= least && (!tested || tested[i]);
  }
  return found;
}

/** Counts the components of each class: all, and those with a label; of a true class also right and wrong ones. */
function counted(has) {
  const truth = labels.target, of = truth || labels.candidate;
  const rows = Array.from({ length: NONE + 1 }, () => ({ all: 0, kept: 0, right: 0, wrong: 0 }));
  for (let i = 0; i < agree.length; i++) {
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
  for (let i = 0; i < agree.length; i++) {
    if (tested && !tested[i]) continue;
    const row = rows[of[i]], k = agree[i];
    row.kept[k]++;
    if (truth && of[i] !== NONE) row[of[i] === labels.candidate[i] ? "right" : "wrong"][k]++;
  }
  for (const row of rows) for (const key in row) for (let k = n; k >= 0; k--) row[key][k] += row[key][k + 1];
  return rows;
}

/** How many components have a label by the claim, by an exploration, or at R: for each class, and in all. */
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

// --- What follows from the state. ``showPicture`` is the page's own.

function update() {
  const settings = state.settings;
  enough = data.needed;
  if (exploring()) enough = threshold(histogram, n, settings.tau, settings.alpha, settings.correction);
  byId("badge").hidden = !exploring();
  byId("left").options[0].textContent = exploring() ? "exploration" : TITLES.certified;
  const found = tally(judged());
  showRadius();
  showClasses(found);
  showSettings(found);
  byId("caption").textContent = caption(found);
  showKey(found);
  showPicture();
}

function caption(found) {
  const wrong = labels.target && ["certified", "radius"].includes(state.left) && found.wrong;
  return `${ABOUT[state.left]()}${wrong ? `, ${format(found.wrong)} of them wrong (outlined)` : ""}`;
}

/** The legend's words for what is not said of a component. */
const UNSAID = { certified: "abstained", heat: "no radius", radius: "does not keep its label at this R" };

/** Whether nothing is said of some components. */
function unsaid(kind, found) {
  return kind === "heat" ? tally(kind).kept < agree.length : kind in UNSAID && found.kept < agree.length;
}

/** The legend: what colours, hatches and outlines stand for. The parts of a cloud have theirs in the panel. */
function showKey(found) {
  const { rows } = found, key = byId("key"), kind = state.left, colours = data.photo && !["heat", ""].includes(kind);
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
  else if (unsaid(kind, found)) add(UNSAID[kind], data.photo ? "hatched" : "grey");
  if (marksWrong(kind) && found.wrong) add("wrong", "outlined");
  key.hidden = !key.children.length;
}

function showRadius() {
  if (LAST < 0) return;
  const level = data.levels[state.level], found = tally("radius");
  const right = labels.target ? ` ${format(found.right)} (${share(found.right, found.valid)} of those with a true label) are `
    + `right, ${format(found.wrong)} are wrong.` : "";
  byId("kept").textContent = `R = ${inFile(level)}: ${format(found.kept)} of ${format(N)} ${UNIT} (${nearest(found.kept, N)}) `
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
      ? [format(row.all), share(row.kept, row.all), share(row.right, row.all), nearest(row.wrong, row.all)]
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
    + `${inFile({ text: taus[tau].radius, file: taus[tau].file })}, for ${format(all.kept)} of ${format(N)} ${UNIT} (${nearest(all.kept, N)}). ${least}`;
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
  svg(curve, "text", { x: 290, y: 148, "text-anchor": "end" }, `R (${data.axis})`);
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
  text("var(--kept)", `Line: ${UNIT} that keep their label. `);
  if (labels.target && valid) text("var(--right)", "Dashes: those that are also right. ");
  if (dot !== null) text("var(--ink)", `Dot: the labels' own claim, at R = ${inFile(data.radius)}.`);
}

// --- Asking about a component, which the page's own ``placeOf`` names.

const nameOf = (part, none) => part === NONE ? none : data.parts[part].name;

/** What is known of component i, in lines. */
function answers(i) {
  const count = agree[i], own = labels.candidate[i], has = `${count} of ${n}`;
  if (tested && !tested[i]) return [placeOf(i), "not tested"];
  const said = [placeOf(i), `${nameOf(own)} in ${has} noisy copies`];
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
  for (const kind in data.attacked) said.push(`${TITLES[kind]}: ${nameOf(labels[kind][i])}`);
  if (data.sets) said.push(`set: ${data.sets.members[setIndex[i]].map((part) => data.parts[part].name).join(" or ")}`);
  if (labels.target) said.push(`ground truth: ${nameOf(labels.target[i], "ignored")}`);
  return said;
}

/** Shows what is known of component i beside the point (left, top) of the stage. */
function tell(i, left, top) {
  tip.replaceChildren();
  for (const line of answers(i)) element(tip, "div", line);
  tip.style.left = `${limit(left, 0, Math.max(0, stage.clientWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${limit(top, 0, Math.max(0, stage.clientHeight - tip.offsetHeight - 8))}px`;
}

// --- The controls.

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

function outlineTo(on) {
  state.outline = byId("outline").checked = on;
  update();
}

const KEYS = {
  "[": () => levelTo(state.level - 1), "]": () => levelTo(state.level + 1),
  w: () => outlineTo(!state.outline),
  Escape: () => { if (claim) explore(claim); },
};
kinds.forEach((kind, i) => { KEYS[i + 1] = () => overlayTo(kind); });
const CANVAS_KEYS = {};  // on the picture alone
addEventListener("keydown", (event) => {
  if (document.body.inert || event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("select")) return;
  const act = (event.target === canvas && CANVAS_KEYS[event.key]) || KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act(event);
});

/** Fills the panel, once the labels are there. */
function setUpPanel() {
  histogram = new Float64Array(n + 1);
  agree.forEach((count, i) => { if (!tested || tested[i]) histogram[count]++; });
  claimed = counted(kept("certified"));
  byLeast = countedByLeast();
  levelOf = new Map(data.levels.map((level) => [level.count, level]));
  document.title = document.querySelector("h1").textContent = data.title ? `${data.heading}: ${data.title}` : data.heading;
  byId("sentence").textContent = data.sentence || `${data.share}.`;
  byId("outlining").hidden = !labels.target;
  byId("outlining").querySelector("span").textContent = `outline ${data.word} but wrong`;
  for (const kind of kinds) element(byId("left"), "option", TITLES[kind], { value: kind });
  const heads = labels.target ? ["class", UNIT, "", "and right", "but wrong"] : ["class", "", "candidates", "share"];
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
    state.level = data.levels.findIndex((level) => level.radius >= data.radius.value);
    if (state.level < 0) state.level = LAST;
    drawCurve();
  }
  if (claim) setUpExploration();
  document.body.inert = false;
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
byId("outline").onchange = (event) => outlineTo(event.target.checked);
