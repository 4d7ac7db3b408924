// Pictures of weights: small maps, large matrices, lines between two texts.

import { clipped, el, shown, svg } from "./dom.mjs";

const MASKED = [128, 128, 128];

function fullColour() {
  return getComputedStyle(document.documentElement).accentColor.match(/\d+/g).slice(0, 3).map(Number);
}

/** Return a small map of weights "Q K" as a canvas; the largest weight has the full colour, masked cells are grey. */
export function smallMap(weights, mask, queries, keys, label, most = 1) {
  const canvas = el("canvas", { width: keys, height: queries, role: "img", "aria-label": label });
  const image = new ImageData(keys, queries);
  const full = fullColour();
  for (let i = 0; i < queries * keys; i += 1) {
    const hidden = mask && !mask[i];
    [image.data[4 * i], image.data[4 * i + 1], image.data[4 * i + 2]] = hidden ? MASKED : full;
    image.data[4 * i + 3] = hidden ? 60 : 255 * Math.min(1, weights[i] / most);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

const CELL = 24;
const LABEL = 7.5;

function widest(pieces) {
  return Math.min(140, 16 + LABEL * Math.max(...pieces.map((each) => [...shown(each)].length)));
}

/**
 * Return a large matrix of weights, with pieces beside it.
 *
 * `chosen(query, key)` is called for a cell that is selected, and `words(query, key)` names it.
 */
export function largeMap({ weights, mask, queries, keys, most = 1, rows = queries.length, query = -1, words, chosen }) {
  const [left, top] = [widest(queries), widest(keys)];
  const [width, height] = [keys.length * CELL, queries.length * CELL];
  const names = [
    ...keys.map((each, k) =>
      svg("text", { transform: `translate(${left + k * CELL + 16} ${top - 6}) rotate(-90)` }, clipped(each)),
    ),
    ...queries.map((each, q) =>
      svg("text", { x: left - 6, y: top + q * CELL + 17, "text-anchor": "end", class: q === query ? "best" : "" }, clipped(each)),
    ),
  ];
  const cells = [];
  for (let q = 0; q < rows; q += 1) {
    for (let k = 0; k < keys.length; k += 1) {
      const i = q * keys.length + k;
      const hidden = mask && !mask[i];
      if (!hidden && Math.abs(weights[i]) / most < 0.004 && !chosen) continue;
      const kind = hidden ? "masked" : weights[i] < 0 ? "cell less" : "cell";
      const at = { x: left + k * CELL, y: top + q * CELL, width: CELL - 1, height: CELL - 1 };
      const cell = svg("rect", { ...at, class: kind, "fill-opacity": hidden ? undefined : Math.min(1, Math.abs(weights[i]) / most).toFixed(4) });
      if (words) cell.append(svg("title", {}, words(q, k)));
      if (chosen && !hidden) {
        cell.addEventListener("click", () => chosen(q, k));
        cell.style.setProperty("cursor", "pointer");
      }
      cells.push(cell);
    }
  }
  const frame = svg("rect", { x: left, y: top, width, height, class: "frame" });
  const box = { width: left + width + 2, height: top + height + 2, role: "img", "aria-label": `matrix of ${queries.length} rows and ${keys.length} columns` };
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Matrix" }, svg("svg", box, names, cells, frame));
}

/** Return two texts side by side with a line for each weight. */
export function lines({ weights, queries, keys, most = 1, query = -1, chosen }) {
  const [left, right] = [widest(queries), widest(keys)];
  const gap = 150;
  const middle = (i) => i * CELL + 14;
  const links = [];
  for (let q = 0; q < queries.length; q += 1) {
    for (let k = 0; k < keys.length; k += 1) {
      const weight = weights[q * keys.length + k] / most;
      if (weight < 0.02 || (query >= 0 && q !== query)) continue;
      const path = `M${left} ${middle(q)} C${left + gap / 2} ${middle(q)} ${left + gap / 2} ${middle(k)} ${left + gap} ${middle(k)}`;
      links.push(svg("path", { d: path, class: "link", "stroke-opacity": Math.min(1, weight).toFixed(3) }));
    }
  }
  const names = [
    ...queries.map((each, q) =>
      svg("text", { x: left - 6, y: middle(q) + 4, "text-anchor": "end", class: q === query ? "best" : "" }, clipped(each)),
    ),
    ...keys.map((each, k) => svg("text", { x: left + gap + 6, y: middle(k) + 4 }, clipped(each))),
    ...queries.map((_, q) =>
      svg("rect", { x: 0, y: q * CELL + 2, width: left, height: CELL, class: "hit", onclick: () => chosen(q === query ? -1 : q) }),
    ),
  ];
  const box = { width: left + gap + right, height: Math.max(queries.length, keys.length) * CELL + 8, role: "img", "aria-label": "lines from each piece to those that it attends to" };
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Lines" }, svg("svg", box, links, names));
}

/** Return a bar that names the colours. */
export function scaleBar(least, most) {
  return el("span", { class: "scale" }, least, el("i", { "aria-hidden": "true" }), most);
}
