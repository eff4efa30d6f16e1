// Photos in the browser: scaled down before they are sent, and cut to a part.

const SHORT_SIDE = 640; // pixels: more than any network here looks at
const SMALL = 250_000; // bytes that are sent as they are

async function decode(file) {
  return createImageBitmap(file, { imageOrientation: "from-image" });
}

async function draw(bitmap, [left, top, right, bottom], scale, quality = 0.92) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round((right - left) * scale));
  canvas.height = Math.max(1, Math.round((bottom - top) * scale));
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  pen.fillStyle = "white"; // below transparent pixels, as the server has it
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(bitmap, left, top, right - left, bottom - top, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("too large"))), "image/jpeg", quality),
  );
}

/** A smaller file of the same photo; the file itself where it is small, or in a format that this browser cannot read. */
export async function shrink(file) {
  if (file.size <= SMALL) return file;
  let bitmap;
  try {
    bitmap = await decode(file);
    const scale = Math.min(1, SHORT_SIDE / Math.min(bitmap.width, bitmap.height));
    const smaller = await draw(bitmap, [0, 0, bitmap.width, bitmap.height], scale);
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
  const part = await draw(bitmap, box, scale, 0.95);
  bitmap.close();
  return part;
}

/** What a video shows right now. */
export function frame(video) {
  const { videoWidth: width, videoHeight: height } = video;
  return draw(video, [0, 0, width, height], Math.min(1, 480 / Math.min(width, height)), 0.9);
}
