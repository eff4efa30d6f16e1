// What the page says, in words. What the server says in the same words comes from it: /api/start.

/** @type {{marks: Record<string, string>, support: Record<string, string>, hidden: RegExp}} */
const words = { marks: {}, support: {}, hidden: /[\u202a-\u202e]/g };

/** Take over the server's words; `hidden` is a set of characters that are not shown, but change what is. */
export function setWords({ marks, support, hidden }) {
  Object.assign(words, { marks, support, hidden: new RegExp(`[${hidden}]`, "g") });
}

/** A text from elsewhere, with \u202e where it has such a character, so that everyone sees that it has. */
export const shown = (text) =>
  text.replace(words.hidden, (hidden) => `\\u${hidden.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** "a ", "an " or nothing: what stands before the spoken name. */
export const articleOf = (verdict) => verdict.text.slice(0, verdict.text.length - verdict.say.length);

export function verdictText(verdict) {
  if (verdict.id === null) return "I don't know what this is";
  return `${verdict.hedge}: ${verdict.text} (${percent(verdict.probability)})`;
}

/** Nodes from the top down to the best guess. */
export function wayOf({ verdict, guesses, nodes: list }) {
  const nodes = new Map(list.map((node) => [node.id, node]));
  const way = [];
  for (let node = nodes.get(guesses[0]?.id ?? verdict.id); node; node = nodes.get(node.parent)) way.unshift(node);
  return way;
}

export function percent(probability) {
  if (probability >= 0.995) return "over 99 %";
  if (probability < 0.01) return "under 1 %";
  return `${Math.round(100 * probability)} %`;
}

/** What a mark means. */
export const markWords = (mark) => words.marks[mark] ?? null;

/** "never shown, well supported": how a class came to be known. */
export const known = (one) => (one.support ? `${one.training}, ${one.support}` : one.training);

export const supportSentence = (support) => words.support[support] ?? "";

export const number = (value) => value.toLocaleString("en");

export const count = (value, word, words = `${word}s`) => `${number(value)} ${value === 1 ? word : words}`;

/** A sentence for a file that could not be read, without the words of programs. */
export function unreadable(why) {
  if (/not a picture in /.test(why)) return "This file is not a picture that can be read here. Try a JPEG or PNG.";
  if (/pixels are more than/.test(why)) return "This picture is too large. Make it smaller, or cut out a part.";
  if (/cannot be decoded/.test(why)) return "This file is damaged: it cannot be read to its end.";
  return /^(is|has|cannot|was) /.test(why) ? `This file ${why}` : why;
}

/** Names from a text: between commas, semicolons or on lines of their own, each once. */
export const namesOf = (text) => [
  ...new Set(text.split(/[,;\n]/).map((name) => name.trim().replace(/\s+/g, " ")).filter(Boolean)),
];

/** Rows -> text that spreadsheets read. A cell that would be taken for a formula is quoted with an apostrophe. */
export function toCsv(rows) {
  const cell = (value) => {
    const text = String(value ?? "");
    const safe = /^[=+\-@\t\r\n＝＋－＠]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

/** Photos with answers -> rows: names of columns that programs read, then one row a photo. */
export function tableOf(photos) {
  const places = [1, 2, 3];
  const heads = places.flatMap((n) => [`guess_${n}`, `guess_${n}_id`, `guess_${n}_probability`]);
  return [
    ["photo", "verdict", "verdict_id", "verdict_probability", "level", "judged", ...heads],
    ...photos.map(({ name, answer: { verdict, guesses }, judged }) => [
      name,
      verdict.say,
      verdict.id,
      verdict.probability?.toFixed(4),
      verdict.level,
      judged,
      ...places.flatMap((n) => {
        const guess = guesses[n - 1];
        return guess ? [guess.title, guess.id, guess.probability.toFixed(4)] : ["", "", ""];
      }),
    ]),
  ];
}
