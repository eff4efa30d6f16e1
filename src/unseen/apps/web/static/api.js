// The server's API. Every function returns the JSON of the answer or throws an Error in words for a person.
// `error.gone`: the server cannot be reached; `error.status`: it answered, but not as wished.

const GONE = "The server does not answer. Your photos stay here; it will go on when the server is back.";
let lost = () => {};

/** Who hears of it when the server cannot be reached. */
export function onLost(listener) {
  lost = listener;
}

function gone() {
  lost();
  return Object.assign(new Error(GONE), { gone: true });
}

function problem(status, body) {
  const text = body.error || `The server could not do this (it answered ${status}).`;
  return Object.assign(new Error(text), { status, reasons: body.unreadable });
}

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw gone();
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  throw problem(response.status, body);
}

function send(method, path, body) {
  const headers = { "content-type": "application/json" };
  return request(path, { method, headers, body: JSON.stringify(body) });
}

const given = (fields) => Object.entries(fields).filter(([, value]) => ![null, undefined, ""].includes(value));

const address = (path, fields) => `${path}?${new URLSearchParams(given(fields))}`;
const at = (path, id) => `${path}/${encodeURIComponent(id)}`;

/** The answer to one photo; `fields` as in `ranking()`. */
export function classify(file, name, fields, signal = null) {
  const form = new FormData();
  form.append("files", file, name);
  for (const [field, value] of given(fields)) form.append(field, value);
  return request("/api/classify", { method: "POST", body: form, signal });
}

export function heatmap(file, name, ids, among) {
  const form = new FormData();
  form.append("file", file, name);
  for (const id of ids) form.append("ids", id);
  if (among) form.append("among", among);
  return request("/api/heatmap", { method: "POST", body: form });
}

export const rank = (body) => send("POST", "/api/rank", body);
export const add = (body) => send("POST", "/api/add", body);
/** Where a class would stand on photos if it were added. */
export const tryOut = (body) => send("POST", "/api/try", body);
export const save = (body) => send("POST", "/api/save", body);
export const remove = (id) => request(at("/api/classes", id), { method: "DELETE" });
export const teach = (body) => send("POST", "/api/teach", body);
export const unteach = (id) => request(at("/api/teach", id), { method: "DELETE" });
export const search = (query, signal) => request(address("/api/classes", { query, limit: 10 }), { signal });
export const suggest = (name) => send("POST", "/api/suggest", { name });
export const topics = () => request("/api/topics");
export const details = (id) => request(at("/api/classes", id));
export const explain = (id, among) => send("POST", "/api/explain", { id, among });
export const map = () => request("/api/map");
export const mapPlaces = (start, count) => request(address("/api/map/places", { start, count }));
export const bundle = () => request("/api/bundle");
/** All that the page needs to begin. */
export const start = () => request("/api/start");
/** Whether the server is there; says nothing if not. */
export const alive = () =>
  fetch("/api/health", { signal: AbortSignal.timeout(4000) }).then((response) => response.ok, () => false);
