// The verdict in words, and the way down the hierarchy, which fades as certainty drops.

import { el } from "./dom.js";
import { articleOf, hedge, percent } from "./words.js";

const STEPS = 6; // of the way that are shown

/** `level` is that of the heading. */
export function verdictWords({ verdict, guesses, calibrated }, level = "h2") {
  const best = guesses[0];
  const unknown = verdict.id === null;
  const heading = unknown
    ? el(level, {}, "I don't know what this is.")
    : el(
        level,
        {},
        el("span", { class: "hedge" }, hedge(verdict)),
        " ",
        articleOf(verdict),
        el("b", {}, verdict.say),
        el("span", { class: "soft" }, ` (${percent(verdict.probability)})`),
      );
  const says = best &&
    best.say !== verdict.say && [
      unknown ? "If I had to guess: " : "Best guess: ",
      el("b", { title: percent(best.probability) }, best.title),
      best.probability < 0.3 ? ", but it may well be another." : ".",
    ];
  const rough =
    !calibrated && el("p", { class: "soft rough" }, "How sure it is, is only a rough figure for this model.");
  return el(
    "div",
    { class: `verdict verdict-${verdict.level}` },
    heading,
    says && el("p", { class: "best" }, says),
    rough,
  );
}

/** Nodes from the top down to the best guess, the last few of them. */
export function wayOf({ verdict, guesses, lit }) {
  const nodes = new Map(lit.map((node) => [node.id, node]));
  const way = [];
  for (let node = nodes.get(guesses[0]?.id ?? verdict.id); node; node = nodes.get(node.parent)) way.unshift(node);
  return way;
}

export function fadingWay(answer) {
  const steps = wayOf(answer)
    .slice(-STEPS)
    .map((node) => {
      const step = el(
        "li",
        { class: node.here ? "step here" : "step", title: percent(node.probability) },
        el("a", { href: `#explore/${encodeURIComponent(node.id)}` }, node.name),
        el("span", { class: "only-read" }, `, ${percent(node.probability)}`),
      );
      step.style.setProperty("--sure", Math.round(100 * node.probability) / 100);
      return step;
    });
  return steps.length
    ? el("ol", { class: "way", "aria-label": "From the general to the particular, and how sure" }, steps)
    : null;
}
