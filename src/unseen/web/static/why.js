// Why, in two parts: what in the photo speaks for a guess, and how a class that was never shown can be known.

import * as api from "./api.js";
import { el, mark, redraw, skeleton, support } from "./dom.js";
import { cellsOf, heatOf, paint } from "./heat.js";
import { drawTree } from "./relatives.js";
import { state } from "./state.js";
import { shown } from "./words.js";

const reasons = new Map(); // [model, id] -> promise of the explanation

function explain(id) {
  const key = JSON.stringify([state.bundle, id, state.bundles.find((one) => one.name === state.bundle)?.added.length]);
  if (!reasons.has(key)) {
    const promise = api.explain(id, state.bundle);
    promise.catch(() => reasons.delete(key)); // asked again next time
    reasons.set(key, promise);
  }
  return reasons.get(key);
}

/** Fill `panel` with the reasons for the guess that is selected, unless it shows them already. */
export async function showWhy(panel, photo) {
  const id = photo.selected;
  const guess = photo.answer.guesses.find((one) => one.id === id);
  const others = photo.answer.guesses.filter((one) => one.id !== id);
  const wanted = JSON.stringify([state.bundle, id, others.map((one) => one.id)]);
  if (panel.dataset.shows === wanted) return;
  panel.dataset.shows = wanted;
  const left = el("div", { class: "why-part why-photo" });
  const right = el("div", { class: "why-part why-known" }, el("h3", {}, knownTitle(guess)), skeleton(5));
  panel.replaceChildren(left, right);
  showPhotoPart(left, photo, guess, others);
  try {
    const why = await explain(id);
    if (panel.dataset.shows === wanted) showKnownPart(right, guess, why);
  } catch (error) {
    if (panel.dataset.shows !== wanted) return;
    delete panel.dataset.shows;
    right.replaceChildren(el("h3", {}, knownTitle(guess)), el("p", { class: "problem" }, error.message));
  }
}

const knownTitle = (guess) =>
  guess.training === "never shown"
    ? `How can it know ${guess.title}, which it was never shown?`
    : `How does it know ${guess.title}?`;

// -- what in the photo -------------------------------------------------------------------------------------------

async function showPhotoPart(place, photo, guess, others) {
  const title = el("h3", {}, "What in the photo?");
  const canvas = el("canvas", { class: "heat", width: "448", height: "448", "aria-hidden": "true" });
  const picture = el(
    "div",
    { class: "photo-stage heat-picture" },
    el("img", { src: photo.url, alt: "", class: "photo" }),
    canvas,
  );
  const told = el("p", { class: "soft" });
  const select = el(
    "select",
    { id: `against-${photo.key}`, onchange: draw },
    el("option", { value: "" }, "anything else"),
    others.map((one) => el("option", { value: one.id }, one.title)),
  );
  const against = el("p", { class: "against" }, el("label", { for: select.id }, `Why ${guess.title} and not`), select);
  place.replaceChildren(title, skeleton(4));
  const heat = await heatOf(photo, [guess.id, ...others.map((one) => one.id)]);
  if (heat.problem || !cellsOf(photo, guess.id)) {
    place.replaceChildren(
      title,
      el(
        "p",
        { class: "soft" },
        heat.problem ? "This model cannot show where in the photo it looks." : "Not known: the server did not tell.",
      ),
    );
    return;
  }
  place.replaceChildren(title, picture, told, others.length ? against : "");
  draw();

  function draw() {
    const other = others.find((one) => one.id === select.value);
    paint(canvas, photo, cellsOf(photo, guess.id, other?.id));
    told.textContent = shown(
      other
        ? `Orange speaks for ${guess.title}, blue for ${other.title}.`
        : `The stronger the orange, the more that part speaks for ${guess.title}. Together the parts are its whole score.`,
    );
  }
}

// -- how it can be known -----------------------------------------------------------------------------------------

function showKnownPart(place, guess, why) {
  const stage = el("div", { class: "tree" });
  redraw(
    place,
    el("h3", {}, knownTitle(guess)),
    why.definition && el("p", {}, `${why.name}: ${why.definition}.`),
    el("p", { class: "soft" }, sentence(why)),
    support(why),
    stage,
    el(
      "p",
      { class: "why-more" },
      el("a", { class: "quiet", href: `#explore/${encodeURIComponent(why.id)}` }, "Look around in the hierarchy"),
      el("details", { class: "id" }, el("summary", {}, "Id"), mark(why), " ", el("code", {}, why.id)),
    ),
  );
  drawTree(stage, why);
}

function sentence(why) {
  if (why.mark === "seen") return "It was trained on photos of it. Its nearest relatives among what it was trained on:";
  const together = Math.round(100 * why.neighbours.reduce((sum, near) => sum + near.share, 0));
  const rest = together < 90 ? ` They give ${together} % of it; the rest comes in small parts from many others.` : "";
  return `By its relatives. What to look for is put together from things that it was trained on, above all from these.${rest}`;
}
