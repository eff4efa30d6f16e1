// The map of all classes on one canvas: green where the network was trained, violet where it was not; a photo lights up
// what it may show. Drag, pinch or wheel; with the keyboard: arrows, + and -; Enter opens what is in the middle.

import * as api from "./api.js";
import { lightOf, makeShape } from "./shape.js";
import { state } from "./state.js";
import { button, html, useEffect, useRef, useState } from "./ui.js";
import { percent, shown } from "./words.js";

const KINDS = ["s", "u", "g"];
const LEVELS = 12; // of brightness
const MOST_ZOOM = 60;
const NAMED = 34; // pixels of a hexagon from which its class is named
const CHUNK = 400; // names in one request

const maps = new Map(); // model and its added classes -> promise of {shape, marks, regions, names}

const holds = ({ at: [start, size] }, { at: [first, part] }) => first >= start && first + part <= start + size;

/** The map of the model that answers. */
export function loadMap() {
  const key = JSON.stringify([state.run, state.bundle.added.map((one) => one.id), state.bundle.taught.length]);
  if (!maps.has(key)) {
    const promise = api.map().then(({ marks, regions }) => {
      const shape = makeShape(marks.length);
      const named = regions
        .map(([start, size, depth, name, id]) => ({ at: [start, size], depth, name: shown(name), id }))
        .sort((a, b) => b.at[1] - a.at[1])
        .filter((region, at, all) => !all.slice(0, at).some((other) => other.name === region.name && holds(other, region)));
      return { shape, marks, regions: named, names: new Map(), asked: new Set() };
    });
    promise.catch(() => maps.delete(key));
    maps.set(key, promise);
  }
  return maps.get(key);
}

/** Names of the classes from `start` on, where they are not known yet; `then` is called when they are. */
function askNames(map, place, then) {
  const start = Math.floor(place / CHUNK) * CHUNK;
  if (map.asked.has(start)) return;
  map.asked.add(start);
  api
    .mapPlaces(start, CHUNK)
    .then(({ places }) => {
      places.forEach(([id, name], at) => map.names.set(start + at, { id, name: shown(name) }));
      then();
    })
    .catch(() => map.asked.delete(start));
}

/**
 * The map. `lit`: what a photo may show, with `at` (a stretch); `here` and `chosen`: stretches that are outlined, and
 * `chosen`, which has a `name`, is moved into view; `onpick(id)`. A `still` map is a picture that leads to the large one.
 */
export function WorldMap({ lit = null, here = null, chosen = null, name = "", onpick, still = false, label }) {
  const canvas = useRef(null);
  const painter = useRef(null);
  const [problem, setProblem] = useState(false);
  const hint = useRef(null);
  const key = `${state.run} ${state.bundle.added.length}`;
  useEffect(() => {
    let ended = false;
    loadMap().then(
      (map) => {
        if (ended || !canvas.current) return;
        painter.current = new Painter(canvas.current, hint.current, map, (id) => onpick(id), still);
        painter.current.show(lit, here, chosen, name);
        canvas.current.dataset.ready = "true";
      },
      () => setProblem(true),
    );
    return () => {
      ended = true;
      painter.current?.end();
      painter.current = null;
    };
  }, [key]);
  const shownNow = JSON.stringify([lit?.map((node) => [node.id, node.probability]), here, chosen]);
  useEffect(() => painter.current?.show(lit, here, chosen, name), [shownNow]);
  useEffect(() => {
    if (painter.current) painter.current.onpick = onpick;
  });
  if (problem) return html`<p class="soft">The map could not be loaded.</p>`;
  const zoom = (by) => () => painter.current?.zoomBy(by);
  const tool = (sign, label, act) => button(null, act, { kind: "icon-button", sign, "aria-label": label });
  return html`<div class=${`map${still ? " map-still" : ""}`}>
    <canvas
      ref=${canvas}
      tabindex=${still ? -1 : 0}
      role="img"
      aria-label=${label ?? "Map of all classes. Arrows move, plus and minus zoom, Enter opens what is in the middle."}
    ></canvas>
    <span ref=${hint} class="map-hint" aria-hidden="true" hidden></span>
    ${!still &&
    html`<div class="map-buttons">
      ${tool("plus", "Zoom in", zoom(1.6))} ${tool("minus", "Zoom out", zoom(1 / 1.6))}
      ${tool("part", "The whole map", () => painter.current?.fit())}
    </div>`}
  </div>`;
}

