// How sure a verdict must be, which classes may answer, and, for those who want it, which sort is favoured.

import { el, legend } from "./dom.js";
import { searchBox } from "./search.js";
import { choose, competes, info, on, state, SURENESS } from "./state.js";
import { number, shown } from "./words.js";

const KINDS = [
  ["any", "Anything"],
  ["unseen", "Only what it was not trained on"],
  ["seen", "Only what it was trained on"],
  ["hops", "Not trained on, but closely related"],
  ["branch", "One branch, such as birds"],
];
const OFTEN = { 0.5: "5 times in 10", 0.6: "6 times in 10", 0.7: "7 times in 10", 0.8: "8 times in 10" };
Object.assign(OFTEN, { 0.9: "9 times in 10", 0.95: "19 times in 20", 0.99: "99 times in 100" });

export function startControls() {
  const place = document.getElementById("controls");
  const chosenWord = el("span", { class: "chosen soft" });
  const candidates = candidateControls();
  const parts = [sureControl(), candidates, favourControl()];
  place.replaceChildren(
    el(
      "details",
      { class: "control-fold", open: true },
      el("summary", {}, "How to answer", chosenWord),
      parts.map((part) => part.root),
      legend(),
    ),
  );
  const draw = () => {
    for (const part of parts) part.draw();
    chosenWord.textContent = shown(candidates.word());
  };
  for (const event of ["settings", "bundles", "ranked", "answers"]) on(event, draw);
  // On a phone the photo comes first: the settings are folded away.
  if (window.matchMedia("(max-width: 800px)").matches) place.querySelector("details").open = false;
}

function sureControl() {
  const output = el("output", { for: "sure", id: "sure-value" });
  const slider = el("input", {
    type: "range",
    id: "sure",
    class: "plain",
    min: "0",
    max: SURENESS.length - 1,
    step: "1",
  });
  slider.addEventListener("input", () => choose({ sure: SURENESS[slider.value] }));
  const root = el(
    "div",
    { class: "trade" },
    el("div", { class: "trade-head" }, el("label", { for: "sure" }, "How sure?"), output),
    slider,
    el(
      "div",
      { class: "trade-ends soft", "aria-hidden": "true" },
      el("span", {}, "says more"),
      el("span", {}, "errs less"),
    ),
  );
  const draw = () => {
    const at = SURENESS.reduce(
      (best, sure, i) => (Math.abs(sure - state.sure) < Math.abs(SURENESS[best] - state.sure) ? i : best),
      0,
    );
    slider.value = at;
    output.textContent = `right ${OFTEN[SURENESS[at]]}`;
    slider.setAttribute("aria-valuetext", output.textContent);
  };
  return { root, draw };
}

function candidateControls() {
  const radios = KINDS.map(([kind, word]) => {
    const radio = el("input", {
      type: "radio",
      name: "candidates",
      value: kind,
      id: `candidates-${kind}`,
      checked: kind === "any",
      onchange: () => pickKind(kind),
    });
    return el("span", { class: "choice" }, radio, el("label", { for: radio.id }, word));
  });
  const hops = el(
    "select",
    { id: "hops", onchange: () => choose({ candidates: { ...state.candidates, hops: Number(hops.value) } }) },
    [1, 2, 3, 4, 5, 6].map((n) => el("option", { value: n }, `${n} ${n === 1 ? "step" : "steps"} away at most`)),
  );
  const hopsRow = el(
    "div",
    { class: "more", hidden: true },
    el("label", { for: "hops", class: "only-read" }, "How near"),
    hops,
  );
  const branch = searchBox({
    label: "Branch of the hierarchy",
    placeholder: "e.g. bird, tool, fruit",
    id: "branch",
    keep: true,
    onpick: ({ id, name }) => choose({ candidates: { ...state.candidates, kind: "branch", branch: { id, name } } }),
  });
  const branchRow = el("div", { class: "more", hidden: true }, branch);
  const count = el("p", { class: "soft count", id: "count" });
  const root = el(
    "fieldset",
    { class: "kinds" },
    el("legend", {}, "What may it be?"),
    el("div", { class: "choices" }, radios),
    hopsRow,
    branchRow,
    count,
  );

  function pickKind(kind) {
    choose({ candidates: { ...state.candidates, kind } });
    if (kind === "branch" && !state.candidates.branch) branch.input.focus();
  }

  function draw() {
    const { kind, hops: near, branch: chosen } = state.candidates;
    document.getElementById(`candidates-${kind}`).checked = true;
    hopsRow.hidden = kind !== "hops";
    branchRow.hidden = kind !== "branch";
    hops.value = near;
    if (chosen && document.activeElement !== branch.input) branch.show(chosen.name);
    if (kind === "branch" && !chosen) count.textContent = "Choose a branch by its name.";
    else count.textContent = state.classes ? `${number(state.classes)} kinds of things compete` : "";
  }

  function word() {
    const { kind, branch: chosen } = state.candidates;
    return kind === "branch" && chosen ? chosen.name : KINDS.find(([one]) => one === kind)[1];
  }
  return { root, draw, word };
}

function favourControl() {
  const output = el("output", { for: "balance", id: "balance-value" });
  const slider = el("input", {
    type: "range",
    id: "balance",
    min: "-100",
    max: "100",
    step: "1",
    value: "0",
    "aria-describedby": "balance-note",
  });
  slider.addEventListener("input", () => choose({ balance: Number(slider.value) / 100 }));
  const reset = el("button", { type: "button", class: "quiet reset", onclick: () => choose({ balance: 0 }) }, "Reset");
  const note = el("p", { class: "soft", id: "balance-note" });
  const root = el(
    "details",
    { class: "advanced" },
    el("summary", {}, "Advanced"),
    el("div", { class: "trade-head" }, el("label", { for: "balance" }, "Favour"), output, reset),
    slider,
    el(
      "div",
      { class: "trade-ends soft", "aria-hidden": "true" },
      el("span", {}, "trained on"),
      el("span", {}, "not trained on"),
    ),
    note,
  );
  const draw = () => {
    const percents = Math.round(state.balance * 100);
    slider.value = percents;
    slider.disabled = !competes();
    reset.hidden = percents === 0;
    if (percents !== 0) root.open = true;
    output.textContent = percents === 0 ? "neither" : `${Math.abs(percents)} %`;
    const side = percents > 0 ? "what it was not trained on" : "what it was trained on";
    slider.setAttribute(
      "aria-valuetext",
      percents === 0 ? "neither" : `${Math.abs(percents)} per cent towards ${side}`,
    );
    if (!competes()) note.textContent = "Only matters where both sorts compete.";
    else if (percents === 0)
      note.textContent =
        info()?.calibrated_shift === null ? "Both sorts are taken as they come." : "Both sorts are balanced by photos.";
    else note.textContent = "How sure it is, is then only a rough figure.";
  };
  return { root, draw };
}
