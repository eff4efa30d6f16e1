// Starts the page: views by address (#recognise, #compare, #grow, #explore/ID), colours, models.

import * as api from "./api.js";
import { startCompare } from "./compare.js";
import { startControls } from "./controls.js";
import { icon, el, notify } from "./dom.js";
import { startExplore } from "./explore.js";
import { startGrow } from "./grow.js";
import { startHealth } from "./health.js";
import { startIntake } from "./intake.js";
import { restore } from "./photos.js";
import { startRecognise } from "./recognise.js";
import { startScore } from "./score.js";
import { choose, emit, loadBundles, on, readAddress, state } from "./state.js";
import { modelName } from "./words.js";

const VIEWS = ["recognise", "compare", "grow", "explore"];
let current = null;

/** The part of an address as it was meant; null where it is no valid one. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function show() {
  const [name, id] = location.hash.slice(1).split(/\/(.*)/);
  if (location.hash === "#main") return; // the skip link
  const view = VIEWS.includes(name) ? name : "recognise";
  for (const other of VIEWS) document.getElementById(`view-${other}`).hidden = other !== view;
  document.getElementById("workbench").hidden = !["recognise", "compare"].includes(view);
  document.getElementById("workbench").dataset.view = view;
  document.getElementById("recognise-title").hidden = view !== "recognise";
  for (const link of document.querySelectorAll(".tabs a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = view === "recognise" ? "unseen" : `${view[0].toUpperCase()}${view.slice(1)} · unseen`;
  if (view !== current) window.scrollTo(0, 0);
  current = view;
  emit("view", view, id ? decoded(id) : null);
}

function startTheme() {
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const draw = () => {
    button.replaceChildren(icon(dark() ? "sun" : "moon"));
    button.setAttribute("aria-label", dark() ? "Light colours" : "Dark colours");
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    try {
      localStorage.setItem("unseen-theme", document.documentElement.dataset.theme);
    } catch {
      // Not remembered, then.
    }
    draw();
  });
  system.addEventListener("change", draw);
  draw();
}

function startModels() {
  const select = document.getElementById("bundle");
  select.addEventListener("change", () => choose({ bundle: select.value }));
  const draw = () => {
    document.getElementById("bundle-choice").hidden = state.bundles.length < 2;
    select.replaceChildren(
      ...state.bundles.map((bundle) =>
        el("option", { value: bundle.name, selected: bundle.name === state.bundle }, modelName(bundle.name)),
      ),
    );
  };
  on("bundles", draw);
  on("settings", draw);
}

async function load() {
  const [version] = await Promise.all([api.version(), loadBundles()]);
  state.limits = version.limits;
  document.getElementById("foot-text").textContent =
    `unseen ${version.unseen}. The server keeps no photo; this browser does, until you remove it.`;
  await readAddress();
  await restore();
  window.addEventListener("hashchange", show);
  show();
  document.body.dataset.ready = "true"; // for tests
}

async function start() {
  startTheme();
  for (const link of document.querySelectorAll(".tabs a")) link.prepend(icon(link.dataset.view));
  for (const begin of [startHealth, startModels, startIntake, startControls, startRecognise, startScore, startCompare])
    begin();
  startGrow();
  startExplore();
  on("back", () => document.body.dataset.ready || load());
  await load().catch((error) => error.gone || notify(error.message));
}

start();
