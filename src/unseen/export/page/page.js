// The page: photos come in, answers are shown. The work is done in worker.js; nothing is sent anywhere.

import { Answers, Verdict } from "./answers.js";
import { announce, html } from "./ui.js";
import { render } from "./vendor/preact.js";
import { count, shown, verdictText } from "./words.js";

const at = (id) => document.getElementById(id);
const say = (content) => render(content, at("answer"));

// A worker from a blob works under the page's policy: it can reach no other host either. One from a file would not.
const start = `import ${JSON.stringify(new URL("worker.js", import.meta.url).href)};`;
const worker = new Worker(URL.createObjectURL(new Blob([start], { type: "text/javascript" })), { type: "module" });

let current = null; // {key, url, name}: the photo that is shown
let ready = false;
let broken = null; // why there will be no answers

worker.onerror = () => stop("The page could not be started here: it needs a recent browser.");
worker.onmessage = ({ data }) => {
  if (data.progress !== undefined) at("loading").textContent = `Loading the model, ${Math.round(100 * data.progress)} %`;
  if (data.ready) {
    ready = true;
    at("loading").textContent = `It knows ${count(data.ready, "kind")} of things. While this page is open, it needs no network.`;
    document.body.dataset.ready = "true";
    if (current) wait();
  }
  if (data.broken) stop(data.broken);
  if (data.key === undefined || data.key !== current?.key) return;
  if (data.error) fail(data.error);
  else show(data.answer);
};

function stop(why) {
  worker.terminate();
  broken = why;
  at("loading").textContent = why;
  at("loading").className = "problem";
  if (current) fail(why);
}

function fail(why) {
  at("card").setAttribute("aria-busy", "false");
  say(html`<p class="problem">${why}</p>`);
  announce(why);
}

function wait() {
  say(html`<p class="waiting"><span class="spinner" aria-hidden="true"></span>${ready ? "Looking …" : "Waiting for the model …"}</p>`);
}

function take(files) {
  const file = [...files].find((one) => one.type.startsWith("image/")) ?? files[0];
  if (!file) return;
  if (current) URL.revokeObjectURL(current.url);
  const name = file.name || "pasted photo";
  current = { key: (current?.key ?? 0) + 1, url: URL.createObjectURL(file), name };
  Object.assign(at("photo"), { src: current.url, alt: `Your photo ${shown(name)}`, hidden: false });
  at("name").textContent = shown(name);
  at("card").hidden = false;
  at("card").setAttribute("aria-busy", "true");
  at("greeting").className = "only-read";
  at("main").classList.add("has-photos");
  if (broken) return fail(broken);
  wait();
  worker.postMessage({ key: current.key, file });
}

function show({ verdict, guesses, calibrated, seconds }) {
  at("card").setAttribute("aria-busy", "false");
  const rows = guesses.map((guess) => ({ ...guess, id: guess.title, say: guess.title }));
  say(html`
    <${Verdict} answer=${{ verdict, guesses: rows, calibrated }} />
    <${Answers} guesses=${rows} label="Best guesses" />
    <p class="soft took" data-seconds=${seconds}>Named on this device in ${seconds.toFixed(seconds < 1 ? 2 : 1)} s.</p>
  `);
  announce(`${current.name}: ${verdictText(verdict)}. Best guess: ${rows[0]?.title ?? "none"}`);
}

at("photo").addEventListener("error", () => (at("photo").hidden = true)); // the answer says why
for (const input of document.querySelectorAll("input"))
  input.addEventListener("change", () => {
    take(input.files);
    input.value = "";
  });
addEventListener("paste", (event) => take(event.clipboardData?.files ?? []));
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("dragenter", () => (at("drop-veil").hidden = false));
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) at("drop-veil").hidden = true; // it left the window
});
addEventListener("drop", (event) => {
  event.preventDefault();
  at("drop-veil").hidden = true;
  take(event.dataTransfer.files);
});
