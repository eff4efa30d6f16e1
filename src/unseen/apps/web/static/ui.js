// Building blocks of the page. Text is only ever set as text, so that a class named <script> is shown, not run.

import htm from "./vendor/htm.js";
import { h, useEffect, useRef, useState } from "./vendor/preact.js";
import { known, markWords, shown, supportSentence } from "./words.js";

export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";

const SAID = ["title", "alt", "aria-label", "placeholder"]; // attributes that people read
const safe = (part) => (typeof part === "string" ? shown(part) : Array.isArray(part) ? part.map(safe) : part);

/** Preact's elements as a template; characters that hide or turn others are shown as such wherever they come from. */
export const html = htm.bind((type, attributes, ...children) => {
  for (const name of SAID)
    if (typeof attributes?.[name] === "string") attributes = { ...attributes, [name]: shown(attributes[name]) };
  return h(type, attributes, ...children.map(safe));
});

const SHAPES = {
  photo: "M4 7a2 2 0 0 1 2-2h12a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2zM4 16l5-5 4 4 2-2 5 5M15.5 9.5h.01",
  camera:
    "M4 8h3l2-3h6l2 3h3a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V9a1 1 0 0 1 1-1zM12 16.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7z",
  close: "M6 6l12 12M18 6L6 18",
  moon: "M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6L7 7M17 17l1.4 1.4M5.6 18.4L7 17M17 7l1.4-1.4",
  chevron: "M9 6l6 6-6 6",
  back: "M15 6l-6 6 6 6",
  up: "M12 19V6M6 11l6-6 6 6",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  check: "M5 12.5l4.5 4.5L19 7.5",
  recognise: "M3 12s3.5-6 9-6 9 6 9 6-3.5 6-9 6-9-6-9-6zM12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6z",
  grow: "M12 20v-9M12 13c0-4 2.5-6 7-6 0 4.5-2.5 6-7 6zM12 15c0-3-2-5-6-5 0 3.5 2 5 6 5z",
  explore: "M9 4L3.5 6.5v13L9 17l6 2.5 5.5-2.5V4L15 6.5 9 4zM9 4v13M15 6.5v13",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5L20 20",
  part: "M4 9V5a1 1 0 0 1 1-1h4M15 4h4a1 1 0 0 1 1 1v4M20 15v4a1 1 0 0 1-1 1h-4M9 20H5a1 1 0 0 1-1-1v-4",
  erase: "M8 19h12M4.5 14.5l8-9a1.5 1.5 0 0 1 2.2 0l4.3 4.3a1.5 1.5 0 0 1 0 2.1L13 18.5H8.500l-4-4z",
  heat: "M12 21c4 0 6.500-2.700 6.500-6.200 0-4-3.500-5.800-3.500-10-3 1.200-4.500 4-4 6.700-1.300-.5-2-1.700-2-3C6.500 10 5.500 12.300 5.500 14.800 5.500 18.300 8 21 12 21z",
  save: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
};

export const icon = (name) =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${SHAPES[name]} /></svg>`;

export const exploreLink = (id) => `#explore/${encodeURIComponent(id)}`;

/** How a class came to be known, by shape, colour and words. `one` has a mark, and perhaps support in words. */
export const mark = (one) =>
  html`<span class=${`mark mark-${one.mark}`} data-mark=${one.mark} title=${markWords(one.mark)}>
    <span class="glyph" aria-hidden="true"></span>${known(one)}
  </span>`;

export const legend = () =>
  html`<ul class="legend">
    ${["seen", "unseen", "guesswork"].map(
      (kind) =>
        html`<li><span class=${`glyph glyph-${kind}`} aria-hidden="true"></span><span>${markWords(kind)}</span></li>`,
    )}
  </ul>`;

/** Trust as a sentence; nothing for a class that needs none. */
export const support = (one) => one.support && html`<p class="support">${supportSentence(one.support)}</p>`;

/** A filled part of a track; `before` is a tick where it was. */
export const bar = (part, kind = "", before = null) =>
  html`<span class="track" aria-hidden="true">
    <span class=${`bar-fill ${kind}`} style=${{ width: `${Math.max(0, Math.min(1, part)) * 100}%` }}></span>
    ${before !== null && html`<span class="bar-tick" style=${{ left: `${before * 100}%` }}></span>`}
  </span>`;

/** Grey shapes where something will be. */
export const skeleton = (lines = 3) =>
  html`<div class="skeleton" role="status" aria-label="Loading">
    ${Array.from({ length: lines }, () => html`<span class="bone"></span>`)}
  </div>`;

/** @type {(text: any, onclick: Function, more?: Record<string, any>) => any} `kind` is its class, `sign` an icon */
export const button = (text, onclick, { kind = "button", sign = null, ...more } = {}) =>
  html`<button type="button" class=${kind} onClick=${onclick} ...${more}>${sign && icon(sign)}${text}</button>`;

/** Tell a screen reader. */
export function announce(text) {
  document.getElementById("status").textContent = shown(text);
}

let noticeTimer;
/** Tell everybody, for a while; `action` is [word, function]. */
export function notify(text, action = null) {
  const notice = document.getElementById("notice");
  const part = (tag, className, words, onclick) => {
    const node = Object.assign(document.createElement(tag), { className, textContent: shown(words) });
    if (onclick) Object.assign(node, { type: "button", onclick });
    return node;
  };
  const hide = () => (notice.hidden = true);
  const close = part("button", "icon-button", "×", hide);
  close.setAttribute("aria-label", "Dismiss");
  const act = action && part("button", "notice-action", action[0], () => (hide(), action[1]()));
  notice.replaceChildren(...[part("p", "", text), act, close].filter(Boolean));
  notice.hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(hide, 9000);
}

/** Put the focus on the first element that fits, once the page is drawn. */
export const focusOn = (selector) =>
  setTimeout(() => document.querySelector(selector)?.focus({ preventScroll: true }), 60);

/** What a promise brings, asked for anew whenever `key` changes: [answer, error]. */
export function useAnswer(key, ask) {
  const [result, setResult] = useState({ key: null, answer: null, error: null });
  const wanted = useRef(null);
  useEffect(() => {
    wanted.current = key;
    if (key === null) return;
    ask().then(
      (answer) => wanted.current === key && setResult({ key, answer, error: null }),
      (error) => wanted.current === key && setResult({ key, answer: null, error }),
    );
  }, [key]);
  return result.key === key ? [result.answer, result.error] : [null, null];
}
