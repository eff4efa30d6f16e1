// The hierarchy: search it, walk up and down, see what is seen, unseen and guesswork, and what is near.

import * as api from "./api.js";
import { announce, bar, el, icon, legend, mark, number, trustMeter } from "./dom.js";
import { addParent } from "./grow.js";
import { searchBox } from "./search.js";
import { choose, on, state } from "./state.js";

const MANY = 60; // children shown at first

let place;
let here = null; // id of the class that is shown

export function startExplore() {
  const view = document.getElementById("view-explore");
  const box = searchBox({
    label: "Search the hierarchy",
    placeholder: "Search: giraffe, hammer, mushroom …",
    id: "explore-search",
    onpick: ({ id }) => go(id),
  });
  place = el("div", { class: "explored" });
  view.replaceChildren(
    el(
      "div",
      { class: "view-head" },
      el("h1", { id: "explore-title" }, "Explore"),
      el("p", { class: "soft" }, "Every class has its place. Walk up to what it is a kind of, and down to its kinds."),
    ),
    box,
    place,
  );
  on("view", (name, id) => name === "explore" && show(id));
  for (const event of ["bundles", "settings"]) on(event, () => !view.hidden && here !== null && show(here, true));
}

const go = (id) => (location.hash = `#explore/${encodeURIComponent(id)}`);
const link = (one, text = one.name) => el("a", { href: `#explore/${encodeURIComponent(one.id)}` }, text);

async function show(id, quietly = false) {
  let found;
  try {
    if (!id) id = here || (await api.search("", state.bundle)).classes[0].id;
    found = await api.details(id, state.bundle);
  } catch (error) {
    place.replaceChildren(el("p", { class: "problem" }, error.message));
    return;
  }
  here = found.id;
  const trail = el(
    "ol",
    { class: "trail" },
    found.path.map((one) =>
      el("li", { "aria-current": one.id === found.id ? "page" : null }, one.id === found.id ? one.name : link(one)),
    ),
  );
  place.replaceChildren(
    el("nav", { "aria-label": "Way from the top" }, trail),
    el(
      "div",
      { class: "two explore-two" },
      el("div", {}, card(found), below(found)),
      el("div", {}, nearest(found), el("div", { class: "panel" }, el("h2", {}, "Marks"), legend())),
    ),
  );
  if (!quietly) announce(`${found.name}, ${found.mark}. ${found.below.length} kinds below.`);
}

function card(found) {
  const within = () => {
    choose({ candidates: { ...state.candidates, kind: "branch", branch: { id: found.id, name: found.name } } });
    location.hash = "#recognise";
  };
  const grow = () => {
    addParent(found);
    location.hash = "#grow";
  };
  return el(
    "article",
    { class: "panel class-card", "data-id": found.id },
    el(
      "div",
      { class: "class-head" },
      el("h2", {}, found.name),
      mark(found.mark),
      found.added && el("span", { class: "tag" }, "added"),
    ),
    found.lemmas.length > 1 && el("p", { class: "soft" }, `also ${found.lemmas.slice(1).join(", ")}`),
    found.definition && el("p", { class: "definition" }, found.definition),
    el(
      "p",
      { class: "soft" },
      el("code", {}, found.id),
      found.descendants ? ` · ${number(found.descendants)} below it` : " · nothing below it",
    ),
    trustMeter(found.trust),
    el(
      "div",
      { class: "row actions" },
      found.descendants > 0 &&
        el("button", { type: "button", class: "button", onclick: within }, "Answer only within it"),
      !state.readOnly &&
        el("button", { type: "button", class: "button", onclick: grow }, icon("plus"), "A class below it"),
    ),
    found.parents.length > 0 &&
      el(
        "div",
        { class: "kin-row" },
        el("h3", {}, found.parents.length > 1 ? "It is a kind of each of" : "It is a kind of"),
        el(
          "ul",
          { class: "kin" },
          found.parents.map((one) => kin(one, "up")),
        ),
      ),
  );
}

function kin(one, direction) {
  return el(
    "li",
    {},
    el(
      "a",
      { class: `kin-link dotted-${one.mark}`, href: `#explore/${encodeURIComponent(one.id)}` },
      direction === "up" && icon("up"),
      el("span", { class: `glyph glyph-${one.mark}`, "aria-hidden": "true" }),
      one.name,
      one.children > 0 && direction === "down" && el("span", { class: "soft" }, number(one.children)),
      el("span", { class: "only-read" }, `, ${one.mark}`),
    ),
  );
}

function below(found) {
  if (!found.below.length) return null;
  const list = el(
    "ul",
    { class: "kin" },
    found.below.slice(0, MANY).map((one) => kin(one, "down")),
  );
  const rest = found.below.slice(MANY);
  const more = rest.length
    ? el(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => {
            list.append(...rest.map((one) => kin(one, "down")));
            more.remove();
          },
        },
        `Show ${number(rest.length)} more`,
      )
    : null;
  return el(
    "section",
    { class: "panel", "aria-labelledby": "below-title" },
    el(
      "h2",
      { id: "below-title" },
      `Kinds of ${found.name} `,
      el("span", { class: "soft" }, number(found.below.length)),
    ),
    list,
    more,
  );
}

function nearest(found) {
  if (!found.nearest.length) return null;
  const rows = found.nearest.map((one) =>
    el(
      "li",
      { class: "near" },
      el(
        "span",
        { class: "near-line" },
        link(one),
        mark(one.mark),
        el("span", { class: "score" }, one.likeness.toFixed(2)),
      ),
      el("span", { class: "track", "aria-hidden": "true" }, bar(one.likeness, one.mark)),
    ),
  );
  return el(
    "section",
    { class: "panel", "aria-labelledby": "nearest-title" },
    el("h2", { id: "nearest-title" }, "Nearest classifiers"),
    el("p", { class: "soft" }, "Whose classifiers are most alike: what it is easily taken for."),
    el("ol", { class: "near-list" }, rows),
  );
}
