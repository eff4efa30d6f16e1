// The network alone and every model side by side, for one photo.

import * as api from "./api.js";
import { show } from "./photos.js";
import { Answers } from "./recognise.js";
import { among, candidatesText, competes, state } from "./state.js";
import { html, useAnswer, useState } from "./ui.js";
import { modelName, number, verdictText } from "./words.js";

export function Compare() {
  const ready = state.photos.filter((photo) => photo.token);
  const photo = ready.includes(state.current) ? state.current : ready[0];
  const asked = photo && {
    token: photo.token,
    candidates: candidatesText(),
    k: 5,
    sure: state.sure,
    balance: competes() ? state.balance : 0,
    among: among(),
  };
  const grown = state.bundles.map(({ added, taught }) => [added.length, taught.map((one) => one.photos)]);
  const [answer, error] = useAnswer(photo ? JSON.stringify([asked, grown, state.run]) : null, () => api.compare(asked));
  const [last, setLast] = useState(null); // columns stay until the next ones are there
  if (answer && answer !== last) setLast(answer);
  const [lit, setLit] = useState(null);
  const columns = (answer ?? last)?.columns;
  return html`<section id="view-compare" class="results" aria-labelledby="compare-title">
    <div class="view-head">
      <h1 id="compare-title">Compare</h1>
      <p class="soft">What the network says by itself, and what it can say with the hierarchy's help.</p>
    </div>
    ${!photo && html`<p class="empty">${state.photos.length ? "Looking …" : "Choose a photo or a sample first."}</p>`}
    ${error && html`<p class="problem">${error.message}</p>`}
    ${photo && html`<${Strip} photos=${ready} current=${photo} />`}
    ${photo &&
    columns &&
    html`<div class="columns" onPointerLeave=${() => setLit(null)}>
      ${columns.map((column, at) => html`<${Column} key=${`${column.bundle} ${at}`} answer=${column} lit=${lit} onlook=${setLit} />`)}
    </div>`}
    ${state.bundles.length < 2 &&
    html`<p class="soft hint">Start the server with several models to see them here: <code>unseen serve ONE ANOTHER</code></p>`}
  </section>`;
}

function Strip({ photos, current }) {
  return html`<div class="compare-photo">
    <img class="compared" src=${current.url} alt=${`Your photo ${current.name}`} />
    ${photos.length > 1 &&
    html`<div class="thumbs" role="group" aria-label="Photos">
      ${photos.map(
        (photo) =>
          html`<button
            key=${photo.key}
            type="button"
            class="thumb"
            data-focus=${photo.key}
            aria-pressed=${String(photo === current)}
            aria-label=${`Compare ${photo.name}`}
            onClick=${() => show(photo)}
          >
            <img src=${photo.url} alt="" />
          </button>`,
      )}
    </div>`}
  </div>`;
}

function Column({ answer, lit, onlook }) {
  const alone = answer.bundle === "network";
  const model = state.bundles.find((bundle) => bundle.name === answer.bundle);
  const title = alone ? "Network alone" : modelName(answer.title);
  const text = alone
    ? "only knows what it was trained on"
    : `names ${model ? number(model.classes) : "many"} kinds of things`;
  return html`<section class=${`column${alone ? " alone" : ""}`} aria-label=${title} data-bundle=${answer.bundle}>
    <h2>${title}</h2>
    <p class="soft">${text}</p>
    ${answer.verdict && html`<p class="column-verdict">${verdictText(answer.verdict)}</p>`}
    <${Answers} guesses=${answer.guesses ?? answer.labels} label=${`Best guesses of ${title}`} lit=${lit} onlook=${onlook} />
  </section>`;
}
