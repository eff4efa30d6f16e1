// When the server is gone: say so, ask now and then whether it is back, and go on.

import * as api from "./api.js";
import { announce, el } from "./dom.js";
import { emit, state } from "./state.js";

const PAUSE = 2500; // milliseconds between two questions

let timer = null;

export function startHealth() {
  api.onLost(lost);
}

function lost() {
  if (state.gone) return;
  state.gone = true;
  document.body.classList.add("gone");
  const banner = document.getElementById("gone");
  const retry = el("button", { type: "button", class: "button", onclick: ask }, "Retry");
  banner.replaceChildren(
    el("p", {}, "The server does not answer. Your photos stay here; everything goes on once it is back."),
    retry,
  );
  banner.hidden = false;
  timer = setInterval(ask, PAUSE);
}

async function ask() {
  if (!(await api.alive()) || !state.gone) return;
  clearInterval(timer);
  state.gone = false;
  document.body.classList.remove("gone");
  document.getElementById("gone").hidden = true;
  announce("The server is back.");
  emit("back");
}
