// Which classes may answer, and how far seen ones are held back.

import { el, legend, number } from "./dom.js";
import { searchBox } from "./search.js";
import { choose, competes, info, on, state } from "./state.js";

const KINDS = [
  ["any", "Any class"],
  ["unseen", "Unseen only"],
  ["seen", "Seen only"],
  ["hops", "Near seen ones"],
  ["branch", "One branch"],
];

export function startControls() {
  const place = document.getElementById("controls");
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
    { id: "hops", onchange: () => pickHops(Number(hops.value)) },
    [1, 2, 3, 4, 5, 6].map((n) =>
      el("option", { value: n, selected: n === 2 }, `${n} ${n === 1 ? "step" : "steps"} away at most`),
    ),
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
    onpick: pickBranch,
  });
  const branchRow = el("div", { class: "more", hidden: true }, branch);
  const chosenWord = el("span", { class: "chosen soft" });
  const count = el("p", { class: "soft count", id: "count" });

  const output = el("output", { for: "balance", id: "balance-value" });
  const slider = el("input", {
    type: "range",
    id: "balance",
    min: "-100",
    max: "100",
    step: "1",
    value: "0",
    list: "balance-middle",
    "aria-describedby": "balance-note",
  });
  slider.addEventListener("input", () => choose({ balance: Number(slider.value) / 100 }));
  const reset = el("button", { type: "button", class: "quiet reset", onclick: () => choose({ balance: 0 }) }, "Reset");
  const calibrated = el(
    "button",
    { type: "button", class: "quiet", onclick: () => choose({ balance: calibratedBalance() }) },
    "Calibrated",
  );
  const calibratedBalance = () => Math.max(-1, Math.min(1, info().calibrated_shift / info().reach));
  const note = el("p", { class: "soft", id: "balance-note" });

  place.replaceChildren(
    el(
      "details",
      { class: "control-fold", open: true },
      el("summary", {}, "Which classes may answer", chosenWord),
      el(
        "fieldset",
        { class: "kinds" },
        el("legend", { class: "only-read" }, "Which classes may answer"),
        el("div", { class: "choices" }, radios),
        hopsRow,
        branchRow,
        count,
      ),
      el(
        "div",
        { class: "trade", id: "trade" },
        el("div", { class: "trade-head" }, el("label", { for: "balance" }, "Trade-off"), output, calibrated, reset),
        slider,
        el("datalist", { id: "balance-middle" }, el("option", { value: "0" })),
        el(
          "div",
          { class: "trade-ends soft", "aria-hidden": "true" },
          el("span", {}, "favour seen"),
          el("span", {}, "favour unseen"),
        ),
        note,
      ),
      legend(),
    ),
  );

  function pickKind(kind) {
    choose({ candidates: { ...state.candidates, kind } });
    if (kind === "branch" && !state.candidates.branch) branch.input.focus();
  }
  const pickHops = (n) => choose({ candidates: { ...state.candidates, hops: n } });
  function pickBranch({ id, name }) {
    choose({ candidates: { ...state.candidates, kind: "branch", branch: { id, name } } });
  }

  function draw() {
    const { kind, hops: near, branch: chosen } = state.candidates;
    document.getElementById(`candidates-${kind}`).checked = true;
    hopsRow.hidden = kind !== "hops";
    branchRow.hidden = kind !== "branch";
    hops.value = near;
    if (chosen && document.activeElement !== branch.input) branch.show(chosen.name);
    slider.value = Math.round(state.balance * 100);
    slider.disabled = !competes();
    reset.hidden = state.balance === 0;
    calibrated.hidden = !info() || info().calibrated_shift === null || state.balance === calibratedBalance();
    const shift = state.balance * (info()?.reach || 1);
    output.textContent = state.balance === 0 ? "as it is" : `${shift > 0 ? "+" : "−"}${Math.abs(shift).toPrecision(2)}`;
    slider.setAttribute(
      "aria-valuetext",
      state.balance === 0
        ? "as it is"
        : `${Math.abs(Math.round(state.balance * 100))} per cent towards ${state.balance > 0 ? "unseen" : "seen"} classes`,
    );
    note.textContent = competes()
      ? "Takes points off seen classes, or gives them some: answers are ranked anew at once."
      : "Only matters where seen and unseen classes compete.";
    const word = kind === "branch" && chosen ? chosen.name : KINDS.find(([one]) => one === kind)[1];
    chosenWord.textContent = competes() && state.balance !== 0 ? `${word}, ${output.textContent}` : word;
    drawCount();
  }

  function drawCount() {
    const { kind, branch: chosen } = state.candidates;
    if (kind === "branch" && !chosen) count.textContent = "Choose a branch by its name.";
    else count.textContent = state.classes ? `${number(state.classes)} classes compete` : "";
  }

  on("settings", draw);
  on("bundles", draw);
  on("ranked", drawCount);
  on("answers", drawCount);
  // On a phone the photo comes first: the settings are folded away.
  if (window.matchMedia("(max-width: 800px)").matches) place.querySelector("details").open = false;
}
