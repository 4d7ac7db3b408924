// The view of heads: the grid of all heads, and one head as lines and as a matrix.

import { choice, digits, el } from "./dom.mjs";
import { part } from "./tensor.mjs";
import { largeMap, lines, scaleBar, smallMap } from "./pictures.mjs";
import { KINDS, effectsOf, isTaught, rowWords } from "./state.mjs";

/** Return the choice of the kind of attention. */
export function kindChoice(page) {
  const kinds = Object.keys(page.state.trace.attention);
  return choice("Attention", kinds.map((each) => [each, KINDS[each]]), page.state.kind, (kind) => page.set({ kind, query: 0 }));
}

function grid(page) {
  const { trace, kind, layer, head, edits } = page.state;
  const { layers, queries, keys } = trace.attention[kind];
  const line = (tensors, l) => {
    const buttons = Array.from({ length: tensors.weights.shape[0] }, (_, h) => {
      const taught = isTaught(trace.supervised, kind, l + 1, h + 1);
      const off = edits.some((each) => each.edit === "off" && each.kind === kind && each.layer === l + 1 && (each.head ?? h + 1) === h + 1);
      const name = `layer ${l + 1}, head ${h + 1}`;
      const map = smallMap(part(tensors.weights, h), tensors.mask && part(tensors.mask, h), queries.length, keys.length, `weights of ${name}`);
      const pressed = String(layer === l + 1 && head === h + 1);
      return el(
        "button",
        { type: "button", id: `head-${l + 1}-${h + 1}`, "aria-pressed": pressed, class: off ? "off" : "", onclick: () => page.set({ layer: l + 1, head: h + 1 }) },
        map,
        el("span", { class: taught ? "taught" : "" }, `${name}${taught ? ", taught" : ""}${off ? ", off" : ""}`),
      );
    });
    return el("div", { class: "line" }, buttons);
  };
  return el("div", { class: "heads" }, layers.map(line));
}

function matters(page) {
  const { kind, layer, head } = page.state;
  const place = { kind, layer, head };
  const says = el("p", { id: "matters", role: "status" }, "Computing what this head does…");
  page.source
    .ask(effectsOf(page))
    .then(({ effects }) => {
      const found = effects.find((each) => each.kind === kind && each.layer === layer && each.head === head);
      const word = found.effect < 0 ? "loses" : "gains";
      says.textContent = `Without this head, the output of the unchanged model ${word} ${digits(Math.abs(found.effect))} nats of log-probability.`;
    })
    .catch((error) => (says.textContent = error.message));
  const button = (edit, words) => {
    const pressed = page.state.edits.some((each) => JSON.stringify(each) === JSON.stringify({ edit, ...place }));
    return el("button", { type: "button", id: `do-${edit}`, "aria-pressed": String(pressed), onclick: () => page.edit({ edit, ...place }) }, words);
  };
  const buttons = [button("off", "Switch this head off"), button("uniform", "Uniform weights"), button("diagonal", "Diagonal weights")];
  return el("div", { class: "stack" }, el("h3", {}, "Does it matter?"), says, page.source.live ? el("div", { class: "row" }, buttons) : "");
}

/** Return the view. */
export function drawHeads(page) {
  const { trace, kind, layer, head, query, shows = "weights" } = page.state;
  const found = trace.attention[kind];
  const tensors = found.layers[layer - 1];
  const numbers = part(tensors[shows] ?? tensors.weights, head - 1);
  const mask = tensors.mask && part(tensors.mask, head - 1);
  const most = shows === "weights" ? 1 : numbers.reduce((a, b) => Math.max(a, b), 1e-9);
  const at = page.state.line ?? -1;
  const taught = isTaught(trace.supervised, kind, layer, head);
  const edge = (q, k) => page.edit({ edit: "edge", kind, layer, head, query: q, key: k });
  const can = page.source.live && trace.best;
  const choices = [["weights", "weights"]];
  if (tensors.norms) choices.push(["norms", "size of what is added, |a v Wᴼ|"]);
  return el(
    "div",
    { class: "stack" },
    el("div", { class: "row" }, kindChoice(page), choice("Colour", choices, shows, (value) => page.set({ shows: value }))),
    grid(page),
    el("p", { class: "hint" }, "Rows attend to columns. ", rowWords(kind), scaleBar("0", digits(most, most === 1 ? 0 : 2)), " Grey: may not attend."),
    el("h2", {}, `Layer ${layer}, head ${head}`),
    taught ? el("p", {}, "A word aligner has taught this head in training: its weights do not show what attention finds by itself.") : "",
    el(
      "div",
      { class: "columns" },
      el("div", { class: "stack" }, el("h3", {}, "Lines"), lines({ weights: numbers, ...found, most, query: at, chosen: (line) => page.set({ line }) })),
      el(
        "div",
        { class: "stack" },
        el("h3", {}, "Matrix"),
        largeMap({ weights: numbers, mask, ...found, most, query: at, chosen: can ? edge : undefined }),
        can ? el("p", { class: "hint" }, "Select a cell to forbid this edge.") : "",
      ),
    ),
    page.source.has(effectsOf(page)) ? matters(page) : "",
  );
}
