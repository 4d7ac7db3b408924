// The view of two models on one text.

import { el } from "./dom.mjs";
import { meanOfHeads } from "./tensor.mjs";
import { lines } from "./pictures.mjs";
import { KINDS } from "./state.mjs";

function column(page, model, place) {
  const { text, edits } = page.state;
  page.source
    .ask(model === page.state.model && edits.length ? { ask: "trace", model, text, edits } : { ask: "trace", model, text })
    .then((trace) => {
      const kind = Object.keys(trace.attention)[0];
      const found = trace.attention[kind];
      const layer = found?.layers.at(-1);
      place.replaceChildren(
        el("p", { class: "found", dir: "auto" }, trace.found[0]?.text ?? ""),
        found
          ? el("p", { class: "hint" }, `${KINDS[kind]}, layer ${found.layers.length}, mean of the heads`)
          : el("p", {}, "This model has no attention: its decoder knows the source by one vector alone."),
        found ? lines({ weights: meanOfHeads(layer.weights), ...found, chosen: () => {} }) : "",
      );
    })
    .catch((error) => place.replaceChildren(el("p", { class: "error" }, error.message)));
}

/** Return the view. */
export function drawModels(page) {
  return el(
    "div",
    { class: "columns" },
    page.source.models.map((each, model) => {
      const place = el("div", { class: "stack" }, el("p", { role: "status" }, "Computing…"));
      column(page, model, place);
      return el("section", { class: "stack" }, el("h3", {}, each.name), el("p", { class: "hint" }, each.shape), place);
    }),
  );
}
