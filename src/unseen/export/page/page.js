// The page: photos come in, answers are shown. The work is done in worker.js; nothing is sent anywhere.

import { articleOf, count, percent, shown, verdictText } from "./words.js";

const at = (id) => document.getElementById(id);

/** An element with attributes and children; texts are only ever set as texts. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter(Boolean).map((child) => (typeof child === "string" ? shown(child) : child)));
  return made;
}

// A worker from a blob works under the page's policy: it can reach no other host either. One from a file would not.
const start = `import ${JSON.stringify(new URL("worker.js", import.meta.url).href)};`;
const worker = new Worker(URL.createObjectURL(new Blob([start], { type: "text/javascript" })), { type: "module" });

let current = null; // {key, url, name}: the photo that is shown
let ready = false;
let broken = null; // why there will be no answers

const tell = (text) => (at("status").textContent = shown(text));

const say = (...children) => at("answer").replaceChildren(...children.filter(Boolean));

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
  say(element("p", { class: "problem" }, why));
  tell(why);
}

function wait() {
  const words = ready ? "Looking …" : "Waiting for the model …";
  say(element("p", { class: "waiting" }, element("span", { class: "spinner", "aria-hidden": "true" }), words));
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
  const best = guesses[0];
  const unknown = verdict.id === null;
  const heading = unknown
    ? element("h2", {}, "I don't know what this is.")
    : element(
        "h2",
        {},
        element("span", { class: "hedge" }, `${verdict.hedge}: `),
        articleOf(verdict),
        element("b", {}, verdict.say),
        element("span", { class: "soft" }, ` (${percent(verdict.probability)})`),
      );
  const better =
    best &&
    best.title !== verdict.say &&
    element(
      "p",
      { class: "best" },
      unknown ? "If I had to guess: " : "Best guess: ",
      element("b", {}, best.title),
      best.probability < 0.3 ? ", but it may well be another." : ".",
    );
  const rough = !calibrated && element("p", { class: "soft rough" }, "How sure it is, is only a rough figure for this model.");
  const rows = guesses.map(({ title, probability, training, mark }) => {
    const fill = element("span", { class: `bar-fill ${mark}` });
    fill.style.width = `${100 * probability}%`;
    return element(
      "li",
      { class: "answer answer-plain" },
      element(
        "span",
        { class: "answer-body" },
        element("span", { class: "answer-line" }, element("b", { class: "name" }, title), element("span", { class: "share" }, percent(probability))),
        element("span", { class: "track", "aria-hidden": "true" }, fill),
        element("span", { class: `mark mark-${mark}` }, element("span", { class: "glyph", "aria-hidden": "true" }), training),
      ),
    );
  });
  const level = unknown ? "unknown" : "known";
  say(
    element("div", { class: `verdict verdict-${level}` }, heading, better, rough),
    element("ol", { class: "answers", "aria-label": "Best guesses" }, ...rows),
    element("p", { class: "soft took", "data-seconds": String(seconds) }, `Named on this device in ${seconds.toFixed(seconds < 1 ? 2 : 1)} s.`),
  );
  tell(`${current.name}: ${verdictText(verdict)}. Best guess: ${best?.title ?? "none"}`);
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
