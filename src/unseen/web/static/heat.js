// Where in the photo a score comes from: cells of the network's last feature map, painted over the photo.

import * as api from "./api.js";
import { state } from "./state.js";

const FOR = [255, 122, 24];
const AGAINST = [48, 116, 255];

/** {box, maps: id -> cells} for these classes, or {problem}. Asked for once a photo and model; more ids are added. */
export async function heatOf(photo, ids) {
  const model = state.bundle;
  if (!photo.heat.has(model)) photo.heat.set(model, { maps: new Map(), waiting: Promise.resolve() });
  const heat = photo.heat.get(model);
  heat.waiting = heat.waiting.then(async () => {
    const missing = ids.filter((id) => !heat.maps.has(id));
    if (!missing.length || heat.problem) return;
    try {
      const found = await api.heatmap(photo.file, photo.name, missing, model);
      heat.box = found.box;
      for (const map of found.maps) heat.maps.set(map.id, map.cells);
    } catch (error) {
      if (error.status === 400)
        heat.problem = error.message; // this network or method has none
      else if (!error.gone) console.info(error.message);
    }
  });
  await heat.waiting;
  return heat;
}

/** The cells of a class; less those of `against`. Null where they are not known (yet). */
export function cellsOf(photo, id, against = null) {
  const maps = photo.heat.get(state.bundle)?.maps;
  const cells = maps?.get(id);
  if (!cells || !against) return cells || null;
  const other = maps.get(against);
  return other ? cells.map((row, y) => row.map((cell, x) => cell - other[y][x])) : null;
}

/** Paint cells over a canvas that covers the photo; without cells it becomes clear. */
export function paint(canvas, photo, cells) {
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  if (!cells) return;
  const [left, top, right, bottom] = photo.heat.get(state.bundle).box;
  const { width, height } = canvas;
  pen.imageSmoothingQuality = "high";
  pen.drawImage(tinted(cells), left * width, top * height, (right - left) * width, (bottom - top) * height);
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
