// A list of answers: names, marks, ids and score bars. Rows glide to their new places when the order changes.

import { bar, el, icon, mark } from "./dom.js";

const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

/** `onpick(id)` makes rows buttons; `selected` is the id whose reasons are shown in the element `controls`. */
export function showAnswers(list, { labels, crowd }, { onpick = null, selected = null, controls = null } = {}) {
  const before = new Map([...list.children].map((row) => [row.dataset.id, row]));
  const places = new Map([...before].map(([id, row]) => [id, row.getBoundingClientRect().top]));
  const focused = list.contains(document.activeElement) ? document.activeElement.closest("li")?.dataset.id : null;
  const best = labels.length ? labels[0].score : 0;
  const rows = labels.map((label, at) => {
    const row = el("li", { class: "answer", "data-id": label.id });
    const inside = content(label, at, best > crowd ? (label.score - crowd) / (best - crowd) : 1);
    row.append(
      onpick
        ? el(
            "button",
            {
              type: "button",
              "aria-expanded": label.id === selected,
              "aria-controls": controls,
              onclick: () => onpick(label.id),
            },
            inside,
            icon("chevron"),
          )
        : el("div", { class: "answer-plain" }, inside),
    );
    return row;
  });
  list.replaceChildren(...rows);
  if (focused)
    rows
      .find((row) => row.dataset.id === focused)
      ?.querySelector("button")
      ?.focus({ preventScroll: true });
  if (!calm.matches) glide(rows, places);
}

function content(label, at, part) {
  const way = label.path.slice(-4, -1).join(" › ");
  return [
    el("span", { class: "place", "aria-hidden": "true" }, `${at + 1}`),
    el(
      "span",
      { class: "answer-body" },
      el(
        "span",
        { class: "answer-line" },
        el("b", { class: "name" }, label.name),
        el("span", { class: "score" }, label.score.toFixed(3)),
      ),
      el("span", { class: "track", "aria-hidden": "true" }, bar(Math.max(part, 0.015), label.mark)),
      el(
        "span",
        { class: "answer-line soft" },
        mark(label.mark),
        el("span", { class: "way" }, way),
        el("code", {}, label.id),
      ),
    ),
  ];
}

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
