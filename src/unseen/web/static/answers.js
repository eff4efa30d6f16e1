// A list of guesses: names, how they came to be known, and how probable each is. Rows glide to their new places.

import { bar, el, icon, mark } from "./dom.js";
import { percent } from "./words.js";

const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

/**
 * `onpick(id)` makes rows buttons; `selected` is the id whose reasons are shown in the element `controls`;
 * `onlook(id or null)` is told what the pointer or the focus is on.
 */
export function showAnswers(list, guesses, { onpick = null, onlook = null, selected = null, controls = null } = {}) {
  const places = new Map([...list.children].map((row) => [row.dataset.id, row.getBoundingClientRect().top]));
  const focused = list.contains(document.activeElement) ? document.activeElement.closest("li")?.dataset.id : null;
  const rows = guesses.map((guess) => {
    const inside = content(guess);
    const button = {
      type: "button",
      "aria-expanded": guess.id === selected,
      "aria-controls": controls,
      onclick: () => onpick(guess.id),
      onfocus: () => onlook?.(guess.id),
      onblur: () => onlook?.(null),
    };
    return el(
      "li",
      {
        class: "answer",
        "data-id": guess.id,
        onpointerenter: () => onlook?.(guess.id),
        onpointerleave: () => onlook?.(null),
      },
      onpick ? el("button", button, inside, icon("chevron")) : el("div", { class: "answer-plain" }, inside),
    );
  });
  list.replaceChildren(...rows);
  if (focused)
    rows
      .find((row) => row.dataset.id === focused)
      ?.querySelector("button")
      ?.focus({ preventScroll: true });
  if (!calm.matches) glide(rows, places);
}

function content(guess) {
  const also = guess.also?.length ? `with ${few(guess.also)}` : "";
  return el(
    "span",
    { class: "answer-body" },
    el(
      "span",
      { class: "answer-line" },
      el("b", { class: "name" }, guess.title ?? guess.say),
      el("span", { class: "only-read" }, `, ${percent(guess.probability)}, `),
      el("span", { class: "score", "aria-hidden": "true", "data-percent": percent(guess.probability) }),
    ),
    el("span", { class: "track", "aria-hidden": "true" }, bar(guess.probability, guess.mark)),
    el(
      "span",
      { class: "answer-line soft" },
      mark(guess),
      also && el("span", { class: "also", title: guess.also.join(", ") }, also),
    ),
  );
}

const few = (names) => names.slice(0, 2).join(", ") + (names.length > 2 ? ` and ${names.length - 2} more` : "");

function glide(rows, places) {
  for (const row of rows) {
    const old = places.get(row.dataset.id);
    const moved = old === undefined ? null : old - row.getBoundingClientRect().top;
    const steps =
      moved === null
        ? [{ opacity: 0 }, { opacity: 1 }]
        : [{ transform: `translateY(${moved}px)` }, { transform: "none" }];
    if (moved !== 0) row.animate(steps, { duration: 260, easing: "cubic-bezier(.2,.7,.2,1)" });
  }
}
