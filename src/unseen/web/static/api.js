// The server's API. Every function returns the JSON of the answer or throws an Error in words for a person.
// `error.gone`: the server cannot be reached; `error.status`: it answered, but not as wished.

const GONE = "The server does not answer. Your photos stay here; it will go on when the server is back.";
let lost = () => {};

/** Who is told when the server cannot be reached. */
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

/** Send a form; unlike fetch, this tells how much has been sent: `onprogress(0..1)`. */
function upload(path, form, onprogress, signal) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", path);
    sending.responseType = "json";
    sending.upload.addEventListener("progress", (event) => onprogress?.(event.loaded / Math.max(event.total, 1)));
    sending.addEventListener("load", () => {
      if (sending.status >= 200 && sending.status < 300) resolve(sending.response);
      else reject(problem(sending.status, sending.response || {}));
    });
    sending.addEventListener("error", () => reject(gone()));
    signal?.addEventListener("abort", () => {
      sending.abort();
      reject(new DOMException("Cancelled.", "AbortError"));
    });
    sending.send(form);
  });
}

function send(method, path, body, signal) {
  const headers = { "content-type": "application/json" };
  return request(path, { method, headers, body: JSON.stringify(body), signal });
}

const given = (fields) => Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);

const address = (path, fields) => `${path}?${new URLSearchParams(given(fields))}`;

export function classify(file, name, fields, { onprogress = null, signal = null } = {}) {
  const form = new FormData();
  form.append("files", file, name);
  for (const [field, value] of given(fields)) form.append(field, value);
  return upload("/api/classify", form, onprogress, signal);
}

export function heatmap(file, name, ids, bundle) {
  const form = new FormData();
  form.append("file", file, name);
  for (const id of ids) form.append("ids", id);
  form.append("bundle", bundle);
  return request("/api/heatmap", { method: "POST", body: form });
}

const one = (path, id, fields) => request(address(`${path}/${encodeURIComponent(id)}`, fields));

export const rank = (body) => send("POST", "/api/rank", body);
export const compare = (body) => send("POST", "/api/compare", body);
export const add = (body) => send("POST", "/api/add", body);
/** Where a class would stand on photos if it were added. */
export const tryOut = (body) => send("POST", "/api/try", body);
export const save = (body) => send("POST", "/api/save", body);
export const remove = (id, bundle) =>
  request(address(`/api/classes/${encodeURIComponent(id)}`, { bundle }), { method: "DELETE" });
export const teach = (body) => send("POST", "/api/teach", body);
export const unteach = (id, bundle) =>
  request(address(`/api/teach/${encodeURIComponent(id)}`, { bundle }), { method: "DELETE" });
export const search = (query, bundle, signal) =>
  request(address("/api/classes", { query, bundle, limit: 10 }), { signal });
export const suggest = (name, bundle, signal) => send("POST", "/api/suggest", { name, bundle }, signal);
export const topics = (bundle) => request(address("/api/topics", { bundle }));
export const details = (id, bundle) => one("/api/classes", id, { bundle });
export const explain = (id, bundle) => one("/api/explain", id, { bundle, n: 5 });
export const bundles = () => request("/api/bundles");
export const version = () => request("/api/version");
/** Whether the server is there; says nothing if not. */
export const alive = () =>
  fetch("/api/health", { signal: AbortSignal.timeout(4000) }).then(
    (response) => response.ok,
    () => false,
  );
