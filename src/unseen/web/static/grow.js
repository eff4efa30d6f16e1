// New classes: a name, what it is a kind of (proposed by its name), what it looks like. They answer at once, and while
// one types, where the class would stand on the photos is shown.

import * as api from "./api.js";
import { announce, el, icon, mark, redraw, support } from "./dom.js";
import { rerank } from "./photos.js";
import { searchBox } from "./search.js";
import { info, loadBundles, on, state } from "./state.js";
import { taughtOnly, unlearn } from "./teach.js";
import { number, percent, shown } from "./words.js";

const PAUSE = 250; // milliseconds after the last key
const TYPING = 400; // milliseconds, before the class is tried out: the words are read anew
const FIRST_PLACES = 5;

let parents = [];
let parts; // the elements that are drawn anew
let focusName = false; // once the view is shown
let trying = 0; // counts what was asked, so that late answers are dropped
let typing; // the timer

export function startGrow() {
  const place = document.getElementById("view-grow");
  const name = el("input", {
    id: "grow-name",
    type: "text",
    required: true,
    maxlength: "200",
    autocomplete: "off",
    placeholder: "e.g. labradoodle",
  });
  const looks = el("textarea", {
    id: "grow-looks",
    rows: "3",
    maxlength: "2000",
    placeholder: "e.g. shaggy cream or chocolate coat in loose curls, floppy ears, round black nose",
  });
  const definition = el("textarea", {
    id: "grow-definition",
    rows: "2",
    maxlength: "2000",
    placeholder: "e.g. a cross between a Labrador retriever and a poodle",
  });
  const box = searchBox({
    label: "What kind of thing is it?",
    placeholder: "e.g. poodle, retriever",
    id: "grow-parents",
    onpick: addParent,
  });
  const chips = el("ul", { class: "chips", "aria-label": "It is a kind of" });
  const proposals = el("div", { class: "proposals", role: "status" });
  const tried = el("p", { class: "tried soft", id: "grow-tried", role: "status" });
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const submit = el("button", { type: "submit", class: "button main" }, "Add it");
  const form = el(
    "form",
    { class: "panel", id: "grow-form" },
    el("h2", {}, "Something new"),
    el("label", { for: "grow-name" }, "Name"),
    name,
    el("label", { for: "grow-parents" }, "What kind of thing is it?"),
    box,
    proposals,
    chips,
    el("label", { for: "grow-looks" }, "What does it look like? ", el("span", { class: "soft" }, "(helps most)")),
    looks,
    tried,
    el("label", { for: "grow-definition" }, "What is it? ", el("span", { class: "soft" }, "(helps)")),
    definition,
    problem,
    submit,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    add({ name: name.value, definition: definition.value, looks: looks.value });
  });
  for (const field of [name, looks, definition]) field.addEventListener("input", tryOutSoon);
  startProposals(name, proposals);
  const added = el("section", { class: "panel", "aria-labelledby": "added-title" });
  const places = el("section", { class: "panel wide", "aria-labelledby": "places-title", hidden: true });
  parts = { added, places, chips, form, name, looks, definition, tried, submit, problem, proposals };
  place.replaceChildren(
    el(
      "div",
      { class: "view-head" },
      el("h1", { id: "grow-title" }, "Grow"),
      el(
        "p",
        { class: "soft" },
        "Name a thing that is missing and say what it is a kind of. No photo, no training: it takes part in the answers at once.",
      ),
    ),
    el("div", { class: "two" }, form, added),
    places,
  );
  on("view", (view) => {
    if (view !== "grow" || !focusName) return;
    focusName = false;
    name.focus();
  });
  on("bundles", drawAdded);
  on("settings", drawAdded);
  on("ranked", drawPlaces);
  on("photos", drawPlaces);
  drawChips();
}

async function add(words) {
  const { submit, problem, form, proposals } = parts;
  submit.disabled = true;
  submit.textContent = "Adding …";
  problem.hidden = true;
  try {
    if (!parents.length)
      throw new Error("Say what kind of thing it is: choose from what is proposed, or search for it.");
    for (const photo of state.photos) photo.before = photo.answer?.guesses.slice(0, 3) ?? null;
    const answer = await api.add({
      ...words,
      parents: parents.map((parent) => parent.id),
      bundle: state.bundle,
    });
    parents = [];
    form.reset();
    proposals.replaceChildren();
    await loadBundles();
    await rerank();
    announce(`Added ${answer.added.at(-1).name}. It takes part in the answers now.`);
    drawChips();
  } catch (error) {
    problem.textContent = shown(error.message);
    problem.hidden = false;
  }
  submit.disabled = state.readOnly;
  submit.textContent = "Add it";
}

