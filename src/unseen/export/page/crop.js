// Photo -> what the network sees: the short side to `resize` pixels, then the middle. Antialiased as Pillow does it, to
// the same bytes but for rounding, since a canvas scales in other ways and probabilities would differ.

const BAND = 128; // rows of the photo that are read at a time: a large photo never lies in memory as a whole

const sinc = (x) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

/** @type {Record<string, [number, (x: number) => number]>} how far each reaches, and its weight at a distance */
const FILTERS = {
  bilinear: [1, (x) => Math.max(0, 1 - Math.abs(x))],
  bicubic: [
    2,
    (x) => {
      const d = Math.abs(x);
      return d < 1 ? (1.5 * d - 2.5) * d * d + 1 : d < 2 ? ((-0.5 * d + 2.5) * d - 4) * d + 2 : 0;
    },
  ],
  lanczos: [3, (x) => (Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0)],
};

const toEven = (x) => Math.round(x) - (x % 1 === 0.5 && Math.round(x) % 2 ? 1 : 0);

/** The part of the photo that is seen: left, top, right, bottom. */
export function boxOf(width, height, { size, resize, squash }) {
  const wide = squash || width <= height ? resize : Math.trunc((resize * width) / height);
  const high = squash || width > height ? resize : Math.trunc((resize * height) / width);
  const [x, y] = [width / wide, height / high];
  const [left, top] = [toEven((wide - size) / 2), toEven((high - size) / 2)];
  return [left * x, top * y, Math.min((left + size) * x, width), Math.min((top + size) * y, height)];
}

/** For each of `size` pixels: the first pixel of the photo that it is made of, and the weights from there on. */
export function weightsOf(from, to, length, size, interpolation) {
  const start = Math.fround(from);
  const scale = Math.fround(Math.fround(to) - start) / size;
  return Array.from({ length: size }, (_, at) => {
    const centre = start + (at + 0.5) * scale;
    if (interpolation === "nearest") return { first: Math.min(Math.floor(centre), length - 1), weights: [1] };
    const [reach, filter] = FILTERS[interpolation];
    const wide = Math.max(scale, 1);
    const first = Math.max(0, Math.trunc(centre - reach * wide + 0.5));
    const end = Math.min(length, Math.trunc(centre + reach * wide + 0.5));
    const raw = Array.from({ length: end - first }, (__, x) => filter((x + first - centre + 0.5) / wide));
    const sum = raw.reduce((a, b) => a + b, 0);
    return { first, weights: raw.map((weight) => weight / sum) };
  });
}

const endOf = (pixels) => pixels.at(-1).first + pixels.at(-1).weights.length;

/**
 * `read(x, y, width, height)` gives the photo's bytes there, RGBA. Returns size x size x 3 bytes: all red ones first.
 */
export function crop(width, height, transform, read) {
  const { size, interpolation } = transform;
  const [left, top, right, bottom] = boxOf(width, height, transform);
  const across = weightsOf(left, right, width, size, interpolation);
  const down = weightsOf(top, bottom, height, size, interpolation);
  const [x0, y0, wide, high] = [across[0].first, down[0].first, endOf(across) - across[0].first, endOf(down)];
  const narrow = new Uint8ClampedArray((high - y0) * size * 3); // clamped and rounded between the passes, as there
  for (let y = y0; y < high; y += BAND) {
    const rows = Math.min(BAND, high - y);
    const bytes = read(x0, y, wide, rows);
    for (let row = 0; row < rows; row++)
      across.forEach(({ first, weights }, at) => {
        let [red, green, blue] = [0.5, 0.5, 0.5];
        let place = 4 * (row * wide + first - x0);
        for (const weight of weights) {
          red += weight * bytes[place];
          green += weight * bytes[place + 1];
          blue += weight * bytes[place + 2];
          place += 4;
        }
        narrow.set([Math.floor(red), Math.floor(green), Math.floor(blue)], 3 * ((y - y0 + row) * size + at));
      });
  }
  const seen = new Uint8ClampedArray(3 * size * size);
  down.forEach(({ first, weights }, row) => {
    for (let at = 0; at < 3 * size; at++) {
      let sum = 0.5;
      for (let step = 0; step < weights.length; step++) sum += weights[step] * narrow[(first - y0 + step) * size * 3 + at];
      seen[(at % 3) * size * size + row * size + Math.trunc(at / 3)] = Math.floor(sum);
    }
  });
  return seen;
}
