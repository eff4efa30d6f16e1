// The hierarchy: begin with things that one knows, search it, walk up and down, and see what is like what.

import * as api from "./api.js";
import { announce, bar, el, icon, legend, mark, redraw, support } from "./dom.js";
import { addParent, beginWith } from "./grow.js";
import { searchBox } from "./search.js";
import { choose, on, state } from "./state.js";
import { known, number } from "./words.js";

const MANY = 60; // children shown at first

let place;
let here; // id of the class that is shown, null for the start

export function startExplore() {
  const view = document.getElementById("view-explore");
  const box = searchBox({
    label: "Search the hierarchy",
    placeholder: "Search: giraffe, hammer, mushroom …",
    id: "explore-search",
    onpick: ({ id }) => go(id),
    onadd: beginWith,
  });
  place = el("div", { class: "explored" });
  view.replaceChildren(
    el(
      "div",
      { class: "view-head" },
      el("h1", { id: "explore-title" }, el("a", { href: "#explore" }, "Explore")),
      el(
        "p",
        { class: "soft" },
        "All that it can name has its place. Walk up to what it is a kind of, and down to its kinds.",
      ),
    ),
    box,
    place,
  );
  on("view", (name, id) => name === "explore" && show(id));
  for (const event of ["bundles", "settings", "back"])
    on(event, () => !view.hidden && here !== undefined && show(here, true));
}

const path = (id) => `#explore/${encodeURIComponent(id)}`;
const go = (id) => (location.hash = path(id));
const link = (one, text = one.name) => el("a", { href: path(one.id) }, text);

async function show(id, quietly = false) {
  here = id;
  try {
    const drawn = id ? await classParts(id, quietly) : await startParts();
    if (here === id) redraw(place, drawn);
  } catch (error) {
    if (here !== id) return;
    const text = error.status === 404 ? "There is no class at this address." : error.message;
    place.replaceChildren(
      el("p", { class: "problem" }, text),
      el("p", {}, el("a", { href: "#explore" }, "Begin with animals, food, tools …")),
    );
  }
}

// -- the start ---------------------------------------------------------------------------------------------------

async function startParts() {
  const { topics } = await api.topics(state.bundle);
  const cards = topics.map((topic) =>
    el(
      "li",
      {},
      el(
        "a",
        { class: "topic", href: path(topic.id) },
        el("b", {}, topic.name),
        el("span", { class: "soft" }, `${number(topic.descendants)} kinds`),
      ),
    ),
  );
  return [el("h2", { class: "only-read" }, "Where to begin"), el("ul", { class: "topics" }, cards)];
}

// -- a class -----------------------------------------------------------------------------------------------------

async function classParts(id, quietly) {
  const found = await api.details(id, state.bundle);
  const trail = el(
    "ol",
    { class: "trail" },
    el("li", {}, el("a", { href: "#explore" }, "Start")),
    found.path.map((one) =>
      el("li", { "aria-current": one.id === found.id ? "page" : null }, one.id === found.id ? one.name : link(one)),
    ),
  );
  if (!quietly) announce(`${found.name}, ${known(found)}. ${found.children} kinds below.`);
  return [
    el("nav", { "aria-label": "Way from the top" }, trail),
    el(
      "div",
      { class: "two explore-two" },
      el("div", {}, card(found), below(found)),
      el("div", {}, nearest(found), el("div", { class: "panel" }, el("h2", {}, "What the signs mean"), legend())),
    ),
  ];
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
      mark(found),
      found.added && el("span", { class: "tag" }, "added"),
    ),
    found.lemmas.length > 1 && el("p", { class: "soft" }, `also ${found.lemmas.slice(1).join(", ")}`),
    found.definition && el("p", { class: "definition" }, found.definition),
    el(
      "p",
      { class: "soft" },
      found.descendants
        ? `${number(found.descendants)} ${found.descendants === 1 ? "kind" : "kinds"} below it`
        : "Nothing below it",
    ),
    support(found),
    el(
      "div",
      { class: "row actions" },
      found.descendants > 0 &&
        el(
          "button",
          { type: "button", class: "button", "data-focus": "within", onclick: within },
          "Answer only within it",
        ),
      !state.readOnly &&
        el(
          "button",
          { type: "button", class: "button", "data-focus": "grow", onclick: grow },
          icon("plus"),
          "Add a kind of it",
        ),
    ),
    el("details", { class: "id" }, el("summary", {}, "Id"), el("code", {}, found.id)),
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
      { class: `kin-link dotted-${one.mark}`, href: path(one.id) },
      direction === "up" && icon("up"),
      el("span", { class: `glyph glyph-${one.mark}`, "aria-hidden": "true" }),
      one.name,
      one.children > 0 && direction === "down" && el("span", { class: "soft" }, number(one.children)),
      el("span", { class: "only-read" }, `, ${known(one)}`),
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
  const unfold = () => {
    const fresh = rest.map((one) => kin(one, "down"));
    list.append(...fresh);
    more.remove();
    fresh[0].querySelector("a").focus();
  };
  const more =
    rest.length > 0 &&
    el("button", { type: "button", class: "quiet", onclick: unfold }, `Show ${number(rest.length)} more`);
  return el(
    "section",
    { class: "panel", "aria-labelledby": "below-title" },
    el(
      "h2",
      { id: "below-title" },
      `Kinds of ${found.name} `,
      el("span", { class: "soft" }, number(found.children)),
    ),
    list,
    more,
    found.children > found.below.length &&
      el("p", { class: "soft" }, `Listed are the first ${number(found.below.length)}: search for the others by name.`),
  );
}

function nearest(found) {
  if (!found.nearest.length) return null;
  const rows = found.nearest.map((one) =>
    el(
      "li",
      { class: "near", title: `alike to ${Math.round(100 * one.likeness)} %` },
      el("span", { class: "near-line" }, link(one), mark(one)),
      el("span", { class: "track", "aria-hidden": "true" }, bar(one.likeness, one.mark)),
    ),
  );
  return el(
    "section",
    { class: "panel", "aria-labelledby": "nearest-title" },
    el("h2", { id: "nearest-title" }, "Easily taken for"),
    el("p", { class: "soft" }, `What looks most like “${found.name}” to the network.`),
    el("ol", { class: "near-list" }, rows),
  );
}
