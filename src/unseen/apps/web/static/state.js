// What the page knows, and the settings that change it. Whoever changes something calls `emit`; the page is then drawn.

import * as api from "./api.js";
import { namesOf } from "./words.js";

const LABELS = 5;
export const CONFIDENCES = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99];
const PLAIN = { candidates: { kind: "any", hops: 2, branch: null, list: "" }, confidence: 0.9 };

export const state = {
  bundle: null, // what the server says of the model that answers
  readOnly: false,
  run: null, // of the server
  local: true, // whether the server runs on this computer
  samples: [],
  limits: { file_bytes: 20e6, files: 32 },
  ...structuredClone(PLAIN), // candidates.branch: {id, name}
  classes: null, // how many candidates there are
  listed: [], // what the names of the list mean
  problem: null, // why the list cannot be answered for
  photos: [], // newest first
  current: null, // the photo that is shown large
  gone: false, // whether the server cannot be reached
  view: "recognise",
  id: null, // of the class that is explored
  version: "",
  camera: null, // what the live camera sends, while it is on
};

const listeners = new Map();

export function on(event, listener) {
  listeners.set(event, [...(listeners.get(event) || []), listener]);
}

/** Something has changed; listeners of "changed" hear of everything. */
export function emit(event, ...details) {
  for (const name of [event, "changed"]) for (const listener of listeners.get(name) || []) listener(...details);
}

export function candidatesText({ kind, hops, branch } = state.candidates) {
  if (kind === "hops") return `hops:${hops}`;
  if (kind === "branch") return branch ? `subtree:${branch.id}` : "any";
  return kind === "list" ? "any" : kind;
}

/** The names that are all there is, or "". */
export const among = () => (state.candidates.kind === "list" ? namesOf(state.candidates.list).join(", ") : "");

/** What an answer comes from: reasons are asked for with the same, and again once another answer is there. */
export function knowledge() {
  const { added, taught } = state.bundle;
  const learned = [added.map(({ id }) => id), taught.map(({ id, photos }) => [id, photos])];
  return { run: state.run, among: among(), learned };
}

/** What a question to the server says of the settings. */
export const ranking = () => ({ k: LABELS, candidates: candidatesText(), confidence: state.confidence, among: among() });

function takeBundle({ bundle, read_only, run }) {
  Object.assign(state, { bundle, readOnly: read_only, run });
  emit("bundle");
}

/** What is really there: added and taught classes are gone after a restart of the server. */
export const loadBundle = async () => takeBundle(await api.bundle());

export async function loadStart() {
  const answer = await api.start();
  Object.assign(state, { limits: answer.limits, local: answer.local, samples: answer.samples, version: answer.unseen });
  takeBundle(answer);
  return answer;
}

// -- settings ----------------------------------------------------------------------------------------------------

const settings = () => structuredClone((({ candidates, confidence }) => ({ candidates, confidence }))(state));
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
let answered = null; // the settings that the answers on the page are for

/** Change settings. What may be an answer is a step that the Back button undoes; a slider is not. */
export function choose(change) {
  const step = "candidates" in change && candidatesText(change.candidates) !== candidatesText();
  Object.assign(state, change);
  writeAddress(step);
  emit("settings");
  emit("asked");
}

/** The answers on the page are for the settings as they are. */
export function settle() {
  answered = settings();
}

/** Back to the settings that the answers on the page are for. */
export function goBack() {
  if (!answered || same(answered, settings())) return;
  Object.assign(state, structuredClone(answered));
  writeAddress();
  emit("settings");
}

// -- the address: ?among=unseen&confidence=0.8, so that a page can be passed on ---------------------------------

function addressOf() {
  const { kind, hops, branch, list } = state.candidates;
  const among = { any: null, hops: `hops:${hops}`, branch: branch && `branch:${branch.id}`, list: "list" };
  const fields = {
    among: kind in among ? among[kind] : kind,
    list: kind === "list" ? namesOf(list).join(",") : null,
    confidence: state.confidence === PLAIN.confidence ? null : state.confidence,
  };
  const query = new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== null)).toString();
  return `${location.pathname}${query && `?${query}`}`;
}

function writeAddress(step = false) {
  const address = addressOf() + location.hash;
  if (address === location.pathname + location.search + location.hash) return;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/** Settings from the address; what makes no sense there is left out. Returns whether they have changed. */
export async function readAddress() {
  const before = settings();
  const fields = new URLSearchParams(location.search);
  const confidence = Number(fields.get("confidence"));
  const chosen = structuredClone(PLAIN);
  if (confidence > 0 && confidence < 1) chosen.confidence = confidence;
  const [kind, value] = (fields.get("among") || "any").split(/:(.*)/);
  Object.assign(chosen.candidates, { list: (fields.get("list") ?? before.candidates.list).replaceAll(",", "\n") });
  if (["unseen", "seen", "list"].includes(kind)) chosen.candidates.kind = kind;
  else if (kind === "hops" && Number(value) >= 1 && Number(value) <= 6)
    Object.assign(chosen.candidates, { kind, hops: Number(value) });
  else if (kind === "branch" && value) {
    const branch = await api.details(value).catch(() => null);
    if (branch) Object.assign(chosen.candidates, { kind, branch: { id: branch.id, name: branch.name } });
  }
  Object.assign(state, chosen);
  writeAddress();
  emit("settings");
  return !same(before, settings());
}
