// What the page knows, and the settings that change it. Whoever changes something calls `emit`; the page is then drawn.

import * as api from "./api.js";
import { namesOf } from "./words.js";

const LABELS = 5;
export const SURENESS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99];
const PLAIN = { candidates: { kind: "any", hops: 2, branch: null, list: "" }, sure: 0.9, balance: 0 };

export const state = {
  bundles: [],
  bundle: null, // name of the model that answers
  readOnly: false,
  run: null, // of the server
  local: true, // whether the server runs on this computer
  samples: [],
  limits: { file_bytes: 20e6, files: 32 },
  ...structuredClone(PLAIN), // candidates.branch: {id, name}; balance: -1 favours what was trained on, +1 the rest
  classes: null, // how many candidates there are
  listed: [], // what the names of the list mean
  problem: null, // why the list cannot be answered for
  photos: [], // newest first
  current: null, // the photo that is shown large
  gone: false, // whether the server cannot be reached
  view: "recognise",
  id: null, // of the class that is explored
  game: { you: 0, network: 0 },
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

export const info = () => state.bundles.find((bundle) => bundle.name === state.bundle);

export function candidatesText({ kind, hops, branch } = state.candidates) {
  if (kind === "hops") return `hops:${hops}`;
  if (kind === "branch") return branch ? `subtree:${branch.id}` : "any";
  return kind === "list" ? "any" : kind;
}

/** The names that are all there is, or "". */
export const among = () => (state.candidates.kind === "list" ? namesOf(state.candidates.list).join(", ") : "");

/** Favouring only matters where classes of both sorts compete. */
export const competes = () => ["any", "branch", "list"].includes(state.candidates.kind);

/** What an answer comes from: reasons are asked for with the same, and again once another answer is there. */
export function knowledge() {
  const { added, taught } = info();
  const learned = [added.map(({ id }) => id), taught.map(({ id, photos }) => [id, photos])];
  return { run: state.run, bundle: state.bundle, among: among(), learned };
}

/** What a question to the server says of the settings. */
export function ranking() {
  const shift = competes() && state.balance !== 0 ? state.balance * info().reach : null;
  const { sure, bundle } = state;
  return { k: LABELS, candidates: candidatesText(), sure, seen_shift: shift, bundle, among: among() };
}

function takeBundles({ bundles, read_only, run }) {
  Object.assign(state, { bundles, readOnly: read_only, run });
  if (!info()) state.bundle = bundles[0].name;
  emit("bundles");
}

/** What is really there: added and taught classes are gone after a restart of the server. */
export const loadBundles = async () => takeBundles(await api.bundles());

export async function loadStart() {
  const answer = await api.start();
  Object.assign(state, { limits: answer.limits, local: answer.local, samples: answer.samples, version: answer.unseen });
  takeBundles(answer);
  return answer;
}

// -- settings ----------------------------------------------------------------------------------------------------

const settings = () =>
  structuredClone((({ candidates, sure, balance, bundle }) => ({ candidates, sure, balance, bundle }))(state));
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

// -- the address: ?among=unseen&sure=0.8&model=mine, so that a page can be passed on ---------------------------------

export function addressOf() {
  const { kind, hops, branch, list } = state.candidates;
  const among = { any: null, hops: `hops:${hops}`, branch: branch && `branch:${branch.id}`, list: "list" };
  const fields = {
    among: kind in among ? among[kind] : kind,
    list: kind === "list" ? namesOf(list).join(",") : null,
    sure: state.sure === PLAIN.sure ? null : state.sure,
    favour: state.balance || null,
    model: state.bundle === state.bundles[0]?.name ? null : state.bundle,
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
  const sure = Number(fields.get("sure"));
  const favour = Number(fields.get("favour"));
  const chosen = structuredClone(PLAIN);
  if (sure > 0 && sure < 1) chosen.sure = sure;
  if (favour >= -1 && favour <= 1) chosen.balance = favour;
  const model = fields.get("model");
  const bundle = state.bundles.some((one) => one.name === model) ? model : state.bundles[0].name;
  const [kind, value] = (fields.get("among") || "any").split(/:(.*)/);
  Object.assign(chosen.candidates, { list: (fields.get("list") ?? before.candidates.list).replaceAll(",", "\n") });
  if (["unseen", "seen", "list"].includes(kind)) chosen.candidates.kind = kind;
  else if (kind === "hops" && Number(value) >= 1 && Number(value) <= 6)
    Object.assign(chosen.candidates, { kind, hops: Number(value) });
  else if (kind === "branch" && value) {
    const branch = await api.details(value, bundle).catch(() => null);
    if (branch) Object.assign(chosen.candidates, { kind, branch: { id: branch.id, name: branch.name } });
  }
  Object.assign(state, chosen, { bundle });
  writeAddress();
  emit("settings");
  return !same(before, settings());
}
