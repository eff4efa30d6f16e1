// The shape of the map: every class has a place, neighbours in the row are neighbours in the plane.

import assert from "node:assert/strict";
import { test } from "node:test";

import { gridFor, lightOf, makeShape, walk } from "../../src/unseen/apps/web/static/shape.js";

test("the walk visits every cell once, from each to one beside it", () => {
  for (const [columns, rows] of [[2, 2], [10, 6], [6, 10], [16, 14], [158, 140], [2, 40]]) {
    const path = walk(columns, rows);
    const cells = new Set();
    for (let at = 0; at < path.length; at += 2) {
      cells.add(`${path[at]} ${path[at + 1]}`);
      assert.ok(path[at] >= 0 && path[at] < columns && path[at + 1] >= 0 && path[at + 1] < rows);
      if (at) assert.equal(Math.abs(path[at] - path[at - 2]) + Math.abs(path[at + 1] - path[at - 1]), 1);
    }
    assert.equal(cells.size, columns * rows);
  }
});

test("a grid has room for all and wastes little", () => {
  for (const count of [1, 7, 10, 500, 21842, 30000]) {
    const [columns, rows] = gridFor(count);
    assert.ok(columns * rows >= count && columns % 2 === 0 && rows % 2 === 0);
    if (count > 400) assert.ok(columns * rows < 1.02 * count && columns > rows);
  }
});

test("who lies at the middle of a place is that place", () => {
  const shape = makeShape(3000);
  for (let place = 0; place < 3000; place += 1)
    assert.equal(shape.placeAt(shape.centres[2 * place], shape.centres[2 * place + 1]), place);
  assert.equal(shape.placeAt(5, 5), -1);
});

test("neighbours agree, and the border of everything is closed", () => {
  const shape = makeShape(500);
  for (let place = 0; place < 500; place += 1)
    shape.around(place).forEach((other, edge) => {
      if (other >= 0) assert.equal(shape.around(other)[(edge + 3) % 6], place);
    });
  const edges = shape.border([0, 500]);
  const ends = new Map();
  const key = (x, y) => `${x.toFixed(4)} ${y.toFixed(4)}`;
  for (let at = 0; at < edges.length; at += 2) ends.set(key(edges[at], edges[at + 1]), (ends.get(key(edges[at], edges[at + 1])) ?? 0) + 1);
  assert.ok([...ends.values()].every((count) => count % 2 === 0));
});

test("the middle of a stretch lies in it", () => {
  const shape = makeShape(800);
  for (const stretch of [[0, 800], [17, 40], [799, 1]]) {
    const middle = shape.middle(stretch);
    assert.ok(middle >= stretch[0] && middle < stretch[0] + stretch[1]);
  }
});

test("the smallest lit region counts, and the small shine more", () => {
  const light = lightOf(
    [
      { at: [10, 40], probability: 1 },
      { at: [20, 1], probability: 0.6 },
      { at: [0, 100], probability: 1 }, // everything: says nothing
    ],
    100,
  );
  assert.equal(light[0], 0);
  assert.ok(light[20] > light[10] && light[10] > 0);
});
