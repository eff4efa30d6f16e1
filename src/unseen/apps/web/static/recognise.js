// One photo large: its heat and its verdict, its guesses and the reasons; all others as a grid of small ones.

import { Answers, Verdict } from "./answers.js";
import { cellsOf, Heat, heatOf, heatProblem } from "./heat.js";
import { WorldMap } from "./map.js";
import { askWithout, addFiles, judge, neighbour, removeAll, removePhoto, retry, select, show } from "./photos.js";
import { cut } from "./pictures.js";
import { among, emit, state } from "./state.js";
import { Teach } from "./teach.js";
import { announce, button, exploreLink, focusOn, html, icon, notify, useEffect, useRef, useState } from "./ui.js";
import { Why } from "./why.js";
import { percent, tableOf, toCsv, verdictText, wayOf } from "./words.js";

const narrow = window.matchMedia("(max-width: 800px)"); // the answers would be below the fold
const STEPS = 6; // of the way that are shown

export function Recognise() {
  const photo = state.current;
  const key = photo?.key;
  useEffect(() => {
    const card = document.getElementById(key);
    if (card && narrow.matches) card.scrollIntoView({ block: "start" });
  }, [key]);
  return html`<section id="view-recognise" class="results" aria-labelledby="recognise-title">
    <h1 id="recognise-title" class="only-read">Recognise</h1>
    <div class="cards">${photo && html`<${Card} key=${photo.key} photo=${photo} />`}</div>
    <${Tiles} />
    <${Session} />
  </section>`;
}

function Card({ photo }) {
  const { answer, selected } = photo;
  const [hovered, setHovered] = useState(null);
  const [teaching, setTeaching] = useState(false);
  const done = photo.state === "done";
  const guess = done && (answer.guesses.find((one) => one.id === selected) ?? null);
  const told = done && answer.guesses[0];
  const whyPanel = useRef(null);
  const pick = (id) => {
    select(photo, id);
    if (narrow.matches && photo.selected) setTimeout(() => whyPanel.current?.scrollIntoView({ block: "start", behavior: "smooth" }), 80);
  };
  const mine = (word, sign, onclick) => {
    const name = word.toLowerCase();
    return button(word, onclick, { kind: "chip-button", sign, "data-focus": name, "aria-pressed": String(photo.judged === name) });
  };
  const wrong = () => {
    judge(photo, "wrong");
    if (photo.judged === "wrong") setTeaching(true); // then what is it?
  };
  return html`<article
    class=${`card${photo.state === "failed" ? " failed" : ""}`}
    id=${photo.key}
    tabindex="-1"
    aria-label=${photo.name}
    aria-busy=${String(photo.state === "waiting")}
  >
    <${Proof} photo=${photo} hovered=${hovered} />
    <div class="answers-side">
      ${photo.state === "waiting" && html`<${Progress} photo=${photo} />`}
      ${photo.state === "failed" &&
      html`<p class="problem">${photo.error}</p>
        ${photo.again && button("Retry", () => retry(photo), { "data-focus": "retry" })}`}
      ${done &&
      html`
        <div class="verdict-place"><${Verdict} answer=${answer} /><${Way} answer=${answer} /></div>
        ${photo.erased && html`<${Without} photo=${photo} />`}
        <${Answers}
          guesses=${answer.guesses}
          label="Best guesses"
          selected=${(guess ?? told)?.id}
          controls=${`why-${photo.key}`}
          chances=${photo.erased?.chances}
          onpick=${pick}
          onlook=${setHovered}
        />
        <div class="judging" role="group" aria-label="Is this right?">
          <span class="soft">Is this right?</span>
          ${mine("Right", "check", () => judge(photo, "right"))} ${mine("Wrong", "close", wrong)}
        </div>
        ${!state.readOnly && html`<${Teach} photo=${photo} open=${teaching} ontoggle=${setTeaching} />`}
      `}
    </div>
    ${done &&
    html`<div class="below" ref=${whyPanel}>
      ${(guess ?? told) && html`<${Why} key=${(guess ?? told).id} guess=${guess ?? told} from=${answer.from} id=${`why-${photo.key}`} />`}
      <figure class="map-frame">
        <figcaption>
          <h3>Where it is on the map of everything</h3>
          <a class="quiet" href=${exploreLink(answer.verdict.id ?? told?.id ?? "")}>Look around</a>
        </figcaption>
        <${WorldMap}
          still
          lit=${answer.nodes}
          here=${(answer.nodes.find((node) => node.here) ?? answer.nodes.at(-1))?.at}
          label=${`The map of all classes; lit up: ${verdictText(answer.verdict)}`}
          onpick=${() => (location.hash = exploreLink(answer.verdict.id ?? told?.id ?? ""))}
        />
      </figure>
    </div>`}
  </article>`;
}

