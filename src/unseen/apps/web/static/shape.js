// The shape of the map: classes stand in a row, and the row is bent into a plane so that neighbours stay neighbours.
// Whatever is below a node of the hierarchy is one stretch of the row, and so one region of the plane.

/** Columns and rows of a grid with room for `count` cells, about `aspect` times as wide as high. */
export function gridFor(count, aspect = 1.3) {
  const even = (value) => Math.max(2, 2 * Math.ceil(value / 2));
  const about = even(Math.sqrt((count * aspect) / 1.15)); // rows of hexagons lie closer than columns
  const grids = [];
  for (let columns = even(0.98 * about); columns <= even(1.15 * about); columns += 2)
    grids.push([columns, even(count / columns)]);
  const empty = ([columns, rows]) => columns * rows - count;
  return grids.reduce((best, grid) => (empty(grid) < empty(best) ? grid : best));
}

/**
 * A walk over every cell of a grid, from each to one beside it: a Hilbert curve for any rectangle. The rectangle at
 * `origin` is spanned by two vectors; the walk begins at its corner and ends at the end of the first.
 * @returns {Int32Array} x, y, x, y, ...
 */
export function walk(columns, rows) {
  const path = new Int32Array(2 * columns * rows);
  let at = 0;
  const sign = Math.sign;
  /** @type {(x: number, y: number, a: number[], b: number[]) => void} */
  const fill = (x, y, [ax, ay], [bx, by]) => {
    const long = Math.abs(ax + ay);
    const wide = Math.abs(bx + by);
    const a = [sign(ax), sign(ay)]; // a step along each
    const b = [sign(bx), sign(by)];
    if (wide === 1 || long === 1) {
      const step = wide === 1 ? a : b;
      for (let i = 0; i < Math.max(long, wide); i += 1) {
        path[at++] = x + i * step[0];
        path[at++] = y + i * step[1];
      }
      return;
    }
    let half = Math.floor(long / 2);
    let part = Math.floor(wide / 2);
    if (2 * long > 3 * wide) {
      if (half % 2 && long > 2) half += 1; // an even part can be crossed and left where the next begins
      fill(x, y, [half * a[0], half * a[1]], [bx, by]);
      fill(x + half * a[0], y + half * a[1], [ax - half * a[0], ay - half * a[1]], [bx, by]);
      return;
    }
    if (part % 2 && wide > 2) part += 1;
    const up = [part * b[0], part * b[1]];
    fill(x, y, up, [half * a[0], half * a[1]]); // up, along, and down again
    fill(x + up[0], y + up[1], [ax, ay], [bx - up[0], by - up[1]]);
    fill(x + ax - a[0] + up[0] - b[0], y + ay - a[1] + up[1] - b[1], [-up[0], -up[1]], [half * a[0] - ax, half * a[1] - ay]);
  };
  if (columns >= rows) fill(0, 0, [columns, 0], [0, rows]);
  else fill(0, 0, [0, rows], [columns, 0]);
  return path;
}

const CORNERS = Array.from({ length: 6 }, (_, at) => {
  const angle = (Math.PI / 180) * (60 * at - 30);
  return [Math.cos(angle) / Math.sqrt(3), Math.sin(angle) / Math.sqrt(3)];
});
// The neighbour behind the edge that begins at each corner, in even and in odd rows: right, then clockwise.
const BESIDE = [
  [[1, 0], [0, 1], [-1, 1], [-1, 0], [-1, -1], [0, -1]],
  [[1, 0], [1, 1], [0, 1], [-1, 0], [0, -1], [1, -1]],
]; // prettier-ignore

