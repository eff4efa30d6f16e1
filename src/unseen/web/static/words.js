// What the page says, in words.

// Not shown, but they change what is: as in unseen/web/names.py.
const HIDDEN =
  /[\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** A text from elsewhere, with \u202e where it has such a character, so that everyone sees that it has. */
export const shown = (text) =>
  text.replace(HIDDEN, (hidden) => `\\u${hidden.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** How a verdict begins; null where there is none. */
export const hedge = (verdict) => (verdict.id === null ? null : `${verdict.hedge}:`);

/** "a ", "an " or nothing: what stands before the spoken name. */
export const articleOf = (verdict) => verdict.text.slice(0, verdict.text.length - verdict.say.length);

export function verdictText(verdict) {
  if (verdict.id === null) return "I don't know what this is";
  return `${hedge(verdict)} ${verdict.text} (${percent(verdict.probability)})`;
}

export function percent(probability) {
  if (probability >= 0.995) return "over 99 %";
  if (probability < 0.01) return "under 1 %";
  return `${Math.round(100 * probability)} %`;
}

const MARKS = {
  seen: "Trained on photos of it",
  unseen: "Known by its relatives: trained on kinds of it, or on things like it",
  guesswork: "Hardly related to anything that it was trained on",
  link: "Only connects others; it is never an answer itself",
};

/** What a mark means. */
export const markWords = (mark) => MARKS[mark];

/** "never shown, well supported": how a class came to be known. */
export const known = (one) => (one.support ? `${one.training}, ${one.support}` : one.training);

const SUPPORT = [
  [0.75, "Well supported: things that it was trained on are much like it."],
  [0.5, "Partly supported: things that it was trained on are somewhat like it."],
  [-1, "Hardly supported: nothing that it was trained on is much like it. Take it as guesswork."],
];
export const supportSentence = (trust) => SUPPORT.find(([least]) => trust >= least)[1];

export const number = (value) => value.toLocaleString("en");

/** The name of a model as a person knows it. */
export const modelName = (name) => (name === "default" ? "Built-in" : name);

/** A sentence for a file that could not be read, without the words of programs. */
export function unreadable(why) {
  if (/not a picture in any format/.test(why))
    return "This file is not a picture that can be read here. Try a JPEG or PNG.";
  if (/pixels are more than/.test(why)) return "This picture is too large. Make it smaller, or cut out a part.";
  if (/cannot be decoded/.test(why)) return "This file is damaged: it cannot be read to its end.";
  return /^(is|has|cannot|was) /.test(why) ? `This file ${why}` : why;
}

/** Rows -> text that spreadsheets read. A cell that would be taken for a formula is quoted with an apostrophe. */
export function toCsv(rows) {
  const cell = (value) => {
    const text = String(value ?? "");
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
