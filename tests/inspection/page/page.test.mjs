// Tests of the page's functions without a page, run by Node.

import assert from "node:assert/strict";
import { test } from "node:test";

import { digits, shown } from "../../../crosshead/inspection/page/dom.mjs";
import { PRESETS, product } from "../../../crosshead/inspection/page/presets.mjs";
import { key, recording, remembering } from "../../../crosshead/inspection/page/source.mjs";
import { beamTree, clamped, editWords, isTaught, withEdit } from "../../../crosshead/inspection/page/state.mjs";
import { meanOfHeads, part, softmax, unpacked } from "../../../crosshead/inspection/page/tensor.mjs";

const close = (found, expected, by = 1e-6) => {
  assert.equal(found.length, expected.length);
  expected.forEach((each, i) => assert.ok(Math.abs(found[i] - each) < by, `${[...found]} is not ${expected}`));
};

test("a tensor is unpacked row by row", () => {
  const data = Buffer.from(Float32Array.from([1, 2, 3, 4, 5, 6]).buffer).toString("base64");
  const tensor = unpacked({ shape: [1, 2, 3], type: "float32", data });
  assert.deepEqual([...part(tensor, 0, 1)], [4, 5, 6]);
  assert.deepEqual([...part(tensor)], [1, 2, 3, 4, 5, 6]);
  close(meanOfHeads({ shape: [2, 1, 2], data: Float32Array.from([0, 1, 1, 0]) }), [0.5, 0.5]);
});

test("the softmax gives masked scores nothing", () => {
  close(softmax([1, 1, 9], [1, 1, 0]), [0.5, 0.5, 0]);
  close(softmax([1, 1], [0, 0]), [0, 0]);
});

test("attention is cool has the weights of the notes, and leaves the first value unchanged", () => {
  const { weights, value } = PRESETS.cool.layer;
  close(weights.data, [1, 0, 0, 0.6, 0.4, 0, 0.2, 0.5, 0.3]);
  assert.deepEqual([...value.data.slice(0, 2)], [1, 0]);
});

test("the weights of every example sum to 1", () => {
  for (const { layer, keys } of Object.values(PRESETS)) {
    for (let q = 0; q < keys.length; q += 1) close([part(layer.weights, 0, q).reduce((a, b) => a + b)], [1]);
  }
  assert.deepEqual(product([[1, 2]], [[3], [4]]), [[11]]);
});

test("numbers and pieces are shown as people read them", () => {
  assert.deepEqual([digits(-0.0001), digits(-1.5, 1), digits(-Infinity)], ["0.000", "−1.5", "−∞"]);
  assert.deepEqual([shown("▁a b"), shown("\n"), shown("\u202e"), shown("")], ["␣a␣b", "\\n", "\\u{202e}", "(empty)"]);
});

test("a change is added once, and taken back by itself", () => {
  const off = { edit: "off", kind: "cross", layer: 1, head: 2 };
  assert.deepEqual(withEdit([], off), [off]);
  assert.deepEqual(withEdit([off], { ...off }), []);
  assert.deepEqual(withEdit([off], { ...off, edit: "uniform" }), [{ ...off, edit: "uniform" }]);
  assert.deepEqual(withEdit([{ edit: "prefix", ids: [1] }], { edit: "prefix", ids: [2] }), [{ edit: "prefix", ids: [2] }]);
  assert.equal(editWords(off), "head 2 of layer 1, cross-attention: off");
});

test("a choice stays within what the trace has", () => {
  const tensor = { shape: [2, 3, 3], data: [] };
  const trace = { target: ["a"], attention: { cross: { queries: ["a"], keys: [], layers: [{ weights: tensor }] } } };
  const found = clamped({ trace, kind: "image", layer: 9, head: 9, query: 9, step: 9 });
  assert.deepEqual(found, { kind: "cross", layer: 1, head: 2, query: 0, step: 0 });
  assert.ok(isTaught({ kind: "cross", layer: 1, head: 2 }, "cross", 1, 2));
  assert.ok(!isTaught(null, "cross", 1, 2));
});

test("a beam is a tree whose best path is the output", () => {
  const row = (parent, piece) => ({ parent, piece, log_prob: 0 });
  const nodes = beamTree([[row(0, "<s>")], [row(0, "a"), row(0, "b")], [row(1, "c")]], ["b", "c"]);
  assert.deepEqual(nodes.map((each) => each.kept), [true, false, true, false]);
  assert.deepEqual(nodes.map((each) => each.best), [true, false, true, true]);
});

test("equal requests have one key, and a saved page knows its answers alone", async () => {
  assert.equal(key({ ask: "trace", text: "a" }), key({ text: "a", ask: "trace", model: 0, edits: [], target: null }));
  assert.notEqual(key({ ask: "trace", text: "a" }), key({ ask: "trace", text: "b" }));
  let count = 0;
  const saved = recording({ models: [], text: "a", answers: [{ request: { ask: "heads", text: "a" }, answer: { effects: [] } }] });
  const source = remembering({ ...saved, ask: (request) => ((count += 1), saved.ask(request)) });
  assert.deepEqual(await source.ask({ ask: "heads", text: "a" }), { effects: [] });
  await source.ask({ ask: "heads", text: "a", edits: [] });
  assert.equal(count, 1);
  await assert.rejects(source.ask({ ask: "heads", text: "b" }), /no answer/);
});