function Progress({ photo }) {
  return html`<div class="waiting">
    <span class="spinner" aria-hidden="true"></span>Looking …
    ${photo.cancel && button("Cancel", photo.cancel, { kind: "quiet", "data-focus": "cancel" })}
  </div>`;
}

// -- the photo and the proof in it -----------------------------------------------------------------------------------

function Proof({ photo, hovered }) {
  const { answer, erased } = photo;
  const done = photo.state === "done";
  const [heated, setHeated] = useState(true);
  const [, setLoaded] = useState(0);
  const [pair, setPair] = useState([null, null]);
  const [part, setPart] = useState(0);
  const [broken, setBroken] = useState(false);
  const [tiny, setTiny] = useState(false);
  const guesses = done ? answer.guesses : [];
  const verdict = done && answer.verdict.id !== null ? { id: answer.verdict.id, title: answer.verdict.say } : null;
  const things = [verdict, ...guesses].filter((one, at, all) => one && all.findIndex((other) => other?.title === one.title) === at);
  const titleOf = (id) => things.find((one) => one.id === id)?.title;
  const known = (id) => (titleOf(id) ? id : null);
  const first = hovered ?? known(pair[0]) ?? photo.selected ?? things[0]?.id ?? null;
  const rival = things.find((one) => one.id !== first && !related(answer, one.id, first)) ?? things.find((one) => one.id !== first);
  const second = known(pair[1]) !== null && pair[1] !== first ? pair[1] : (rival?.id ?? null);
  const ids = [...new Set([...things.map((one) => one.id), ...guesses.map((one) => one.id)])];
  const wanted = done && !broken ? JSON.stringify([among(), ids]) : null;
  useEffect(() => {
    if (wanted) heatOf(photo, ids).then(() => setLoaded((n) => n + 1));
  }, [wanted]);
  useEffect(() => setPair([null, null]), [photo.selected]);
  const mixed = hovered ? 0 : part / 100;
  const cells = done && heated && !erased ? cellsOf(photo, first, second, mixed) : null;
  const hidden = broken || photo.unseeable;
  const chip = (at, id, label) => html`<select
    class=${`chip-select chip-${at}`}
    aria-label=${label}
    value=${id ?? ""}
    onChange=${(event) => setPair(at ? [first, event.target.value] : [event.target.value, second])}
  >
    ${things.map((one) => html`<option value=${one.id} selected=${one.id === id}>${one.title}</option>`)}
  </select>`;
  const words =
    mixed === 0
      ? `The stronger the orange, the more that part speaks for ${titleOf(first)}.`
      : mixed === 1
        ? `The stronger the blue, the more that part speaks for ${titleOf(second)}.`
        : `Orange speaks for ${titleOf(first)}, blue for ${titleOf(second)}.`;
  return html`<figure class="photo-frame">
    <${Stage} photo=${photo} hidden=${hidden}>
      ${hidden
        ? html`<div class="photo photo-hidden">${icon("photo")}<span>No preview</span></div>`
        : html`<img
            src=${erased?.url ?? photo.url}
            alt=${`Your photo ${photo.name}`}
            class=${`photo${tiny ? " tiny" : ""}`}
            draggable=${false}
            onError=${() => setBroken(true)}
            onLoad=${(event) => setTiny(event.target.naturalWidth < 200 && event.target.naturalHeight < 200)}
          />`}
      ${!hidden && html`<${Heat} photo=${photo} cells=${cells} />`}
    <//>
    ${button(null, () => removePhoto(photo), { kind: "icon-button remove", sign: "close", "aria-label": `Remove ${photo.name}` })}
    ${done &&
    !hidden &&
    (heatProblem(photo)
      ? html`<p class="soft heat-words">This model cannot show where in the photo it looks.</p>`
      : things.length > 0 &&
        html`<div class="contrast">
          ${things.length > 1
            ? html`<p class="contrast-row">
                  <span>Why</span>${chip(0, first, "Why this")}<span>and not</span>${chip(1, second, "and not that")}
                </p>
                <input
                  type="range"
                  class="heat-slider"
                  min="0"
                  max="100"
                  step="5"
                  value=${part}
                  aria-label="From what speaks for the one to what speaks for the other"
                  aria-valuetext=${words}
                  onInput=${(event) => setPart(Number(event.target.value))}
                />`
            : null}
          <p class="soft heat-words" role="status">${heated ? words : "Heat is off."}</p>
        </div>`)}
    <figcaption>
      <span>${photo.name}</span>
      ${done &&
      !hidden &&
      button("Heat", () => setHeated(!heated), { kind: "part-button", sign: "heat", "aria-pressed": String(heated) })}
    </figcaption>
  </figure>`;
}

