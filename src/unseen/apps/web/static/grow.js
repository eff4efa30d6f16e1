// New classes: a name, what it is a kind of (proposed by its name), what it looks like. They answer at once, and while
// one types, where the class would stand on the photos is shown.

import * as api from "./api.js";
import { Search } from "./search.js";
import { emit, on, state } from "./state.js";
import { refresh, unlearn } from "./teach.js";
import { announce, button, exploreLink, focusOn, html, icon, mark, support, useAnswer, useState } from "./ui.js";
import { count, number, percent } from "./words.js";

const FIRST_PLACES = 5;
const TRIED = 20; // photos on which a class is tried out

const draft = { name: "", parents: [], looks: "", definition: "" };
let focusName = false; // once the view is shown

const edit = (change) => {
  Object.assign(draft, change);
  emit("draft");
};

/** Used by the map, too: "add a kind of it". */
export const addParent = ({ id, name }) =>
  draft.parents.some((parent) => parent.id === id) || edit({ parents: [...draft.parents, { id, name }] });

/** Begin a new class of that name. */
export function beginWith(name) {
  edit({ name });
  focusName = true;
  location.hash = "#grow";
}

on("view", (view) => {
  if (view !== "grow" || !focusName) return;
  focusName = false;
  focusOn("#grow-name");
});

/** A value that follows `value` once it has rested for a while. */
function useRested(value, pause) {
  const [rested, setRested] = useState(value);
  useAnswer(value, () => new Promise((resolve) => setTimeout(resolve, pause)).then(() => setRested(value)));
  return rested === value ? value : null;
}

export function Grow() {
  return html`<section id="view-grow" class="page" aria-labelledby="grow-title">
    <div class="view-head">
      <h1 id="grow-title">Grow</h1>
      <p class="soft">
        Name a thing that is missing and say what it is a kind of. No photo, no training: it takes part in the answers at once.
      </p>
    </div>
    <div class="two"><${Form} /><${Added} /></div>
    <${Places} />
  </section>`;
}

function Form() {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const { name, parents, looks, definition } = draft;
  const off = state.readOnly;
  const submit = async (event) => {
    event.preventDefault();
    setProblem(null);
    if (!parents.length)
      return setProblem("Say what kind of thing it is: choose from what is proposed, or search for it.");
    setBusy(true);
    try {
      for (const photo of state.photos) photo.before = photo.answer?.guesses.slice(0, 3) ?? null;
      const ids = parents.map((parent) => parent.id);
      const answer = await api.add({ name, looks, definition, parents: ids });
      edit({ name: "", parents: [], looks: "", definition: "" });
      await refresh();
      announce(`Added ${answer.added.at(-1).name}. It takes part in the answers now.`);
      focusOn(`[data-id="${CSS.escape(answer.id)}"] a`);
    } catch (error) {
      setProblem(error.message);
    }
    setBusy(false);
  };
  const field = (key) => ({ value: draft[key], disabled: off, onInput: (event) => edit({ [key]: event.target.value }) });
  const drop = (parent) => () => {
    edit({ parents: parents.filter((other) => other !== parent) });
    focusOn("#grow-parents");
  };
  return html`<form class=${`panel${off ? " off" : ""}`} id="grow-form" onSubmit=${submit}>
    <h2>Something new</h2>
    <label for="grow-name">Name</label>
    <input id="grow-name" type="text" required maxlength="200" autocomplete="off" placeholder="e.g. labradoodle" ...${field("name")} />
    <label for="grow-parents">What kind of thing is it?</label>
    <${Search} id="grow-parents" label="What kind of thing is it?" placeholder="e.g. poodle, retriever" onpick=${addParent} />
    <${Proposals} name=${name.trim()} />
    ${parents.length > 0 &&
    html`<ul class="chips" aria-label="It is a kind of">
      ${parents.map(
        (parent) =>
          html`<li key=${parent.id} class="chip">
            ${parent.name}
            <button type="button" class="icon-button" aria-label=${`Not ${parent.name}`} onClick=${drop(parent)}>${icon("close")}</button>
          </li>`,
      )}
    </ul>`}
    <label for="grow-looks">What does it look like? <span class="soft">(helps most)</span></label>
    <textarea
      id="grow-looks"
      rows="3"
      maxlength="2000"
      placeholder="e.g. shaggy cream or chocolate coat in loose curls, floppy ears, round black nose"
      ...${field("looks")}
    ></textarea>
    <${Tried} />
    <label for="grow-definition">What is it? <span class="soft">(helps)</span></label>
    <textarea
      id="grow-definition"
      rows="2"
      maxlength="2000"
      placeholder="e.g. a cross between a Labrador retriever and a poodle"
      ...${field("definition")}
    ></textarea>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <button type="submit" class="button main" disabled=${off || busy}>${busy ? "Adding …" : "Add it"}</button>
  </form>`;
}

/** What a name may be a kind of; and that it exists already. Both only for the name as it stands there now. */
function Proposals({ name }) {
  const rested = useRested(name, 250);
  const [proposal] = useAnswer(rested || null, () => api.suggest(rested));
  if (!proposal || proposal.name !== name) return html`<div class="proposals" role="status"></div>`;
  const fresh = proposal.parents.filter((one) => !draft.parents.some((parent) => parent.id === one.id));
  return html`<div class="proposals" role="status">
    ${proposal.exists
      .slice(0, 2)
      .map(
        (one) =>
          html`<p class="exists"><b>${name}</b> exists: <a href=${exploreLink(one.id)}>look at it</a>${one.definition ? ` (${one.definition})` : ""}.</p>`,
      )}
    ${fresh.length > 0 &&
    html`<p class="row">
      <span class="soft">Perhaps a kind of</span>
      ${fresh.map((one) => button(one.name, () => addParent(one), { kind: "chip-button", sign: "plus", title: one.definition, key: one.id }))}
    </p>`}
  </div>`;
}

