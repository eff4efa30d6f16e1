// The relatives of a class: those that it borrows from, drawn as a small tree with their shares.

import { el, svg } from "./dom.js";
import { shown } from "./words.js";

const ROW = 30;

/** The tree, drawn anew whenever its room changes. */
export function drawTree(stage, why) {
  const rows = layOut(why);
  const draw = () => stage.replaceChildren(picture(rows, why, Math.max(260, stage.clientWidth)), spoken(why));
  draw();
  let width = stage.clientWidth;
  new ResizeObserver(() => {
    if (!stage.clientWidth || Math.abs(stage.clientWidth - width) < 4) return;
    width = stage.clientWidth;
    draw();
  }).observe(stage);
}

/** Rows from the top down: {names, id, level, parent (index of a row)}. Chains of single nodes share a row. */
function layOut(why) {
  const below = new Map();
  for (const { id, parent } of why.tree) below.set(parent, [...(below.get(parent) || []), id]);
  const shares = new Map(why.neighbours.map((near) => [near.id, near.share]));
  const ends = (id) => id === why.id || shares.has(id);
  const rows = [];
  const weight = (id) =>
    (shares.get(id) || 0) +
    (id === why.id ? 2 : 0) +
    (below.get(id) || []).reduce((sum, next) => sum + weight(next), 0);
  const walk = (id, level, parent) => {
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
    for (const child of [...next].sort((a, b) => weight(b) - weight(a))) walk(child, level + 1, at);
  };
  for (const top of below.get(null) || []) walk(top, 0, -1);
  return rows;
}

function picture(rows, why, width) {
  const narrow = width < 460;
  const step = narrow ? 15 : 24;
  const room = narrow ? 92 : 150; // of the shares on the right
  const x = (row) => 12 + row.level * step;
  const y = (at) => at * ROW + ROW / 2;
  const drawing = svg("svg", {
    class: "tree-drawing",
    width,
    height: rows.length * ROW,
    viewBox: `0 0 ${width} ${rows.length * ROW}`,
    role: "group",
    "aria-label": `The place of ${why.name} in the hierarchy`,
  });
  rows.forEach((row, at) => {
    if (row.parent < 0) return;
    const from = x(rows[row.parent]);
    drawing.append(
      svg("path", { class: "branch", d: `M${from} ${y(row.parent) + 7}V${y(at) - 6}q0 6 6 6H${x(row) - 9}` }),
    );
  });
  const most = Math.max(...why.neighbours.map((near) => near.share), 1e-6);
  rows.forEach((row, at) => {
    const self = row.id === why.id;
    const kind = why.nodes[row.id].mark;
    const left = x(row) + 14;
    const space = width - left - (row.share === undefined ? 6 : room + 10);
    const names = row.chain.map((id) => why.nodes[id].name);
    const text = svg("text", {
      x: left,
      y: y(at) + 4.5,
      class: self ? "self" : row.share === undefined ? "between" : "near",
    });
    const title = svg("title", {}, names.join(" › "));
    fit(text, names, space, self ? 650 : 450);
    const group = svg(
      "a",
      { href: `#explore/${encodeURIComponent(row.id)}`, class: "twig" },
      title,
      glyph(kind, x(row), y(at), row.share === undefined && !self),
      text,
    );
    if (self)
      group.prepend(
        svg("rect", {
          class: "self-back",
          x: x(row) - 11,
          y: y(at) - 13,
          width: width - x(row) + 10,
          height: 26,
          rx: 8,
        }),
      );
    drawing.append(group);
    if (row.share !== undefined) drawing.append(...shareBar(row.share, most, width - room, y(at), room, narrow));
  });
  return drawing;
}

function glyph(kind, x, y, small) {
  if (small) return svg("circle", { class: "dot", cx: x, cy: y, r: 3 });
  return svg("circle", { class: `dot dot-${kind}`, cx: x, cy: y, r: 5.5 });
}

function shareBar(share, most, x, y, room, narrow) {
  const length = room - 52;
  const percent = share >= 0.095 ? (100 * share).toFixed(0) : (100 * share).toFixed(1);
  const parts = [svg("text", { class: "share", x: x + room - 4, y: y + 4.5, "text-anchor": "end" }, `${percent} %`)];
  if (length > (narrow ? 30 : 0)) {
    parts.push(svg("rect", { class: "share-track", x, y: y - 3, width: length, height: 6, rx: 3 }));
    parts.push(
      svg("rect", { class: "share-fill", x, y: y - 3, width: Math.max(3, (length * share) / most), height: 6, rx: 3 }),
    );
  }
  return parts;
}

const ruler = document.createElement("canvas").getContext("2d");

/** As many of the last names as there is room for. */
function fit(text, names, space, weight) {
  ruler.font = `${weight} 13.5px ${getComputedStyle(document.body).fontFamily}`;
  const wide = (words) => ruler.measureText(words).width;
  let kept = names.map(shown);
  let line = kept.join(" › ");
  while (wide(line) > space && kept.length > 1) {
    kept = kept.slice(1);
    line = `… › ${kept.join(" › ")}`;
  }
  while (wide(line) > space && line.length > 4) line = `${line.slice(0, -2).trimEnd()}…`;
  text.textContent = line;
}

/** The same for those who cannot see the drawing. */
function spoken(why) {
  const parts = why.neighbours.map((near) => {
    const way = near.path.map((id) => why.nodes[id].name).join(", ");
    return el("li", {}, `${near.name}: ${(100 * near.share).toFixed(1)} per cent. The way: ${way}`);
  });
  return el("ul", { class: "only-read" }, parts);
}
