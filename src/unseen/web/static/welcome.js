// The first screen: one photo that tells what this is about, and the hierarchy as it lights up for it.

import * as api from "./api.js";
import { el, skeleton } from "./dom.js";
import { info, ranking, state } from "./state.js";
import { sunburst } from "./sunburst.js";
import { fadingWay } from "./verdict.js";
import { articleOf, number, percent } from "./words.js";

const STORY = "cat"; // the sample that is told about

export function greeting() {
  const { seen, classes } = info();
  return el(
    "div",
    { class: "greeting" },
    el("h2", {}, "Show it a photo."),
    el(
      "p",
      {},
      "This network was trained on ",
      el("b", {}, number(seen)),
      " kinds of things. Here it can name ",
      el("b", {}, number(classes)),
      classes > 2 * seen ? ", most of which it was never shown." : ".",
    ),
  );
}

const SHOWN = {
  "never shown": ", which it was never shown.",
  "trained on kinds of it": ": it was trained on kinds of it, never on the word.",
};

/** Filled once the server has looked at the sample. */
export function story() {
  const place = el("section", { class: "story", "aria-label": "An example" }, skeleton(4));
  tell(place).catch(() => place.remove());
  return place;
}

async function tell(place) {
  const file = await (await fetch(`/static/samples/${STORY}.jpg`)).blob();
  const found = (await api.classify(file, `${STORY}.jpg`, { ...ranking(), candidates: "any" })).photos[0];
  const { columns } = await api.compare({ token: found.token, k: 1, bundles: [state.bundle] });
  const alone = columns[0].labels[0];
  const fresh = (one) => one && one.mark !== "seen" && one.mark !== "link" && one.id !== alone.id;
  const verdict = found.lit.find((node) => node.here);
  const now = fresh(verdict) ? verdict : found.guesses.find(fresh) || found.guesses[0];
  place.replaceChildren(
    el("img", { src: `/static/samples/${STORY}.jpg`, alt: "A sample: a cat", class: "story-photo" }),
    el(
      "div",
      { class: "story-words" },
      el("p", {}, "The network alone says ", el("em", {}, alone.name), "."),
      el(
        "p",
        {},
        "Now it can say ",
        el("em", {}, now.title ?? now.name),
        SHOWN[now.training] ?? ".",
      ),
      el("p", {}, sureness(found.verdict, now)),
      fadingWay(found),
    ),
    el("div", { class: "story-burst" }, sunburst(found, 300)),
  );
}

function sureness(verdict, now) {
  if (verdict.id === null) return "And when it does not know, it says so.";
  if (now.here) return `It is ${percent(verdict.probability)} sure of that.`;
  return ["And it says of what it is sure: ", articleOf(verdict), el("em", {}, verdict.say), "."];
}
