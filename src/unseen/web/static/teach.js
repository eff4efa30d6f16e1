// "This is a ...": a photo becomes an example of a known or a new class, and the answers change at once.

import * as api from "./api.js";
import { announce, el, icon, notify, redraw } from "./dom.js";
import { rerank, retry } from "./photos.js";
import { searchBox } from "./search.js";
import { info, loadBundles, state } from "./state.js";
import { shown } from "./words.js";

/** A fold below the answers of a photo. */
export function teachFold(photo) {
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const kind = el("div", { class: "teach-kind" });
  const box = searchBox({
    label: "What is it?",
    placeholder: "e.g. okapi, my coffee mug",
    id: `teach-${photo.key}`,
    onpick: (one) => learn({ id: one.id }, one.name),
    onadd: askKind,
  });
  const fold = el(
    "details",
    { class: "teach" },
    el("summary", {}, "This is a …"),
    el(
      "p",
      { class: "soft" },
      "Say what it is, and this photo is its example. Known or new: the answers change at once.",
    ),
    box,
    kind,
    problem,
  );

  /** A new class needs something to be a kind of. */
  async function askKind(name) {
    const choose = (parent) => learn({ name, parents: [parent.id] }, name);
    const search = searchBox({
      label: `What kind of thing is ${name}?`,
      placeholder: "e.g. dog, cup, tool",
      onpick: choose,
    });
    redraw(kind, el("p", {}, "What kind of thing is ", el("b", {}, name), "?"), search);
    search.input.focus();
    const found = await api.suggest(name, state.bundle).catch(() => ({ parents: [] }));
    const buttons = found.parents.map((parent) =>
      el(
        "button",
        { type: "button", class: "chip-button", title: parent.definition, onclick: () => choose(parent) },
        icon("plus"),
        parent.name,
      ),
    );
    if (buttons.length) kind.append(el("p", { class: "row" }, el("span", { class: "soft" }, "Perhaps"), buttons));
  }

  async function learn(body, name) {
    problem.hidden = true;
    try {
      const answer = await send(body).catch(async (error) => {
        if (error.status !== 404 || body.again) throw error;
        await retry(photo); // the server has forgotten the photo: it is sent again
        return send(body);
      });
      kind.replaceChildren();
      fold.open = false;
      await refresh();
      announce(`Learned ${name} from this photo.`);
      notify(`Learned from this photo: ${name}.`, ["Undo", () => unlearn(answer.id, Boolean(body.name))]);
    } catch (error) {
      problem.textContent = shown(error.message);
      problem.hidden = false;
    }
  }
  const send = (body) => api.teach({ ...body, token: photo.token, bundle: state.bundle });

  return fold;
}

async function refresh() {
  await loadBundles();
  await rerank();
}

/** Forget what a class was taught; one that was made for it goes. */
export async function unlearn(id, whole) {
  try {
    await (whole ? api.remove(id, state.bundle) : api.unteach(id, state.bundle));
    await refresh();
    announce("Forgotten.");
  } catch (error) {
    notify(error.message);
  }
}

/** Classes that were taught but not added. */
export const taughtOnly = () => {
  const { added, taught } = info();
  return taught.filter((one) => !added.some((other) => other.id === one.id));
};
