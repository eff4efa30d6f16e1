// One photo large, with its verdict, its guesses and the reasons; all others as a grid of small ones.

import { showAnswers } from "./answers.js";
import { el, icon, redraw } from "./dom.js";
import { cellsOf, heatOf, paint } from "./heat.js";
import { partChooser } from "./parts.js";
import { judge, removePhoto, retry, select, show } from "./photos.js";
import { on, state } from "./state.js";
import { sunburst } from "./sunburst.js";
import { teachFold } from "./teach.js";
import { fadingWay, verdictWords } from "./verdict.js";
import { showWhy } from "./why.js";
import { verdictText } from "./words.js";

const narrow = window.matchMedia("(max-width: 800px)"); // the answers would be below the fold
let card = null; // of state.current: {photo, root, canvas, side, why}

export function startRecognise() {
  const place = document.getElementById("cards");
  const tiles = document.getElementById("tiles");
  on("photos", () => {
    if (card?.photo !== state.current) {
      card = state.current && makeCard(state.current);
      place.replaceChildren(...(card ? [card.root] : []));
      if (card) drawCard();
      if (card && (narrow.matches || card.root.getBoundingClientRect().top < 64))
        card.root.scrollIntoView({ block: "start" });
    }
    drawTiles(tiles);
  });
  on("answers", (photo) => {
    if (photo === card?.photo) drawCard();
    drawTiles(tiles);
  });
  on("progress", (photo) => photo === card?.photo && drawProgress());
  on("bundles", () => card?.photo.answer && drawCard());
}

function makeCard(photo) {
  const canvas = el("canvas", { class: "heat", width: "448", height: "448", "aria-hidden": "true" });
  const image = el("img", { src: photo.url, alt: `Your photo ${photo.name}`, class: "photo", draggable: "false" });
  const stage = el("div", { class: "photo-stage" }, image, canvas);
  const chooser = partChooser(stage, photo);
  image.addEventListener("error", () => {
    stage.replaceChildren(el("div", { class: "photo photo-hidden" }, icon("photo"), el("span", {}, "No preview")));
    chooser.hidden = true;
  });
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
  const side = el("div", { class: "answers-side" });
  const burst = el("div", { class: "burst-place" });
  const why = el("section", { class: "why", id: `why-${photo.key}`, "aria-label": "Why", hidden: true });
  const root = el(
    "article",
    { class: "card", id: photo.key, "aria-label": photo.name, "aria-busy": "true" },
    el(
      "figure",
      { class: "photo-frame" },
      stage,
      el("figcaption", {}, el("span", {}, photo.name), chooser),
      gone,
      burst,
    ),
    side,
    why,
  );
  return { photo, root, canvas, side, why, burst, teach: teachFold(photo) };
}

function drawCard() {
  const { photo, root, side, why } = card;
  root.setAttribute("aria-busy", photo.state === "waiting");
  root.classList.toggle("failed", photo.state === "failed");
  why.hidden = photo.state !== "done" || photo.selected === null;
  if (photo.state === "waiting") return drawProgress();
  if (photo.state === "failed") {
    const again = () => retry(photo);
    redraw(
      side,
      el("p", { class: "problem" }, photo.error),
      photo.again && el("button", { type: "button", class: "button", "data-focus": "retry", onclick: again }, "Retry"),
    );
    return;
  }
  let list = side.querySelector(".answers");
  if (!list) {
    list = el("ol", { class: "answers", "aria-label": "Best guesses" });
    side.replaceChildren(el("div", { class: "verdict-place" }), list, el("div", { class: "judge-place" }), card.teach);
  }
  redraw(side.querySelector(".verdict-place"), verdictWords(photo.answer), fadingWay(photo.answer));
  showAnswers(list, photo.answer.guesses, {
    selected: photo.selected,
    controls: why.id,
    onpick: (id) => select(photo, id),
    onlook: (id) => look(photo, id),
  });
  redraw(side.querySelector(".judge-place"), judging(photo));
  card.teach.hidden = state.readOnly;
  card.burst.replaceChildren(sunburst(photo.answer, 300));
  if (photo.selected !== null) showWhy(why, photo);
}

function drawProgress() {
  const { photo, side } = card;
  const part = photo.progress;
  const words = part === null ? "Getting ready …" : part < 1 ? `Sending, ${Math.round(100 * part)} %` : "Looking …";
  redraw(
    side,
    el(
      "div",
      { class: "waiting" },
      el("span", { class: "spinner", "aria-hidden": "true" }),
      words,
      photo.cancel &&
        el("button", { type: "button", class: "quiet", "data-focus": "cancel", onclick: photo.cancel }, "Cancel"),
    ),
  );
}

/** The heat map of what the pointer is on, over the photo. */
async function look(photo, id) {
  const { canvas } = card;
  card.looks = id;
  if (id === null) return paint(canvas, photo, null);
  await heatOf(
    photo,
    photo.answer.guesses.map((guess) => guess.id),
  );
  if (card?.photo === photo && card.looks === id) paint(canvas, photo, cellsOf(photo, id));
}

function judging(photo) {
  const button = (judged, word, sign) =>
    el(
      "button",
      {
        type: "button",
        class: "chip-button",
        "data-focus": judged,
        "aria-pressed": photo.judged === judged,
        onclick: () => {
          judge(photo, judged);
          if (photo.judged === "wrong") card.teach.open = true; // then what is it?
        },
      },
      icon(sign),
      word,
    );
  return el(
    "div",
    { class: "judging", role: "group", "aria-label": "Is this right?" },
    el("span", { class: "soft" }, "Is this right?"),
    button("right", "Right", "check"),
    button("wrong", "Wrong", "close"),
  );
}

// -- all photos --------------------------------------------------------------------------------------------------

function drawTiles(place) {
  place.hidden = state.photos.length < 2;
  redraw(place, state.photos.map(tile));
}

function tile(photo) {
  const words =
    photo.state === "done"
      ? verdictText(photo.answer.verdict)
      : photo.state === "failed"
        ? "Could not be read"
        : "Looking …";
  return el(
    "li",
    {},
    el(
      "button",
      {
        type: "button",
        class: `tile${photo.judged ? ` tile-${photo.judged}` : ""}`,
        "data-focus": photo.key,
        "aria-current": photo === state.current,
        "aria-label": `${photo.name}: ${words}`,
        onclick: () => {
          show(photo);
          document.getElementById(photo.key)?.scrollIntoView({ block: "nearest" });
        },
      },
      el("img", { src: photo.url, alt: "", loading: "lazy" }),
      el("span", {}, words),
    ),
  );
}
