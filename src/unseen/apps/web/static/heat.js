// Where in the photo a score comes from: cells of the network's last feature map, painted over the photo.

import * as api from "./api.js";
import { among } from "./state.js";
import { html, useEffect, useRef } from "./ui.js";

const FOR = [255, 122, 24];
const AGAINST = [48, 116, 255];
const keyOf = () => among();

/** {box, maps: id -> cells} for these classes, or {problem}. Asked for once a photo and model; more ids are added. */
export async function heatOf(photo, ids) {
  const key = keyOf();
  if (!photo.heat.has(key)) photo.heat.set(key, { maps: new Map(), waiting: Promise.resolve() });
  const heat = photo.heat.get(key);
  heat.waiting = heat.waiting.then(async () => {
    const missing = [...new Set(ids)].filter((id) => !heat.maps.has(id));
    if (!missing.length || heat.problem) return;
    try {
      const answer = await api.heatmap(photo.file, photo.name, missing, key);
      heat.box = answer.box;
      for (const map of answer.maps) heat.maps.set(map.id, map.cells);
    } catch (error) {
      if (error.status === 400)
        heat.problem = error.message; // this network or method has none
      else if (!error.gone) console.info(error.message);
    }
  });
  await heat.waiting;
  return heat;
}

export const heatProblem = (photo) => photo.heat.get(keyOf())?.problem ?? null;

/** The cells of a class mixed with those of another: 0 the first alone, 1/2 their difference, 1 the other alone. */
export function mixCells(cells, other, part) {
  if (!other || part === 0) return cells;
  return cells.map((row, y) => row.map((cell, x) => (1 - part) * cell - part * other[y][x]));
}

/** The cells of a class, mixed with those of `against`. Null where they are not known (yet). */
export function cellsOf(photo, id, against = null, part = 0) {
  const maps = photo.heat.get(keyOf())?.maps;
  const cells = maps?.get(id);
  return cells ? mixCells(cells, maps.get(against), part) : null;
}

/** Paint cells over a canvas that covers the photo; without cells it becomes clear. */
export function paint(canvas, photo, cells) {
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  if (!cells) return;
  const [left, top, right, bottom] = photo.heat.get(keyOf()).box;
  const { width, height } = canvas;
  pen.imageSmoothingQuality = "high";
  pen.drawImage(tinted(cells), left * width, top * height, (right - left) * width, (bottom - top) * height);
}

/** A canvas over a photo. */
export function Heat({ photo, cells }) {
  const canvas = useRef(null);
  useEffect(() => paint(canvas.current, photo, cells), [photo, JSON.stringify(cells)]);
  return html`<canvas ref=${canvas} class="heat" width="448" height="448" aria-hidden="true"></canvas>`;
}

/** A small picture of the cells, a pixel each: orange speaks for the class, blue against it. */
function tinted(cells) {
  const most = Math.max(...cells.flat().map(Math.abs), 1e-12);
  const picture = Object.assign(document.createElement("canvas"), { width: cells[0].length, height: cells.length });
  const pen = picture.getContext("2d");
  const pixels = pen.createImageData(picture.width, picture.height);
  cells.flat().forEach((cell, at) => {
    const strength = Math.abs(cell) / most;
    pixels.data.set([...(cell > 0 ? FOR : AGAINST), 190 * strength ** 1.5], 4 * at);
  });
  pen.putImageData(pixels, 0, 0);
  return picture;
}
