
// --- The cloud.

const points = decode(data.points, Float32Array);  // x, y (up), z of each point, in the unit ball
const placeOf = (i) => `point ${format(i)}`;

// --- The state, and what follows from it.

const START = { azimuth: 0.9, elevation: 0.35, zoom: 1, x: 0, y: 0 };  // ShapeNet's objects face x
const EYE = 3.5;  // the eye's distance from the middle
let view = { ...START };
let sizing = 1;
const hidden = new Set();
const PLAIN = 255, WRONG = 128;  // the fourth number of a point's colour; 0 where it is hidden
const colours = new Uint8Array(4 * points.length / 3);  // red, green, blue and this of each point
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = (name) => rgb(getComputedStyle(document.documentElement).getPropertyValue(name).trim());

function rgb(hex) {
  const digits = hex.length === 4 ? [...hex.slice(1)].map((d) => d + d) : hex.slice(1).match(/../g);
  return digits.map((d) => parseInt(d, 16));
}

/** The colour of a part; lighter on a dark page. */
function partColour(part) {
  if (part === NONE) return theme("--none");
  return rgb(data.parts[part].colour).map((c) => dark.matches ? Math.round(c + 0.25 * (255 - c)) : c);
}

/** The part that each point is shown with, NONE where nothing is said of it. */
function shown() {
  if (PLAIN_LABELS.includes(state.left)) return labels[state.left];
  const has = kept(state.left);
  return labels.candidate.map((part, i) => has[i] ? part : NONE);
}

function paint() {
  const look = (part) => [...partColour(part), hidden.has(part) ? 0 : PLAIN];
  const table = [...data.parts.keys(), NONE].map(look), heat = state.left === "heat";
  const radii = heat && new Map(data.levels.map((level) => [level.count, rgb(level.colour)]));
  const { candidate, target } = labels, marked = marksWrong(state.left), parts = shown();
  parts.forEach((part, i) => {
    const colour = heat && (!tested || tested[i]) && radii.get(agree[i]);
    colours.set(heat ? [...(colour || theme("--none")), table[colour ? candidate[i] : NONE][3]] : table[part], 4 * i);
    const wrong = marked && part !== NONE && target[i] !== NONE && target[i] !== part;
    if (wrong && colours[4 * i + 3]) colours[4 * i + 3] = WRONG;
  });
  renderer.upload();
  redraw();
}

/** Rows: right, up, to the eye. */
function turn() {
  const ca = Math.cos(view.azimuth), sa = Math.sin(view.azimuth);
  const ce = Math.cos(view.elevation), se = Math.sin(view.elevation);
  return [ca, 0, -sa, -sa * se, ce, -ca * se, sa * ce, se, ca * ce];
}

/** Pixels (of the page) per unit, and the radius of a point in units. */
const scale = () => 0.42 * Math.min(canvas.clientWidth, canvas.clientHeight) * view.zoom;
const radius = () => sizing * Math.min(0.3 * (points.length / 3) ** -0.36, 0.06);

/** Calls visit(i, x, y, depth, r) for every point that is not hidden, in pixels of the page from the top left. */
function project(visit) {
  const m = turn(), s = scale(), r = radius();
  const x0 = canvas.clientWidth / 2 + view.x, y0 = canvas.clientHeight / 2 + view.y;
  for (let i = 0; i < points.length / 3; i++) {
    if (!colours[4 * i + 3]) continue;
    const a = points[3 * i], b = points[3 * i + 1], c = points[3 * i + 2];
    const depth = m[6] * a + m[7] * b + m[8] * c;
    const near = s * EYE / (EYE - depth);
    const x = x0 + near * (m[0] * a + m[1] * b + m[2] * c), y = y0 - near * (m[3] * a + m[4] * b + m[5] * c);
    visit(i, x, y, depth, Math.max(near * r, 0.75));
  }
}

// --- Two renderers that draw the same: little balls, paler with distance.

