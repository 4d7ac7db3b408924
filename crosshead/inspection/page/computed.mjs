// Answers that the page computes itself, from the weights that a saved page holds.

import { readIds, tokenizer } from "./pieces.mjs";
import { largest, searched } from "./search.mjs";
import { recording } from "./source.mjs";
import { KINDS } from "./state.mjs";
import { decoded, emptyCaches, encoded, endOfStack, logProbabilities, probeOf, transformer } from "./transformer.mjs";

const [END, MOST_LISTED, MOST_KEPT] = [2, 5, 16];

/**
 * Return the source of a saved page that computes: `computing` holds the form of each model.
 *
 * The page holds the answers about its first text, which may be one that only the program reads.
 */
export function computed({ models, text, answers = [], computing }) {
  const recorded = recording({ models, text, answers });
  const ready = new Map();
  const ofModel = (number) => {
    if (!ready.has(number)) ready.set(number, lookedAt(computing[number], models[number]));
    return ready.get(number);
  };
  const ask = async (request) => {
    if (recorded.has(request)) return recorded.ask(request);
    const { ask: wanted, model = 0, text: given, edits = [], other, stack = "encoder" } = request;
    await pause();
    const found = ofModel(model);
    if (wanted === "trace") return found.traced(given, edits).form;
    if (wanted === "heads") return { effects: await found.ofHeads(given) };
    return { effects: await found.ofStates(given, other, stack) };
  };
  const withoutRuns = models.map((each) => ({ ...each, checkpoints: [] })); // the page has the final weights alone
  return { models: withoutRuns, text, ask, has: () => true, live: true };
}

/** Let the browser draw, and react to the person. */
function pause() {
  return new Promise((go) => setTimeout(go));
}

/** Return the functions that look into a model: traces, and the effects of its heads and its states. */
function lookedAt(form, { heads, supervised }) {
  const model = transformer(form);
  const source = tokenizer(form.source);
  const target = form.target ? tokenizer(form.target) : source;
  const listed = (logProbs) =>
    largest(logProbs, MOST_LISTED).map((id) => [...target.pieces([id]), Math.exp(logProbs[id]), id]);
  const parts = { form, model, source, target, listed, supervised };
  const kept = new Map();
  const traced = (text, edits) => {
    const name = JSON.stringify([text, edits]);
    if (!kept.has(name)) kept.set(name, traceOf(parts, text, changesOf(edits), null));
    if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
    return kept.get(name);
  };
  // A patch comes with the state of the other text.
  const changesOf = (edits) =>
    edits.map((each) => {
      if (each.edit !== "patch") return each;
      return { ...each, state: traced(each.text, []).states[each.stack][each.layer][each.position] };
    });

  /** Return what a change adds to the log-probability of the output without it, in nats. */
  const effectOf = async (text, change) => {
    await pause();
    const before = traced(text, []).form;
    const counted = before.probabilities.slice(0, before.ids.at(-1) === END ? undefined : -1);
    const after = traceOf(parts, text, changesOf([change]), before.ids.slice(0, -1)).form;
    return counted.reduce((sum, each, i) => sum + logOf(after.probabilities[i]) - logOf(each), 0);
  };
  const withEffects = async (text, changes) => {
    const effects = [];
    for (const change of changes) effects.push({ ...change, effect: await effectOf(text, change) });
    return effects;
  };
  const ofHeads = (text) => {
    const numbered = (count, made) => Array.from({ length: count }, (_, i) => made(i + 1));
    const changes = Object.entries(heads).flatMap(([kind, counts]) =>
      counts.flatMap((count, i) => numbered(count, (head) => ({ edit: "off", kind, layer: i + 1, head }))),
    );
    return withEffects(text, changes);
  };
  const ofStates = (text, other, stack) => {
    const [mine, theirs] = [text, other].map((each) => traced(each, []).states[stack]);
    const changes = mine.flatMap((states, layer) =>
      states.slice(0, theirs[layer].length).map((_, position) => ({ edit: "patch", text: other, stack, layer, position })),
    );
    return withEffects(text, changes);
  };
  return { traced, ofHeads, ofStates };
}

