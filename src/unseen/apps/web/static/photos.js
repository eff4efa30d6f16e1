// The photos on the page: sent, answered, ranked again, judged; kept in this browser (IndexedDB) and nowhere else.

import * as api from "./api.js";
import { erase, shrink } from "./pictures.js";
import { emit, goBack, knowledge, loadBundle, on, ranking, settle, state } from "./state.js";
import { announce, focusOn, notify } from "./ui.js";
import { unreadable, verdictText } from "./words.js";

const RANKED = 50; // photos ranked in one request
const TOGETHER = 4; // photos sent at the same time; the server runs them through the network together
const UNDO = 12_000; // milliseconds in which something can be undone

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
    answer: null, // {verdict, guesses, nodes, calibrated, from}
    watched: [],
    selected: null, // id of the guess whose reasons are shown
    judged: null, // right or wrong, by the person
    before: null, // best guesses before the last class was added
    erased: null, // {boxes, url, answer}: without patches of it
    heat: new Map(), // model and list -> heat maps
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

const isDrawing = (file) => file.type === "image/svg+xml" || /\.svgz?$/i.test(file.name ?? "");

async function lookAt(photo) {
  const controller = new AbortController();
  Object.assign(photo, { state: "waiting", error: null, cancel: () => controller.abort() });
  emit("answers", photo);
  try {
    if (isDrawing(photo.file)) {
      photo.unseeable = true; // a browser would show it: that would look as if it could be read
      throw new Error("This file is a drawing (SVG), not a photo. Save it as a PNG or JPEG first.");
    }
    photo.file = await shrink(photo.file);
    const most = state.limits.file_bytes;
    if (photo.file.size > most)
      throw new Error(`This file is larger than ${Math.round(most / 1e6)} MB: make it smaller.`);
    const asked = ranking();
    const answer = await api.classify(photo.file, photo.name, asked, controller.signal);
    heard(answer);
    take(photo, answer.photos[0]);
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
  photo.cancel = null;
  emit("answers", photo);
}

export const retry = lookAt;

function heard({ classes, listed }) {
  Object.assign(state, { classes, listed, problem: null });
}

/** The server's answer as the page shows it: words beside the verdict, marks beside the guesses. */
export function forPage({ verdict, hedge, text, guesses, about, nodes, calibrated }) {
  const marked = guesses.map((guess) => ({ ...about[guess.id], ...guess }));
  return { verdict: { ...verdict, hedge, text }, guesses: marked, nodes, calibrated, from: knowledge() };
}

function take(photo, answer) {
  const { token, watched } = answer;
  Object.assign(photo, { token, watched, state: "done", error: null, erased: null, answer: forPage(answer) });
  const { guesses } = photo.answer;
  if (!guesses.some((guess) => guess.id === photo.selected)) photo.selected = null;
  store(photo);
}

/** Take photos off the page and out of the browser; for a while that can be undone. */
function remove(gone, words, focus) {
  const { photos, current } = state;
  const at = photos.indexOf(current);
  for (const photo of gone) photo.cancel?.();
  state.photos = photos.filter((photo) => !gone.includes(photo));
  if (gone.includes(current)) state.current = state.photos[Math.min(at, state.photos.length - 1)] ?? null;
  emit("photos");
  focusOn(state.current ? ".card .remove" : "#pick");
  setTimeout(() => gone.forEach((photo) => state.photos.includes(photo) || URL.revokeObjectURL(photo.url)), UNDO);
  const undo = () => {
    state.photos = [...state.photos, ...gone].sort((a, b) => b.order - a.order);
    gone.forEach(store);
    show(current);
    focusOn(focus);
  };
  notify(words, ["Undo", undo]);
}

export function removePhoto(photo) {
  forget(photo.key);
  remove([photo], `${photo.name} was removed.`, ".card .remove");
}

export function removeAll() {
  forgetAll();
  const { length } = state.photos;
  remove(state.photos, `${length === 1 ? "1 photo was" : `${length} photos were`} forgotten.`, "#forget");
}

/** Show a photo large. */
export function show(photo) {
  state.current = photo;
  emit("photos");
}

/** The photo before or after this one, in the order of the small ones. */
export function neighbour(step) {
  const { photos, current } = state;
  return photos.length < 2 ? null : photos[(photos.indexOf(current) + step + photos.length) % photos.length];
}

export function select(photo, id) {
  photo.selected = photo.selected === id ? null : id;
  store(photo);
  emit("answers", photo);
}

/** The person says whether the verdict is right. */
export function judge(photo, judged) {
  photo.judged = photo.judged === judged ? null : judged;
  store(photo);
  emit("answers", photo);
}

/** Ask again without a patch of the photo; null puts everything back. */
export async function askWithout(photo, box) {
  if (photo.erased) URL.revokeObjectURL(photo.erased.url);
  if (!box) {
    photo.erased = null;
    return emit("answers", photo);
  }
  const boxes = [...(photo.erased?.boxes ?? []), box];
  const file = await erase(photo.file, boxes);
  const watch = photo.answer.guesses.map((guess) => guess.id);
  photo.erased = { boxes, url: URL.createObjectURL(file), answer: null, chances: null };
  emit("answers", photo);
  const { token } = (await api.classify(file, photo.name, ranking())).photos[0];
  const answer = (await api.rank({ tokens: [token], watch, ...ranking() })).photos[0];
  if (photo.erased?.boxes !== boxes) return;
  photo.erased.chances = new Map(answer.watched.map((one) => [one.id, one.probability]));
  photo.erased.answer = forPage(answer);
  announce(`Without it: ${verdictText(photo.erased.answer.verdict)}`);
  emit("answers", photo);
}

/** Photos and answers of the last visit. */
export async function restore() {
  const records = await stored();
  if (!records.length) return;
  state.photos = records.map((record) =>
    Object.assign(makePhoto(record.file, record.name), record, { state: record.answer ? "done" : "waiting" }),
  );
  state.current = state.photos[0];
  emit("photos");
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
      if (state.candidates.kind === "list" && !error.gone)
        state.problem = error.message; // said below the list, which is being written
      else {
        goBack();
        if (!error.gone) notify(error.message);
      }
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
  const watch = state.bundle.added.slice(-5).map((added) => added.id);
  const tokens = photos.map((photo) => photo.token);
  let answer;
  try {
    answer = await api.rank({ tokens, watch, ...ranking() });
  } catch (error) {
    if (error.status !== 404) throw error;
    await loadBundle(); // a restarted server: what it was taught is gone, too
    answer = { photos: [], forgotten: tokens };
  }
  if (answer.classes) heard(answer);
  for (const photo of photos) {
    const one = answer.photos.find((other) => other.token === photo.token);
    if (one) {
      take(photo, one);
      emit("answers", photo);
    } else if (answer.forgotten.includes(photo.token)) {
      await lookAt(photo); // a restarted server, or too many photos since: the file is still here
    }
  }
}

on("asked", rerank);

// The server is back: perhaps another run of it. What was lost is sent again.
on("back", async () => {
  await loadBundle().catch(() => {});
  for (const photo of state.photos.filter((one) => one.lost && one.state === "failed")) await lookAt(photo);
  rerank();
});

// -- they survive a reload; where the browser forbids that, the page works without ------------------------------------

const KEPT = 60;
const FORGETTING = "unseen-forgetting";

const wish = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

let opened;
function table(mode) {
  opened ||= (async () => {
    const asked = indexedDB.open("unseen", 3);
    asked.onupgradeneeded = () => {
      if (asked.result.objectStoreNames.contains("photos")) asked.result.deleteObjectStore("photos");
      asked.result.createObjectStore("photos", { keyPath: "key" });
    };
    return wish(asked);
  })();
  return opened.then((base) => base.transaction("photos", mode).objectStore("photos"));
}

const quietly = (work) => work().catch(() => null);

function store({ key, name, file, answer, token, selected, judged, order }) {
  const record = { key, name, file, answer, token, selected, judged, order };
  return quietly(async () => wish((await table("readwrite")).put(record)));
}

const forget = (key) => quietly(async () => wish((await table("readwrite")).delete(key)));

/** Everything: even if the page is closed before the browser has deleted it, for the next visit then finishes. */
const forgetAll = () =>
  quietly(async () => {
    localStorage.setItem(FORGETTING, "1");
    await wish((await table("readwrite")).clear());
    localStorage.removeItem(FORGETTING);
  });

/** What was kept, newest first; what is too old is deleted. */
async function stored() {
  if (await quietly(async () => localStorage.getItem(FORGETTING))) await forgetAll();
  const all = (await quietly(async () => wish((await table("readonly")).getAll()))) || [];
  all.sort((a, b) => b.order - a.order);
  for (const old of all.splice(KEPT)) forget(old.key);
  return all;
}
