
// --- The image.

const [H, W] = data.size;
let photo;
async function load() {
  await loadLabels();
  photo = await createImageBitmap(new Blob([decode(data.photo.bytes, Uint8Array)], { type: data.photo.type }));
}
const context = canvas.getContext("2d"), divider = byId("divider");
Object.assign(state, { right: "", opacity: 0.6, swipe: 0.5 });
let view = { zoom: 1, x: 0, y: 0 }, cursor = null;
const comparing = () => state.right !== state.left && byId("right").value !== "none";
const placeOf = (i) => `pixel ${Math.floor(i / W)}, ${i % W}`;

// --- Overlays: each says which pixels have a colour, and which are hatched.

const colourOf = (hex) => {  // as a Uint32 of a picture's bytes
  const [red, green, blue] = hex.slice(1).match(/../g).map((digits) => parseInt(digits, 16));
  return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];
};
const partColours = Uint32Array.from([...data.parts.map((part) => colourOf(part.colour)), 0]);

const HATCH = 1;  // instead of a colour: nothing is said of the pixel

/** What an overlay shows at pixel i: a colour as a Uint32, HATCH, or 0 for the photograph alone. */
function looks(kind) {
  const { candidate, certified } = labels, least = leastCount(kind), counts = agree, mask = tested, colours = partColours;
  const own = labels[kind];
  if (PLAIN_LABELS.includes(kind)) return (i) => colours[own[i]];
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
  const sides = [state.left, state.right], wrong = sides.some(marksWrong) ? new Uint8Array(width * height) : null;
  for (const [side, from, to] of [[0, 0, Math.ceil(middle)], [1, Math.ceil(middle), width]]) {
    if (!sides[side] || from >= to) continue;
    fill(pixels, marksWrong(sides[side]) ? wrong : null, looks(sides[side]), columns, from, to);
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

function showPicture() {
  byId("right").options[1].textContent = byId("left").options[0].textContent;
  if (comparing()) byId("caption").textContent += ` | ${ABOUT[state.right]()}`;
  divider.hidden = byId("swiping").hidden = !comparing();
  divider.style.left = `${100 * state.swipe}%`;
  ask();
  redraw();
}

// --- Asking about a pixel.

/** Shows or hides what is known of the pixel under the cursor. */
function ask() {
  tip.hidden = !cursor;
  if (!cursor) return;
  const { scale, x, y } = place(), ratio = canvas.width / canvas.clientWidth;
  const [left, top] = [(x + scale * (cursor[0] + 1)) / ratio + 10, (y + scale * (cursor[1] + 1)) / ratio + 10];
  tell(cursor[1] * W + cursor[0], left, top);
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

function compareWith(kind) {
  byId("right").value = kind;
  state.right = kind === "none" ? null : kind;
  update();
}

Object.assign(KEYS, {
  c: () => compareWith(comparing() ? "none" : state.left ? "" : "certified"),
  ",": () => swipeTo(state.swipe - 0.05), ".": () => swipeTo(state.swipe + 0.05),
  o: () => opacityTo(state.opacity - 0.1), p: () => opacityTo(state.opacity + 0.1),
  "+": () => zoomAt(0, 0, 1.25), "=": () => zoomAt(0, 0, 1.25), "-": () => zoomAt(0, 0, 1 / 1.25), 0: reset,
});
for (const [key, right, below] of [["Left", -1, 0], ["Right", 1, 0], ["Up", 0, -1], ["Down", 0, 1]]) {
  CANVAS_KEYS[`Arrow${key}`] = ({ shiftKey }) => step((shiftKey ? 10 : 1) * right, (shiftKey ? 10 : 1) * below);
}
canvas.addEventListener("blur", () => point(null));
byId("right").onchange = (event) => compareWith(event.target.value);
byId("swipe").oninput = (event) => swipeTo(+event.target.value);
byId("opacity").oninput = (event) => opacityTo(+event.target.value);
byId("reset").onclick = reset;

const ready = load().then(() => {
  setUpPanel();
  canvas.ariaLabel = `The picture, ${W} by ${H} pixels. Arrow keys go from pixel to pixel, plus and minus zoom.`;
  for (const kind of ["none", ...kinds]) element(byId("right"), "option", TITLES[kind] || "nothing", { value: kind });
  compareWith("none");
  new ResizeObserver(() => {
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * devicePixelRatio));
    held();
    draw();  // at once: the new canvas is empty
  }).observe(stage);
});
