// The view of numbers: one row of one head, from the dot products to the context.

import { choice, digits, el, math, shown } from "./dom.mjs";
import { dot, part, softmax } from "./tensor.mjs";
import { KINDS, rowWords } from "./state.mjs";
import { kindChoice } from "./heads.mjs";
import { PRESETS } from "./presets.mjs";

function formula() {
  const mi = (text) => math("mi", text);
  const mo = (text) => math("mo", text);
  return math(
    "math",
    mi("Attention"), mo("("), mi("Q"), mo(","), mi("K"), mo(","), mi("V"), mo(")"), mo("="), mi("softmax"), mo("("),
    math("mfrac", math("mrow", mi("Q"), math("msup", mi("K"), mi("T"))), math("msqrt", math("msub", mi("d"), mi("k")))),
    mo(")"), mi("V"),
  );
}

function vectorWords(vector, most = 4) {
  const first = Array.from(vector.slice(0, most), (each) => digits(each, 2)).join(", ");
  return `(${first}${vector.length > most ? ", …" : ""})`;
}

/** Return what a query computes: dot products, scores, weights and the context. */
export function rowOf({ query, key, value, scores, mask, weights }, head, at) {
  const [, , width] = query.shape;
  const keys = key.shape[1];
  const q = part(query, head, at);
  const products = Array.from({ length: keys }, (_, k) => dot(q, part(key, head, k)));
  const allowed = Array.from(mask ? part(mask, head, at) : new Uint8Array(keys).fill(1));
  const own = Array.from(part(scores, head, at));
  const found = softmax(own, allowed);
  const context = new Float32Array(value.shape[2]);
  for (let k = 0; k < keys; k += 1) part(value, head, k).forEach((each, i) => (context[i] += weights.data[(head * query.shape[1] + at) * keys + k] * each));
  const scaled = products.map((each) => each / Math.sqrt(width));
  const isScaledDot = scaled.every((each, k) => !allowed[k] || Math.abs(each - own[k]) < 1e-3 * (1 + Math.abs(own[k])));
  return { q, products, scaled, scores: own, allowed, softmax: found, unscaled: softmax(products, allowed), weights: Array.from(part(weights, head, at)), context, width, isScaledDot };
}

function table(found, row, tensors, head) {
  const names = row.isScaledDot ? ["q·k", `q·k / √${row.width}`, "weight", "weight without the √"] : ["score", "weight"];
  const columns = ["Key", ...names, "value v", "weight · v"];
  const rows = found.keys.map((piece, k) => {
    const value = part(tensors.value, head, k);
    const numbers = row.isScaledDot ? [row.products[k], row.scaled[k]] : [row.scores[k]];
    const weight = el("td", { class: "weight" }, row.allowed[k] ? digits(row.weights[k]) : "0 (masked)");
    weight.style.setProperty("--w", row.weights[k]);
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, shown(piece)),
      numbers.map((each) => el("td", { class: row.allowed[k] ? "" : "hidden" }, digits(each))),
      weight,
      row.isScaledDot ? el("td", { class: "hidden" }, digits(row.unscaled[k])) : "",
      el("td", { class: "text" }, vectorWords(value)),
      el("td", { class: "text" }, vectorWords(value.map((each) => each * row.weights[k]))),
    );
  });
  const sum = el(
    "tr",
    {},
    el("th", { scope: "row" }, "Sum"),
    el("td", { colspan: row.isScaledDot ? 2 : 1 }, ""),
    el("td", {}, digits(row.weights.reduce((a, b) => a + b, 0))),
    el("td", { colspan: row.isScaledDot ? 2 : 1 }, ""),
    el("td", { class: "text" }, vectorWords(row.context)),
  );
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, columns.map((each, i) => el("th", { scope: "col", class: i ? "" : "text" }, each)))),
    el("tbody", {}, rows, sum),
  );
}

/** Return the view. */
export function drawNumbers(page) {
  const { trace, kind, layer, head, query, preset = "model" } = page.state;
  const presets = Object.entries(PRESETS).map(([name, each]) => [name, each.name]);
  const example = PRESETS[preset];
  const found = example ?? trace.attention[kind];
  const tensors = example ? example.layer : found.layers[layer - 1];
  const number = example ? 0 : head - 1;
  const at = Math.min(query, found.queries.length - 1);
  const row = rowOf(tensors, number, at);
  const top = [choice("Example", [["model", "this model"], ...presets], preset, (value) => page.set({ preset: value, query: 0 }))];
  if (!example) {
    top.push(
      kindChoice(page),
      choice("Layer", found.layers.map((_, i) => [i + 1, i + 1]), layer, (value) => page.set({ layer: Number(value) })),
      choice("Head", Array.from({ length: tensors.weights.shape[0] }, (_, i) => [i + 1, i + 1]), head, (value) => page.set({ head: Number(value) })),
    );
  }
  top.push(choice("Query", found.queries.map((each, i) => [i, `${i + 1}: ${shown(each)}`]), at, (value) => page.set({ query: Number(value) })));
  return el(
    "div",
    { class: "stack" },
    el("div", { class: "row" }, top),
    el("p", {}, formula()),
    example ? el("p", { class: "hint" }, example.says) : el("p", { class: "hint" }, `${KINDS[kind]}, layer ${layer}, head ${head}; the vectors have ${row.width} numbers each. `, rowWords(kind), row.isScaledDot ? "" : "The score of this model is not the plain scaled dot product."),
    el("p", {}, `query q = ${vectorWords(row.q, 8)}`),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Numbers" }, table(found, row, tensors, number)),
    el("p", {}, `context = sum of weight · v = ${vectorWords(row.context, 8)}`),
  );
}
