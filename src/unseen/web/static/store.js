// Photos and answers survive a reload: they are kept in this browser (IndexedDB), and nowhere else. Where the browser
// forbids that, the page works without.

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
    const asked = indexedDB.open("unseen", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("photos", { keyPath: "key" });
    return wish(asked);
  })();
  return opened.then((base) => base.transaction("photos", mode).objectStore("photos"));
}

const quietly = (work) => work().catch(() => null);

export function keep({ key, name, file, answer, token, selected, judged, order }) {
  const record = { key, name, file, answer, token, selected, judged, order };
  return quietly(async () => wish((await table("readwrite")).put(record)));
}

export const forget = (key) => quietly(async () => wish((await table("readwrite")).delete(key)));

/** Everything: even if the page is closed before the browser has deleted it, for the next visit then finishes. */
export const forgetAll = () =>
  quietly(async () => {
    localStorage.setItem(FORGETTING, "1");
    await wish((await table("readwrite")).clear());
    localStorage.removeItem(FORGETTING);
  });

/** What was kept, newest first; what is too old is deleted. */
export async function kept() {
  if (await quietly(async () => localStorage.getItem(FORGETTING))) await forgetAll();
  const all = (await quietly(async () => wish((await table("readonly")).getAll()))) || [];
  all.sort((a, b) => b.order - a.order);
  for (const old of all.splice(KEPT)) forget(old.key);
  return all;
}
