// Building blocks of the page. Text is only ever set as text, so that a class named <script> is shown, not run.

import { known, markWords, shown, supportSentence } from "./words.js";

/** An element: el("a", {href: "#x", class: "y", onclick: f}, "text", child, ...). */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

const SAID = new Set(["title", "alt", "aria-label", "placeholder"]); // attributes that people read

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (SAID.has(name)) node.setAttribute(name, shown(String(value)));
    else if (name.startsWith("aria-"))
      node.setAttribute(name, value); // "false" is a value there
    else if (value === false) continue;
    else node.setAttribute(name, value === true ? "" : value);
  }
  const given = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  node.append(...given.map((child) => (typeof child === "string" ? shown(child) : child)));
  return node;
}

const SHAPES = {
  photo: "M4 7a2 2 0 0 1 2-2h12a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2zM4 16l5-5 4 4 2-2 5 5M15.5 9.5h.01",
  camera:
    "M4 8h3l2-3h6l2 3h3a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V9a1 1 0 0 1 1-1zM12 16.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7z",
  close: "M6 6l12 12M18 6L6 18",
  moon: "M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6L7 7M17 17l1.4 1.4M5.6 18.4L7 17M17 7l1.4-1.4",
  chevron: "M9 6l6 6-6 6",
  up: "M12 19V6M6 11l6-6 6 6",
  plus: "M12 5v14M5 12h14",
  check: "M5 12.5l4.5 4.5L19 7.5",
  recognise: "M3 12s3.5-6 9-6 9 6 9 6-3.5 6-9 6-9-6-9-6zM12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6z",
  compare: "M4 5h6v14H4zM14 5h6v14h-6z",
  grow: "M12 20v-9M12 13c0-4 2.5-6 7-6 0 4.5-2.5 6-7 6zM12 15c0-3-2-5-6-5 0 3.5 2 5 6 5z",
  explore: "M5 4h6v5H5zM13 15h6v5h-6zM8 9v8.5h5",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5L20 20",
  part: "M4 9V5a1 1 0 0 1 1-1h4M15 4h4a1 1 0 0 1 1 1v4M20 15v4a1 1 0 0 1-1 1h-4M9 20H5a1 1 0 0 1-1-1v-4",
  save: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
};

export function icon(name) {
  const path = svg("path", { d: SHAPES[name] });
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, path);
}

/** How a class came to be known, told by shape, colour and words. `one` has a mark, and perhaps support in words. */
export function mark(one) {
  return el(
    "span",
    { class: `mark mark-${one.mark}`, "data-mark": one.mark, title: markWords(one.mark) },
    el("span", { class: "glyph", "aria-hidden": "true" }),
    known(one),
  );
}

export function legend() {
  const rows = ["seen", "unseen", "guesswork"].map((kind) =>
    el("li", {}, el("span", { class: `glyph glyph-${kind}`, "aria-hidden": "true" }), markWords(kind)),
  );
  return el("ul", { class: "legend" }, rows);
}

/** Trust as a sentence; nothing where nobody knows, or for a class that needs none. */
export function support(one) {
  if (one.trust === null || one.trust === undefined || one.mark === "seen" || one.mark === "link") return null;
  return el("p", { class: "support" }, supportSentence(one.trust));
}

/** A filled part of a track. Widths go through the CSS object model: the page's policy allows no style attributes. */
export function bar(part, kind = "") {
  const fillPart = el("span", { class: `bar-fill ${kind}` });
  fillPart.style.width = `${Math.max(0, Math.min(1, part)) * 100}%`;
  return fillPart;
}

/** Grey shapes where something will be. */
export function skeleton(lines = 3) {
  const bars = Array.from({ length: lines }, () => el("span", { class: "bone" }));
  return el("div", { class: "skeleton", role: "status", "aria-label": "Loading" }, bars);
}

/** Tell a screen reader. */
export function announce(text) {
  document.getElementById("status").textContent = shown(text);
}

let noticeTimer;
/** Tell everybody, for a while; `action` is [word, function]. */
export function notify(text, action = null) {
  const notice = document.getElementById("notice");
  const hide = () => (notice.hidden = true);
  const close = el(
    "button",
    { type: "button", class: "icon-button", "aria-label": "Dismiss", onclick: hide },
    icon("close"),
  );
  const act = () => {
    hide();
    action[1]();
  };
  const button = action && el("button", { type: "button", class: "notice-action", onclick: act }, action[0]);
  notice.replaceChildren(el("p", {}, text), ...(button ? [button] : []), close);
  notice.hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(hide, 9000);
}

/** Draw a part of the page anew and keep the focus on what has the same `data-focus`. */
export function redraw(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  place.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  if (focused)
    [...place.querySelectorAll("[data-focus]")]
      .find((one) => one.dataset.focus === focused)
      ?.focus({ preventScroll: true });
}
