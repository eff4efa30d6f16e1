// The hierarchy lit by a photo's probabilities: rings from the general to the particular; the darker, the surer.

import { svg } from "./dom.js";
import { wayOf } from "./verdict.js";
import { percent } from "./words.js";

const RINGS = 5;
const SURE = 0.9; // the middle is what is as good as certain

/** An SVG of `size` pixels for an answer. Arcs are links into the hierarchy. */
export function sunburst(answer, size = 340) {
  const { lit } = answer;
  const below = new Map();
  for (const node of lit) below.set(node.parent, [...(below.get(node.parent) || []), node]);
  const kids = (node) =>
    (below.get(node.id) || [])
      .filter((child) => child.probability >= 0.01)
      .sort((a, b) => b.probability - a.probability);
  const middle = size / 2;
  const hole = size * 0.13;
  const drawing = svg("svg", {
    class: "sunburst",
    viewBox: `0 0 ${size} ${size}`,
    role: "group",
    "aria-label": "What the photo may show, from the general in the middle to the particular outside",
  });
  const arcs = [];
  const walk = (node, from, to, ring) => {
    if (ring > RINGS) return;
    const children = kids(node);
    const whole = Math.max(
      node.probability,
      children.reduce((sum, child) => sum + child.probability, 0),
      1e-9,
    );
    let at = from;
    for (const child of children) {
      const end = at + ((to - from) * child.probability) / whole;
      if (end - at > 0.02) {
        arcs.push({ node: child, from: at, to: end, ring });
        walk(child, at, end, ring + 1);
      }
      at = end;
    }
  };
  const way = wayOf(answer);
  if (!way.length) return drawing;
  const certain = way.findLastIndex((node) => node.probability >= SURE);
  const start = way[Math.max(0, Math.min(certain, way.length - 4))];
  walk(start, 0, 2 * Math.PI, 1);
  const thick = (middle - hole - 2) / Math.max(...arcs.map((arc) => arc.ring), 3);
  for (const arc of arcs) drawing.append(draw(arc, middle, hole, thick));
  drawing.append(
    svg("text", { class: "sunburst-middle", x: middle, y: middle + 4, "text-anchor": "middle" }, short(start.name, 11)),
  );
  return drawing;
}

function draw({ node, from, to, ring }, middle, hole, thick) {
  const inner = hole + (ring - 1) * thick;
  const outer = inner + thick - 1.5;
  const whole = to - from > 2 * Math.PI - 1e-3;
  const end = whole ? from + 2 * Math.PI - 1e-3 : to;
  const point = (radius, angle) => `${middle + radius * Math.sin(angle)} ${middle - radius * Math.cos(angle)}`;
  const large = end - from > Math.PI ? 1 : 0;
  const path = svg("path", {
    d: `M${point(inner, from)}A${inner} ${inner} 0 ${large} 1 ${point(inner, end)}L${point(outer, end)}A${outer} ${outer} 0 ${large} 0 ${point(outer, from)}Z`,
  });
  path.style.setProperty("--sure", node.probability.toFixed(3));
  const link = svg(
    "a",
    {
      href: `#explore/${encodeURIComponent(node.id)}`,
      class: `arc${node.here ? " here" : ""}${node.probability < 0.5 ? " faint" : ""}`,
      tabindex: "-1", // the way in words leads to the same places
      "aria-label": `${node.name}, ${percent(node.probability)}`,
    },
    svg("title", {}, `${node.name}, ${percent(node.probability)}`),
    path,
  );
  const half = (from + end) / 2;
  const radius = (inner + outer) / 2;
  const room = Math.min((end - from) * radius, whole ? thick * 4 : (end - from) * radius);
  if (room > 44) {
    const angle = (half * 180) / Math.PI;
    const turned = angle > 90 && angle < 270 ? angle + 180 : angle;
    const [x, y] = point(radius, half).split(" ");
    link.append(
      svg(
        "text",
        { x, y, transform: `rotate(${turned} ${x} ${y})`, "text-anchor": "middle", "dominant-baseline": "central" },
        short(node.name, Math.floor(room / 6)),
      ),
    );
  }
  return link;
}

const short = (name, most) => (name.length > most ? `${name.slice(0, Math.max(1, most - 1))}…` : name);