/** @type {[number, string][]} */
const EDGES = [[5, "paper"], [2.5, "ink"]]; // of an outline
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const forced = window.matchMedia("(forced-colors: active)");
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

/** Draws a map on a canvas and follows pointers and keys. */
class Painter {
  constructor(canvas, hint, map, onpick, still) {
    this.canvas = canvas;
    this.hint = hint;
    this.map = map;
    this.onpick = onpick;
    this.still = still;
    this.pen = canvas.getContext("2d");
    this.view = { x: 0, y: 0, zoom: 1 }; // the point of the plane in the middle, and how large
    this.light = null;
    this.outlines = [];
    this.middles = new Map(); // stretch -> the place in its middle
    this.pointers = new Map();
    this.listeners = new AbortController();
    const { signal } = this.listeners;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(canvas);
    for (const query of [dark, forced]) query.addEventListener("change", () => this.recolour(), { signal });
    this.themes = new MutationObserver(() => this.recolour());
    this.themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    if (still) canvas.addEventListener("click", () => this.onpick(null), { signal });
    else this.listen(signal);
    this.recolour();
    this.resize();
  }

  end() {
    this.listeners.abort();
    this.observer.disconnect();
    this.themes.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.resting);
  }

  show(lit, here, chosen, name) {
    const { shape } = this.map;
    const inside = (at) => at && at[1] > 0 && at[0] + at[1] <= shape.count;
    this.light = lit ? lightOf(lit.filter((node) => inside(node.at)), shape.count) : null;
    this.lit = lit?.filter((node) => inside(node.at) && node.at[1] < 0.6 * shape.count) ?? [];
    this.outlines = [
      inside(here) && { path: this.borderPath(here), kind: "here" },
      inside(chosen) && { path: this.borderPath(chosen), kind: "chosen" },
    ].filter(Boolean);
    this.chosen = inside(chosen) && name ? { at: chosen, name: shown(name) } : null;
    this.base = null;
    if (inside(chosen) && JSON.stringify(chosen) !== this.moved) {
      this.moved = JSON.stringify(chosen);
      this.moveTo(chosen);
    } else if (this.still && inside(here)) this.moveTo(here, 0.5);
    this.ask();
  }

  borderPath(stretch) {
    const path = new Path2D();
    const edges = this.map.shape.border(stretch);
    for (let at = 0; at < edges.length; at += 4) {
      path.moveTo(edges[at], edges[at + 1]);
      path.lineTo(edges[at + 2], edges[at + 3]);
    }
    return path;
  }

  // -- where ------------------------------------------------------------------------------------------------------

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width) return;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    this.width = width;
    this.height = height;
    this.unit = Math.min(width / 2.04, height / (2.06 * this.map.shape.aspect)); // pixels of 1 at zoom 1
    this.base = null;
    this.ask();
  }

  get scale() {
    return this.unit * this.view.zoom;
  }

  fit() {
    this.glide({ x: 0, y: 0, zoom: 1 });
  }

  /** Bring a stretch into view, so that it takes about `part` of the room. */
  moveTo(stretch, part = 0.4) {
    const [left, top, right, bottom] = this.map.shape.box(stretch);
    const room = Math.max((right - left) / this.width, (bottom - top) / this.height, this.map.shape.cell / 90);
    const zoom = Math.max(1, Math.min(MOST_ZOOM, part / room / this.unit, this.still ? 3.2 : 24));
    const to = { x: (left + right) / 2, y: (top + bottom) / 2, zoom };
    if (this.still || !this.width) this.look(to);
    else this.glide(to);
  }

  look(view) {
    const { aspect } = this.map.shape;
    const zoom = Math.max(1, Math.min(MOST_ZOOM, view.zoom));
    const free = [1 - Math.min(1, this.width / 2 / this.unit / zoom), aspect - Math.min(aspect, this.height / 2 / this.unit / zoom)];
    this.view = {
      zoom,
      x: Math.max(-free[0] - 0.05, Math.min(free[0] + 0.05, view.x)),
      y: Math.max(-free[1] - 0.05, Math.min(free[1] + 0.05, view.y)),
    };
    this.moving = true; // drawn from the picture, and sharp once it rests
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.moving = false;
      this.ask();
    }, 140);
    this.ask();
  }

  glide(to) {
    if (calm.matches) return this.look(to);
    const [from, started] = [{ ...this.view }, performance.now()];
    const turn = (this.gliding = {});
    const step = (now) => {
      if (this.gliding !== turn || this.listeners.signal.aborted) return;
      const part = Math.min(1, (now - started) / 420);
      const eased = 1 - (1 - part) ** 3;
      const zoom = from.zoom * (to.zoom / from.zoom) ** eased;
      this.look({ zoom, x: from.x + (to.x - from.x) * eased, y: from.y + (to.y - from.y) * eased });
      if (part < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  zoomBy(by, at = [this.width / 2, this.height / 2]) {
    this.gliding = null;
    const [x, y] = this.toPlane(at);
    const zoom = Math.max(1, Math.min(MOST_ZOOM, this.view.zoom * by));
    const real = zoom / this.view.zoom;
    this.look({ zoom, x: x + (this.view.x - x) / real, y: y + (this.view.y - y) / real });
  }

  /** @param {number[]} point */
  toPlane(point) {
    const [left, top] = point;
    return [this.view.x + (left - this.width / 2) / this.scale, this.view.y + (top - this.height / 2) / this.scale];
  }

  /** Where the middle of a place is on the screen.
   * @returns {[number, number]} */
  centre(place) {
    const [x, y] = this.map.shape.centres.slice(2 * place, 2 * place + 2);
    return [(x - this.view.x) * this.scale + this.width / 2, (y - this.view.y) * this.scale + this.height / 2];
  }

  // -- drawing ----------------------------------------------------------------------------------------------------

  recolour() {
    const colour = (name) => {
      this.hint.style.color = `var(--${name})`; // resolved by the browser: light or dark
      return getComputedStyle(this.hint).color;
    };
    const plain = forced.matches;
    this.colours = { s: colour("seen"), u: colour("unseen"), g: colour("map-guess"), ink: colour("ink"), paper: colour("card") };
    if (plain) Object.assign(this.colours, { s: "LinkText", u: "GrayText", g: "GrayText", ink: "CanvasText", paper: "Canvas" });
    this.hint.style.color = "";
    this.base = null;
    this.ask();
  }

  ask() {
    if (this.frame || !this.width) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** Fill the hexagons from `places`, those of one colour and brightness in one go. */
  fill(pen, places) {
    const { shape, marks } = this.map;
    const { corners } = shape;
    const batches = new Map();
    for (const place of places) {
      const level = this.light ? Math.ceil(LEVELS * this.light[place] ** 0.6) : LEVELS;
      const batch = KINDS.indexOf(marks[place]) * (LEVELS + 1) + level;
      if (!batches.has(batch)) batches.set(batch, new Path2D());
      const path = batches.get(batch);
      const at = 12 * place;
      path.moveTo(corners[at], corners[at + 1]);
      for (let corner = 2; corner < 12; corner += 2) path.lineTo(corners[at + corner], corners[at + corner + 1]);
      path.closePath();
    }
    const dim = this.light ? 0.16 : 0;
    for (const [batch, path] of batches) {
      const mark = KINDS[Math.floor(batch / (LEVELS + 1))];
      const level = (batch % (LEVELS + 1)) / LEVELS;
      pen.globalAlpha = this.light ? dim + (1 - dim) * level : mark === "s" ? 1 : mark === "u" ? 0.72 : 0.8;
      pen.fillStyle = this.colours[mark];
      pen.fill(path);
    }
    pen.globalAlpha = 1;
  }

  *visible() {
    const { centres, count } = this.map.shape;
    const [left, top] = this.toPlane([-30, -30]);
    const [right, bottom] = this.toPlane([this.width + 30, this.height + 30]);
    for (let place = 0; place < count; place += 1) {
      const [x, y] = [centres[2 * place], centres[2 * place + 1]];
      if (x > left && x < right && y > top && y < bottom) yield place;
    }
  }

  /** The whole map as a picture: drawn once, then only moved, so that moving is smooth. */
  picture() {
    if (this.base) return this.base;
    const { shape } = this.map;
    const sharp = 1.9 * this.unit * this.ratio;
    const picture = Object.assign(document.createElement("canvas"), {
      width: Math.ceil(2.1 * sharp),
      height: Math.ceil(2.1 * sharp * shape.aspect),
    });
    const pen = picture.getContext("2d");
    pen.setTransform(sharp, 0, 0, sharp, picture.width / 2, picture.height / 2);
    this.fill(pen, Array.from({ length: shape.count }, (_, place) => place));
    this.borders(pen, 1.4 * this.unit, () => true);
    this.base = { picture, sharp };
    return this.base;
  }

  draw() {
    const started = performance.now();
    const { pen, ratio, view, scale } = this;
    const { shape } = this.map;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const place = () =>
      pen.setTransform(scale * ratio, 0, 0, scale * ratio, ratio * (this.width / 2 - view.x * scale), ratio * (this.height / 2 - view.y * scale));
    if (view.zoom <= (this.moving ? 9 : 3)) {
      const { picture, sharp } = this.picture();
      place();
      pen.drawImage(picture, -picture.width / 2 / sharp, -picture.height / 2 / sharp, picture.width / sharp, picture.height / sharp);
    } else {
      place();
      this.fill(pen, this.visible());
      this.borders(pen, scale, (region) => this.near(region));
    }
    for (const { path, kind } of this.outlines) {
      for (const [width, colour] of EDGES) {
        pen.lineWidth = (kind === "here" ? width : width * 0.8) / scale;
        pen.setLineDash(kind === "here" ? [] : [5 / scale, 4 / scale]);
        pen.strokeStyle = this.colours[colour];
        pen.lineCap = pen.lineJoin = "round";
        pen.stroke(path);
      }
    }
    pen.setLineDash([]);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.labels(pen);
    const took = (performance.now() - started).toFixed(1);
    Object.assign(this.canvas.dataset, { zoom: view.zoom.toFixed(2), cell: (shape.cell * scale).toFixed(1), took });
  }

  /** Thin lines between the regions that are named. */
  borders(pen, scale, near) {
    const { regions, shape } = this.map;
    pen.strokeStyle = this.colours.paper;
    pen.lineWidth = 1.2 / scale;
    let drawn = 0;
    for (const region of regions) {
      const across = Math.sqrt(region.at[1]) * shape.cell * scale;
      if (across < 46 || drawn > 24) break;
      if (region.at[1] > 0.7 * shape.count || !near(region)) continue;
      region.path ||= this.borderPath(region.at);
      pen.stroke(region.path);
      drawn += 1;
    }
  }

  /** Whether some of a region is in view. */
  near(region) {
    region.box ||= this.map.shape.box(region.at);
    const [left, top] = this.toPlane([0, 0]);
    const [right, bottom] = this.toPlane([this.width, this.height]);
    const [a, b, c, d] = region.box;
    return a < right && c > left && b < bottom && d > top;
  }

  labels(pen) {
    const { regions, shape, names } = this.map;
    const taken = [];
    const write = (text, x, y, size, bold, most) => {
      pen.font = `${bold ? 650 : 500} ${size}px system-ui, sans-serif`;
      const wide = pen.measureText(text).width;
      if (wide > most) return false;
      const box = [x - wide / 2 - 3, y - size / 2 - 2, x + wide / 2 + 3, y + size / 2 + 2];
      if (box[0] < 2 || box[2] > this.width - 2 || box[1] < 2 || box[3] > this.height - 2) return false;
      if (taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]))
        return false;
      taken.push(box);
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.lineWidth = 3.5;
      pen.lineJoin = "round";
      pen.strokeStyle = this.colours.paper;
      pen.strokeText(text, x, y);
      pen.fillStyle = this.colours.ink;
      pen.fillText(text, x, y);
      return true;
    };
    /** @type {(stretch: number[]) => [number, number]} */
    const at = (stretch) => {
      const key = stretch.join();
      if (!this.middles.has(key)) this.middles.set(key, shape.middle(stretch));
      const middle = this.middles.get(key);
      return this.centre(middle);
    };
    // What the photo may show comes first.
    const bright = this.lit?.filter((node) => node.probability >= 0.03).sort((a, b) => b.probability - a.probability);
    for (const node of bright?.slice(0, 14) ?? [])
      if (Math.sqrt(node.at[1]) * shape.cell * this.scale < 0.9 * this.width)
        write(shown(node.name) + (this.still ? "" : ` ${percent(node.probability)}`), ...at(node.at), this.still ? 12 : 14, true, 260);
    if (this.still && this.lit?.length) return;
    if (this.chosen) write(this.chosen.name, ...at(this.chosen.at), 15, true, 300);
    for (const region of regions) {
      const across = Math.sqrt(region.at[1]) * shape.cell * this.scale;
      if (across < 34) break;
      if (across > 1.6 * this.width || region.at[1] > 0.6 * shape.count || !this.near(region)) continue;
      const size = Math.max(11, Math.min(20, across / 9));
      write(region.name, ...at(region.at), size, size > 13, Math.max(54, 1.15 * across));
    }
    const hexagon = shape.cell * this.scale;
    if (hexagon < NAMED || this.still) return;
    for (const place of this.visible()) {
      const one = names.get(place);
      if (!one) askNames(this.map, place, () => this.ask());
      else write(one.name, ...this.centre(place), hexagon > 60 ? 13 : 11, false, 2.2 * hexagon);
    }
  }

  // -- pointers and keys ------------------------------------------------------------------------------------------

  listen(signal) {
    const { canvas } = this;
    const where = (event) => {
      const room = canvas.getBoundingClientRect();
      return [event.clientX - room.left, event.clientY - room.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.gliding = null;
      this.pointers.set(event.pointerId, where(event));
      this.dragged = 0;
    }, { signal });
    canvas.addEventListener("pointermove", (event) => {
      const old = this.pointers.get(event.pointerId);
      const now = where(event);
      if (!old) return this.point(now);
      const before = [...this.pointers.values()];
      this.pointers.set(event.pointerId, now);
      const after = [...this.pointers.values()];
      const mean = (points, i) => points.reduce((sum, point) => sum + point[i], 0) / points.length;
      const move = [0, 1].map((i) => mean(after, i) - mean(before, i));
      this.dragged += Math.abs(move[0]) + Math.abs(move[1]);
      this.look({ ...this.view, x: this.view.x - move[0] / this.scale, y: this.view.y - move[1] / this.scale });
      if (after.length === 2) {
        const far = (points) => Math.hypot(points[0][0] - points[1][0], points[0][1] - points[1][1]);
        this.zoomBy(far(after) / Math.max(1, far(before)), [mean(after, 0), mean(after, 1)]);
      }
    }, { signal });
    const up = (event) => {
      const click = this.pointers.size === 1 && this.dragged < 6 && event.type === "pointerup";
      this.pointers.delete(event.pointerId);
      if (click) this.pick(where(event));
    };
    canvas.addEventListener("pointerup", up, { signal });
    canvas.addEventListener("pointercancel", up, { signal });
    canvas.addEventListener("pointerleave", () => (this.hint.hidden = true), { signal });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0022)), where(event));
    }, { signal, passive: false });
    canvas.addEventListener("keydown", (event) => {
      const step = 60 / this.scale;
      const move = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
      if (move) this.look({ ...this.view, x: this.view.x + move[0], y: this.view.y + move[1] });
      else if (event.key === "+" || event.key === "=") this.zoomBy(1.5);
      else if (event.key === "-") this.zoomBy(1 / 1.5);
      else if (event.key === "0") this.fit();
      else if (event.key === "Enter") this.pick([this.width / 2, this.height / 2]);
      else return;
      event.preventDefault();
    }, { signal });
  }

  /** The class at a point; from afar, the smallest region around it that can be made out. */
  target(point) {
    const { shape, regions, names } = this.map;
    const place = shape.placeAt(...this.toPlane(point));
    if (place < 0) return null;
    if (shape.cell * this.scale >= 16) return names.get(place) ?? { place };
    const around = ({ at: [start, size] }) => place >= start && place < start + size;
    const seen = regions.filter((region) => around(region) && Math.sqrt(region.at[1]) * shape.cell * this.scale > 40);
    return seen.at(-1) ?? null;
  }

  point(point) {
    const target = this.target(point);
    if (target?.place !== undefined) askNames(this.map, target.place, () => this.point(point));
    this.hint.hidden = !target?.name;
    if (!target?.name) return;
    this.hint.textContent = target.name;
    this.hint.style.transform = `translate(${Math.min(point[0] + 14, this.width - 150)}px, ${Math.max(4, point[1] - 34)}px)`;
  }

  pick(point) {
    const target = this.target(point);
    if (!target) return;
    if (target.id) this.onpick(target.id);
    else askNames(this.map, target.place, () => this.pick(point));
  }
}