/** Where the class would stand on the photos with the words typed so far. */
function Tried() {
  const photos = state.photos.filter((photo) => photo.token).slice(0, TRIED);
  const tokens = photos.map((photo) => photo.token);
  const { name, parents, looks, definition } = draft;
  const ready = name.trim() && parents.length && tokens.length;
  const body = { name, looks, definition, parents: parents.map((parent) => parent.id), tokens };
  const rested = useRested(ready ? JSON.stringify(body) : null, 400);
  const [answer] = useAnswer(rested, () => api.tryOut(JSON.parse(rested)));
  if (!ready) return null;
  const first = answer?.places.reduce((best, one) => (one.place < best.place ? one : best));
  const photo = first && photos.find((one) => one.token === first.token);
  return html`<p class="tried soft" id="grow-tried" role="status">
    ${photo
      ? html`With these words it would be number ${number(first.place)} of ${number(first.of)} on <b>${photo.name}</b>${photos.length > 1 ? `, the best of your ${number(photos.length)} photos.` : "."}`
      : "Trying it out on your photos …"}
  </p>`;
}

function Added() {
  const { added, taught } = state.bundle;
  const lessons = taught.filter((one) => !added.some((other) => other.id === one.id));
  const takeOut = (one) => async () => {
    await unlearn(one.id, true);
    focusOn("#grow-name");
  };
  const row = (one, onundo) =>
    html`<li key=${one.id} data-id=${one.id}>
      <div class="added-name"><a href=${exploreLink(one.id)}>${one.name}</a>${mark(one)}</div>
      ${button("Undo", onundo, { kind: "quiet", "data-focus": `undo ${one.id}`, "aria-label": `Undo: remove ${one.name}`, disabled: state.readOnly })}
      ${support(one)}
    </li>`;
  return html`<section class="panel" aria-labelledby="added-title">
    <h2 id="added-title">Added${added.length ? ` (${added.length})` : ""}</h2>
    ${added.length
      ? html`<ul class="added-list">${[...added].reverse().map((one) => row(one, takeOut(one)))}</ul>`
      : html`<p class="soft">
          ${state.readOnly
            ? "On this server nothing can be added: it was started for reading only."
            : "Nothing yet. What you add is listed here. It lasts until the server stops, unless you save it."}
        </p>`}
    ${lessons.length > 0 &&
    html`<h2>Taught with your photos (${lessons.length})</h2>
      <ul class="added-list">${lessons.map((one) => row(one, () => unlearn(one.id, false)))}</ul>`}
    ${added.length + lessons.length > 0 && !state.readOnly && html`<${Save} />`}
  </section>`;
}

function Save() {
  const [said, setSaid] = useState(null); // {name, command} or {problem} or "Saving …"
  const submit = async (event) => {
    event.preventDefault();
    const name = event.target.elements["save-name"].value;
    setSaid("Saving …");
    api.save({ name }).then(setSaid, (error) => setSaid({ problem: error.message }));
  };
  return html`<form class="save" id="save-form" onSubmit=${submit}>
    <label for="save-name">Save the grown model</label>
    <div class="row">
      <input id="save-name" type="text" required maxlength="60" placeholder="a name" autocomplete="off" />
      <button class="button">Save</button>
    </div>
    <p class="soft">What is not saved is lost when the server is restarted.</p>
    <p class=${`told${said?.problem ? " problem" : ""}`} role="status">
      ${said?.command ? html`Saved. Use it with <code>${said.command}</code>` : said?.name ? `Saved on the server as ${said.name}.` : (said?.problem ?? said)}
    </p>
  </form>`;
}

/** The photos on which an added class reaches the first places: before and after, also where it is part of a guess. */
function Places() {
  const names = new Map(state.bundle.added.map((one) => [one.id, one.name]));
  const watched = state.photos.filter((photo) => photo.token && photo.watched.some((one) => names.has(one.id)));
  const reached = (photo) => photo.watched.filter((one) => names.has(one.id) && one.place <= FIRST_PLACES);
  const photos = watched.filter((photo) => reached(photo).length).slice(0, 8);
  if (!watched.length) return null;
  const column = (title, guesses, extra = []) =>
    html`<div>
      <h3>${title}</h3>
      <ol>
        ${guesses.slice(0, 3).map((guess) => {
          const folded = extra.filter((one) => one.within === guess.id && one.id !== guess.id);
          return html`<li>
            ${guess.title}, ${percent(guess.probability)}
            ${folded.map((one) => html`<span class="folded">with <b>${names.get(one.id)}</b>, ${percent(one.probability)}</span>`)}
          </li>`;
        })}
      </ol>
    </div>`;
  const figure = (photo) =>
    html`<figure key=${photo.key} class="placed">
      <img src=${photo.url} alt=${photo.name} />
      <figcaption>
        ${reached(photo).map((one) => html`<p><b>${names.get(one.id)}</b> is number ${number(one.place)} of ${number(one.of)}</p>`)}
        <div class="before-after">
          ${photo.before && column("Before", photo.before)} ${column("Now", photo.answer.guesses, reached(photo))}
        </div>
      </figcaption>
    </figure>`;
  return html`<section class="panel wide" aria-labelledby="places-title">
    <h2 id="places-title">On your photos</h2>
    ${photos.length
      ? html`<div class="placed-row">${photos.map(figure)}</div>`
      : html`<p class="soft">On none of your ${count(watched.length, "photo")} does it reach the first ${FIRST_PLACES} places.</p>`}
  </section>`;
}