/** Whether one of two lies below the other: then they do not differ, the one only says more. */
function related({ nodes }, a, b) {
  const parents = new Map(nodes.map((node) => [node.id, node.parent]));
  const above = (id) => (id ? [id, ...above(parents.get(id))] : []);
  return above(a).includes(b) || above(b).includes(a);
}

const LEAST = 0.06; // of a side: a shorter drag is a click

/** The photo as a place to drag boxes on: to ask about a part, or without it. */
function Stage({ photo, hidden, children }) {
  const place = useRef(null);
  const [mode, setMode] = useState(null); // null, "ask" or "erase"
  const [box, setBox] = useState(null); // [left, top, right, bottom], each 0 to 1
  const start = useRef(null);
  const done = photo.state === "done" && !hidden;
  const point = (event) => {
    const room = place.current.getBoundingClientRect();
    const clamp = (value) => Math.max(0, Math.min(1, value));
    return [clamp((event.clientX - room.left) / room.width), clamp((event.clientY - room.top) / room.height)];
  };
  /** @type {(a: number[], b: number[]) => number[]} */
  const between = ([x, y], [u, v]) => [Math.min(x, u), Math.min(y, v), Math.max(x, u), Math.max(y, v)];
  const stop = () => {
    start.current = null;
    setBox(null);
    setMode(null);
  };
  const ask = async (part, how) => {
    stop();
    try {
      if (how === "erase") return await askWithout(photo, part);
      const size = `${Math.round(100 * (part[2] - part[0]))} x ${Math.round(100 * (part[3] - part[1]))} %`;
      await addFiles([await cut(photo.file, part)], [`${photo.name}, a part (${size})`]);
    } catch (error) {
      notify(error.gone || error.status ? error.message : "This browser cannot cut the photo.");
    }
  };
  const down = (event) => {
    if (!done || event.button !== 0 || (event.pointerType === "touch" && !mode)) return;
    event.preventDefault();
    start.current = point(event);
    place.current.setPointerCapture(event.pointerId);
  };
  const move = (event) => start.current && setBox(between(start.current, point(event)));
  const up = (event) => {
    if (!start.current) return;
    const part = between(start.current, point(event));
    start.current = null;
    if (part[2] - part[0] >= LEAST && part[3] - part[1] >= LEAST) ask(part, mode ?? "ask");
    else if (!mode) setBox(null);
  };
  const keys = (event) => {
    if (!mode || !box) return;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape") return stop();
    if (!step) return;
    event.preventDefault();
    const [x, y] = step.map((one) => 0.05 * one);
    if (event.shiftKey) {
      const end = (low, high, by) => Math.max(low + 0.1, Math.min(1, high + by));
      return setBox([box[0], box[1], end(box[0], box[2], x), end(box[1], box[3], y)]);
    }
    const dx = Math.max(-box[0], Math.min(1 - box[2], x));
    const dy = Math.max(-box[1], Math.min(1 - box[3], y));
    setBox([box[0] + dx, box[1] + dy, box[2] + dx, box[3] + dy]);
  };
  const choose = (wanted) => () => {
    if (mode === wanted && box) return ask(box, wanted);
    setMode(wanted);
    setBox([0.3, 0.3, 0.7, 0.7]);
    announce("Drag a box over the photo. Or move it with the arrow keys, size it with Shift, and press Enter.");
  };
  const tool = (name, sign, word, now) =>
    button(mode === name ? now : word, choose(name), {
      kind: "part-button",
      sign,
      title: "Drag a box over the photo",
      "data-focus": name,
      "aria-pressed": String(mode === name),
      onKeyDown: keys,
    });
  const spot = box && {
    left: `${100 * box[0]}%`,
    top: `${100 * box[1]}%`,
    width: `${100 * (box[2] - box[0])}%`,
    height: `${100 * (box[3] - box[1])}%`,
  };
  return html`<div
      ref=${place}
      class=${`photo-stage${mode ? " choosing" : ""}`}
      onPointerDown=${down}
      onPointerMove=${move}
      onPointerUp=${up}
      onPointerCancel=${stop}
    >
      ${children}
      ${box && html`<div class=${`part-box${mode === "erase" ? " part-erase" : ""}`} style=${spot}></div>`}
    </div>
    ${done &&
    html`<div class="photo-tools">
      ${tool("ask", "part", "Ask about a part", "Ask about this part")}
      ${tool("erase", "erase", "Erase a patch", "Erase this patch")}
      ${photo.erased && button("Put it back", () => askWithout(photo, null), { kind: "part-button", "data-focus": "restore" })}
    </div>`}`;
}

// -- the answer in words ------------------------------------------------------------------------------------------------

