// A search box with suggestions from the hierarchy (the ARIA combobox pattern).

import * as api from "./api.js";
import { state } from "./state.js";
import { html, icon, mark, useEffect, useRef, useState } from "./ui.js";

const PAUSE = 120; // milliseconds after the last key

/**
 * Arrows move, Enter takes, Escape closes. `onpick` is called with {id, name, mark, ...}; `onadd(text)`: if given, what
 * is not there can be added. `chosen`: the name that the box shows while nobody types.
 */
export function Search({ id, label, placeholder = "Search by name", onpick, onadd = null, chosen = "", focus = false }) {
  const [text, setText] = useState(null); // null: nobody types
  const [found, setFound] = useState(null); // null: closed
  const [active, setActive] = useState(-1);
  const asking = useRef({ timer: 0, abort: null });
  const input = useRef(null);
  const list = `${id}-list`;
  useEffect(() => focus && input.current.focus(), []);

  const close = () => {
    clearTimeout(asking.current.timer);
    setFound(null);
    setActive(-1);
  };
  const pick = (one) => {
    close();
    setText(null);
    input.current.value = chosen;
    if (one.add) onadd(one.add);
    else onpick(one);
  };
  const look = async (query) => {
    asking.current.abort?.abort();
    if (!query.trim()) return close();
    asking.current.abort = new AbortController();
    try {
      const { classes } = await api.search(query.trim(), asking.current.abort.signal);
      setFound(classes.length ? classes : onadd && !state.readOnly ? [{ add: query.trim() }] : []);
    } catch (error) {
      if (error.name === "AbortError") return;
      setFound([]);
    }
    setActive(-1);
  };
  const type = (event) => {
    const value = event.target.value;
    setText(value);
    clearTimeout(asking.current.timer);
    asking.current.timer = setTimeout(() => look(value), PAUSE);
  };
  const keys = (event) => {
    const open = found?.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) return look(event.target.value);
      const next = (active < 0 && event.key === "ArrowUp" ? 0 : active) + (event.key === "ArrowDown" ? 1 : -1);
      setActive((next + found.length) % found.length);
    } else if (event.key === "Enter" && open) {
      event.preventDefault();
      pick(found[Math.max(active, 0)]);
    } else if (event.key === "Escape" && found) {
      event.stopPropagation();
      close();
    }
  };
  useEffect(() => document.getElementById(`${list}-${active}`)?.scrollIntoView({ block: "nearest" }), [active]);
  const option = (one, at) => html`<li
    key=${one.id ?? one.add}
    id=${`${list}-${at}`}
    role="option"
    aria-selected=${String(at === active)}
    onMouseDown=${(event) => event.preventDefault()}
    onClick=${() => pick(one)}
  >
    ${one.add
      ? html`<b>“${one.add}” is not here: add it</b>
          <span class="suggestion-text">Say what it is a kind of, and it takes part in the answers.</span>`
      : html`<span class="suggestion-name">
            <b>${one.name}</b>
            ${one.lemmas.length > 1 && html`<span class="soft">, ${one.lemmas.slice(1, 4).join(", ")}</span>`}
            ${mark(one)}
          </span>
          <span class="suggestion-text">${one.definition || "no definition"}</span>`}
  </li>`;
  const nothing = state.gone ? "The server does not answer." : `Nothing has “${(text ?? "").trim()}” in its name.`;
  return html`<div class="search">
    ${icon("search")}
    <input
      ref=${input}
      id=${id}
      type="text"
      role="combobox"
      autocomplete="off"
      spellcheck=${false}
      placeholder=${placeholder}
      maxlength="200"
      aria-label=${label}
      aria-autocomplete="list"
      aria-expanded=${String(found !== null)}
      aria-controls=${list}
      aria-activedescendant=${active >= 0 ? `${list}-${active}` : null}
      value=${text ?? chosen}
      onInput=${type}
      onKeyDown=${keys}
      onBlur=${() => (close(), chosen && setText(null))}
    />
    <ul id=${list} role="listbox" class="suggestions" aria-label=${label} hidden=${found === null}>
      ${found?.map(option)}
      ${found?.length === 0 &&
      html`<li class="nothing" role="option" aria-disabled="true" aria-selected="false">${nothing}</li>`}
    </ul>
  </div>`;
}
