// The view of training: the same text at each checkpoint of the run.

import { el } from "./dom.mjs";
import { part } from "./tensor.mjs";
import { largeMap } from "./pictures.mjs";
import { kindChoice } from "./heads.mjs";

/** Return the view. */
export function drawTraining(page) {
  const { model, text, kind, layer, head } = page.state;
  const updates = page.model.checkpoints;
  const slider = el("input", { type: "range", min: 0, max: updates.length - 1, id: "checkpoint", "aria-label": "Checkpoint" });
  const count = el("span", { id: "count" });
  const below = el("div", { class: "stack" });
  let shownLast = 0;
  const go = async (number) => {
    const mine = (shownLast = page.state.checkpoint = Math.min(number, updates.length - 1));
    slider.value = mine;
    count.textContent = `Update ${updates[mine]}`;
    try {
      const trace = await page.source.ask({ ask: "trace", model, text, checkpoint: updates[mine] });
      if (mine !== shownLast) return;
      const found = trace.attention[kind];
      const tensors = found?.layers[layer - 1];
      below.replaceChildren(
        el("p", { class: "found", dir: "auto" }, trace.found[0]?.text ?? ""),
        tensors ? largeMap({ ...found, weights: part(tensors.weights, head - 1), mask: part(tensors.mask, head - 1) }) : "",
      );
    } catch (error) {
      below.replaceChildren(el("p", { class: "error" }, error.message));
    }
  };
  slider.addEventListener("input", () => go(Number(slider.value)));
  go(page.state.checkpoint ?? 0);
  const words = `The run has kept ${updates.length} checkpoints, shown without changes. The matrix is layer ${layer}, head ${head}, which the view of heads chooses.`;
  return el("div", { class: "stack" }, el("p", { class: "hint" }, words), kind ? kindChoice(page) : "", el("div", { class: "row" }, slider, count), below);
}
