// The server's API. Every function returns the JSON of the answer or throws an Error with the server's own words.

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is `unseen serve` still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const problem = new Error(body.error || `The server answered ${response.status}.`);
  problem.status = response.status;
  problem.reasons = body.unreadable;
  throw problem;
}

function send(method, path, body) {
  return request(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

function address(path, fields) {
  const known = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  return `${path}?${new URLSearchParams(known)}`;
}

export function classify(file, fields) {
  const form = new FormData();
  form.append("files", file, file.name || "photo");
  for (const [name, value] of Object.entries(fields))
    if (value !== null && value !== undefined) form.append(name, value);
  return request("/api/classify", { method: "POST", body: form });
}

export const rank = (body) => send("POST", "/api/rank", body);
export const compare = (body) => send("POST", "/api/compare", body);
export const add = (body) => send("POST", "/api/add", body);
export const save = (body) => send("POST", "/api/save", body);
export const remove = (id, bundle) =>
  request(address(`/api/classes/${encodeURIComponent(id)}`, { bundle }), { method: "DELETE" });
export const search = (query, bundle, signal) =>
  request(address("/api/classes", { query, bundle, limit: 10 }), { signal });
export const details = (id, bundle) => request(address(`/api/classes/${encodeURIComponent(id)}`, { bundle }));
export const explain = (id, bundle) => request(address(`/api/explain/${encodeURIComponent(id)}`, { bundle, n: 5 }));
export const bundles = () => request("/api/bundles");
export const version = () => request("/api/version");
