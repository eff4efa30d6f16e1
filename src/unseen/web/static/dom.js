// Building blocks of the page. Text is only ever set as text, so that a class named <script> is shown, not run.

/** An element: el("a", {href: "#x", class: "y", onclick: f}, "text", child, ...). */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-"))
      node.setAttribute(name, value); // "false" is a value there
    else if (value === false) continue;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
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
  recognise: "M3 12s3.5-6 9-6 9 6 9 6-3.5 6-9 6-9-6-9-6zM12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6z",
  compare: "M4 5h6v14H4zM14 5h6v14h-6z",
  grow: "M12 20v-9M12 13c0-4 2.5-6 7-6 0 4.5-2.5 6-7 6zM12 15c0-3-2-5-6-5 0 3.5 2 5 6 5z",
  explore: "M5 4h6v5H5zM13 15h6v5h-6zM8 9v8.5h5",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5L20 20",
};

export function icon(name) {
  const path = svg("path", { d: SHAPES[name] });
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, path);
}

const MARKS = {
  seen: ["seen", "The network was trained on photos of this class"],
  unseen: ["unseen", "The network was never shown this class"],
  guesswork: ["guesswork", "Never shown, and hardly supported by classes that were"],
  link: ["link", "Only connects other classes; never an answer"],
};

/** The mark of a class, told by shape, colour and word. */
export function mark(kind) {
  const [word, meaning] = MARKS[kind];
  return el(
    "span",
    { class: `mark mark-${kind}`, title: meaning },
    el("span", { class: "glyph", "aria-hidden": "true" }),
    word,
  );
}

export function legend() {
  return el(
    "ul",
    { class: "legend" },
    ["seen", "unseen", "guesswork"].map((kind) => el("li", {}, mark(kind), el("span", {}, MARKS[kind][1]))),
  );
}

/** The trust figure as a word and a meter. */
export function trustMeter(trust) {
  if (trust === null || trust === undefined) return null;
  const percent = Math.round(100 * trust);
  return el(
    "div",
    { class: "trust", title: "How well seen classes support this one" },
    el("span", {}, "Trust"),
    el(
      "span",
      {
        class: "meter",
        role: "meter",
        "aria-label": "Trust",
        "aria-valuemin": "0",
        "aria-valuemax": "100",
        "aria-valuenow": percent,
      },
      bar(trust),
    ),
    el("b", {}, `${percent} %`),
  );
}

/** A filled part of a track. Widths go through the CSS object model: the page's policy allows no style attributes. */
export function bar(part, kind = "") {
  const fillPart = el("span", { class: `bar-fill ${kind}` });
  fillPart.style.width = `${Math.max(0, Math.min(1, part)) * 100}%`;
  return fillPart;
}

export const number = (value) => value.toLocaleString("en");

/** Tell a screen reader. */
export function announce(text) {
  document.getElementById("status").textContent = text;
}

let noticeTimer;
/** Tell everybody, for a while. */
export function notify(text) {
  const notice = document.getElementById("notice");
  const close = el(
    "button",
    { type: "button", class: "icon-button", "aria-label": "Dismiss", onclick: () => (notice.hidden = true) },
    icon("close"),
  );
  notice.replaceChildren(el("p", {}, text), close);
  notice.hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => (notice.hidden = true), 9000);
}