const RIM = 0.35, OUTLINE = rgb("#ff00c8");  // of points that are certified and wrong
const VERTEX = `
attribute vec3 position; attribute vec4 colour;
uniform mat3 turn; uniform vec2 scale, shift; uniform float size;
varying vec3 tint; varying float far, pixels, wrong;
void main() {
  vec3 p = position * turn;
  float w = (${EYE.toFixed(1)} - p.z) / ${EYE.toFixed(1)};
  gl_Position = colour.a > 0.0 ? vec4(p.xy * scale + shift * w, -0.9 * p.z * w, w) : vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = pixels = max(size / w, 1.5);
  tint = colour.rgb; far = 0.5 - 0.5 * p.z; wrong = colour.a < 0.9 ? 1.0 : 0.0;
}`;
const FRAGMENT = `
precision mediump float;
uniform vec3 page; varying vec3 tint; varying float far, pixels, wrong;
void main() {
  vec2 c = 2.0 * gl_PointCoord - 1.0;
  float r = dot(c, c);
  if (r > 1.0) discard;
  float cover = min(1.0, (1.0 - sqrt(r)) * pixels / 2.0 + 0.4);  // smooth rims
  vec3 own = wrong > 0.5 && r > ${RIM} ? vec3(${OUTLINE.map((c) => (c / 255).toFixed(3))}) : tint;
  gl_FragColor = vec4(mix(own * (0.7 + 0.3 * sqrt(1.0 - r)), page, 0.3 * far), cover);
}`;

function webgl() {
  const gl = canvas.getContext("webgl", { alpha: false });
  if (!gl) return null;
  const program = gl.createProgram();
  for (const [type, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(type);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  gl.useProgram(program);
  gl.enable(gl.DEPTH_TEST);
  gl.enable(gl.SAMPLE_ALPHA_TO_COVERAGE);
  const uniform = (name) => gl.getUniformLocation(program, name);
  const [uTurn, uScale, uShift, uSize, uPage] = ["turn", "scale", "shift", "size", "page"].map(uniform);
  const attribute = (name, width, type) => {
    const place = gl.getAttribLocation(program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, width, type, type !== gl.FLOAT, 0, 0);
  };
  attribute("position", 3, gl.FLOAT);
  gl.bufferData(gl.ARRAY_BUFFER, points, gl.STATIC_DRAW);
  attribute("colour", 4, gl.UNSIGNED_BYTE);
  return {
    upload: () => gl.bufferData(gl.ARRAY_BUFFER, colours, gl.DYNAMIC_DRAW),
    draw() {
      const page = theme("--page").map((c) => c / 255), w = canvas.clientWidth / 2, h = canvas.clientHeight / 2;
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(...page, 1);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.uniformMatrix3fv(uTurn, false, turn());
      gl.uniform2f(uScale, scale() / w, scale() / h);
      gl.uniform2f(uShift, view.x / w, -view.y / h);
      gl.uniform1f(uSize, 2 * scale() * radius() * canvas.width / canvas.clientWidth);
      gl.uniform3fv(uPage, page);
      gl.drawArrays(gl.POINTS, 0, points.length / 3);
    },
  };
}

/** Where there is no WebGL: every ball, pixel by pixel, the nearest kept. */
function software() {
  const context = canvas.getContext("2d");
  return {
    upload() {},
    draw() {
      const { width, height } = canvas, ratio = width / canvas.clientWidth, page = theme("--page");
      const image = context.createImageData(width, height), depths = new Float32Array(width * height).fill(-2);
      new Uint32Array(image.data.buffer).fill(new Uint32Array(Uint8Array.of(...page, 255).buffer)[0]);
      project((i, x, y, depth, r) => {
        x *= ratio; y *= ratio; r *= ratio;
        const fog = 0.3 * (0.5 - 0.5 * depth);
        for (let v = Math.max(0, Math.ceil(y - r)); v <= Math.min(height - 1, y + r); v++) {
          for (let u = Math.max(0, Math.ceil(x - r)); u <= Math.min(width - 1, x + r); u++) {
            const away = ((u - x) ** 2 + (v - y) ** 2) / r ** 2, at = v * width + u;
            if (away > 1 || depths[at] >= depth) continue;
            depths[at] = depth;
            const light = (0.7 + 0.3 * Math.sqrt(1 - away)) * (1 - fog);
            const rim = colours[4 * i + 3] === WRONG && away > RIM;
            for (let c = 0; c < 3; c++) image.data[4 * at + c] = (rim ? OUTLINE[c] : colours[4 * i + c]) * light + page[c] * fog;
          }
        }
      });
      context.putImageData(image, 0, 0);
    },
  };
}

let renderer = webgl() || software();
let queued = 0;
function redraw() {
  queued ||= requestAnimationFrame(() => { queued = 0; renderer.draw(); });
}
canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
canvas.addEventListener("webglcontextrestored", () => { renderer = webgl(); paint(); });
new ResizeObserver(() => {
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * devicePixelRatio));
  renderer.draw();  // at once: the new canvas is black
}).observe(stage);

// --- Turning, zooming, asking.

function rotate(right, up) {
  view.azimuth -= right;
  view.elevation = limit(view.elevation + up, -Math.PI / 2, Math.PI / 2);
  redraw();
}

