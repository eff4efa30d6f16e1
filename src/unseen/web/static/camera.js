// The live camera: what it sees is named about once a second; a frame can be kept as a photo.

import * as api from "./api.js";
import { el, icon, notify } from "./dom.js";
import { addFiles } from "./photos.js";
import { frame } from "./pictures.js";
import { ranking } from "./state.js";
import { shown, verdictText } from "./words.js";

const PAUSE = 700; // milliseconds between two looks

export async function liveCamera() {
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch {
    notify("There is no camera that this page may use.");
    return;
  }
  const before = document.activeElement;
  const video = el("video", {
    class: "live-video",
    autoplay: true,
    playsinline: true,
    "aria-label": "What the camera sees",
  });
  video.muted = true;
  video.srcObject = stream;
  const says = el("p", { class: "live-says" }, "Looking …");
  const guess = el("p", { class: "live-guess" });
  const dialog = el(
    "dialog",
    { class: "live-dialog", "aria-label": "Live camera" },
    video,
    el("div", { class: "live-words", role: "status" }, says, guess),
    el(
      "div",
      { class: "live-buttons" },
      el("button", { type: "button", class: "button main", id: "live-keep", onclick: keep }, "Keep this photo"),
      el(
        "button",
        { type: "button", class: "button", id: "live-stop", onclick: () => dialog.close() },
        icon("close"),
        "Stop",
      ),
    ),
  );
  let looking = true;
  dialog.addEventListener("close", () => {
    looking = false;
    for (const track of stream.getTracks()) track.stop();
    dialog.remove();
    before?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();

  async function keep() {
    const kept = await frame(video);
    dialog.close();
    addFiles([kept], [`camera ${new Date().toLocaleTimeString()}`]);
  }

  while (looking) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (!looking || !video.videoWidth) continue;
    try {
      const answer = (await api.classify(await frame(video), "live", ranking())).photos[0];
      const words = shown(verdictText(answer.verdict));
      if (words !== says.textContent) says.textContent = words; // a screen reader hears changes only
      guess.textContent = answer.guesses[0] ? shown(`Best guess: ${answer.guesses[0].title}`) : "";
    } catch (error) {
      says.textContent = shown(error.message);
    }
  }
}
