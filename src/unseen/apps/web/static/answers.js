// An answer in words: the verdict, and the guesses as rows. The exported page shows the same.

import { bar, html, icon, mark, useLayoutEffect, useRef } from "./ui.js";
import { articleOf, percent } from "./words.js";

const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

export function Verdict({ answer: { verdict, guesses, calibrated } }) {
  const best = guesses[0];
  const unknown = verdict.id === null;
  return html`<div class=${`verdict${unknown ? " verdict-unknown" : ""}`}>
    ${unknown
      ? html`<h2>I don't know what this is.</h2>`
      : html`<h2><span class="hedge">${verdict.hedge}:</span> ${articleOf(verdict)}<b>${verdict.say}</b>
          <span class="soft"> (${percent(verdict.probability)})</span></h2>`}
    ${best &&
    best.say !== verdict.say &&
    html`<p class="best">
      ${unknown ? "If I had to guess: " : "Best guess: "}<b title=${percent(best.probability)}>${best.title}</b>
      ${best.probability < 0.3 ? ", but it may well be another." : "."}
    </p>`}
    ${!calibrated && html`<p class="soft rough">How sure it is, is only a rough figure for this model.</p>`}
  </div>`;
}

const few = (names) => names.slice(0, 2).join(", ") + (names.length > 2 ? ` and ${names.length - 2} more` : "");

/**
 * A list of guesses: names, how they came to be known, how probable each is. Rows glide to their new places.
 * `onpick(id)` makes rows buttons; `onlook(id or null)` hears what the pointer or the focus is on; `chances`: id ->
 * probability, shown instead, with a tick where it was.
 */
export function Answers({ guesses, label, onpick = null, onlook = null, selected = null, controls = null, chances = null }) {
  const list = useRef(null);
  const places = useRef(new Map());
  useLayoutEffect(() => {
    const now = new Map([...list.current.children].map((row) => [row.dataset.id, row.offsetTop]));
    if (!calm.matches)
      for (const row of list.current.children) {
        const old = places.current.get(row.dataset.id);
        const moved = old === undefined ? null : old - now.get(row.dataset.id);
        const from = moved === null ? { opacity: 0 } : { transform: `translateY(${moved}px)` };
        const to = moved === null ? { opacity: 1 } : { transform: "none" };
        if (moved !== 0) row.animate([from, to], { duration: 260, easing: "cubic-bezier(.2,.7,.2,1)" });
      }
    places.current = now;
  }, [guesses.map((guess) => guess.id).join()]);
  const row = (guess) => {
    const chance = chances?.get(guess.id) ?? guess.probability;
    const inside = html`<span class="answer-body">
      <span class="answer-line">
        <b class="name">${guess.title}</b>
        <span class="only-read">, ${percent(chance)}, </span>
        <span class="score" aria-hidden="true" data-percent=${percent(chance)}></span>
      </span>
      ${bar(chance, guess.mark, chances ? guess.probability : null)}
      <span class="answer-line soft">
        ${mark(guess)}
        ${guess.also?.length > 0 && html`<span class="also" title=${guess.also.join(", ")}>with ${few(guess.also)}</span>`}
      </span>
    </span>`;
    return html`<li
      key=${guess.id}
      class="answer"
      data-id=${guess.id}
      onPointerEnter=${() => onlook?.(guess.id)}
      onPointerLeave=${() => onlook?.(null)}
    >
      ${onpick
        ? html`<button
            type="button"
            aria-expanded=${String(guess.id === selected)}
            aria-controls=${controls}
            onClick=${() => onpick(guess.id)}
            onFocus=${() => onlook?.(guess.id)}
            onBlur=${() => onlook?.(null)}
          >
            ${inside}${icon("chevron")}
          </button>`
        : html`<div class="answer-plain">${inside}</div>`}
    </li>`;
  };
  return html`<ol class="answers" ref=${list} aria-label=${label}>${guesses.map(row)}</ol>`;
}
