// Passing an answer on as a picture or a link; and a game: who goes down the hierarchy better, you or the network?

import * as api from "./api.js";
import { cellsOf, paint } from "./heat.js";
import { poster } from "./pictures.js";
import { addressOf, emit, state } from "./state.js";
import { announce, button, html, notify, useEffect, useState } from "./ui.js";
import { percent, shown, verdictText, wayOf } from "./words.js";

// -- share -------------------------------------------------------------------------------------------------------------

/** The picture of a photo's answer. */
export async function sharedPicture(photo) {
  const { verdict, guesses } = photo.answer;
  const id = verdict.id ?? guesses[0]?.id;
  const cells = cellsOf(photo, id);
  const canvas = Object.assign(document.createElement("canvas"), { width: 448, height: 448 });
  if (cells) paint(canvas, photo, cells);
  const best = guesses[0];
  const first = verdict.id === null ? `Perhaps ${best?.title ?? "nothing that I know"}` : verdictText(verdict);
  const shownOf = { "never shown": "a network that was never shown one", "trained on it": "a network that was trained on it" };
  const line = best ? `${best.title}, ${percent(best.probability)}: said by ${shownOf[best.training] ?? "a network that knows its kinds"}` : "";
  return poster(photo.file, cells ? canvas : null, [shown(first), shown(line)]);
}

export const linkOf = () => `${location.origin}${addressOf()}#recognise`;

export function Share({ photo }) {
  const [open, setOpen] = useState(false);
  const attempt = (work, done) => async () => {
    try {
      await work();
      notify(done);
      announce(done);
    } catch {
      notify("This browser does not allow that here.");
    }
  };
  const save = async () => {
    const url = URL.createObjectURL(await sharedPicture(photo));
    const name = (photo.answer.verdict.say ?? "unknown").replace(/[^\p{L}\p{N}]+/gu, "-");
    Object.assign(document.createElement("a"), { href: url, download: `unseen-${name}.png` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  const copy = () => navigator.clipboard.write([new ClipboardItem({ "image/png": sharedPicture(photo) })]);
  return html`<span class="share-tools">
    ${button("Share", () => setOpen(!open), { kind: "quiet", sign: "link", id: "share", "aria-expanded": String(open) })}
    ${open &&
    html`<span class="row" role="group" aria-label="Share">
      ${button("Save a picture", attempt(save, "The picture was saved."), { kind: "chip-button", id: "share-save" })}
      ${button("Copy the picture", attempt(copy, "The picture was copied."), { kind: "chip-button", id: "share-copy" })}
      ${button("Copy a link to these settings", attempt(() => navigator.clipboard.writeText(linkOf()), "The link was copied: it carries the settings and the list, not the photo."), { kind: "chip-button", id: "share-link" })}
    </span>`}
  </span>`;
}

// -- the game ----------------------------------------------------------------------------------------------------------

const OPTIONS = 4;
const LEVELS = 6;

/** The levels of a game: at each node of the network's way, what the next one is, and others that it could be. */
export function levelsOf(answer, siblings) {
  const way = wayOf(answer).slice(-LEVELS - 1);
  return way.slice(0, -1).map((node, at) => {
    const next = way[at + 1];
    const lit = answer.lit.filter((one) => one.parent === node.id && one.id !== next.id);
    const more = (siblings.get(node.id) ?? []).filter((one) => one.id !== next.id && !lit.some((two) => two.id === one.id));
    const others = [...lit.sort((a, b) => b.probability - a.probability), ...more].map(({ id, name }) => ({ id, name }));
    const options = [{ id: next.id, name: next.name }, ...others.filter((one) => one.name !== next.name).slice(0, OPTIONS - 1)];
    return { node, next, options: options.sort((a, b) => a.name.localeCompare(b.name)) };
  });
}

/** You name the next level first; then the network. Where you differ, you say who is right: only you can know. */
export function Game({ photo, onend }) {
  const [levels, setLevels] = useState(null);
  const [at, setAt] = useState(0);
  const [yours, setYours] = useState(null);
  const [score, setScore] = useState({ you: 0, network: 0 });
  useEffect(() => {
    const way = wayOf(photo.answer).slice(-LEVELS - 1);
    Promise.all(way.slice(0, -1).map((node) => api.details(node.id, state.bundle).catch(() => ({ below: [] })))).then((all) =>
      setLevels(levelsOf(photo.answer, new Map(all.map((one) => [one.id, one.below ?? []]))).filter((level) => level.options.length > 1)),
    );
  }, []);
  const finish = (result) => {
    state.game = { you: state.game.you + result.you, network: state.game.network + result.network };
    emit("game");
  };
  const advance = (you, network) => () => {
    const now = { you: score.you + you, network: score.network + network };
    setScore(now);
    setYours(null);
    if (at + 1 === levels.length || !network) {
      finish(now);
      setAt(levels.length);
    } else setAt(at + 1);
  };
  const end = button("Back to the answer", onend, { kind: "quiet", id: "game-end" });
  if (!levels) return html`<div class="game"><p class="soft">Getting ready …</p></div>`;
  const level = levels[at];
  const tally = html`<p class="soft">You ${score.you} : ${score.network} the network</p>`;
  if (!level)
    return html`<div class="game">
      <h2>${score.you > score.network ? "You win." : score.you < score.network ? "The network wins." : "A draw."}</h2>
      ${tally}${end}
    </div>`;
  const word = (option) => html`<b>${option.name}</b>`;
  return html`<div class="game" role="group" aria-label="You against the network">
    <p class="soft">Level ${at + 1} of ${levels.length}: it is ${at ? "a kind of " : ""}${word(level.node)}</p>
    <h2>What is it more exactly?</h2>
    ${tally}
    <div class="game-options">
      ${level.options.map((option) =>
        button(option.name, () => setYours(option), {
          kind: "chip-button",
          disabled: yours !== null,
          "aria-pressed": String(yours?.id === option.id),
          "data-option": option.id,
        }),
      )}
    </div>
    ${yours &&
    html`<p role="status">
        The network says ${word(level.next)}, ${percent(level.next.probability)}.
        ${yours.id === level.next.id ? " So do you." : " You differ: who is right?"}
      </p>
      <div class="row">
        ${yours.id === level.next.id
          ? [button("Both are right", advance(1, 1), { kind: "button main", id: "game-both" }), button("Both are wrong", advance(0, 0), { kind: "chip-button" })]
          : [button("I am right", advance(1, 0), { kind: "chip-button", id: "game-me" }), button("It is right", advance(0, 1), { kind: "chip-button", id: "game-it" })]}
      </div>`}
    ${end}
  </div>`;
}