/** Return the logarithm of a probability that may be 0 in float32. */
function logOf(probability) {
  return Math.log(Math.max(Math.fround(probability), 1e-45));
}

/** Return the trace of a text, as the server gives it, and the states of each stack. `given` is a target, or null. */
function traceOf({ form, model, source, target, listed, supervised }, text, edits, given) {
  const ids = [...readIds(text, source, form), END];
  const probe = probeOf(edits, true);
  const memory = encoded(model, ids, probe);
  const fixed = given && { ids: given, ends: true, found: [], beam: [], given: 0 };
  const search = fixed ?? searchOf({ form, model, target, listed }, memory, edits);
  const predicted = search.ends ? [...search.ids, END] : search.ids;
  const read = [form.start, ...predicted.slice(0, -1)];
  const [{ hidden }] = decoded(model, memory, [{ ids: read, caches: emptyCaches(model) }], probe);
  const logProbs = logProbabilities(model, hidden);
  const pieces = { source: source.pieces(ids), read: target.pieces(read) };
  const axes = {
    cross: { queries: target.pieces(predicted), keys: pieces.source },
    encoder: { queries: pieces.source, keys: pieces.source },
    decoder: { queries: pieces.read, keys: pieces.read },
  };
  checkEdges(edits, axes);
  const attention = Object.entries(probe.attention).map(([kind, layers]) => [kind, { ...axes[kind], layers }]);
  const best = logProbs.map(listed);
  const lensOf = (states) => logProbabilities(model, endOfStack(model, "decoder", states)).map(listed);
  const found = {
    attention: Object.fromEntries(attention),
    supervised,
    found: search.found,
    beam: search.beam,
    given: search.given,
    ...pieces,
    target: target.pieces(predicted),
    ids: predicted,
    best,
    probabilities: predicted.map((id, i) => Math.exp(logProbs[i][id])),
    lens: given ? [] : [...probe.states.decoder.slice(0, -1).map(lensOf), best], // an effect needs none
  };
  return { form: found, states: probe.states };
}

/** Return the output that the model finds for a source, with changes in force, and the steps of the search. */
function searchOf({ form, model, target, listed }, memory, edits) {
  const prefix = edits.find((each) => each.edit === "prefix")?.ids ?? [];
  if (prefix.some((id) => id < 3)) throw new Error("the token ids 0 to 2 are no pieces of an output");
  const step = (rows) => {
    const stepped = decoded(model, memory, rows, probeOf(edits, false));
    const logProbs = logProbabilities(model, stepped.map(({ hidden }) => hidden.at(-1)));
    return stepped.map(({ caches }, i) => ({ caches, logProbs: logProbs[i] }));
  };
  const most = memory[0].keys.length + form.decode.max_extra;
  const limit = Math.min(most, form.positions ?? most) - prefix.length;
  if (limit < 1) throw new Error(`a prefix of ${prefix.length} pieces is too long`);
  const [begin, rules] = [[form.start, ...prefix], { ...form.decode, eos: END }];
  const { steps, found } = searched({ step, caches: emptyCaches(model), prefix: begin, limit, rules });
  const shownRow = ({ parent, ids, total, logProbs }) => {
    return { parent, piece: target.pieces(ids).at(-1), log_prob: total, best: listed(logProbs) };
  };
  const written = found.map(({ tokens, ...each }) => ({ text: target.decode([...prefix, ...tokens]), ...each }));
  const beam = steps.map((rows) => rows.map(shownRow));
  return { ids: [...prefix, ...found[0].tokens], ends: found[0].finished, found: written, beam, given: prefix.length };
}

/** Throw an error if an edge is outside of the text. */
function checkEdges(edits, axes) {
  for (const each of edits.filter(({ edit }) => edit === "edge")) {
    for (const [name, { length }] of [["query", axes[each.kind].queries], ["key", axes[each.kind].keys]]) {
      const place = `${name} ${each[name]} in the ${KINDS[each.kind]}`;
      if (!(each[name] >= 0 && each[name] < length)) throw new Error(`no ${place}: it has 0 to ${length - 1}`);
    }
  }
}
