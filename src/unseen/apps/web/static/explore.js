// The map of everything, and beside it, for keyboards and screen readers too, what is at the place that one looks at.

import * as api from "./api.js";
import { addParent, beginWith } from "./grow.js";
import { WorldMap } from "./map.js";
import { Search } from "./search.js";
import { choose, state } from "./state.js";
import { announce, bar, button, exploreLink, focusOn, html, icon, legend, mark, skeleton, support, useAnswer, useEffect, useState } from "./ui.js";
import { known, number } from "./words.js";

const MANY = 24; // kinds listed at first

const go = (id) => (location.hash = exploreLink(id));
const link = (one) => html`<a href=${exploreLink(one.id)}>${one.name}</a>`;

export function Explore() {
  const { id } = state;
  const key = JSON.stringify([state.run, id, state.bundle.added.length, state.bundle.taught]);
  const [one, error] = useAnswer(id && key, () => api.details(id));
  const [last, setLast] = useState(null); // stays until the next one is there
  if (one && one !== last) setLast(one);
  const shown = one ?? (last?.id === id ? last : null);
  const photo = state.current?.answer ? state.current : null;
  const [lit, setLit] = useState(true);
  useEffect(() => {
    if (shown) announce(`${shown.name}, ${known(shown)}. ${shown.children} kinds below.`);
  }, [shown?.id]);
  return html`<section id="view-explore" class="page explore" aria-labelledby="explore-title">
    <div class="explore-head">
      <h1 id="explore-title"><a href="#explore">Explore</a></h1>
      <${Search}
        id="explore-search"
        label="Search the map"
        placeholder="Search: giraffe, hammer, mushroom …"
        onpick=${(found) => (go(found.id), focusOn(".class-card h2"))}
        onadd=${beginWith}
      />
    </div>
    <div class="explore-two">
      <div class="map-side">
        <${WorldMap}
          lit=${photo && lit ? photo.answer.nodes : null}
          here=${photo && lit ? photo.answer.nodes.find((node) => node.here)?.at : null}
          chosen=${id ? (shown?.at ?? null) : null}
          name=${shown?.say ?? ""}
          onpick=${go}
        />
        <div class="map-foot">
          ${legend()}
          ${photo &&
          html`<label class="lit-choice">
            <input type="checkbox" checked=${lit} onChange=${(event) => setLit(event.target.checked)} /> Lit by ${photo.name}
          </label>`}
        </div>
      </div>
      <div class="explored">
        ${!id && html`<${Start} />`}
        ${id && error && html`<p class="problem">${error.status === 404 ? "There is no class at this address." : error.message}</p>
          <p><a href="#explore">Begin with animals, food, tools …</a></p>`}
        ${id && !shown && !error && skeleton(6)} ${id && shown && !error && html`<${Class} one=${shown} />`}
      </div>
    </div>
  </section>`;
}

function Start() {
  const [answer] = useAnswer(state.run, api.topics);
  return html`<p class="soft">All that it can name has its place. What is alike lies side by side. Click one, or begin here:</p>
    <ul class="kin topics">
      ${answer?.topics.map(
        (topic) =>
          html`<li key=${topic.id}>
            <a class="kin-link topic" href=${exploreLink(topic.id)}>${topic.name} <span class="soft">${number(topic.descendants)}</span></a>
          </li>`,
      )}
    </ul>`;
}

function Class({ one }) {
  const within = () => {
    choose({ candidates: { ...state.candidates, kind: "branch", branch: { id: one.id, name: one.name } } });
    location.hash = "#recognise";
  };
  const grow = () => {
    addParent(one);
    location.hash = "#grow";
    focusOn("#grow-name");
  };
  return html`<nav aria-label="Way from the top">
      <ol class="trail">
        <li><a href="#explore">Start</a></li>
        ${one.path.map(
          (step) =>
            html`<li key=${step.id} aria-current=${step.id === one.id ? "page" : null}>${step.id === one.id ? step.name : link(step)}</li>`,
        )}
      </ol>
    </nav>
    <article class="panel class-card" data-id=${one.id}>
      <div class="class-head">
        <h2 tabindex="-1">${one.name}</h2>
        ${mark(one)}${one.added && html`<span class="tag">added</span>`}
      </div>
      ${one.lemmas.length > 1 && html`<p class="soft">also ${one.lemmas.slice(1).join(", ")}</p>`}
      ${one.definition && html`<p class="definition">${one.definition}</p>`}
      ${one.looks && html`<p class="looks"><b>Looks:</b> ${one.looks}</p>`}
      ${support(one)}
      <div class="row actions">
        ${one.descendants > 0 && button("Answer only within it", within, { "data-focus": "within" })}
        ${!state.readOnly && button("Add a kind of it", grow, { sign: "plus", "data-focus": "grow" })}
      </div>
      <details class="id"><summary>Id</summary><code>${one.id}</code></details>
      ${one.parents.length > 0 &&
      html`<div class="kin-row">
        <h3>${one.parents.length > 1 ? "It is a kind of each of" : "It is a kind of"}</h3>
        <ul class="kin">${one.parents.map((parent) => kin(parent, true))}</ul>
      </div>`}
      ${!one.descendants && html`<p class="soft">Nothing below it</p>`}
    </article>
    ${one.below.length > 0 && html`<${Below} key=${one.id} one=${one} />`} ${one.nearest.length > 0 && html`<${Nearest} one=${one} />`}`;
}

const kin = (one, up = false) =>
  html`<li key=${one.id}>
    <a class=${`kin-link dotted-${one.mark}`} href=${exploreLink(one.id)}>
      ${up && icon("up")}<span class=${`glyph glyph-${one.mark}`} aria-hidden="true"></span>${one.name}
      ${!up && one.children > 0 && html`<span class="soft">${number(one.children)}</span>`}
      <span class="only-read">, ${known(one)}</span>
    </a>
  </li>`;

function Below({ one }) {
  const [all, setAll] = useState(false);
  const rest = one.below.length - MANY;
  const unfold = () => {
    setAll(true);
    focusOn(`.kinds-below li:nth-child(${MANY + 1}) a`);
  };
  return html`<section class="panel" aria-labelledby="below-title">
    <h2 id="below-title">Kinds of ${one.name} <span class="soft">${number(one.descendants)}</span></h2>
    <ul class="kin kinds-below">${(all ? one.below : one.below.slice(0, MANY)).map((child) => kin(child))}</ul>
    ${!all && rest > 0 && button(`Show ${number(rest)} more`, unfold, { kind: "quiet" })}
    ${one.children > one.below.length &&
    html`<p class="soft">Listed are the first ${number(one.below.length)}: search for the others by name.</p>`}
  </section>`;
}

function Nearest({ one }) {
  return html`<section class="panel" aria-labelledby="nearest-title">
    <h2 id="nearest-title">Easily taken for</h2>
    <p class="soft">What looks most like “${one.name}” to the network.</p>
    <ol class="near-list">
      ${one.nearest.map(
        (near) =>
          html`<li key=${near.id} class="near" title=${`alike to ${Math.round(100 * near.likeness)} %`}>
            <span class="near-line">${link(near)}${mark(near)}</span>${bar(near.likeness, near.mark)}
          </li>`,
      )}
    </ol>
  </section>`;
}