/** The map of `count` classes: a hexagon each, in a plane that is 2 wide and has its middle at 0, 0. */
export function makeShape(count) {
  const [columns, rows] = gridFor(count);
  const path = walk(columns, rows);
  const places = new Int32Array(columns * rows).fill(-1); // cell -> place in the row
  for (let place = 0; place < count; place += 1) places[path[2 * place + 1] * columns + path[2 * place]] = place;
  const high = ((rows - 1) * Math.sqrt(3)) / 2 + 1;
  const aspect = high / (columns + 0.5);

  /** From the grid to the plane: its corners are rounded, and its borders wave a little, as coasts do. */
  function bend(x, y) {
    const s = (2 * (x + 0.5)) / (columns + 0.5) - 1;
    const t = (2 * (y + 0.5)) / high - 1;
    const u = s * Math.sqrt(1 - 0.42 * t * t) + 0.011 * Math.sin(7 * t + 2 * s);
    const v = t * Math.sqrt(1 - 0.42 * s * s) + 0.014 * Math.sin(6 * s - 2 * t);
    return [u, v * aspect];
  }
  const flat = (place) => {
    const [x, y] = [path[2 * place], path[2 * place + 1]];
    return [x + (y % 2) / 2, (y * Math.sqrt(3)) / 2];
  };
  const centres = new Float32Array(2 * count);
  for (let place = 0; place < count; place += 1) centres.set(bend(...flat(place)), 2 * place);

  /** The six corners of a place's hexagon: x, y, x, y, ... */
  const corners = new Float32Array(12 * count);
  for (let place = 0; place < count; place += 1) {
    const [x, y] = flat(place);
    CORNERS.forEach(([dx, dy], at) => corners.set(bend(x + dx, y + dy), 12 * place + 2 * at));
  }

  /** The places around a place, -1 where there is none, in the order of its edges. */
  function around(place) {
    const [x, y] = [path[2 * place], path[2 * place + 1]];
    return BESIDE[y % 2].map(([dx, dy]) => {
      const [column, row] = [x + dx, y + dy];
      return column < 0 || row < 0 || column >= columns || row >= rows ? -1 : places[row * columns + column];
    });
  }

  /** The border of a stretch, as edges: x, y, x, y for each. */
  function border([start, size]) {
    const edges = [];
    for (let place = start; place < start + size; place += 1)
      around(place).forEach((other, at) => {
        if (other >= start && other < start + size) return;
        const [a, b] = [12 * place + 2 * at, 12 * place + 2 * ((at + 1) % 6)];
        edges.push(corners[a], corners[a + 1], corners[b], corners[b + 1]);
      });
    return edges;
  }

  /** The place of a stretch that is nearest to its middle. */
  function middle([start, size]) {
    let [x, y] = [0, 0];
    for (let place = start; place < start + size; place += 1) {
      x += centres[2 * place] / size;
      y += centres[2 * place + 1] / size;
    }
    let best = start;
    let least = Infinity;
    for (let place = start; place < start + size; place += 1) {
      const far = (centres[2 * place] - x) ** 2 + (centres[2 * place + 1] - y) ** 2;
      if (far < least) [best, least] = [place, far];
    }
    return best;
  }

  /** [left, top, right, bottom] of a stretch. */
  function box([start, size]) {
    const edges = [Infinity, Infinity, -Infinity, -Infinity];
    for (let at = 2 * start; at < 2 * (start + size); at += 2) {
      edges[0] = Math.min(edges[0], centres[at]);
      edges[1] = Math.min(edges[1], centres[at + 1]);
      edges[2] = Math.max(edges[2], centres[at]);
      edges[3] = Math.max(edges[3], centres[at + 1]);
    }
    return edges;
  }

  const buckets = new Map(); // places by coarse cells of the plane, to find who lies at a point
  const coarse = 2 / Math.max(8, Math.sqrt(count) / 2);
  const key = (x, y) => `${Math.floor(x / coarse)} ${Math.floor(y / coarse)}`;
  for (let place = 0; place < count; place += 1) {
    const name = key(centres[2 * place], centres[2 * place + 1]);
    buckets.set(name, [...(buckets.get(name) || []), place]);
  }

  /** The place at a point of the plane, -1 outside. */
  function placeAt(x, y) {
    let [best, least] = [-1, (2.2 / columns) ** 2];
    for (const dx of [-coarse, 0, coarse])
      for (const dy of [-coarse, 0, coarse])
        for (const place of buckets.get(key(x + dx, y + dy)) || []) {
          const far = (centres[2 * place] - x) ** 2 + (centres[2 * place + 1] - y) ** 2;
          if (far < least) [best, least] = [place, far];
        }
    return best;
  }
  return { count, columns, rows, aspect, cell: 2 / columns, centres, corners, around, border, middle, box, placeAt };
}

/** How bright each place is for a photo: by the smallest lit region that it lies in, its probability and its smallness. */
export function lightOf(lit, count) {
  const light = new Float32Array(count);
  const regions = lit.filter(({ at: [, size] }) => size > 0 && size < 0.6 * count);
  for (const { at, probability } of regions.sort((a, b) => b.at[1] - a.at[1])) {
    const telling = 1 - Math.log(at[1]) / Math.log(Math.max(2, count));
    light.fill(probability * telling ** 0.8, at[0], at[0] + at[1]);
  }
  return light;
}
