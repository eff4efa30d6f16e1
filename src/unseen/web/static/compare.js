// The network alone and every bundle side by side, for one photo.

import * as api from "./api.js";
import { showAnswers } from "./answers.js";
import { el, number } from "./dom.js";
import { candidatesText, emit, on, state } from "./state.js";

let place;
let shown = false;
let asked = 0;

export function startCompare() {
  const view = document.getElementById("view-compare");
  place = el("div");
  view.replaceChildren(
    el(
      "div",
      { class: "view-head" },
      el("h1", { id: "compare-title" }, "Compare"),
      el("p", { class: "soft" }, "What the network says by itself, and what each bundle makes of the same photo."),
    ),
    place,
  );
  on("view", (view) => {
    shown = view === "compare";
    if (shown) draw();
  });
  for (const event of ["photos", "settings", "bundles", "ranked"]) on(event, () => shown && draw());
  on("answers", (photo) => shown && photo === state.current && draw());
}

async function draw() {
  const ready = state.photos.filter((photo) => photo.token);
  const photo = ready.includes(state.current) ? state.current : ready[0];
  if (!photo) {
    place.replaceChildren(
      el("p", { class: "empty" }, state.photos.length ? "Looking …" : "Choose a photo or a sample first."),
    );
    return;
  }
  const turn = ++asked;
  let answer;
  try {
    answer = await api.compare({ token: photo.token, candidates: candidatesText(), k: 5 });
  } catch (error) {
    place.replaceChildren(el("p", { class: "problem" }, error.message));
    return;
  }
  if (turn !== asked) return; // a newer question is under way
  const columns = answer.columns.map(column);
  const hint =
    state.bundles.length < 2 &&
    el(
      "p",
      { class: "soft hint" },
      "Serve more bundles to see them here: ",
      el("code", {}, "unseen serve BUNDLE BUNDLE …"),
    );
  place.replaceChildren(strip(ready, photo), el("div", { class: "columns" }, columns), hint || "");
}

function strip(photos, current) {
  const thumbs = photos.map((photo) =>
    el(
      "button",
      {
        type: "button",
        class: "thumb",
        "aria-pressed": photo === current,
        "aria-label": `Compare ${photo.name}`,
        onclick: () => pick(photo),
      },
      el("img", { src: photo.url, alt: "" }),
    ),
  );
  const big = el("img", { class: "compared", src: current.url, alt: `Your photo ${current.name}` });
  const choice = photos.length > 1 && el("div", { class: "thumbs", role: "group", "aria-label": "Photos" }, thumbs);
  return el("div", { class: "compare-photo" }, big, choice);
}

function pick(photo) {
  state.current = photo;
  emit("ranked");
}

function column(answer) {
  const list = el("ol", { class: "answers" });
  showAnswers(list, answer);
  const alone = answer.bundle === "network";
  const known = state.bundles.find((bundle) => bundle.name === answer.bundle);
  const text = alone
    ? `${answer.title}; only knows what it was trained on`
    : `${answer.method}, ${known ? number(known.classes) : ""} classes`;
  const box = el(
    "section",
    { class: `column${alone ? " alone" : ""}`, "aria-label": answer.title, "data-bundle": answer.bundle },
    el("h2", {}, alone ? "Network alone" : answer.title),
    el("p", { class: "soft" }, text),
    list,
  );
  // The same class lights up in every column.
  list.addEventListener("mouseover", (event) => light(event.target.closest("li")?.dataset.id));
  list.addEventListener("mouseleave", () => light(null));
  return box;
}

function light(id) {
  for (const row of place.querySelectorAll(".answer")) row.classList.toggle("lit", row.dataset.id === id);
}
