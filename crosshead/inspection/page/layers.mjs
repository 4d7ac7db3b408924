// The view of layers: what the output projection would read in each of them.

import { digits, el, shown } from "./dom.mjs";

/** Return the view. */
export function drawLayers(page) {
  const { lens, target } = page.state.trace;
  const head = el("tr", {}, el("th", { scope: "col", class: "text" }, ""), target.map((each) => el("th", { scope: "col" }, shown(each))));
  const rows = lens.map((layer, number) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, number ? `after layer ${number}` : "embedding"),
      layer.map((best) => {
        const [piece, probability] = best[0];
        const words = best.map(([each, p]) => `${shown(each)} ${digits(p)}`).join("\n");
        const cell = el("td", { class: "weight", title: words }, shown(piece));
        cell.style.setProperty("--w", probability);
        return cell;
      }),
    ),
  );
  return el(
    "div",
    { class: "stack" },
    el("p", { class: "hint" }, "Each cell is the most probable piece if the output projection read the state there. The darker, the more probable; the last row is the output."),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Layers" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows))),
  );
}
