// How sure a verdict must be, which classes may answer, and, for those who want it, which sort is favoured.

import { choose, competes, info, state, SURENESS } from "./state.js";
import { button, html, legend, Search, useEffect, useRef, useState } from "./ui.js";
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
      <${Sure} /><${Candidates} /><${Favour} />${legend()}
    </details>
  </aside>`;
}

function Sure() {
  const near = (best, sure, at) => (Math.abs(sure - state.sure) < Math.abs(SURENESS[best] - state.sure) ? at : best);
  const at = SURENESS.reduce(near, 0);
  return html`<div class="trade">
    <div class="trade-head">
      <label for="sure">How sure?</label><output for="sure" id="sure-value">right ${OFTEN[at]}</output>
    </div>
    <input
      type="range"
      id="sure"
      class="plain"
      min="0"
      max=${SURENESS.length - 1}
      step="1"
      value=${at}
      aria-valuetext=${`right ${OFTEN[at]}`}
      onInput=${(event) => choose({ sure: SURENESS[event.target.value] })}
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
    return one.others.length ? `a kind of ${parent}; not ${one.others.map((other) => `that of ${other.name}`).slice(0, 1)}` : parent && `a kind of ${parent}`;
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

function Favour() {
  const percents = Math.round(state.balance * 100);
  const side = percents > 0 ? "what it was not trained on" : "what it was trained on";
  const said = percents === 0 ? "neither" : `${Math.abs(percents)} per cent towards ${side}`;
  const note = !competes()
    ? "Only matters where both sorts compete."
    : percents !== 0
      ? "How sure it is, is then only a rough figure."
      : info()?.calibrated_shift === null
        ? "Both sorts are taken as they come."
        : "Both sorts are balanced by photos.";
  return html`<details class="advanced" open=${percents !== 0 || null}>
    <summary>Advanced</summary>
    <div class="trade-head">
      <label for="balance">Favour</label>
      <output for="balance" id="balance-value">${percents === 0 ? "neither" : `${Math.abs(percents)} %`}</output>
      ${percents !== 0 && button("Reset", () => choose({ balance: 0 }), { kind: "quiet reset" })}
    </div>
    <input
      type="range"
      id="balance"
      min="-100"
      max="100"
      step="1"
      value=${percents}
      disabled=${!competes()}
      aria-describedby="balance-note"
      aria-valuetext=${said}
      onInput=${(event) => choose({ balance: Number(event.target.value) / 100 })}
    />
    <div class="trade-ends soft" aria-hidden="true"><span>trained on</span><span>not trained on</span></div>
    <p class="soft" id="balance-note">${note}</p>
  </details>`;
}