/** Zooms so that what lies at (x, y), from the middle, stays there. */
function zoomAt(x, y, factor) {
  const zoom = limit(view.zoom * factor, 0.3, 30);
  view.x = x - (x - view.x) * zoom / view.zoom;
  view.y = y - (y - view.y) * zoom / view.zoom;
  view.zoom = zoom;
  redraw();
}

function reset() {
  view = { ...START };
  redraw();
}

function ask(x, y) {
  let found = -1, nearest = -Infinity;
  project((i, u, v, depth, r) => {
    if ((u - x) ** 2 + (v - y) ** 2 <= Math.max(r, 4) ** 2 && depth > nearest) [found, nearest] = [i, depth];
  });
  tip.hidden = found < 0;
  if (!tip.hidden) tell(found, x + 14, y + 14);
}

const pressed = new Map();
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pressed.set(event.pointerId, [event.offsetX, event.offsetY]);
  ask(event.offsetX, event.offsetY);
});
canvas.addEventListener("pointermove", (event) => {
  const [x, y] = [event.offsetX, event.offsetY], before = pressed.get(event.pointerId);
  if (!before) return ask(x, y);
  const [dx, dy] = [x - before[0], y - before[1]];
  if (!dx && !dy) return;
  tip.hidden = true;
  pressed.set(event.pointerId, [x, y]);
  if (pressed.size === 2) {
    const [other] = [...pressed].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    const apart = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 1;
    zoomAt(other[0] - canvas.clientWidth / 2, other[1] - canvas.clientHeight / 2, apart([x, y]) / apart(before));
  } else if (event.shiftKey) {
    view.x += dx;
    view.y += dy;
    redraw();
  } else {
    rotate(dx / 150, dy / 150);
  }
});
for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => pressed.delete(event.pointerId));
canvas.addEventListener("pointerleave", (event) => { tip.hidden ||= event.pointerType !== "touch"; });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  tip.hidden = true;
  const steps = event.deltaY * (event.deltaMode ? 30 : 1);
  zoomAt(event.offsetX - canvas.clientWidth / 2, event.offsetY - canvas.clientHeight / 2, Math.exp(-steps / 600));
}, { passive: false });
Object.assign(KEYS, {
  "+": () => zoomAt(0, 0, 1.2), "=": () => zoomAt(0, 0, 1.2), "-": () => zoomAt(0, 0, 1 / 1.2), 0: reset,
});
for (const [key, right, up] of [["Left", -0.1, 0], ["Right", 0.1, 0], ["Up", 0, -0.1], ["Down", 0, 0.1]]) {
  CANVAS_KEYS[`Arrow${key}`] = () => { tip.hidden = true; rotate(right, up); };
}

// --- The panel.

let rows;

function setUpParts() {
  rows = [...data.parts.keys(), NONE].map((part) => {
    const row = element(document.querySelector("#parts ul"), "li"), label = element(row, "label");
    const box = element(label, "input", "", { type: "checkbox", checked: true });
    box.onchange = () => {
      hidden[box.checked ? "delete" : "add"](part);
      paint();
    };
    const swatch = element(label, "span", "", { className: "swatch" }), name = element(label, "span");
    return { part, row, swatch, name, count: element(label, "span", "", { className: "count" }) };
  });
}

function showPicture() {
  tip.hidden = true;
  const counts = new Map();
  for (const part of shown()) counts.set(part, (counts.get(part) || 0) + 1);
  const none = { prediction: "no label", target: "ignored", ...UNSAID }[state.left];
  for (const { part, row, swatch, name, count } of rows) {
    row.hidden = !counts.has(part);
    swatch.style.background = `rgb(${partColour(part)})`;
    swatch.hidden = state.left === "heat" && part !== NONE;
    name.textContent = nameOf(part, none);
    count.textContent = format(counts.get(part) || 0);
  }
  paint();
}

/** Shows the labels that the address asks for: #certified, #prediction or #target. */
function showAsked() {
  const asked = location.hash.slice(1);
  overlayTo(kinds.includes(asked) ? asked : "certified");
}

byId("size").oninput = (event) => { sizing = 2 ** event.target.value; redraw(); };
byId("reset").onclick = reset;

const ready = loadLabels().then(() => {
  setUpPanel();
  setUpParts();
  canvas.ariaLabel = `3-D view of ${format(points.length / 3)} points. Arrow keys turn it, plus and minus zoom, 0 resets.`;
  addEventListener("hashchange", showAsked);
  dark.addEventListener("change", update);
  showAsked();
});
