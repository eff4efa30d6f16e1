// Photos come in: dropped, pasted, picked, photographed, or one of the samples. The first screen tells what this is about.

import * as api from "./api.js";
import { cellsOf, Heat, heatOf } from "./heat.js";
import { WorldMap } from "./map.js";
import { addFiles, forPage } from "./photos.js";
import { frame } from "./pictures.js";
import { Way } from "./recognise.js";
import { emit, ranking, state } from "./state.js";
import { button, html, icon, notify, skeleton, useEffect, useRef, useState } from "./ui.js";
import { explain } from "./why.js";
import { articleOf, number, percent, shown, verdictText } from "./words.js";

export function Intake() {
  const empty = !state.photos.length;
  return html`<section id="intake" class=${`intake${empty ? " intake-empty" : ""}`} aria-label="Photos">
    ${empty
      ? html`<div class="begin">
            <${Greeting} />
            <${Drop} />
            <${Samples} title="Nothing at hand? Try one of these" />
          </div>
          <${Story} />`
      : html`<${Drop} /><${Samples} title="Samples" />`}
  </section>`;
}

function Drop() {
  const take = (event) => {
    addFiles(event.target.files);
    event.target.value = "";
  };
  const input = (id, label, more) =>
    html`<input type="file" id=${id} accept="image/*" class="only-read" aria-label=${label} onChange=${take} ...${more} />`;
  return html`<div class="drop" id="drop">
    ${icon("photo")}
    <p class="drop-words">Drop photos here, or paste them</p>
    <div class="drop-buttons">
      ${input("pick", "Choose photos", { multiple: true })}
      <label class="button main" for="pick">Choose photos</label>
      <span class="shoot">
        ${input("shoot", "Take a photo", { capture: "environment" })}
        <label class="button" for="shoot">${icon("camera")}Take a photo</label>
      </span>
      ${navigator.mediaDevices?.getUserMedia &&
      button("Live camera", liveCamera, { kind: "button live", sign: "camera", id: "live" })}
    </div>
    <p class="soft drop-note">
      ${state.local
        ? "They stay on this computer: the server keeps no photo."
        : `They are sent to ${location.hostname}, which looks at them and keeps none.`}
    </p>
  </div>`;
}

function Samples({ title }) {
  const sample = ({ name, file, word, alt }) =>
    html`<button type="button" class="sample" data-sample=${name} title=${alt} onClick=${() => useSample(file)}>
      <img src=${`/static/samples/${file}`} alt=${alt} width="96" height="96" />
      <span aria-hidden="true">${word}</span>
    </button>`;
  return html`<div class="samples">
    <h2>${title}</h2>
    <div class="sample-row">${state.samples.map(sample)}</div>
  </div>`;
}

async function sampleFile(file) {
  const blob = await (await fetch(`/static/samples/${file}`)).blob();
  return new File([blob], file, { type: "image/jpeg" });
}

async function useSample(file) {
  try {
    await addFiles([await sampleFile(file)]);
  } catch {
    notify("The sample could not be loaded: the server does not answer.");
  }
}

/** Photos that are dropped or pasted anywhere. */
export function listenForPhotos() {
  const veil = document.getElementById("drop-veil");
  const files = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  window.addEventListener("dragenter", (event) => {
    if (files(event)) veil.hidden = false;
  });
  window.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) veil.hidden = true; // it left the window
  });
  window.addEventListener("dragover", (event) => files(event) && event.preventDefault());
  window.addEventListener("drop", (event) => {
    veil.hidden = true;
    if (!files(event)) return;
    event.preventDefault();
    if (state.view !== "recognise") location.hash = "#recognise";
    addFiles(event.dataTransfer.files);
  });
  window.addEventListener("paste", (event) => {
    const pasted = [...(event.clipboardData?.files || [])];
    if (!pasted.length) return;
    event.preventDefault();
    addFiles(pasted);
  });
}

// -- the first screen --------------------------------------------------------------------------------------------------

function Greeting() {
  const { seen, classes } = state.bundle;
  return html`<div class="greeting">
    <h2>Show it a photo.</h2>
    <p>
      This network was trained on <b>${number(seen)}</b> kinds of things. Here it can name <b>${number(classes)}</b>
      ${classes > 2 * seen ? ", most of which it was never shown." : "."}
    </p>
  </div>`;
}

