// How a class that was never shown can be known: in words, and the relatives that it borrows from as a small tree.

import * as api from "./api.js";
import { knowledge, state } from "./state.js";
import { exploreLink, html, mark, skeleton, support, useAnswer, useEffect, useRef, useState } from "./ui.js";
import { shown } from "./words.js";

const reasons = new Map(); // [what it comes from, id] -> promise of the explanation

export function explain(id, from = knowledge()) {
  const key = JSON.stringify([from, id]);
  if (!reasons.has(key)) {
    const promise = api.explain(id, from.among);
    promise.catch(() => reasons.delete(key)); // asked again next time
    reasons.set(key, promise);
  }
  return reasons.get(key);
}

/** The reasons for a guess; of an answer by an earlier run of the server, which is asked again, not yet. */
export function Why({ guess, from, id }) {
  const key = from?.run === state.run ? JSON.stringify([from, guess.id]) : null;
  const [why, error] = useAnswer(key, () => explain(guess.id, from));
  const never = guess.training === "never shown";
  return html`<section class="why" id=${id} aria-label="Why">
    <h3>${never ? `How can it know ${guess.title}, which it was never shown?` : `How does it know ${guess.title}?`}</h3>
    ${error && html`<p class="problem">${error.message}</p>`}
    ${!why && !error && skeleton(5)}
    ${why && html`<${Known} why=${why} />`}
  </section>`;
}

function Known({ why }) {
  return html`
    ${why.definition && html`<p>${why.name}: ${why.definition}.</p>`}
    ${why.looks && html`<p class="soft">It looks like this: ${why.looks}.</p>`}
    <p class="soft">${sentence(why)}</p>
    ${support(why)}
    <${Tree} why=${why} />
    <div class="why-more">
      <a class="quiet" href=${exploreLink(why.id)}>See it on the map</a>
      <details class="id"><summary>Id</summary>${mark(why)} <code>${why.id}</code></details>
    </div>
  `;
}

function sentence(why) {
  if (why.photos) return `It learned from ${why.photos === 1 ? "1 photo" : `${why.photos} photos`} of yours, and from:`;
  if (why.mark === "seen") return "It was trained on photos of it. Its nearest relatives among what it was trained on:";
  const together = Math.round(100 * why.neighbours.reduce((sum, near) => sum + near.share, 0));
  const rest = together < 90 ? ` They give ${together} % of it; the rest comes in small parts from many others.` : "";
  return `By its relatives. What to look for is put together from things that it was trained on, above all from these.${rest}`;
}

// -- the tree ----------------------------------------------------------------------------------------------------

const ROW = 30;

/** Rows from the top down: {names, id, level, parent (index of a row)}. Chains of single nodes share a row. */
export function layOut(why) {
  const below = new Map();
  for (const { id, parent } of why.tree) below.set(parent, [...(below.get(parent) || []), id]);
  const shares = new Map(why.neighbours.map((near) => [near.id, near.share]));
  const ends = (id) => id === why.id || shares.has(id);
  const rows = [];
  const weight = (id) =>
    (shares.get(id) || 0) +
    (id === why.id ? 2 : 0) +
    (below.get(id) || []).reduce((sum, next) => sum + weight(next), 0);
  const visit = (id, level, parent) => {
    const chain = [id];
    let next = below.get(id) || [];
    while (next.length === 1 && !ends(id)) {
      if (ends(next[0])) break;
      id = next[0];
      chain.push(id);
      next = below.get(id) || [];
    }
    rows.push({ id, chain, level, parent, share: shares.get(id) });
    const at = rows.length - 1;
    for (const child of [...next].sort((a, b) => weight(b) - weight(a))) visit(child, level + 1, at);
  };
  for (const top of below.get(null) || []) visit(top, 0, -1);
  return rows;
}

function Tree({ why }) {
  const stage = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const measure = () => stage.current && setWidth(Math.max(260, stage.current.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(stage.current);
    return () => observer.disconnect();
  }, []);
  const rows = layOut(why);
  const narrow = width < 460;
  const step = narrow ? 15 : 24;
  const room = narrow ? 92 : 150; // of the shares on the right
  const x = (row) => 12 + row.level * step;
  const y = (at) => at * ROW + ROW / 2;
  const most = Math.max(...why.neighbours.map((near) => near.share), 1e-6);
  const branch = (row, at) =>
    row.parent >= 0 &&
    html`<path class="branch" d=${`M${x(rows[row.parent])} ${y(row.parent) + 7}V${y(at) - 6}q0 6 6 6H${x(row) - 9}`} />`;
  const twig = (row, at) => {
    const self = row.id === why.id;
    const names = row.chain.map((id) => why.nodes[id].name);
    const space = width - x(row) - 14 - (row.share === undefined ? 6 : room + 10);
    const kind = row.share === undefined && !self ? "" : `dot-${why.nodes[row.id].mark}`;
    return html`<a href=${exploreLink(row.id)} class="twig">
        <title>${names.join(" › ")}</title>
        ${self &&
        html`<rect class="self-back" x=${x(row) - 11} y=${y(at) - 13} width=${width - x(row) + 10} height="26" rx="8" />`}
        <circle class=${`dot ${kind}`} cx=${x(row)} cy=${y(at)} r=${kind ? 5.5 : 3} />
        <text x=${x(row) + 14} y=${y(at) + 4.5} class=${self ? "self" : row.share === undefined ? "between" : "near"}>
          ${fit(names, space, self ? 650 : 450)}
        </text>
      </a>
      ${row.share !== undefined && shareBar(row.share, most, width - room, y(at), room, narrow)}`;
  };
  const words = why.neighbours.map((near) => {
    const way = near.path.map((id) => why.nodes[id].name).join(", ");
    return html`<li>${near.name}: ${(100 * near.share).toFixed(1)} per cent. The way: ${way}</li>`;
  });
  return html`<div class="tree" ref=${stage}>
    ${width > 0 &&
    html`<svg
      class="tree-drawing"
      width=${width}
      height=${rows.length * ROW}
      viewBox=${`0 0 ${width} ${rows.length * ROW}`}
      role="group"
      aria-label=${`The place of ${why.name} in the hierarchy`}
    >
      ${rows.map(branch)} ${rows.map(twig)}
    </svg>`}
    <ul class="only-read">${words}</ul>
  </div>`;
}

function shareBar(share, most, x, y, room, narrow) {
  const length = room - 52;
  const percent = share >= 0.095 ? (100 * share).toFixed(0) : (100 * share).toFixed(1);
  return html`<text class="share" x=${x + room - 4} y=${y + 4.5} text-anchor="end">${`${percent} %`}</text>
    ${length > (narrow ? 30 : 0) &&
    html`<rect class="share-track" x=${x} y=${y - 3} width=${length} height="6" rx="3" />
      <rect class="share-fill" x=${x} y=${y - 3} width=${Math.max(3, (length * share) / most)} height="6" rx="3" />`}`;
}

let ruler;

/** As many of the last names as there is room for. */
function fit(names, space, weight) {
  ruler ||= document.createElement("canvas").getContext("2d");
  ruler.font = `${weight} 13.5px ${getComputedStyle(document.body).fontFamily}`;
  const wide = (words) => ruler.measureText(words).width;
  let kept = names.map(shown);
  let line = kept.join(" › ");
  while (wide(line) > space && kept.length > 1) {
    kept = kept.slice(1);
    line = `… › ${kept.join(" › ")}`;
  }
  while (wide(line) > space && line.length > 4) line = `${line.slice(0, -2).trimEnd()}…`;
  return line;
}
