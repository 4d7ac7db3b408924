// Worked examples of attention that fit on a blackboard.

import { dot, softmax } from "./tensor.mjs";

function tensor(rows) {
  return { shape: [1, rows.length, rows[0].length], data: Float32Array.from(rows.flat()) };
}

function layerOf(query, key, value, causal) {
  const scale = Math.sqrt(query[0].length);
  const scores = query.map((q) => key.map((k) => dot(q, k) / scale));
  const mask = query.map((_, i) => key.map((_, j) => Number(!causal || j <= i)));
  const weights = scores.map((row, i) => softmax(row, mask[i]));
  const bits = { shape: [1, mask.length, mask[0].length], data: Uint8Array.from(mask.flat()) };
  return { query: tensor(query), key: tensor(key), value: tensor(value), scores: tensor(scores), mask: bits, weights: tensor(weights) };
}

/** Return the product of two matrices, as lists of rows. */
export function product(a, b) {
  return a.map((row) => b[0].map((_, j) => row.reduce((sum, each, i) => sum + each * b[i][j], 0)));
}

// With keys that are the axes, the scores are the queries themselves, times 1/√3.
const log = (...weights) => weights.map((each) => Math.sqrt(3) * Math.log(each));
const COOL = ["attention", "is", "cool"];
const AXES = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];

const SEE = ["See", "that", "cat"];
const EMBEDDINGS = [[1, 0, 1], [0, 2, 0], [1, 1, 1]];
const [W_Q, W_K, W_V] = [[[1, 0], [0, 1], [1, 0]], [[0, 1], [1, 0], [0, 1]], [[1, 2], [0, 1], [1, 0]]];

/** The examples by their names. */
export const PRESETS = {
  cool: {
    name: "attention is cool",
    queries: COOL,
    keys: COOL,
    layer: layerOf([log(1, 1, 1), log(0.6, 0.4, 1), log(0.2, 0.5, 0.3)], AXES, [[1, 0], [0, 1], [2, 2]], true),
    says: "Each piece attends to itself and the pieces before it: the weights are 1.0, then 0.6 and 0.4, then 0.2, 0.5 and 0.3. The first context is the first value, unchanged.",
  },
  cat: {
    name: "See that cat",
    queries: SEE,
    keys: SEE,
    layer: layerOf(product(EMBEDDINGS, W_Q), product(EMBEDDINGS, W_K), product(EMBEDDINGS, W_V), false),
    says: "Three embeddings of width 3, (1, 0, 1), (0, 2, 0) and (1, 1, 1), become queries, keys and values of width 2 by the matrices W_Q, W_K and W_V.",
  },
};
