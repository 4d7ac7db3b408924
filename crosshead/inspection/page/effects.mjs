// The view of effects: what the output loses without a head, or with a state of another text.

import { choice, digits, el } from "./dom.mjs";
import { largeMap } from "./pictures.mjs";
import { KINDS, effectsOf } from "./state.mjs";

function headTable(page, effects, kind) {
  const own = effects.filter((each) => each.kind === kind);
  const layers = [...new Set(own.map((each) => each.layer))];
  const heads = [...new Set(own.map((each) => each.head))];
  const most = Math.max(...effects.map((each) => Math.abs(each.effect)), 1e-9);
  const cell = (layer, head) => {
    const found = own.find((each) => each.layer === layer && each.head === head);
    const go = () => page.set({ view: "heads", kind, layer, head });
    const box = el("td", { class: "weight" }, found ? el("button", { type: "button", "aria-label": `${KINDS[kind]}, layer ${layer}, head ${head}: ${digits(found.effect)}`, onclick: go }, digits(found.effect)) : "");
    box.style.setProperty("--w", found ? Math.max(0, -found.effect / most) : 0);
    return box;
  };
  return el(
    "table",
    {},
    el("caption", {}, KINDS[kind]),
    el("thead", {}, el("tr", {}, el("th", { class: "text", scope: "col" }, ""), heads.map((each) => el("th", { scope: "col" }, `head ${each}`)))),
    el("tbody", {}, layers.map((layer) => el("tr", {}, el("th", { scope: "row" }, `layer ${layer}`), heads.map((each) => cell(layer, each))))),
  );
}

function heads(page) {
  const place = el("div", { class: "stack" }, el("p", { role: "status" }, "Computing the output without each head…"));
  page.source
    .ask(effectsOf(page))
    .then(({ effects }) => {
      const kinds = [...new Set(effects.map((each) => each.kind))];
      place.replaceChildren(...kinds.map((kind) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": KINDS[kind] }, headTable(page, effects, kind))));
    })
    .catch((error) => place.replaceChildren(el("p", { class: "error" }, error.message)));
  return place;
}

function states(page) {
  const { model, text, base, stack, other = "" } = page.state;
  const stacks = Object.entries(page.model.stacks);
  const chosen = stack ?? stacks[0][0];
  const input = el("input", { type: "text", id: "other", value: other, dir: "auto", autocomplete: "off" });
  const place = el("div", { class: "stack" });
  const show = (event) => {
    event?.preventDefault();
    const asked = (page.state.other = input.value);
    if (!asked.trim()) return;
    place.replaceChildren(el("p", { role: "status" }, "Computing the output with each state…"));
    page.source
      .ask({ ask: "states", model, text, other: asked, stack: chosen })
      .then(({ effects }) => {
        const layers = Math.max(...effects.map((each) => each.layer)) + 1;
        const positions = Math.max(...effects.map((each) => each.position)) + 1;
        const weights = new Float32Array(layers * positions);
        for (const each of effects) weights[each.layer * positions + each.position] = -each.effect;
        const most = weights.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
        const names = chosen === "encoder" ? base.source : base.read; // effects are those on the unchanged model
        const patch = (layer, position) => page.edit({ edit: "patch", text: asked, stack: chosen, layer, position });
        const queries = Array.from({ length: layers }, (_, i) => (i ? `after\u00a0layer\u00a0${i}` : "embedding"));
        const words = (l, p) => `${queries[l]}, position ${p + 1}: the output loses ${digits(weights[l * positions + p])} nats`;
        place.replaceChildren(
          largeMap({ weights, queries, keys: names.slice(0, positions), most, words, chosen: patch }),
          el("p", { class: "hint" }, `The darkest cell loses ${digits(most)} nats. Select a cell to put the other state there and see the output.`),
        );
      })
      .catch((error) => place.replaceChildren(el("p", { class: "error" }, error.message)));
  };
  if (other) show();
  const choose = choice("Stack", stacks.map(([name]) => [name, name]), chosen, (value) => page.set({ stack: value }));
  return el(
    "form",
    { class: "stack", onsubmit: show },
    el("h3", {}, "With a state of another text"),
    el("div", { class: "ask" }, el("p", { class: "field wide" }, el("label", { for: "other" }, "Other text"), input), choose, el("button", {}, "Compute")),
    place,
  );
}

/** Return the view. */
export function drawEffects(page) {
  const ofHeads = [
    el("h3", {}, "Without a head"),
    el("p", { class: "hint" }, "Each number is what the log-probability of the unchanged model's output gains, in nats, if the head adds nothing: the more below zero, the more the output needs it."),
    heads(page),
  ];
  const hasHeads = Object.keys(page.state.trace.attention).length;
  return el("div", { class: "stack" }, hasHeads ? ofHeads : "", page.source.live && Object.keys(page.model.stacks).length ? states(page) : "");
}