/** Used by the explorer, too: "add a kind of it". */
export function addParent({ id, name }) {
  if (!parents.some((parent) => parent.id === id)) parents = [...parents, { id, name }];
  drawChips();
}

function tryOutSoon() {
  clearTimeout(typing);
  typing = setTimeout(tryOut, TYPING);
}

/** Where the class would stand on the photos with the words typed so far. */
async function tryOut() {
  const { name, looks, definition, tried } = parts;
  const photos = state.photos.filter((photo) => photo.token).slice(0, 20);
  const asked = ++trying;
  if (!name.value.trim() || !parents.length || !photos.length) return tried.replaceChildren();
  const answer = await api
    .tryOut({
      name: name.value,
      parents: parents.map((parent) => parent.id),
      definition: definition.value,
      looks: looks.value,
      tokens: photos.map((photo) => photo.token),
      bundle: state.bundle,
    })
    .catch(() => null);
  if (asked !== trying || !answer) return;
  const first = answer.places.reduce((best, one) => (one.place < best.place ? one : best));
  const photo = photos.find((one) => one.token === first.token);
  tried.replaceChildren(
    `With these words it would be number ${number(first.place)} of ${number(first.of)} on `,
    el("b", {}, photo.name),
    photos.length > 1 ? `, the best of your ${number(photos.length)} photos.` : ".",
  );
}

/** Begin a new class of that name. */
export function beginWith(name) {
  parts.name.value = name;
  parts.name.dispatchEvent(new Event("input"));
  focusName = true;
  location.hash = "#grow";
}

function startProposals(name, place) {
  let timer;
  let asking;
  name.addEventListener("input", () => {
    clearTimeout(timer);
    asking?.abort();
    const wanted = name.value.trim();
    if (!wanted) return place.replaceChildren();
    timer = setTimeout(async () => {
      asking = new AbortController();
      const found = await api.suggest(wanted, state.bundle, asking.signal).catch(() => null);
      if (found) drawProposals(place, found);
    }, PAUSE);
  });
}

function drawProposals(place, { name, exists, parents: proposed }) {
  const there = exists
    .slice(0, 2)
    .map((one) =>
      el(
        "p",
        { class: "exists" },
        el("b", {}, name),
        " exists: ",
        el("a", { href: `#explore/${encodeURIComponent(one.id)}` }, "look at it"),
        one.definition ? ` (${one.definition})` : "",
        ".",
      ),
    );
  const fresh = proposed.filter((one) => !parents.some((parent) => parent.id === one.id));
  const buttons = fresh.map((one) =>
    el(
      "button",
      {
        type: "button",
        class: "chip-button",
        title: one.definition,
        onclick: () => {
          addParent(one);
          drawProposals(place, { name, exists, parents: proposed });
        },
      },
      icon("plus"),
      one.name,
    ),
  );
  redraw(
    place,
    there,
    buttons.length > 0 && el("p", { class: "row" }, el("span", { class: "soft" }, "Perhaps a kind of"), buttons),
  );
}

function drawChips() {
  const drop = (parent) => {
    parents = parents.filter((other) => other !== parent);
    drawChips();
    document.getElementById("grow-parents").focus();
  };
  parts.chips.replaceChildren(
    ...parents.map((parent) =>
      el(
        "li",
        { class: "chip" },
        parent.name,
        el(
          "button",
          { type: "button", class: "icon-button", "aria-label": `Not ${parent.name}`, onclick: () => drop(parent) },
          icon("close"),
        ),
      ),
    ),
  );
  parts.chips.hidden = !parents.length;
  tryOutSoon();
}

