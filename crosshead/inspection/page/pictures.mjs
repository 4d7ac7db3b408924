// Pictures of weights: small maps, large matrices, lines between two texts.

import { clipped, digits, el, filled, shown, svg } from "./dom.mjs";

/** Return a colour of the page as the lower bits of a pixel: red, green, blue. */
function colourOf(property) {
  const [red, green, blue] = getComputedStyle(document.documentElement).getPropertyValue(property).match(/\d+/g);
  return Number(red) + 256 * green + 65536 * blue;
}

/** Return a canvas with a pixel for each of some weights, which the browser enlarges without smoothing them. */
function pixels(weights, mask, rows, columns, most) {
  const image = new ImageData(columns, rows);
  const each = new Uint32Array(image.data.buffer);
  const [more, less, masked] = [colourOf("--accent"), colourOf("--bad"), 0x3c808080];
  for (let i = 0; i < each.length; i += 1) {
    const opacity = Math.round(255 * Math.min(1, Math.abs(weights[i]) / most));
    each[i] = mask && !mask[i] ? masked : 0x1000000 * opacity + (weights[i] < 0 ? less : more);
  }
  const canvas = el("canvas", { width: columns, height: rows });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Return a small map of weights "Q K"; the weight 1 has the full colour, masked cells are grey. */
export function smallMap(weights, mask, queries, keys, label) {
  return filled(pixels(weights, mask, queries, keys, 1), { role: "img", "aria-label": label });
}

const CELL = 24;
const LABEL = 7.5;

function widest(pieces) {
  return Math.min(140, 16 + LABEL * Math.max(...pieces.map((each) => [...shown(each)].length)));
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity] };
const current = { q: 0, k: 0 }; // a matrix that is drawn again keeps its cell

/**
 * Return a large matrix of weights, with pieces beside it, and the number of the cell under the pointer or the arrow keys.
 *
 * The cell is a button that moves. `chosen(query, key)` is called for a cell that is selected, and `words(query, key)` names it.
 */
export function largeMap({ weights, mask, queries, keys, most = 1, rows = queries.length, query = -1, words, chosen }) {
  const [left, top] = [widest(queries), widest(keys)];
  const [width, height] = [keys.length * CELL, queries.length * CELL];
  const isHidden = (q, k) => mask && !mask[q * keys.length + k];
  const number = (q, k) => `${shown(queries[q])} → ${shown(keys[k])}: ${isHidden(q, k) ? "masked" : digits(weights[q * keys.length + k], 4)}`;
  const says = el("p", { class: "hint says", role: "status" }, "Point to a cell or use the arrow keys to read its number.");
  const go = (toQ, toK) => {
    const q = (current.q = Math.max(0, Math.min(toQ, rows - 1)));
    const k = (current.k = Math.max(0, Math.min(toK, keys.length - 1)));
    const place = { "--x": `${left + k * CELL}px`, "--y": `${top + q * CELL}px` };
    const name = (words ?? number)(q, k);
    filled(cell, { ...place, "aria-label": name, "aria-disabled": String(!chosen || Boolean(isHidden(q, k))) });
    return name;
  };
  const reach = (q, k) => (says.textContent = go(q, k));
  const choose = () => cell.ariaDisabled === "false" && chosen(current.q, current.k);
  const move = (event) => {
    const by = MOVES[event.key];
    if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    reach(current.q + by[0], current.k + by[1]);
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const point = ({ offsetX, offsetY }) => reach(Math.floor(offsetY / CELL), Math.floor(offsetX / CELL));
  const press = (event) => {
    point(event);
    cell.focus({ preventScroll: true });
    choose();
  };
  const cell = el("button", { type: "button", id: "cell", onclick: choose, onfocus: () => reach(current.q, current.k) });
  go(current.q, current.k);
  const canvas = filled(pixels(weights, mask, rows, keys.length, most), { class: chosen ? "can" : "", onpointermove: point, onclick: press });
  const names = [
    ...keys.map((each, k) =>
      svg("text", { transform: `translate(${left + k * CELL + 16} ${top - 6}) rotate(-90)` }, clipped(each)),
    ),
    ...queries.map((each, q) =>
      svg("text", { x: left - 6, y: top + q * CELL + 17, "text-anchor": "end", class: q === query ? "best" : "" }, clipped(each)),
    ),
  ];
  const frame = svg("rect", { x: left - 0.5, y: top - 0.5, width: width + 1, height: height + 1, class: "frame" });
  const sizes = { "--left": `${left}px`, "--top": `${top}px`, "--width": `${width}px`, "--height": `${rows * CELL}px` };
  const label = `matrix of ${queries.length} rows and ${keys.length} columns; the arrow keys move`;
  const around = svg("svg", { width: left + width + 2, height: top + height + 2, "aria-hidden": "true" }, names, frame);
  const map = el("div", { class: "map", role: "application", "aria-label": label, onkeydown: move, ...sizes }, around, canvas, cell);
  return el("div", { class: "stack" }, el("div", { class: "scroll" }, map), says);
}

/** Return two texts side by side with a line for each weight. */
export function lines({ weights, queries, keys, most = 1, query = -1, chosen }) {
  const [left, right] = [widest(queries), widest(keys)];
  const gap = 150;
  const middle = (i) => i * CELL + 14;
  const paths = Array.from({ length: 51 }, () => ""); // lines of one opacity are one element: there may be thousands
  for (let q = 0; q < queries.length; q += 1) {
    for (let k = 0; k < keys.length; k += 1) {
      const weight = weights[q * keys.length + k] / most;
      if (weight < 0.02 || (query >= 0 && q !== query)) continue;
      paths[Math.round(50 * Math.min(1, weight))] += `M${left} ${middle(q)} C${left + gap / 2} ${middle(q)} ${left + gap / 2} ${middle(k)} ${left + gap} ${middle(k)}`;
    }
  }
  const links = paths.map((d, i) => d && svg("path", { d, class: "link", "stroke-opacity": i / 50 }));
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
