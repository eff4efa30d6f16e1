// Starts the page: views by address (#recognise, #grow, #explore/ID), colours, and what to do when
// the server is gone: say so, ask now and then whether it is back, and go on.

import * as api from "./api.js";
import { Controls } from "./controls.js";
import { Explore } from "./explore.js";
import { Grow } from "./grow.js";
import { Camera, Intake, listenForPhotos } from "./intake.js";
import { rerank, restore } from "./photos.js";
import { Recognise } from "./recognise.js";
import { emit, loadBundle, loadStart, on, readAddress, state } from "./state.js";
import { announce, button, html, icon, notify, useState } from "./ui.js";
import { render } from "./vendor/preact.js";
import { setWords } from "./words.js";

const VIEWS = { recognise: "Recognise", grow: "Grow", explore: "Explore" };
const ALIVE = 2500; // milliseconds between two questions whether the server is back

function Page() {
  return html`
    <header class="top">
      <a class="brand" href="#recognise"><img src="/static/icon.svg" alt="" width="26" height="26" />unseen</a>
      <nav class="tabs" aria-label="Views">
        ${Object.entries(VIEWS).map(
          ([view, word]) =>
            html`<a href=${`#${view}`} data-view=${view} aria-current=${view === state.view ? "page" : null}>${icon(view)}${word}</a>`,
        )}
      </nav>
      <div class="top-end"><${Theme} /></div>
    </header>
    <main id="main" tabindex="-1">
      ${state.gone &&
      html`<div id="gone" class="gone-banner" role="alert">
        <p>The server does not answer. Your photos stay here; everything goes on once it is back.</p>
        ${button("Retry", askAlive)}
      </div>`}
      ${state.view === "recognise" &&
      html`<div id="workbench" class=${`workbench${state.photos.length ? " has-photos" : ""}`}>
        <${Intake} />
        ${state.photos.length > 0 ? html`<${Controls} /><${Recognise} />` : html`<h1 class="only-read">Recognise</h1>`}
      </div>`}
      ${state.view === "grow" && html`<${Grow} />`} ${state.view === "explore" && html`<${Explore} />`}
    </main>
    <footer class="foot">
      <p>
        unseen ${state.version}. The server keeps no photo; this browser does, until you remove it.
        <a href="/openapi.json">API</a>
      </p>
    </footer>
    <${Camera} />
  `;
}

const system = window.matchMedia("(prefers-color-scheme: dark)");

function Theme() {
  const [, turn] = useState(0);
  system.onchange = () => turn((n) => n + 1);
  const root = document.documentElement;
  const dark = (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const change = () => {
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("unseen-theme", root.dataset.theme);
    } catch {
      // Not remembered, then.
    }
    turn((n) => n + 1);
  };
  return button(null, change, { kind: "icon-button", sign: dark ? "sun" : "moon", id: "theme", "aria-label": dark ? "Light colours" : "Dark colours" });
}

// -- drawing: once, however much has changed ---------------------------------------------------------------------------

let waiting = false;
function draw() {
  if (waiting || !state.bundle) return;
  waiting = true;
  queueMicrotask(() => {
    waiting = false;
    render(html`<${Page} />`, document.getElementById("page"));
  });
}

// -- the address -------------------------------------------------------------------------------------------------------

/** The part of an address as it was meant; null where it is no valid one. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function showView() {
  if (location.hash === "#main") return; // the skip link
  const [name, id] = location.hash.slice(1).split(/\/(.*)/);
  const view = name in VIEWS ? name : "recognise";
  if (view !== state.view) window.scrollTo(0, 0);
  Object.assign(state, { view, id: view === "explore" && id ? decoded(id) : null });
  document.title = view === "recognise" ? "unseen" : `${VIEWS[view]} · unseen`;
  emit("view", view);
}

// -- the server ----------------------------------------------------------------------------------------------------------

let timer = null;

function lost() {
  if (state.gone) return;
  state.gone = true;
  timer = setInterval(askAlive, ALIVE);
  emit("gone");
}

async function askAlive() {
  if (!(await api.alive()) || !state.gone) return;
  clearInterval(timer);
  state.gone = false;
  announce("The server is back.");
  emit("back");
}

async function load() {
  const { words } = await loadStart();
  setWords(words);
  showView();
  await readAddress();
  await restore();
  document.body.dataset.ready = "true"; // for tests
}

async function start() {
  api.onLost(lost);
  on("changed", draw);
  listenForPhotos();
  window.addEventListener("hashchange", showView);
  window.addEventListener("popstate", async () => (await readAddress()) && rerank());
  // Another window may have changed what is there, or the server was restarted meanwhile.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && state.bundle && !state.gone) loadBundle().catch(() => {});
  });
  on("back", () => document.body.dataset.ready || load());
  await load().catch((error) => error.gone || notify(error.message));
}

start();
