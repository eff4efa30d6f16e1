// Photos in the browser: scaled down before they are sent, cut to a part, with patches erased.

const SHORT_SIDE = 640; // pixels: more than any network here looks at
const SMALL = 250_000; // bytes that are sent as they are

const decode = (file) => createImageBitmap(file, { imageOrientation: "from-image" });

const encode = (canvas, type, quality) =>
  new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("too large"))), type, quality),
  );

/** @type {(bitmap: any, box: number[], scale: number) => HTMLCanvasElement} */
const draw = (bitmap, [left, top, right, bottom], scale) => {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round((right - left) * scale));
  canvas.height = Math.max(1, Math.round((bottom - top) * scale));
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  pen.fillStyle = "white"; // below transparent pixels, as the server has it
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(bitmap, left, top, right - left, bottom - top, 0, 0, canvas.width, canvas.height);
  return canvas;
};

/** A smaller file of the same photo; the file itself where it is small, or in a format that this browser cannot read. */
export async function shrink(file) {
  if (file.size <= SMALL) return file;
  let bitmap;
  try {
    bitmap = await decode(file);
    const scale = Math.min(1, SHORT_SIDE / Math.min(bitmap.width, bitmap.height));
    const smaller = await encode(draw(bitmap, [0, 0, bitmap.width, bitmap.height], scale), "image/jpeg", 0.92);
    return smaller.size < file.size ? smaller : file;
  } catch {
    return file;
  } finally {
    bitmap?.close();
  }
}

/** The part of a photo within a box (left, top, right, bottom; each 0 to 1), as a photo of its own. */
export async function cut(file, [left, top, right, bottom]) {
  const bitmap = await decode(file);
  const { width, height } = bitmap;
  const box = [left * width, top * height, right * width, bottom * height];
  const scale = Math.min(1, SHORT_SIDE / Math.min(box[2] - box[0], box[3] - box[1]));
  const part = await encode(draw(bitmap, box, scale), "image/jpeg", 0.95);
  bitmap.close();
  return part;
}

/** The photo with its mean colour in these boxes. */
export async function erase(file, boxes) {
  const bitmap = await decode(file);
  const { width, height } = bitmap;
  const canvas = draw(bitmap, [0, 0, width, height], Math.min(1, SHORT_SIDE / Math.min(width, height)));
  bitmap.close();
  const pen = canvas.getContext("2d");
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  const sum = [0, 0, 0];
  for (let at = 0; at < data.length; at += 4) for (let i = 0; i < 3; i += 1) sum[i] += data[at + i];
  pen.fillStyle = `rgb(${sum.map((one) => Math.round((4 * one) / data.length)).join(" ")})`;
  for (const [left, top, right, bottom] of boxes)
    pen.fillRect(left * canvas.width, top * canvas.height, (right - left) * canvas.width, (bottom - top) * canvas.height);
  return encode(canvas, "image/jpeg", 0.95);
}

/** What a video shows right now. */
export function frame(video) {
  const { videoWidth: width, videoHeight: height } = video;
  return encode(draw(video, [0, 0, width, height], Math.min(1, 480 / Math.min(width, height))), "image/jpeg", 0.9);
}
