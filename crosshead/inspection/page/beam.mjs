// The view of beam search: the tree of hypotheses, and the outputs that it found.

import { clipped, digits, el, shown, svg } from "./dom.mjs";
import { beamTree } from "./state.mjs";

const [WIDE, HIGH] = [112, 40];

/** Return the view. */
export function drawBeam(page) {
  const { beam, found, target, given } = page.state.trace;
  const nodes = beamTree(beam, target.slice(given));
  const first = nodes[0].step;
  const x = (node) => (node.step - first) * WIDE + 12;
  const y = (node) => node.place * HIGH + 24;
  const at = (step, place) => nodes.find((each) => each.step === step && each.place === place);
  const width = (beam.length + 0.5) * WIDE;
  const height = Math.max(...beam.map((rows) => rows.length)) * HIGH + 16;
  const edges = nodes
    .filter((node) => node.step)
    .map((node) => {
      const from = at(node.step - 1, node.parent);
      const lives = node.best || node.kept;
      const start = x(from) + 8 + 8 * clipped(from.piece, 9).length;
      const path = `M${start} ${y(from) - 4} C${x(node) - 16} ${y(from) - 4} ${x(from) + WIDE - 26} ${y(node) - 4} ${x(node) - 4} ${y(node) - 4}`;
      return svg("path", { d: path, class: lives ? "kept" : "pruned", "stroke-opacity": node.best ? 1 : 0.5 });
    });
  const names = nodes.map((node) => {
    const kind = node.best ? "best" : node.kept ? "" : "lost";
    return svg(
      "text",
      { x: x(node), y: y(node), class: kind },
      svg("title", {}, `${shown(node.piece)}: log-probability ${digits(node.log_prob)}`),
      clipped(node.piece, 9),
      svg("tspan", { x: x(node), dy: 13, "font-size": 10 }, digits(node.log_prob, 2)),
    );
  });
  const cells = ({ text, score, log_prob: log, finished }) => [
    el("td", { class: "text", dir: "auto" }, text),
    el("td", {}, digits(score)),
    el("td", {}, digits(log)),
    el("td", { class: "text" }, finished ? "</s>" : "cut off"),
  ];
  const head = ["Output", "Score", "Log-probability", "End"].map((each) => el("th", { class: "text", scope: "col" }, each));
  return el(
    "div",
    { class: "stack" },
    el("p", { class: "hint" }, "A column is a step. A line leads from each hypothesis to those that continue it; the rest was given up. The number is the log-probability of the whole hypothesis."),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Tree of hypotheses" },
      svg("svg", { width, height, role: "img", "aria-label": `beam search of ${beam.length} steps` }, edges, names)),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Outputs" },
      el("table", {}, el("caption", {}, "Outputs of the search"), el("thead", {}, el("tr", {}, head)), el("tbody", {}, found.map((each) => el("tr", {}, cells(each)))))),
  );
}
