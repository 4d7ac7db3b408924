// The view of decoding: the source at once, then one piece after another.

import { digits, el, shown } from "./dom.mjs";
import { meanOfHeads, part } from "./tensor.mjs";
import { largeMap, scaleBar } from "./pictures.mjs";
import { KINDS } from "./state.mjs";

function ofLayer({ state }, kind) {
  const found = state.trace.attention[kind];
  if (!found) return null;
  const own = state.kind === kind;
  const number = own ? state.layer : found.layers.length;
  const layer = found.layers[number - 1];
  const weights = own ? part(layer.weights, state.head - 1) : meanOfHeads(layer.weights);
  const name = `${KINDS[kind]}, layer ${number}, ${own ? `head ${state.head}` : "mean of the heads"}`;
  return { ...found, layer, weights, name, mask: layer.mask && part(layer.mask, 0) };
}

function bars(page, step) {
  const { trace } = page.state;
  const force = (id) => {
    const ids = [...trace.ids.slice(0, step), id];
    page.state.step = step + 1;
    page.edit({ edit: "prefix", ids });
  };
  const can = page.source.live && page.model.translates;
  return el(
    "div",
    { class: "bars", role: "group", "aria-label": "Most probable pieces" },
    trace.best[step].flatMap(([piece, probability, id]) => {
      const own = piece === trace.target[step] ? " (taken)" : "";
      const ends = piece === "</s>";
      const name = can && !ends && !own
        ? el("button", { type: "button", onclick: () => force(id), title: "Take this piece and go on" }, shown(piece))
        : el("span", {}, shown(piece), own);
      const full = el("span", { class: "full" });
      full.style.width = `${100 * probability}%`;
      return [name, full, el("span", {}, digits(probability))];
    }),
  );
}

function body(page) {
  const { trace, step } = page.state;
  const [cross, own] = [ofLayer(page, "cross"), ofLayer(page, "decoder")];
  const parts = [];
  if (trace.source.length) {
    const row = cross ? cross.weights.subarray(step * cross.keys.length, (step + 1) * cross.keys.length) : [];
    const items = trace.source.map((each, i) => {
      const bar = el("span", { class: "bar" });
      bar.style.width = `${100 * (row[i] ?? 0)}%`;
      return el("li", { title: cross ? digits(row[i]) : undefined }, shown(each), bar);
    });
    parts.push(
      el("h3", {}, "The encoder reads the source at once"),
      el("ul", { class: "pieces" }, items),
      cross ? el("p", { class: "hint" }, `The bars are the weights of this step: ${cross.name}.`) : "",
    );
  }
  const written = trace.target.map((each, i) =>
    el("li", { class: i === step ? "now" : i > step ? "later" : "", "aria-current": i === step ? "step" : undefined }, i > step ? "…" : shown(each)),
  );
  parts.push(
    el("h3", {}, trace.source.length ? "The decoder writes one piece after another" : "The model predicts each piece from those before"),
    el("ul", { class: "pieces" }, written),
    el(
      "div",
      { class: "columns" },
      el("div", { class: "stack" }, el("h3", {}, "What may come next"), bars(page, step)),
      own
        ? el(
            "div",
            { class: "stack" },
            el("h3", {}, "What the decoder looks at"),
            largeMap({ ...own, rows: step + 1, query: step }),
            el("p", { class: "hint" }, `${own.name}. `, scaleBar("0", "1")),
          )
        : "",
    ),
  );
  return parts;
}

const PACE = 800; // milliseconds

/** Return the view. */
export function drawSteps(page) {
  const last = page.state.trace.target.length - 1;
  const slider = el("input", { type: "range", min: 0, max: last, id: "step", "aria-label": "Step" });
  const count = el("span", { id: "count" });
  const below = el("div", { class: "stack" });
  // A click or a key elsewhere takes the focus away and pauses; another window does not.
  const play = el("button", { type: "button", id: "play", onclick: () => turn(!timer), onblur: () => document.activeElement === play || turn(false) }, "Play");
  let timer = 0;
  const turn = (on) => {
    clearInterval(timer);
    timer = on ? setInterval(tick, PACE) : 0;
    play.textContent = on ? "Pause" : "Play";
    if (on) play.focus(); // Safari does not focus a button that is clicked
    if (on && page.state.step === last) go(0);
  };
  const tick = () => {
    if (play.isConnected) go(page.state.step + 1);
    if (!play.isConnected || page.state.step === last) turn(false);
  };
  const go = (to) => {
    const step = (page.state.step = Math.max(0, Math.min(last, to)));
    slider.value = step;
    count.textContent = `Step ${step + 1} of ${last + 1}`;
    below.replaceChildren(...body(page));
    queueMicrotask(() => {
      const [box, row] = [".scroll", "text.best"].map((each) => below.querySelector(each)?.getBoundingClientRect().bottom);
      if (row) below.querySelector(".scroll").scrollTop = row - box + 8; // the row of the step stays in view
    });
  };
  slider.addEventListener("input", () => go(Number(slider.value)));
  const button = (id, words, by) => el("button", { type: "button", id, onclick: () => go(page.state.step + by) }, words);
  go(page.state.step);
  return el("div", { class: "stack" }, el("div", { class: "row" }, button("back", "Back", -1), slider, button("next", "Next", 1), play, count), below);
}
