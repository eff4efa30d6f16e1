// What the page knows, and the settings that change it. Views listen; they never change each other.

import * as api from "./api.js";

const LABELS = 5;
export const SURENESS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99];
const PLAIN = { candidates: { kind: "any", hops: 2, branch: null }, sure: 0.9, balance: 0 };

export const state = {
  bundles: [],
  bundle: null, // name of the model that answers
  readOnly: false,
  limits: { file_bytes: 20e6, files: 32 },
  ...structuredClone(PLAIN), // candidates.branch: {id, name}; balance: -1 favours what was trained on, +1 the rest
  classes: null, // how many candidates there are
  photos: [], // newest first
  current: null, // the photo that is shown large
  gone: false, // whether the server cannot be reached
};

const listeners = new Map();

export function on(event, listener) {
  listeners.set(event, [...(listeners.get(event) || []), listener]);
}

export function emit(event, ...details) {
  for (const listener of listeners.get(event) || []) listener(...details);
}

export const info = () => state.bundles.find((bundle) => bundle.name === state.bundle);

export function candidatesText({ kind, hops, branch } = state.candidates) {
  if (kind === "hops") return `hops:${hops}`;
  if (kind === "branch") return branch ? `subtree:${branch.id}` : "any";
  return kind;
}

/** Favouring only matters where classes of both sorts compete. */
export const competes = () => ["any", "branch"].includes(state.candidates.kind);

/** What a question to the server says of the settings. */
export function ranking() {
  const shift = competes() && state.balance !== 0 ? state.balance * info().reach : null;
  return { k: LABELS, candidates: candidatesText(), sure: state.sure, seen_shift: shift, bundle: state.bundle };
}

export async function loadBundles() {
  const answer = await api.bundles();
  state.bundles = answer.bundles;
  state.readOnly = answer.read_only;
  if (!info()) state.bundle = state.bundles[0].name;
  emit("bundles");
}

// -- settings ----------------------------------------------------------------------------------------------------

const settings = () =>
  structuredClone((({ candidates, sure, balance, bundle }) => ({ candidates, sure, balance, bundle }))(state));
let answered = null; // the settings that the answers on the page are for

export function choose(change) {
  Object.assign(state, change);
  writeAddress();
  emit("settings");
  emit("asked");
}

/** The answers on the page are for the settings as they are. */
export function settle() {
  answered = settings();
}

/** Back to the settings that the answers on the page are for. */
export function goBack() {
  if (!answered || JSON.stringify(answered) === JSON.stringify(settings())) return;
  Object.assign(state, structuredClone(answered));
  writeAddress();
  emit("settings");
}

// -- the address: ?among=unseen&sure=0.8&model=mine, so that a page can be passed on ---------------------------------

function writeAddress() {
  const { kind, hops, branch } = state.candidates;
  const among = { any: null, hops: `hops:${hops}`, branch: branch && `branch:${branch.id}` };
  const fields = {
    among: kind in among ? among[kind] : kind,
    sure: state.sure === PLAIN.sure ? null : state.sure,
    favour: state.balance || null,
    model: state.bundle === state.bundles[0]?.name ? null : state.bundle,
  };
  const query = new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== null)).toString();
  history.replaceState(null, "", `${location.pathname}${query && `?${query}`}${location.hash}`);
}

/** Settings from the address; what makes no sense there is left out. */
export async function readAddress() {
  const fields = new URLSearchParams(location.search);
  const sure = Number(fields.get("sure"));
  if (sure > 0 && sure < 1) state.sure = sure;
  const favour = Number(fields.get("favour"));
  if (favour >= -1 && favour <= 1) state.balance = favour;
  if (state.bundles.some((bundle) => bundle.name === fields.get("model"))) state.bundle = fields.get("model");
  const [kind, value] = (fields.get("among") || "any").split(/:(.*)/);
  if (["unseen", "seen"].includes(kind)) state.candidates.kind = kind;
  else if (kind === "hops" && Number(value) >= 1 && Number(value) <= 6)
    Object.assign(state.candidates, { kind, hops: Number(value) });
  else if (kind === "branch" && value) {
    const found = await api.details(value, state.bundle).catch(() => null);
    if (found) Object.assign(state.candidates, { kind, branch: { id: found.id, name: found.name } });
  }
  writeAddress();
  emit("settings");
}
