// What the page says, and the tables it makes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { namesOf, percent, setWords, shown, tableOf, toCsv, unreadable, verdictText, wayOf } from "../../src/unseen/apps/web/static/words.js";

test("characters that hide others are shown", () => {
  setWords({ marks: {}, support: {}, hidden: String.raw`\x00-\x08\x7f-\x84\u202a-\u202e\ufeff` });
  assert.equal(shown("a\u202eb\u0000c\ufeff"), "a\\u202eb\\u0000c\\ufeff");
  assert.equal(shown("Käse 🧀 \n"), "Käse 🧀 \n");
});

test("probabilities are never more certain than they are", () => {
  assert.deepEqual([1, 0.996, 0.994, 0.5, 0.0149, 0.001].map(percent), ["over 99 %", "over 99 %", "99 %", "50 %", "1 %", "under 1 %"]);
});

test("a verdict in words", () => {
  const verdict = { id: "x", hedge: "Sure", text: "an owl", say: "owl", probability: 0.93 };
  assert.equal(verdictText(verdict), "Sure: an owl (93 %)");
  assert.equal(verdictText({ id: null, text: "", probability: null }), "I don't know what this is");
});

test("names from a text, each once", () => {
  assert.deepEqual(namesOf(" okapi, quokka\n\ncrane (machine);  wheelie   bin,okapi"), ["okapi", "quokka", "crane (machine)", "wheelie bin"]);
});

test("tables for spreadsheets do not run formulas", () => {
  assert.equal(toCsv([["=1+1", 'a "b", c', null]]), '\'=1+1,"a ""b"", c",\r\n');
});

test("columns are for machines: one row a photo, empty where it does not know", () => {
  const guess = { title: "cat", id: "n1", probability: 0.25 };
  const verdict = { id: null, say: null, probability: null, level: "unknown" };
  const [head, row] = tableOf([{ name: "a.jpg", judged: "right", answer: { verdict, guesses: [guess] } }]);
  assert.ok(head.every((name) => /^[a-z0-9_]+$/.test(name)) && new Set(head).size === head.length);
  const cells = Object.fromEntries(head.map((name, at) => [name, row[at]]));
  assert.equal(cells.guess_1_id, "n1");
  assert.equal(cells.guess_1_probability, "0.2500");
  assert.equal(cells.guess_2, "");
  assert.equal(cells.verdict_id, null);
});

test("the way goes from the top to the best guess", () => {
  const nodes = [{ id: "a", parent: null }, { id: "b", parent: "a" }, { id: "c", parent: "b" }, { id: "d", parent: "a" }];
  assert.deepEqual(wayOf({ verdict: { id: "b" }, guesses: [{ id: "c" }], nodes }).map((node) => node.id), ["a", "b", "c"]);
  assert.deepEqual(wayOf({ verdict: { id: null }, guesses: [], nodes }), []);
});

test("reasons without the words of programs", () => {
  assert.match(unreadable("is not a picture in one of these formats: JPEG"), /^This file is not a picture/);
  assert.equal(unreadable("is larger than 20 MB: make it smaller."), "This file is larger than 20 MB: make it smaller.");
});
