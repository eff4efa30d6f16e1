// The network alone and every model side by side, for one photo.

import * as api from "./api.js";
import { showAnswers } from "./answers.js";
import { el, redraw } from "./dom.js";
import { show } from "./photos.js";
import { candidatesText, on, state } from "./state.js";
import { modelName, number, verdictText } from "./words.js";

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
      el("p", { class: "soft" }, "What the network says by itself, and what it can say with the hierarchy's help."),
    ),
    place,
  );
  on("view", (view) => {
    shown = view === "compare";
    if (shown) draw();
  });
  for (const event of ["photos", "settings", "bundles", "ranked", "back"]) on(event, () => shown && draw());
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
    if (turn === asked) place.replaceChildren(el("p", { class: "problem" }, error.message));
    return;
  }
  if (turn !== asked) return; // a newer question is under way
  const hint =
    state.bundles.length < 2 &&
    el(
      "p",
      { class: "soft hint" },
      "Start the server with several models to see them here: ",
      el("code", {}, "unseen serve ONE ANOTHER"),
    );
  redraw(place, strip(ready, photo), el("div", { class: "columns" }, answer.columns.map(column)), hint);
}

function strip(photos, current) {
  const thumbs = photos.map((photo) =>
    el(
      "button",
      {
        type: "button",
        class: "thumb",
        "data-focus": photo.key,
        "aria-pressed": photo === current,
        "aria-label": `Compare ${photo.name}`,
        onclick: () => show(photo),
      },
      el("img", { src: photo.url, alt: "" }),
    ),
  );
  const big = el("img", { class: "compared", src: current.url, alt: `Your photo ${current.name}` });
  const choice = photos.length > 1 && el("div", { class: "thumbs", role: "group", "aria-label": "Photos" }, thumbs);
  return el("div", { class: "compare-photo" }, big, choice);
}

function column(answer) {
  const list = el("ol", { class: "answers" });
  showAnswers(list, answer.guesses ?? answer.labels);
  const alone = answer.bundle === "network";
  const model = state.bundles.find((bundle) => bundle.name === answer.bundle);
  const text = alone
    ? "only knows what it was trained on"
    : `names ${model ? number(model.classes) : "many"} kinds of things`;
  const title = alone ? "Network alone" : modelName(answer.title);
  const box = el(
    "section",
    { class: `column${alone ? " alone" : ""}`, "aria-label": title, "data-bundle": answer.bundle },
    el("h2", {}, title),
    el("p", { class: "soft" }, text),
    answer.verdict && el("p", { class: "column-verdict" }, verdictText(answer.verdict)),
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