function drawAdded() {
  const { added } = info();
  const taught = taughtOnly();
  parts.form.classList.toggle("off", state.readOnly);
  for (const field of parts.form.elements) field.disabled = state.readOnly;
  const undone = (one) => () => unlearn(one.id, false);
  const list = el(
    "ul",
    { class: "added-list" },
    [...added].reverse().map((one) => addedRow(one, () => takeOut(one))),
  );
  const lessons = el(
    "ul",
    { class: "added-list" },
    taught.map((one) => addedRow(one, undone(one))),
  );
  const nothing = el(
    "p",
    { class: "soft" },
    state.readOnly
      ? "On this server nothing can be added: it was started for reading only."
      : "Nothing yet. What you add is listed here. It lasts until the server stops, unless you save it.",
  );
  redraw(
    parts.added,
    el("h2", { id: "added-title" }, `Added${added.length ? ` (${added.length})` : ""}`),
    added.length ? list : nothing,
    taught.length > 0 && [el("h2", {}, `Taught with your photos (${taught.length})`), lessons],
    added.length + taught.length > 0 && !state.readOnly && saveForm(),
  );
  drawPlaces();
}

function addedRow(one, onundo) {
  const undo = el(
    "button",
    {
      type: "button",
      class: "quiet",
      "data-focus": `undo ${one.id}`,
      "aria-label": `Remove ${one.name}`,
      disabled: state.readOnly,
      onclick: onundo,
    },
    "Undo",
  );
  return el(
    "li",
    { "data-id": one.id },
    el(
      "div",
      { class: "added-name" },
      el("a", { href: `#explore/${encodeURIComponent(one.id)}` }, one.name),
      mark(one),
      one.photos > 0 && el("span", { class: "soft" }, one.photos === 1 ? "1 photo" : `${number(one.photos)} photos`),
    ),
    undo,
    support(one),
  );
}

async function takeOut(one) {
  try {
    await api.remove(one.id, state.bundle);
    announce(`Removed ${one.name}.`);
    await loadBundles();
    rerank();
    document.getElementById("grow-name").focus();
  } catch (error) {
    announce(error.message);
  }
}

function saveForm() {
  const name = el("input", {
    id: "save-name",
    type: "text",
    required: true,
    maxlength: "60",
    placeholder: "a name",
    autocomplete: "off",
    "data-focus": "save-name",
  });
  const told = el("p", { class: "told", role: "status" });
  const form = el(
    "form",
    { class: "save", id: "save-form" },
    el("label", { for: "save-name" }, "Save the grown model"),
    el("div", { class: "row" }, name, el("button", { class: "button" }, "Save")),
    el("p", { class: "soft" }, "What is not saved is lost when the server is restarted."),
    told,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    told.textContent = "Saving …";
    told.classList.remove("problem");
    try {
      const answer = await api.save({ name: name.value, bundle: state.bundle });
      told.replaceChildren("Saved. Use it with ", el("code", {}, answer.command));
    } catch (error) {
      told.textContent = shown(error.message);
      told.classList.add("problem");
    }
  });
  return form;
}

/** The photos on which an added class reaches the first places: before and after. */
function drawPlaces() {
  const names = new Map(info().added.map((one) => [one.id, one.name]));
  const reached = (photo) => photo.watched.filter((one) => names.has(one.id) && one.place <= FIRST_PLACES);
  const watched = state.photos.filter((photo) => photo.token && photo.watched.some((one) => names.has(one.id)));
  const photos = watched.filter((photo) => reached(photo).length).slice(0, 8);
  parts.places.hidden = !watched.length;
  const column = (title, guesses) =>
    el(
      "div",
      {},
      el("h3", {}, title),
      el(
        "ol",
        {},
        guesses.slice(0, 3).map((guess) => el("li", {}, `${guess.title}, ${percent(guess.probability)}`)),
      ),
    );
  const figures = photos.map((photo) =>
    el(
      "figure",
      { class: "placed" },
      el("img", { src: photo.url, alt: photo.name }),
      el(
        "figcaption",
        {},
        reached(photo).map((one) =>
          el("p", {}, el("b", {}, names.get(one.id)), ` is number ${number(one.place)} of ${number(one.of)}`),
        ),
        el(
          "div",
          { class: "before-after" },
          photo.before && column("Before", photo.before),
          column("Now", photo.answer.guesses),
        ),
      ),
    ),
  );
  const none = el(
    "p",
    { class: "soft" },
    `On none of your ${number(watched.length)} photos does it reach the first ${FIRST_PLACES} places.`,
  );
  redraw(
    parts.places,
    el("h2", { id: "places-title" }, "On your photos"),
    figures.length ? el("div", { class: "placed-row" }, figures) : none,
  );
}
