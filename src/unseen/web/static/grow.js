// New classes: a name, parents by search, a definition. They answer at once; what was added is listed and can be saved.

import * as api from "./api.js";
import { announce, el, icon, mark, number, trustMeter } from "./dom.js";
import { searchBox } from "./search.js";
import { info, loadBundles, on, rerank, state } from "./state.js";

let parents = [];
let parts; // the elements that are drawn anew

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
  const definition = el("textarea", {
    id: "grow-definition",
    rows: "3",
    maxlength: "2000",
    placeholder: "e.g. a cross between a Labrador retriever and a poodle",
  });
  const box = searchBox({
    label: "Parents: what kind of thing is it?",
    placeholder: "e.g. poodle, retriever",
    id: "grow-parents",
    onpick: addParent,
  });
  const chips = el("ul", { class: "chips", "aria-label": "Chosen parents" });
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const submit = el("button", { type: "submit", class: "button main" }, "Add the class");
  const form = el(
    "form",
    { class: "panel", id: "grow-form" },
    el("h2", {}, "A new class"),
    el("label", { for: "grow-name" }, "Name"),
    name,
    el("label", { for: "grow-parents" }, "What kind of thing is it?"),
    box,
    chips,
    el("label", { for: "grow-definition" }, "Definition ", el("span", { class: "soft" }, "(helps)")),
    definition,
    problem,
    submit,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    submit.textContent = "Adding …"; // the first time an encoder of definitions may have to be loaded
    problem.hidden = true;
    try {
      if (!parents.length)
        throw new Error("Choose at least one parent from the suggestions: the class needs something to borrow from.");
      const answer = await api.add({
        name: name.value,
        parents: parents.map((parent) => parent.id),
        definition: definition.value,
        bundle: state.bundle,
      });
      parents = [];
      form.reset();
      await loadBundles();
      await rerank();
      announce(`Added ${answer.added.at(-1).name}. It takes part in the answers now.`);
      drawChips();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
    submit.disabled = false;
    submit.textContent = "Add the class";
  });

  const added = el("section", { class: "panel", "aria-labelledby": "added-title" });
  const places = el("section", { class: "panel wide", "aria-labelledby": "places-title", hidden: true });
  parts = { added, places, chips, form };
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
  on("bundles", drawAdded);
  on("settings", drawAdded);
  on("ranked", drawPlaces);
  on("photos", drawPlaces);
  drawChips();
}

/** Used by the explorer, too: "a new class below this one". */
export function addParent({ id, name }) {
  if (!parents.some((parent) => parent.id === id)) parents = [...parents, { id, name }];
  drawChips();
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
}

function drawAdded() {
  const { added } = info();
  parts.form.classList.toggle("off", state.readOnly);
  for (const field of parts.form.elements) field.disabled = state.readOnly;
  const list = el("ul", { class: "added-list" }, [...added].reverse().map(addedRow));
  const nothing = el(
    "p",
    { class: "soft" },
    state.readOnly
      ? "This server was started with --read-only: nothing can be added."
      : "Nothing yet. Classes that you add are listed here; the bundle on disk stays as it is until you save.",
  );
  parts.added.replaceChildren(
    el("h2", { id: "added-title" }, `Added${added.length ? ` (${added.length})` : ""}`),
    added.length ? list : nothing,
    added.length && !state.readOnly ? saveForm() : "",
  );
  drawPlaces();
}

function addedRow(one) {
  const undo = el(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-label": `Remove ${one.name}`,
      disabled: state.readOnly,
      onclick: () => takeOut(one),
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
      mark(one.mark),
      el("code", {}, one.id),
    ),
    trustMeter(one.trust),
    undo,
  );
}

async function takeOut(one) {
  try {
    await api.remove(one.id, state.bundle);
    announce(`Removed ${one.name}.`);
  } catch (error) {
    announce(error.message);
  }
  await loadBundles();
  rerank();
}

function saveForm() {
  const name = el("input", {
    id: "save-name",
    type: "text",
    required: true,
    maxlength: "60",
    placeholder: "a name",
    autocomplete: "off",
  });
  const told = el("p", { class: "told", role: "status" });
  const form = el(
    "form",
    { class: "save", id: "save-form" },
    el("label", { for: "save-name" }, "Save as a bundle"),
    el("div", { class: "row" }, name, el("button", { class: "button" }, "Save")),
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
      told.textContent = error.message;
      told.classList.add("problem");
    }
  });
  return form;
}

/** Where the added classes stand for the photos on the page. */
function drawPlaces() {
  const { added } = info();
  const names = new Map(added.map((one) => [one.id, one.name]));
  const photos = state.photos
    .filter((photo) => photo.token && photo.watched.some((one) => names.has(one.id)))
    .slice(0, 8);
  parts.places.hidden = !photos.length;
  const figures = photos.map((photo) =>
    el(
      "figure",
      { class: "placed" },
      el("img", { src: photo.url, alt: photo.name }),
      el(
        "figcaption",
        {},
        el(
          "ul",
          {},
          photo.watched
            .filter((one) => names.has(one.id))
            .map((one) =>
              el("li", {}, el("b", {}, names.get(one.id)), ` is number ${number(one.place)} of ${number(one.of)}`),
            ),
        ),
      ),
    ),
  );
  parts.places.replaceChildren(
    el("h2", { id: "places-title" }, "On your photos"),
    el("div", { class: "placed-row" }, figures),
  );
}