/** One photo, from what the network says alone to what it can say now, with the relatives and the heat that say why. */
function Story() {
  const [story, setStory] = useState(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    tell().then(setStory, () => setFailed(true));
  }, []);
  if (failed || !state.samples.length) return null;
  if (!story) return html`<section class="story" aria-label="An example">${skeleton(5)}</section>`;
  const { sample, photo, answer, alone, now, why, cells } = story;
  const { verdict } = answer;
  const relatives = why?.neighbours.slice(0, 3).map((near) => near.name) ?? [];
  const fresh = now.training === "never shown";
  return html`<section class="story" aria-label="An example">
    <div class="photo-stage story-stage">
      <img src=${`/static/samples/${sample.file}`} alt=${`A sample: ${sample.alt}`} class="photo story-photo" />
      <${Heat} photo=${photo} cells=${cells} />
    </div>
    <div class="story-words">
      <p>Of what the network was trained on, it is most like <em>${alone.title}</em>.</p>
      <p>
        Now it can say <em>${now.title}</em>${fresh ? ", of which it was never shown a photo" : now.training === "trained on kinds of it" ? ": it was trained on kinds of it" : ""}.
      </p>
      ${fresh &&
      relatives.length > 0 &&
      html`<p>It put that together from ${relatives.map((name, at) => html`${at ? (at + 1 === relatives.length ? " and " : ", ") : ""}<em>${name}</em>`)}. The glow shows what in the photo speaks for it.</p>`}
      <p>
        ${verdict.id === null
          ? "It is not sure of that, and says so."
          : verdict.say === now.say
            ? `It is ${percent(verdict.probability)} sure of that.`
            : html`And it says of what it is sure: ${articleOf(verdict)}<em>${verdict.say}</em>.`}
      </p>
      <${Way} answer=${answer} />
    </div>
    <div class="story-map">
      <${WorldMap}
        still
        lit=${answer.nodes}
        here=${(answer.nodes.find((node) => node.here) ?? answer.nodes.at(-1))?.at}
        label=${`The map of all classes; lit up: ${verdictText(verdict)}`}
        onpick=${() => (location.hash = "#explore")}
      />
    </div>
  </section>`;
}

async function tell() {
  const sample = state.samples[0];
  const file = await sampleFile(sample.file);
  const photo = { file, name: sample.file, heat: new Map() };
  const plain = { ...ranking(), among: "" };
  const sent = (await api.classify(file, sample.file, { ...plain, candidates: "any" })).photos[0];
  const answer = forPage(sent);
  const now = answer.guesses[0];
  const [trained, why] = await Promise.all([
    api.rank({ ...plain, tokens: [sent.token], candidates: "seen" }),
    explain(now.id).catch(() => null),
    heatOf(photo, [now.id]).catch(() => null),
  ]);
  return { sample, photo, answer, alone: trained.photos[0].guesses[0], now, why, cells: cellsOf(photo, now.id) };
}

// -- the live camera: what it sees is named about once a second; a frame can be kept as a photo --------------------------

const PAUSE = 700; // milliseconds between two looks

async function liveCamera() {
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch {
    notify("There is no camera that this page may use.");
    return;
  }
  state.camera = stream;
  emit("camera");
}

/** A dialog while the camera is on. */
export function Camera() {
  const stream = state.camera;
  return stream ? html`<${Live} stream=${stream} />` : null;
}

function Live({ stream }) {
  const dialog = useRef(null);
  const video = useRef(null);
  const [says, setSays] = useState("Looking …");
  const [guess, setGuess] = useState("");
  const stop = () => {
    for (const track of stream.getTracks()) track.stop();
    state.camera = null;
    emit("camera");
    document.getElementById("live")?.focus();
  };
  const keep = async () => {
    const kept = await frame(video.current);
    dialog.current.close();
    addFiles([kept], [`camera ${new Date().toLocaleTimeString()}`]);
  };
  useEffect(() => {
    let looking = true;
    Object.assign(video.current, { muted: true, srcObject: stream });
    dialog.current.showModal();
    (async () => {
      while (looking) {
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
        if (!looking || !video.current?.videoWidth) continue;
        try {
          const answer = forPage((await api.classify(await frame(video.current), "live", ranking())).photos[0]);
          setSays(shown(verdictText(answer.verdict)));
          setGuess(answer.guesses[0] ? `Best guess: ${answer.guesses[0].title}` : "");
        } catch (error) {
          setSays(error.message);
        }
      }
    })();
    return () => {
      looking = false;
    };
  }, []);
  return html`<dialog ref=${dialog} class="live-dialog" aria-label="Live camera" onClose=${stop}>
    <video ref=${video} class="live-video" autoplay playsinline aria-label="What the camera sees"></video>
    <div class="live-words" role="status">
      <p class="live-says">${says}</p>
      <p class="live-guess">${guess}</p>
    </div>
    <div class="live-buttons">
      ${button("Keep this photo", keep, { kind: "button main", id: "live-keep" })}
      ${button("Stop", () => dialog.current.close(), { sign: "close", id: "live-stop" })}
    </div>
  </dialog>`;
}
