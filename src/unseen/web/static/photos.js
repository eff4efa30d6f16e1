// The photos on the page: sent, answered, ranked again, judged, kept in this browser.

import * as api from "./api.js";
import { announce, notify } from "./dom.js";
import { shrink } from "./pictures.js";
import { emit, goBack, info, on, ranking, settle, state } from "./state.js";
import * as store from "./store.js";
import { unreadable, verdictText } from "./words.js";

const RANKED = 50; // photos ranked in one request
const TOGETHER = 4; // photos sent at the same time; the server runs them through the network together

let counter = 0;

function makePhoto(file, name) {
  const order = Date.now() * 100 + (counter++ % 100);
  return {
    key: `photo-${order}`,
    order,
    name,
    file, // what is sent
    url: URL.createObjectURL(file),
    state: "waiting", // waiting, done, failed
    progress: null, // 0 to 1 while it is sent
    answer: null, // {verdict, guesses, labels, lit, calibrated}
    watched: [],
    selected: null, // id of the guess whose reasons are shown
    judged: null, // right or wrong, by the person
    before: null, // best guesses before the last class was added
    heat: new Map(), // model -> heat maps
  };
}

export async function addFiles(files, names = []) {
  const fresh = [...files].map((file, at) => makePhoto(file, names[at] || file.name || "pasted photo"));
  if (!fresh.length) return;
  state.photos = [...fresh.slice().reverse(), ...state.photos];
  state.current = fresh.at(-1);
  emit("photos");
  const queue = fresh.slice();
  const workers = Array.from({ length: Math.min(TOGETHER, queue.length) }, async () => {
    while (queue.length) await lookAt(queue.shift());
  });
  await Promise.all(workers);
}

async function lookAt(photo) {
  const controller = new AbortController();
  Object.assign(photo, { state: "waiting", error: null, progress: null, cancel: () => controller.abort() });
  emit("answers", photo);
  try {
    photo.file = await shrink(photo.file);
    const most = state.limits.file_bytes;
    if (photo.file.size > most)
      throw new Error(`This file is larger than ${Math.round(most / 1e6)} MB: make it smaller.`);
    const asked = ranking();
    const onprogress = (part) => {
      photo.progress = part;
      emit("progress", photo);
    };
    const found = await api.classify(photo.file, photo.name, asked, { onprogress, signal: controller.signal });
    state.classes = found.classes;
    take(photo, found.photos[0]);
    announce(
      `${photo.name}: ${verdictText(photo.answer.verdict)}. Best guess: ${photo.answer.guesses[0]?.title ?? "none"}`,
    );
    if (JSON.stringify(asked) !== JSON.stringify(ranking())) rerank();
    else settle();
  } catch (error) {
    photo.state = "failed";
    photo.lost = Boolean(error.gone);
    photo.again = photo.lost || error.name === "AbortError" || error.status >= 500;
    photo.error = error.name === "AbortError" ? "Cancelled." : unreadable(error.reasons?.[0]?.why || error.message);
    announce(`${photo.name}: ${photo.error}`);
  }
  photo.progress = photo.cancel = null;
  emit("answers", photo);
}

export const retry = lookAt;

function take(photo, { token, watched, verdict, guesses, labels, lit, calibrated }) {
  Object.assign(photo, { token, watched, state: "done", error: null });
  photo.answer = { verdict, guesses, labels, lit, calibrated };
  const ids = guesses.map((guess) => guess.id);
  if (!ids.includes(photo.selected)) photo.selected = ids[0] ?? null;
  store.keep(photo);
}

export function removePhoto(photo) {
  photo.cancel?.();
  const at = state.photos.indexOf(photo);
  state.photos = state.photos.filter((other) => other !== photo);
  if (state.current === photo) state.current = state.photos[Math.min(at, state.photos.length - 1)] || null;
  store.forget(photo.key);
  emit("photos");
  setTimeout(() => state.photos.includes(photo) || URL.revokeObjectURL(photo.url), 12_000); // until it cannot be undone
  const undo = () => {
    state.photos = [...state.photos.slice(0, at), photo, ...state.photos.slice(at)];
    state.current = photo;
    store.keep(photo);
    emit("photos");
  };
  notify(`${photo.name} was removed.`, ["Undo", undo]);
}

export function removeAll() {
  for (const photo of state.photos) photo.cancel?.();
  state.photos = [];
  state.current = null;
  store.forgetAll();
  emit("photos");
}

export function show(photo) {
  state.current = photo;
  emit("photos");
}

export function select(photo, id) {
  photo.selected = photo.selected === id ? null : id;
  store.keep(photo);
  emit("answers", photo);
}

/** The person says whether the verdict is right. */
export function judge(photo, judged) {
  photo.judged = photo.judged === judged ? null : judged;
  store.keep(photo);
  emit("answers", photo);
  emit("judged");
}

/** Photos and answers of the last visit. */
export async function restore() {
  const records = await store.kept();
  if (!records.length) return;
  state.photos = records.map((record) =>
    Object.assign(makePhoto(record.file, record.name), record, {
      state: record.answer ? "done" : "waiting",
    }),
  );
  state.current = state.photos[0];
  emit("photos");
  emit("judged");
  for (const photo of state.photos.filter((one) => !one.answer)) await lookAt(photo);
  rerank();
}

// -- ranking again -----------------------------------------------------------------------------------------------

let busy = null;
let again = false;

/** Ask for new answers to all photos. While one question is under way, only the last of the others is kept. */
export function rerank() {
  if (busy) {
    again = true;
    return busy;
  }
  busy = (async () => {
    try {
      do {
        again = false;
        await rerankOnce();
      } while (again);
    } catch (error) {
      goBack();
      if (!error.gone) notify(error.message);
    } finally {
      busy = null;
      emit("ranked");
    }
  })();
  return busy;
}

async function rerankOnce() {
  const photos = state.photos.filter((photo) => photo.token);
  const first = state.current?.answer?.verdict.id;
  for (let at = 0; at < photos.length && !again; at += RANKED) await rankSome(photos.slice(at, at + RANKED));
  if (again) return;
  if (state.current?.answer && state.current.answer.verdict.id !== first)
    announce(`Now: ${verdictText(state.current.answer.verdict)}`);
  settle();
}

async function rankSome(photos) {
  const watch = info()
    .added.slice(-5)
    .map((added) => added.id);
  let found;
  try {
    found = await api.rank({ tokens: photos.map((photo) => photo.token), watch, ...ranking() });
  } catch (error) {
    if (error.status !== 404) throw error;
    found = { photos: [], forgotten: photos.map((photo) => photo.token) };
  }
  if (found.classes) state.classes = found.classes;
  for (const photo of photos) {
    const answer = found.photos.find((one) => one.token === photo.token);
    if (answer) {
      take(photo, answer);
      emit("answers", photo);
    } else if (found.forgotten.includes(photo.token)) {
      await lookAt(photo); // a restarted server, or too many photos since: the file is still here
    }
  }
}

on("asked", rerank);

// The server is back: what was lost is sent again.
on("back", async () => {
  for (const photo of state.photos.filter((one) => one.lost && one.state === "failed")) await lookAt(photo);
  rerank();
});
