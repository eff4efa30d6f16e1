// Beside the page, so that it never freezes: fetches the model once, then looks at one photo after the other.

import { answer, prepare } from "./answer.js";
import { crop } from "./crop.js";
import * as ort from "./ort.wasm.min.mjs";

const fetched = async (name) => {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name} is missing on the server (${response.status}).`);
  return response;
};

/** A file's bytes; `onprogress` hears how many came. */
async function download(name, size, onprogress) {
  const bytes = new Uint8Array(size);
  const reader = (await fetched(name)).body.getReader();
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length > size) throw new Error(`${name} is not the file of this page: export it again.`);
    bytes.set(value, at);
    at += value.length;
    onprogress(value.length);
  }
  if (at < size) throw new Error(`${name} is cut short: load the page again.`);
  return bytes;
}

async function load() {
  const known = prepare(await (await fetched("classes.json")).json());
  const all = Object.values(known.sizes).reduce((a, b) => a + b, 0);
  let came = 0;
  const onprogress = (more) => {
    const before = Math.floor((100 * came) / all);
    came += more;
    if (Math.floor((100 * came) / all) > before) postMessage({ progress: came / all });
  };
  const get = (name) => download(name, known.sizes[name], onprogress);
  const names = Object.keys(known.sizes).filter((name) => /\.(onnx|wasm)$/.test(name));
  const [model, wasm] = await Promise.all(names.map(get));
  ort.env.wasm.wasmBinary = wasm;
  ort.env.wasm.numThreads = 1; // more need headers that a plain server does not send
  const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
  postMessage({ ready: known.classes.length });
  return { known, session };
}

/** A picture's bytes on white, without its colour profile and upright, as `unseen` reads photos. */
async function see(file, transform) {
  let picture;
  try {
    picture = await createImageBitmap(file, { colorSpaceConversion: "none", imageOrientation: "from-image" });
  } catch {
    throw new Error("This file is not a picture that this browser can read. Try a JPEG or PNG.");
  }
  const read = (x, y, width, height) => {
    const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    context.fillStyle = "#fff";
    context.fillRect(0, 0, width, height);
    context.drawImage(picture, -x, -y);
    return context.getImageData(0, 0, width, height).data;
  };
  try {
    return crop(picture.width, picture.height, transform, read);
  } finally {
    picture.close();
  }
}

async function look(file, { known, session }) {
  const begin = performance.now();
  const { size } = known.transform;
  const pixels = new Float32Array(known.batch * 3 * size * size);
  pixels.set(await see(file, known.transform));
  const photo = new ort.Tensor("float32", pixels, [known.batch, 3, size, size]);
  const { probabilities } = await session.run({ photo }, ["probabilities"]);
  const found = answer(known, probabilities.data.subarray(0, known.classes.length));
  return { ...found, seconds: (performance.now() - begin) / 1000 };
}

const loading = load();
loading.catch((error) => postMessage({ broken: error.message }));

let line = Promise.resolve();
globalThis.onmessage = ({ data: { key, file } }) => {
  line = line.then(async () => {
    try {
      postMessage({ key, answer: await look(file, await loading) });
    } catch (error) {
      postMessage({ key, error: error.message });
    }
  });
};
