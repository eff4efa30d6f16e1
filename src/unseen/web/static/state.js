// What the page knows, and the few things that change it. Views listen; they never change each other.

import * as api from "./api.js";
import { announce, notify } from "./dom.js";

const LABELS = 5;
const RANKED = 50; // photos ranked in one request
const TOGETHER = 4; // photos sent at the same time; the server runs them through the network together

export const state = {
  bundles: [],
  bundle: null, // name of the one that answers
  readOnly: false,
  limits: { file_bytes: 20e6, files: 32 },
  candidates: { kind: "any", hops: 2, branch: null }, // branch: {id, name}
  balance: 0, // -1 favours seen classes, +1 unseen ones
  classes: null, // how many candidates there are
  photos: [], // newest first
  current: null, // the photo that is compared
};

const listeners = new Map();

export function on(event, listener) {
  listeners.set(event, [...(listeners.get(event) || []), listener]);
}

export function emit(event, ...details) {
  for (const listener of listeners.get(event) || []) listener(...details);
}

export const info = () => state.bundles.find((bundle) => bundle.name === state.bundle);

export function candidatesText() {
  const { kind, hops, branch } = state.candidates;
  if (kind === "hops") return `hops:${hops}`;
  if (kind === "branch") return branch ? `subtree:${branch.id}` : "any";
  return kind;
}

/** The slider only matters where seen and unseen classes compete. */
export const competes = () => ["any", "branch"].includes(state.candidates.kind);

function ranking() {
  const shift = competes() ? state.balance * info().reach : 0;
  return { k: LABELS, candidates: candidatesText(), seen_shift: shift, bundle: state.bundle };
}

export async function loadBundles() {
  const answer = await api.bundles();
  state.bundles = answer.bundles;
  state.readOnly = answer.read_only;
  if (!info()) state.bundle = state.bundles[0].name;
  emit("bundles");
}

// -- photos ------------------------------------------------------------------------------------------------------

let counter = 0;

export async function addFiles(files) {
  const fresh = [...files].map((file) => ({
    key: `photo-${++counter}`,
    file,
    name: file.name || "pasted photo",
    url: URL.createObjectURL(file),
    state: "waiting",
    labels: [],
    watched: [],
    selected: null,
  }));
  if (!fresh.length) return;
  state.photos = [...fresh.slice().reverse(), ...state.photos];
  state.current = fresh[fresh.length - 1];
  emit("photos");
  const queue = fresh.slice();
  const workers = Array.from({ length: Math.min(TOGETHER, queue.length) }, async () => {
    while (queue.length) await lookAt(queue.shift());
  });
  await Promise.all(workers);
}

async function lookAt(photo) {
  const most = state.limits.file_bytes;
  const asked = ranking();
  try {
    if (photo.file.size > most) throw new Error(`is larger than ${Math.round(most / 1e6)} MB: make it smaller.`);
    const answer = await api.classify(photo.file, asked);
    state.classes = answer.classes;
    take(photo, answer.photos[0]);
    photo.state = "done";
    announce(`${photo.name}: ${photo.labels.map((label) => `${label.name}, ${label.mark}`).join("; ")}`);
    if (JSON.stringify(asked) !== JSON.stringify(ranking())) rerank();
  } catch (error) {
    photo.state = "failed";
    const why = error.reasons?.[0]?.why || error.message;
    photo.error = /^(is|has|cannot) /.test(why) ? `This file ${why}` : why;
    announce(`${photo.name}: ${photo.error}`);
  }
  emit("answers", photo);
}

function take(photo, answer) {
  photo.token = answer.token;
  photo.labels = answer.labels;
  photo.crowd = answer.crowd;
  photo.watched = answer.watched;
  if (!photo.labels.some((label) => label.id === photo.selected)) {
    photo.selected = photo.selected && photo.labels.length ? photo.labels[0].id : null;
  }
}

export function removePhoto(photo) {
  URL.revokeObjectURL(photo.url);
  state.photos = state.photos.filter((other) => other !== photo);
  if (state.current === photo) state.current = state.photos[0] || null;
  emit("photos");
}

let busy = false;
let again = false;

/** Ask for new answers to all photos. While one question is under way, only the last of the others is kept. */
export async function rerank() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  try {
    do {
      again = false;
      await rerankOnce();
    } while (again);
  } catch (error) {
    notify(error.message);
  } finally {
    busy = false;
  }
}

async function rerankOnce() {
  const photos = state.photos.filter((photo) => photo.token);
  if (!photos.length) return emit("ranked");
  const before = photos[0].labels[0]?.id;
  for (let at = 0; at < photos.length && !again; at += RANKED) await rankSome(photos.slice(at, at + RANKED));
  if (photos[0].labels[0] && photos[0].labels[0].id !== before)
    announce(`Best answer now: ${photos[0].labels[0].name}`);
  emit("ranked");
}

async function rankSome(photos) {
  const watch = info()
    .added.slice(-5)
    .map((added) => added.id);
  let answer;
  try {
    answer = await api.rank({ tokens: photos.map((photo) => photo.token), watch, ...ranking() });
  } catch (error) {
    if (error.status !== 404) throw error;
    answer = { photos: [], forgotten: photos.map((photo) => photo.token) };
  }
  if (answer.classes) state.classes = answer.classes;
  for (const photo of photos) {
    const found = answer.photos.find((one) => one.token === photo.token);
    if (found) {
      take(photo, found);
      emit("answers", photo);
    } else if (answer.forgotten.includes(photo.token)) {
      await lookAt(photo); // a restarted server, or too many photos since: the file is still here
    }
  }
}

// -- settings ----------------------------------------------------------------------------------------------------

export function choose(change) {
  Object.assign(state, change);
  emit("settings");
  rerank();
}
