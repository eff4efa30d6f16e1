// Ask about a part: drag a box over the photo (or press the button and use the arrow keys), and that part is a photo.

import { announce, el, icon, notify } from "./dom.js";
import { addFiles } from "./photos.js";
import { cut } from "./pictures.js";

const LEAST = 0.06; // of a side: a shorter drag is a click

/** A button for those who do not drag; dragging over `stage` works at any time. */
export function partChooser(stage, photo) {
  const box = el("div", { class: "part-box", hidden: true });
  let start = null;
  let choosing = null; // [left, top, right, bottom] by keyboard

  const show = ([left, top, right, bottom]) => {
    box.hidden = false;
    Object.assign(box.style, {
      left: `${100 * left}%`,
      top: `${100 * top}%`,
      width: `${100 * (right - left)}%`,
      height: `${100 * (bottom - top)}%`,
    });
  };
  const at = (event) => {
    const room = stage.getBoundingClientRect();
    const clamp = (value) => Math.max(0, Math.min(1, value));
    return [clamp((event.clientX - room.left) / room.width), clamp((event.clientY - room.top) / room.height)];
  };
  const between = ([x, y], [u, v]) => [Math.min(x, u), Math.min(y, v), Math.max(x, u), Math.max(y, v)];

  stage.append(box);
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || (event.pointerType === "touch" && !stage.classList.contains("choosing"))) return;
    event.preventDefault();
    start = at(event);
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => start && show(between(start, at(event))));
  stage.addEventListener("pointerup", (event) => {
    if (!start) return;
    const part = between(start, at(event));
    stop();
    if (part[2] - part[0] >= LEAST && part[3] - part[1] >= LEAST) ask(part);
  });
  stage.addEventListener("pointercancel", stop);

  function stop() {
    start = choosing = null;
    box.hidden = true;
    stage.classList.remove("choosing");
    button.setAttribute("aria-pressed", "false");
    words.textContent = "Ask about a part";
  }

  async function ask(part) {
    try {
      const size = `${Math.round(100 * (part[2] - part[0]))} x ${Math.round(100 * (part[3] - part[1]))} %`;
      await addFiles([await cut(photo.file, part)], [`${photo.name}, a part (${size})`]);
    } catch {
      notify("This browser cannot cut the photo.");
    }
  }

  function keys(event) {
    if (!choosing) return;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) {
      event.preventDefault();
      const [x, y] = step.map((one) => 0.05 * one);
      if (event.shiftKey) {
        choosing[2] = Math.max(choosing[0] + 0.1, Math.min(1, choosing[2] + x));
        choosing[3] = Math.max(choosing[1] + 0.1, Math.min(1, choosing[3] + y));
      } else {
        const [dx, dy] = [
          Math.max(-choosing[0], Math.min(1 - choosing[2], x)),
          Math.max(-choosing[1], Math.min(1 - choosing[3], y)),
        ];
        choosing = [choosing[0] + dx, choosing[1] + dy, choosing[2] + dx, choosing[3] + dy];
      }
      show(choosing);
    } else if (event.key === "Escape") stop();
  }

  const words = el("span", {}, "Ask about a part");
  const button = el(
    "button",
    {
      type: "button",
      class: "part-button",
      "aria-pressed": "false",
      title: "Drag a box over the photo",
      onkeydown: keys,
      onclick: () => {
        if (choosing) {
          const part = choosing;
          stop();
          ask(part);
          return;
        }
        choosing = [0.25, 0.25, 0.75, 0.75];
        show(choosing);
        stage.classList.add("choosing");
        button.setAttribute("aria-pressed", "true");
        words.textContent = "Ask about this part";
        announce("Drag a box over the photo. Or move it with the arrow keys, size it with Shift, and press Enter.");
      },
    },
    icon("part"),
    words,
  );
  return button;
}
