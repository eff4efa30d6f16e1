// "This is a ...": a photo becomes an example of a known or a new class, and the answers change at once.

import * as api from "./api.js";
import { rerank, retry } from "./photos.js";
import { Search } from "./search.js";
import { loadBundle } from "./state.js";
import { announce, button, focusOn, html, notify, useAnswer, useState } from "./ui.js";

/** A fold below the answers of a photo. */
export function Teach({ photo, open, ontoggle }) {
  const [name, setName] = useState(null); // of a new class, which needs something to be a kind of
  const [busy, setBusy] = useState(null); // the name that is being learned
  const [problem, setProblem] = useState(null);
  const [proposal] = useAnswer(name, () => api.suggest(name));
  const send = (body) => api.teach({ ...body, token: photo.token });
  const learn = async (body, what) => {
    setProblem(null);
    setBusy(what);
    try {
      const answer = await send(body).catch(async (error) => {
        if (error.status !== 404) throw error;
        await retry(photo); // the server has forgotten the photo: it is sent again
        return send(body);
      });
      await refresh();
      const { training } = answer.taught.find((one) => one.id === answer.id) ?? { training: "learned from 1 photo" };
      setName(null);
      ontoggle(false);
      announce(`${what}: ${training}.`);
      notify(`${what}: ${training}.`, ["Undo", () => unlearn(answer.id, Boolean(body.name))]);
      focusOn(".card .teach summary");
    } catch (error) {
      setProblem(error.message);
    }
    setBusy(null);
  };
  const kind = (parent) => learn({ name, parents: [parent.id] }, name);
  return html`<details class="teach" open=${open} onToggle=${(event) => ontoggle(event.target.open)}>
    <summary>This is a …</summary>
    <p class="soft">Say what it is, and this photo is its example. Known or new: the answers change at once.</p>
    ${busy
      ? html`<p class="waiting" role="status"><span class="spinner" aria-hidden="true"></span>Learning ${busy} from this photo …</p>`
      : html`<${Search}
          id=${`teach-${photo.key}`}
          label="What is it?"
          placeholder="e.g. okapi, my coffee mug"
          onpick=${(one) => learn({ id: one.id }, one.name)}
          onadd=${setName}
        />`}
    ${name &&
    !busy &&
    html`<div class="teach-kind">
      <p>What kind of thing is <b>${name}</b>?</p>
      <${Search}
        key=${name}
        id=${`kind-${photo.key}`}
        focus
        label=${`What kind of thing is ${name}?`}
        placeholder="e.g. dog, cup, tool"
        onpick=${kind}
      />
      ${proposal?.parents.length > 0 &&
      html`<p class="row">
        <span class="soft">Perhaps</span>
        ${proposal.parents.map((one) => button(one.name, () => kind(one), { kind: "chip-button", sign: "plus", title: one.definition }))}
      </p>`}
    </div>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
  </details>`;
}

/** The lists as they are, and new answers. */
export async function refresh() {
  await loadBundle();
  await rerank();
}

/** Forget what a class was taught; one that was made for it goes. After a restart of the server it is gone already. */
export async function unlearn(id, whole) {
  try {
    await (whole ? api.remove(id) : api.unteach(id));
    announce("Forgotten.");
  } catch (error) {
    if (error.status !== 404) return notify(error.message);
    notify("It is not there any more: the server was started anew.");
  }
  await refresh();
}
