// How it did in this session, by the marks that the person gave; and all answers as a table.

import { el, icon } from "./dom.js";
import { removeAll } from "./photos.js";
import { on, state } from "./state.js";
import { toCsv, verdictText } from "./words.js";

export function startScore() {
  const place = document.getElementById("score");
  const draw = () => {
    const done = state.photos.filter((photo) => photo.answer);
    const judged = done.filter((photo) => photo.judged);
    const right = judged.filter((photo) => photo.judged === "right").length;
    place.hidden = !done.length;
    if (!done.length) return;
    place.replaceChildren(
      el("h2", {}, "This session"),
      el(
        "p",
        { class: "score-line" },
        judged.length
          ? [el("b", {}, `${right} of ${judged.length}`), " right, by your marks"]
          : "Mark answers as right or wrong to keep a score.",
      ),
      el(
        "p",
        { class: "row" },
        el(
          "button",
          { type: "button", class: "quiet", id: "export", onclick: () => download(done) },
          icon("save"),
          "Answers as a table (CSV)",
        ),
        el("button", { type: "button", class: "quiet", id: "forget", onclick: removeAll }, "Forget all photos"),
      ),
    );
  };
  for (const event of ["judged", "photos", "ranked"]) on(event, draw);
  on("answers", draw);
}

export function table(photos) {
  const guesses = (photo) =>
    Array.from({ length: 3 }, (_, at) => photo.answer.guesses[at]).flatMap((guess) =>
      guess ? [guess.title, guess.id, guess.probability.toFixed(4)] : ["", "", ""],
    );
  const heads = [1, 2, 3].flatMap((n) => [`guess ${n}`, `id ${n}`, `probability ${n}`]);
  return [
    ["photo", "answer", "id", "probability", "level", "mark", ...heads],
    ...photos.map((photo) => {
      const { verdict } = photo.answer;
      const sure = verdict.id === null ? "" : verdict.probability.toFixed(4);
      return [photo.name, verdictText(verdict), verdict.id, sure, verdict.level, photo.judged, ...guesses(photo)];
    }),
  ];
}

function download(photos) {
  const url = URL.createObjectURL(new Blob(["\ufeff", toCsv(table(photos))], { type: "text/csv" }));
  el("a", { href: url, download: "answers.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
