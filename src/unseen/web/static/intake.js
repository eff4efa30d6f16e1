// Photos come in: dropped, pasted, picked, photographed, or one of the samples.

import { el, icon, notify, number } from "./dom.js";
import { addFiles, info, on, state } from "./state.js";

const SAMPLES = [
  ["cat", "Cat", "A tabby cat"],
  ["coffee", "Coffee", "An espresso in a red cup"],
  ["rocket", "Rocket", "A rocket on its launch pad"],
  ["astronaut", "Astronaut", "An astronaut in an orange suit"],
  ["camera", "Camera", "A man with a camera on a tripod"],
  ["galaxies", "Galaxies", "Galaxies in deep space"],
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
        ? [greeting(), dropArea(), samples("Nothing at hand? Try one of these")]
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

function greeting() {
  const { seen, classes } = info();
  return el(
    "div",
    { class: "greeting" },
    el("h2", {}, "Show it a photo."),
    el(
      "p",
      {},
      "This network was trained on ",
      el("b", {}, number(seen)),
      " kinds of things. Here it can name ",
      el("b", {}, number(classes)),
      classes > 2 * seen ? ", most of which it was never shown." : ".",
    ),
  );
}

function dropArea() {
  const take = (event) => {
    addFiles(event.target.files);
    event.target.value = "";
  };
  const pick = el("input", {
    type: "file",
    id: "pick",
    accept: "image/*",
    multiple: true,
    class: "only-read",
    onchange: take,
  });
  const shoot = el("input", {
    type: "file",
    id: "shoot",
    accept: "image/*",
    capture: "environment",
    class: "only-read",
    onchange: take,
  });
  return el(
    "div",
    { class: "drop", id: "drop" },
    icon("photo"),
    el("p", { class: "drop-words" }, "Drop photos here, or paste them"),
    el(
      "div",
      { class: "drop-buttons" },
      pick,
      el("label", { class: "button main", for: "pick" }, "Choose photos"),
      shoot,
      el("label", { class: "button shoot", for: "shoot" }, icon("camera"), "Take a photo"),
    ),
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
  return el("div", { class: "samples" }, el("h3", {}, title), el("div", { class: "sample-row" }, buttons));
}

async function useSample(name) {
  try {
    const blob = await (await fetch(`/static/samples/${name}.jpg`)).blob();
    await addFiles([new File([blob], `${name}.jpg`, { type: "image/jpeg" })]);
  } catch {
    notify("The sample could not be loaded. Is `unseen serve` still running?");
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
