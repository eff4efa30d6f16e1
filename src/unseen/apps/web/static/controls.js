// How sure a verdict must be, and which classes may answer.

import { Search } from "./search.js";
import { choose, CONFIDENCES, state } from "./state.js";
import { html, legend, useEffect, useRef, useState } from "./ui.js";
import { count, namesOf, number } from "./words.js";

const KINDS = [
  ["any", "Anything"],
  ["list", "Only these"],
  ["unseen", "Only what it was not trained on"],
  ["seen", "Only what it was trained on"],
  ["hops", "Not trained on, but closely related"],
  ["branch", "One branch, such as birds"],
];
const OFTEN = ["5 times in 10", "6 times in 10", "7 times in 10", "8 times in 10", "9 times in 10", "19 times in 20", "99 times in 100"];
const PAUSE = 450; // milliseconds after the last key, before a list is asked for
const narrow = window.matchMedia("(max-width: 800px)");

export function Controls() {
  const { kind, branch } = state.candidates;
  const word = kind === "branch" && branch ? branch.name : KINDS.find(([one]) => one === kind)[1];
  const [open, setOpen] = useState(!narrow.matches); // on a phone the photo comes first
  return html`<aside id="controls" class="controls" aria-label="How to answer">
    <details class="control-fold" open=${open} onToggle=${(event) => event.target.className === "control-fold" && setOpen(event.target.open)}>
      <summary>How to answer<span class="chosen soft">${word}</span></summary>
      <${Confidence} /><${Candidates} />${legend()}
    </details>
  </aside>`;
}

function Confidence() {
  const far = (at) => Math.abs(CONFIDENCES[at] - state.confidence);
  const at = CONFIDENCES.reduce((best, _, other) => (far(other) < far(best) ? other : best), 0);
  return html`<div class="trade">
    <div class="trade-head">
      <label for="confidence">How sure?</label><output for="confidence">right ${OFTEN[at]}</output>
    </div>
    <input
      type="range"
      id="confidence"
      min="0"
      max=${CONFIDENCES.length - 1}
      step="1"
      value=${at}
      aria-valuetext=${`right ${OFTEN[at]}`}
      onInput=${(event) => choose({ confidence: CONFIDENCES[event.target.value] })}
    />
    <div class="trade-ends soft" aria-hidden="true"><span>says more</span><span>errs less</span></div>
  </div>`;
}

function Candidates() {
  const { candidates } = state;
  const { kind, hops, branch } = candidates;
  const pick = (change) => choose({ candidates: { ...candidates, ...change } });
  const words =
    kind === "branch" && !branch
      ? "Choose a branch by its name."
      : kind === "list"
        ? null
        : state.classes
          ? `${number(state.classes)} kinds of things compete`
          : "";
  return html`<fieldset class="kinds">
    <legend>What may it be?</legend>
    <div class="choices">
      ${KINDS.map(
        ([one, word]) =>
          html`<span class="choice">
            <input
              type="radio"
              name="candidates"
              value=${one}
              id=${`candidates-${one}`}
              checked=${kind === one}
              onChange=${() => pick({ kind: one })}
            /><label for=${`candidates-${one}`}>${word}</label>
          </span>`,
      )}
    </div>
    ${kind === "list" && html`<${List} />`}
    ${kind === "hops" &&
    html`<div class="more">
      <label for="hops" class="only-read">How near</label>
      <select id="hops" value=${hops} onChange=${(event) => pick({ hops: Number(event.target.value) })}>
        ${[1, 2, 3, 4, 5, 6].map((n) => html`<option value=${n} selected=${n === hops}>${count(n, "step")} away at most</option>`)}
      </select>
    </div>`}
    ${kind === "branch" &&
    html`<div class="more">
      <${Search}
        id="branch"
        label="Branch of the hierarchy"
        placeholder="e.g. bird, tool, fruit"
        chosen=${branch?.name ?? ""}
        focus=${!branch}
        onpick=${({ id, name }) => pick({ kind: "branch", branch: { id, name } })}
      />
    </div>`}
    <p class="soft count" id="count">${words}</p>
  </fieldset>`;
}

/** The names that are all there is; answers follow while one types. */
function List() {
  const [text, setText] = useState(state.candidates.list);
  const timer = useRef(0);
  const typing = useRef(false);
  useEffect(() => {
    if (!typing.current) setText(state.candidates.list); // from the address, or the Back button
  }, [state.candidates.list]);
  const type = (event) => {
    const list = event.target.value;
    setText(list);
    typing.current = true;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      typing.current = false;
      choose({ candidates: { ...state.candidates, list } });
    }, PAUSE);
  };
  const names = namesOf(text);
  const meant = (one) => {
    const parent = one.parents[0]?.name;
    if (one.new) return `new, taken for a kind of ${parent}`;
    return one.others.length ? `a kind of ${parent}; not ${one.others[0].name}` : parent && `a kind of ${parent}`;
  };
  const current = state.listed.length > 0 && names.length > 0;
  return html`<div class="more list-box">
    <label for="list" class="only-read">Names, one a line or between commas</label>
    <textarea
      id="list"
      rows="4"
      maxlength="20000"
      spellcheck=${false}
      placeholder=${"okapi, quokka\nwheelie bin\ncrane (machine)"}
      aria-describedby="list-words"
      value=${text}
      onInput=${type}
    ></textarea>
    <div id="list-words" class="soft" role="status">
      ${!names.length && "Write names: one a line, or between commas. Any will do, also new ones."}
      ${names.length > 0 && state.problem && html`<span class="problem">${state.problem}</span>`}
      ${current && !state.problem && `${count(state.listed.length, "name")} compete`}
    </div>
    ${current &&
    !state.problem &&
    html`<details class="meant">
      <summary>What they mean</summary>
      <ul>
        ${state.listed.map((one) => html`<li key=${one.id}><b>${one.name}</b> <span class="soft">${meant(one)}</span></li>`)}
      </ul>
    </details>`}
  </div>`;
}
