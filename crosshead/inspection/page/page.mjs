// The page: one state, the request for a trace of it, and the view that is chosen.

import { wireTheme } from "./theme.mjs";
import { computed } from "./computed.mjs";
import { el, shown } from "./dom.mjs";
import { recording, remembering, server } from "./source.mjs";
import { drawSteps } from "./steps.mjs";
import { drawHeads } from "./heads.mjs";
import { drawNumbers } from "./numbers.mjs";
import { drawBeam } from "./beam.mjs";
import { drawLayers } from "./layers.mjs";
import { drawEffects } from "./effects.mjs";
import { drawModels } from "./models.mjs";
import { drawTraining } from "./training.mjs";
import { clamped, editWords, effectsOf, isOfHead, withEdit } from "./state.mjs";

const VIEWS = [
  ["steps", "Step by step", drawSteps, (trace) => trace.best],
  ["heads", "Heads", drawHeads, (trace) => Object.keys(trace.attention).length],
  ["numbers", "Numbers", drawNumbers, (trace) => Object.values(trace.attention)[0]?.layers[0].query],
  ["beam", "Beam", drawBeam, (trace) => trace.beam?.length],
  ["layers", "Layers", drawLayers, (trace) => trace.lens?.length],
  ["effects", "What matters", drawEffects, (trace, model) => source.has(effectsOf(page)) && (Object.keys(trace.attention).length || Object.keys(model.stacks).length)],
  ["training", "Training", drawTraining, (trace, model, live) => live && trace.best && model.checkpoints.length > 1],
  ["models", "Two models", drawModels, (trace) => source.models.length > 1 && trace.best],
];

const find = (id) => document.getElementById(id);
const state = { model: 0, text: "", edits: [], trace: null, base: null, view: "steps", kind: null, layer: 1, head: 1, query: 0, step: 0 };
let source;
let asked = 0;
let edited = Promise.resolve(); // fulfilled when the last change is answered

const page = {
  state,
  get source() {
    return source;
  },
  get model() {
    return source.models[state.model];
  },
  /** Change the state, and draw the view again. */
  set(changes) {
    Object.assign(state, changes);
    draw();
  },
  /** Add a change of the model, or take it away if it is there, and look again. */
  edit(change) {
    const { model, text } = state;
    // After the changes before it, unless something else is looked at by then.
    edited = edited.then(() => state.model === model && state.text === text && look(withEdit(state.edits, change), state));
    return edited;
  },
};

/** Look at what is chosen, or at a model and a text, with changes in force. */
async function look(edits, { model, text } = { model: Number(find("model").value || 0), text: find("text").value }) {
  const mine = (asked += 1);
  const isOther = model !== state.model || text !== state.text;
  find("error").textContent = "";
  find("status").textContent = "Computing…";
  try {
    const base = await source.ask({ ask: "trace", model, text });
    const trace = edits.length ? await source.ask({ ask: "trace", model, text, edits }) : base;
    if (mine !== asked) return;
    Object.assign(state, { model, text, trace, base, edits }, isOther ? { step: 0, query: 0, kind: null } : {});
    draw();
  } catch (error) {
    if (mine !== asked) return;
    find("error").textContent = error.message;
    if (isOther) state.trace = null; // nothing of another text stays beside this one
    draw();
  } finally {
    if (mine === asked) find("status").textContent = "";
  }
}

function draw() {
  const { trace } = state;
  find("shape").textContent = [page.model.name, page.model.shape].filter(Boolean).join(" · ");
  for (const id of ["tabs", "panel"]) find(id).hidden = !trace;
  find("output").hidden = !trace?.best;
  if (!trace) return;
  Object.assign(state, clamped(state));
  drawOutput();
  const views = VIEWS.filter(([, , , has]) => has(trace, page.model, source.live));
  const [name, , drawView] = views.find(([each]) => each === state.view) ?? views[0];
  const buttons = views.map(([each, words]) =>
    el(
      "button",
      {
        type: "button", role: "tab", id: `tab-${each}`, "aria-selected": String(each === name), "aria-controls": "panel",
        tabindex: each === name ? 0 : -1, onclick: () => page.set({ view: each }),
      },
      words,
    ),
  );
  const focused = document.activeElement?.id;
  find("tabs").replaceChildren(...buttons);
  find("panel").setAttribute("aria-labelledby", `tab-${name}`);
  const drawn = drawView(page);
  find("panel").replaceChildren(drawn);
  if (focused) queueMicrotask(() => find(focused)?.focus()); // a view may end with an answer that is known
}

function drawOutput() {
  const { trace, base, edits } = state;
  const textOf = (each) => each.found?.[0]?.text ?? "";
  const [now, before] = [textOf(trace), textOf(base)];
  find("output-label").textContent = page.model.translates ? "Translation" : "Most probable next piece";
  const next = trace.best?.at(-1)?.[0];
  const lines = [el("p", { class: "found", dir: "auto", id: "translation" }, page.model.translates ? now : shown(next?.piece ?? ""))];
  if (edits.length && page.model.translates) {
    lines.push(el("p", { id: "before" }, "Without the changes: ", now === before ? "the same" : el("del", { dir: "auto" }, before)));
  }
  if (!edits.length && trace.edits?.length) lines.push(el("p", { class: "hint" }, `Changed by ${trace.edits.join(", ")}.`));
  find("texts").replaceChildren(...lines);
  const chips = edits.map((each) =>
    el("button", { type: "button", onclick: () => page.edit(each), "aria-label": `Take back: ${editWords(each)}` }, editWords(each), " ✕"),
  );
  find("edits").replaceChildren(...chips);
}

function moveTabs(event) {
  const tabs = [...find("tabs").children];
  const at = tabs.indexOf(document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  const next = tabs[(to + tabs.length) % tabs.length];
  next.focus();
  next.click();
}

async function start() {
  wireTheme(find("theme"));
  find("theme").addEventListener("click", draw);
  for (const each of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) matchMedia(each).addEventListener("change", draw);
  const recorded = find("recorded");
  const saved = recorded && JSON.parse(recorded.textContent);
  source = remembering(!saved ? await server() : saved.computing ? computed(saved) : recording(saved));
  find("model").append(...source.models.map((each, i) => el("option", { value: i }, each.name)));
  find("model-field").hidden = source.models.length < 2;
  find("model").addEventListener("change", () => look([]));
  find("tabs").addEventListener("keydown", moveTabs);
  find("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    look(state.edits.filter(isOfHead)); // other changes are of places in the text before
  });
  find("text").value = source.text;
  if (!source.live) {
    find("text").readOnly = true;
    find("go").hidden = true;
    find("source").textContent = "This page shows what crosshead has recorded, and reaches no server.";
  }
  if (source.text) await look([]);
}

start().catch((error) => (find("error").textContent = error.message));
