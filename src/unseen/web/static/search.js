// A search box with suggestions from the hierarchy (the ARIA combobox pattern): arrows move, Enter takes, Escape closes.

import * as api from "./api.js";
import { el, icon, mark } from "./dom.js";
import { state } from "./state.js";
import { shown } from "./words.js";

const PAUSE = 120; // milliseconds after the last key
let boxes = 0;

/**
 * `onpick` is called with {id, name, mark, ...}. `keep`: whether the box keeps the name that was picked.
 * `onadd(text)`: if given, what is not found can be added.
 */
export function searchBox({
  label,
  placeholder = "Search by name",
  onpick,
  keep = false,
  onadd = null,
  id = `search-${++boxes}`,
}) {
  const list = el("ul", { id: `${id}-list`, role: "listbox", class: "suggestions", "aria-label": label, hidden: true });
  const input = el("input", {
    id,
    type: "text",
    role: "combobox",
    autocomplete: "off",
    spellcheck: "false",
    placeholder,
    maxlength: "200",
    "aria-label": label,
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": list.id,
  });
  let found = [];
  let active = -1;
  let timer;
  let asking;

  function close() {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function activate(index) {
    active = (index + found.length) % found.length;
    [...list.children].forEach((option, at) => option.setAttribute("aria-selected", at === active));
    const option = list.children[active];
    input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  function pick(chosen) {
    input.value = keep ? shown(chosen.name) : "";
    close();
    if (chosen.add) onadd(chosen.add);
    else onpick(chosen);
  }

  function option(sense, at) {
    const also = sense.lemmas.slice(1, 4).join(", ");
    return el(
      "li",
      {
        id: `${list.id}-${at}`,
        role: "option",
        "aria-selected": "false",
        onmousedown: (event) => event.preventDefault(),
        onclick: () => pick(sense),
      },
      el(
        "span",
        { class: "suggestion-name" },
        el("b", {}, sense.name),
        also && el("span", { class: "soft" }, `, ${also}`),
        mark(sense),
      ),
      el("span", { class: "suggestion-text" }, sense.definition || "no definition"),
    );
  }

  function nothing(query) {
    if (onadd && !state.readOnly && !state.gone) {
      found = [{ add: query }];
      return el(
        "li",
        {
          id: `${list.id}-0`,
          role: "option",
          "aria-selected": "false",
          onmousedown: (event) => event.preventDefault(),
          onclick: () => pick(found[0]),
        },
        el("b", {}, `“${query}” is not here: add it`),
        el("span", { class: "suggestion-text" }, "Say what it is a kind of, and it takes part in the answers."),
      );
    }
    const text = state.gone ? "The server does not answer." : `Nothing has “${query}” in its name.`;
    return el("li", { class: "nothing", role: "option", "aria-disabled": "true", "aria-selected": "false" }, text);
  }

  async function look() {
    const query = input.value.trim();
    asking?.abort();
    if (!query) return close();
    asking = new AbortController();
    try {
      found = (await api.search(query, state.bundle, asking.signal)).classes;
    } catch (error) {
      if (error.name === "AbortError") return;
      found = [];
    }
    active = -1;
    list.replaceChildren(...(found.length ? found.map(option) : [nothing(query)]));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
  input.addEventListener("focus", () => input.value.trim() && list.children.length && !keep && look());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const open = !list.hidden && found.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) return look();
      activate(event.key === "ArrowDown" ? active + 1 : active < 0 ? -1 : active - 1);
    } else if (event.key === "Enter" && open) {
      event.preventDefault();
      pick(found[Math.max(active, 0)]);
    } else if (event.key === "Escape" && !list.hidden) {
      event.stopPropagation();
      close();
    }
  });
  const box = el("div", { class: "search" }, icon("search"), input, list);
  return Object.assign(box, { input, show: (text) => (input.value = text) });
}
