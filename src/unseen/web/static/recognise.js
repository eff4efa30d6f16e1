// One card a photo: the photo, its answers, and the reasons for the one that is chosen.

import { showAnswers } from "./answers.js";
import { el, icon } from "./dom.js";
import { emit, on, removePhoto, state } from "./state.js";
import { showWhy } from "./why.js";

const narrow = window.matchMedia("(max-width: 800px)"); // the photo would be below the fold
const cards = new Map(); // key of the photo -> its card

export function startRecognise() {
  const place = document.getElementById("cards");
  on("photos", () => {
    for (const [key, card] of cards) {
      if (!state.photos.some((photo) => photo.key === key)) {
        card.remove();
        cards.delete(key);
      }
    }
    for (const photo of [...state.photos].reverse()) {
      if (cards.has(photo.key)) continue;
      cards.set(photo.key, makeCard(photo));
      place.prepend(cards.get(photo.key));
    }
    if (narrow.matches && state.photos[0]?.state === "waiting")
      cards.get(state.photos[0].key).scrollIntoView({ behavior: "smooth" });
  });
  on("answers", drawCard);
}

function makeCard(photo) {
  const image = el("img", { src: photo.url, alt: `Your photo ${photo.name}`, class: "photo" });
  image.addEventListener("error", () =>
    image.replaceWith(el("div", { class: "photo photo-hidden" }, icon("photo"), el("span", {}, "No preview"))),
  );
  const gone = el(
    "button",
    {
      type: "button",
      class: "icon-button remove",
      "aria-label": `Remove ${photo.name}`,
      onclick: () => removePhoto(photo),
    },
    icon("close"),
  );
  return el(
    "article",
    { class: "card", id: photo.key, "aria-label": photo.name, "aria-busy": "true" },
    el("figure", { class: "photo-frame" }, image, el("figcaption", {}, photo.name), gone),
    el(
      "div",
      { class: "answers-side" },
      el("div", { class: "waiting" }, el("span", { class: "spinner", "aria-hidden": "true" }), "Looking …"),
      el("ol", { class: "answers" }),
    ),
    el("section", { class: "why", id: `why-${photo.key}`, "aria-label": "Why", hidden: true }),
  );
}

function drawCard(photo) {
  const card = cards.get(photo.key);
  if (!card) return;
  card.setAttribute("aria-busy", "false");
  card.querySelector(".waiting")?.remove();
  const side = card.querySelector(".answers-side");
  if (photo.state === "failed") {
    card.classList.add("failed");
    side.replaceChildren(el("p", { class: "problem" }, photo.error));
    return;
  }
  // The newest photo explains its best answer unasked: one sees at once that there are reasons.
  if (photo.selected === null && photo.fresh !== false && photo === state.photos[0])
    photo.selected = photo.labels[0]?.id ?? null;
  photo.fresh = false;
  const why = card.querySelector(".why");
  showAnswers(card.querySelector(".answers"), photo, {
    selected: photo.selected,
    controls: why.id,
    onpick: (id) => {
      photo.selected = photo.selected === id ? null : id;
      emit("answers", photo);
    },
  });
  why.hidden = photo.selected === null;
  if (photo.selected !== null) showWhy(why, photo.selected);
}