/** What the verdict becomes without a patch. */
function Without({ photo }) {
  const { answer } = photo.erased;
  return html`<p class="without" role="status">
    ${answer ? html`Without the patch: <b>${verdictText(answer.verdict)}</b>. Ticks show where the bars were.` : "Asking again …"}
  </p>`;
}

/** The way down the hierarchy, which fades as certainty drops. */
export function Way({ answer }) {
  const steps = wayOf(answer).slice(-STEPS);
  if (!steps.length) return null;
  return html`<ol class="way" aria-label="From the general to the particular, and how sure">
    ${steps.map(
      (node) =>
        html`<li
          key=${node.id}
          class=${node.here ? "step here" : "step"}
          title=${percent(node.probability)}
          style=${{ "--sure": Math.round(100 * node.probability) / 100 }}
        >
          <a href=${exploreLink(node.id)}>${node.name}</a>
          <span class="only-read">, ${percent(node.probability)}</span>
        </li>`,
    )}
  </ol>`;
}

// -- all photos --------------------------------------------------------------------------------------------------------

function Tiles() {
  if (state.photos.length < 2) return null;
  const go = (step) => () => {
    const photo = neighbour(step);
    show(photo);
    focusOn(step < 0 ? "#previous" : "#next");
  };
  const at = state.photos.indexOf(state.current) + 1;
  return html`<div class="tiles-head row">
      ${button(null, go(-1), { kind: "icon-button", sign: "back", id: "previous", "aria-label": "Previous photo" })}
      <span class="soft">${at} of ${state.photos.length}</span>
      ${button(null, go(1), { kind: "icon-button", sign: "chevron", id: "next", "aria-label": "Next photo" })}
    </div>
    <ol id="tiles" class="tiles" aria-label="All photos">
      ${state.photos.map((photo) => html`<${Tile} key=${photo.key} photo=${photo} />`)}
    </ol>`;
}

function Tile({ photo }) {
  const [broken, setBroken] = useState(false);
  const failed = photo.state === "failed";
  const words =
    photo.state === "done" ? verdictText(photo.answer.verdict) : failed ? `Could not be read. ${photo.error}` : "Looking …";
  return html`<li>
    <button
      type="button"
      class=${`tile${photo.judged ? ` tile-${photo.judged}` : ""}${failed ? " tile-failed" : ""}`}
      data-focus=${photo.key}
      aria-current=${String(photo === state.current)}
      aria-label=${`${photo.name}: ${words}`}
      onClick=${() => show(photo)}
    >
      ${broken || photo.unseeable
        ? html`<span class="tile-icon">${icon("photo")}</span>`
        : html`<img src=${photo.url} alt="" loading="lazy" onError=${() => setBroken(true)} />`}
      <span>${words}</span>
    </button>
  </li>`;
}

// -- how it did, by the marks that the person gave; and all answers as a table ---------------------------------------

function Session() {
  const [asking, setAsking] = useState(false);
  const done = state.photos.filter((photo) => photo.answer);
  const judged = done.filter((photo) => photo.judged);
  const right = judged.filter((photo) => photo.judged === "right").length;
  if (!done.length) return null;
  const forget = () => {
    setAsking(false);
    removeAll();
  };
  const ask = (wanted) => () => {
    setAsking(wanted);
    focusOn(wanted ? "#forget-really" : "#forget");
  };
  return html`<div id="score" class="session">
    <h2>This session</h2>
    <p class="score-line">
      ${judged.length
        ? html`<b>${right} of ${judged.length}</b> right, by your marks`
        : "Mark answers as right or wrong to keep a score."}
    </p>
    <div class="row">
      ${button("Answers as a table (CSV)", () => download(done), { kind: "quiet", sign: "save", id: "export" })}
      ${asking
        ? html`<span class="asking" role="group" aria-label="Forget all photos?">
            <span>Forget ${done.length === 1 ? "the photo" : `all ${state.photos.length} photos`}?</span>
            ${button("Forget", forget, { kind: "chip-button", id: "forget-really" })}
            ${button("Keep", ask(false), { kind: "chip-button" })}
          </span>`
        : button("Forget all photos", ask(true), { kind: "quiet", id: "forget" })}
    </div>
  </div>`;
}

function download(photos) {
  const url = URL.createObjectURL(new Blob(["\ufeff", toCsv(tableOf(photos))], { type: "text/csv" }));
  Object.assign(document.createElement("a"), { href: url, download: "answers.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof Element && event.target.closest("input, textarea, select, canvas, [role=option], dialog, .photo-tools");
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || typing || event.altKey || event.ctrlKey || event.metaKey || state.view !== "recognise") return;
  const photo = neighbour(step);
  if (!photo) return;
  show(photo);
  emit("photos");
});
