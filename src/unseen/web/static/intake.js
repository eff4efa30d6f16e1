// Photos come in: dropped, pasted, picked, photographed, or one of the samples.

import { liveCamera } from "./camera.js";
import { el, icon, notify } from "./dom.js";
import { addFiles } from "./photos.js";
import { on, state } from "./state.js";
import { greeting, story } from "./welcome.js";

const SAMPLES = [
  ["cat", "Cat", "A tabby cat"],
  ["coffee", "Coffee", "An espresso in a red cup"],
  ["rocket", "Rocket", "A rocket on its launch pad"],
  ["camera", "Tripod", "A man with a camera on a tripod"],
  ["astronaut", "A hard one", "A portrait of an astronaut, which it was not made for"],
];

export function startIntake() {
  const place = document.getElementById("intake");
  const draw = () => {
    const empty = !state.photos.length;
    place.classList.toggle("intake-empty", empty);
    document.getElementById("workbench").classList.toggle("has-photos", !empty);
    if (place.dataset.empty === String(empty)) return; // keeps the focus where it is
    place.dataset.empty = empty;
    place.replaceChildren(
      ...(empty
        ? [el("div", { class: "begin" }, greeting(), dropArea(), samples("Nothing at hand? Try one of these")), story()]
        : [dropArea(), samples("Samples")]),
    );
  };
  on("photos", draw);
  on("bundles", () => {
    delete place.dataset.empty;
    draw();
  });
  listen();
}

function dropArea() {
  const take = (event) => {
    addFiles(event.target.files);
    event.target.value = "";
  };
  const input = (id, label, more) =>
    el("input", {
      type: "file",
      id,
      accept: "image/*",
      class: "only-read",
      "aria-label": label,
      onchange: take,
      ...more,
    });
  const live =
    navigator.mediaDevices?.getUserMedia &&
    el(
      "button",
      { type: "button", class: "button live", id: "live", onclick: liveCamera },
      icon("camera"),
      "Live camera",
    );
  return el(
    "div",
    { class: "drop", id: "drop" },
    icon("photo"),
    el("p", { class: "drop-words" }, "Drop photos here, or paste them"),
    el(
      "div",
      { class: "drop-buttons" },
      input("pick", "Choose photos", { multiple: true }),
      el("label", { class: "button main", for: "pick" }, "Choose photos"),
      el(
        "span",
        { class: "shoot" },
        input("shoot", "Take a photo", { capture: "environment" }),
        el("label", { class: "button", for: "shoot" }, icon("camera"), "Take a photo"),
      ),
      live,
    ),
    el("p", { class: "soft drop-note" }, "They stay on this computer: the server keeps no photo."),
  );
}

function samples(title) {
  const buttons = SAMPLES.map(([name, word, alt]) =>
    el(
      "button",
      { type: "button", class: "sample", "data-sample": name, title: alt, onclick: () => useSample(name) },
      el("img", { src: `/static/samples/${name}.jpg`, alt, width: "96", height: "96" }),
      el("span", { "aria-hidden": "true" }, word),
    ),
  );
  return el("div", { class: "samples" }, el("h2", {}, title), el("div", { class: "sample-row" }, buttons));
}

async function useSample(name) {
  try {
    const blob = await (await fetch(`/static/samples/${name}.jpg`)).blob();
    await addFiles([new File([blob], `${name}.jpg`, { type: "image/jpeg" })]);
  } catch {
    notify("The sample could not be loaded: the server does not answer.");
  }
}

function listen() {
  const veil = document.getElementById("drop-veil");
  let inside = 0; // dragenter and dragleave come for every element below the pointer
  const files = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  window.addEventListener("dragenter", (event) => {
    if (!files(event)) return;
    inside += 1;
    veil.hidden = false;
  });
  window.addEventListener("dragleave", (event) => {
    if (files(event) && --inside <= 0) veil.hidden = true;
  });
  window.addEventListener("dragover", (event) => files(event) && event.preventDefault());
  window.addEventListener("drop", (event) => {
    inside = 0;
    veil.hidden = true;
    if (!files(event)) return;
    event.preventDefault();
    if (!["#recognise", "#compare", ""].includes(location.hash)) location.hash = "#recognise";
    addFiles(event.dataTransfer.files);
  });
  window.addEventListener("paste", (event) => {
    const pasted = [...(event.clipboardData?.files || [])];
    if (!pasted.length) return;
    event.preventDefault();
    addFiles(pasted);
  });
}
