// Functions of the state alone: no page, no network.

/** The names of the kinds of attention. */
export const KINDS = {
  cross: "cross-attention",
  encoder: "encoder self-attention",
  decoder: "decoder self-attention",
  image: "attention to the image",
};

const DONE = { off: "off", uniform: "with uniform weights", diagonal: "with diagonal weights" };

/** Return the words for a change of the model. */
export function editWords(change) {
  const { edit, kind, layer, head, query, key, stack, position, ids } = change;
  if (edit === "prefix") return `the first ${ids.length === 1 ? "piece" : `${ids.length} pieces`} given`;
  if (edit === "patch") return `${stack} after layer ${layer}, position ${position + 1}, from the other text`;
  const place = `${head ? `head ${head} of ` : ""}layer ${layer}, ${KINDS[kind]}`;
  return edit === "edge" ? `${place}: ${query + 1} may not attend to ${key + 1}` : `${place}: ${DONE[edit]}`;
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Return whether a change is of a whole head, and so of no place in a text. */
export const isOfHead = ({ edit }) => edit in DONE;

/**
 * Return changes with one more, or without it if it is there.
 *
 * There is one prefix, and one change of a whole head at a time.
 */
export function withEdit(edits, change) {
  if (edits.some((each) => same(each, change))) return edits.filter((each) => !same(each, change));
  const clash = (each) =>
    (change.edit === "prefix" && each.edit === "prefix") ||
    (isOfHead(change) && isOfHead(each) && same([each.kind, each.layer, each.head], [change.kind, change.layer, change.head]));
  return [...edits.filter((each) => !clash(each)), change];
}

/** Return the choices of a state within what its trace has. */
export function clamped({ trace, kind, layer, head, query, step }) {
  const kinds = Object.keys(trace.attention);
  const found = kinds.includes(kind) ? kind : kinds[0];
  const within = (value, most) => Math.max(0, Math.min(value, most));
  const attention = trace.attention[found];
  const layers = attention?.layers.length ?? 1;
  const place = Math.max(1, within(layer, layers));
  const heads = attention?.layers[place - 1].weights.shape[0] ?? 1;
  return {
    kind: found,
    layer: place,
    head: Math.max(1, within(head, heads)),
    query: within(query, (attention?.queries.length ?? 1) - 1),
    step: within(step, (trace.target?.length ?? 1) - 1),
  };
}

/** Return the request for the effect of each head of the unchanged model. */
export function effectsOf({ state: { model, text } }) {
  return { ask: "heads", model, text };
}

/** Return the words for what a row of a kind of attention is, if its label does not say it. */
export function rowWords(kind) {
  return kind === "cross" ? "A row is the position that writes the piece beside it, and has read those before it. " : "";
}

/** Return whether a head is the one that a word aligner has taught. */
export function isTaught(supervised, kind, layer, head) {
  return Boolean(supervised) && supervised.kind === kind && supervised.layer === layer && supervised.head === head;
}

/** Return the positions of the nodes of a beam, which of them the search kept, and those of the best output. */
export function beamTree(steps, target) {
  const nodes = steps.flatMap((rows, step) => rows.map((row, place) => ({ ...row, step, place, kept: false, best: false })));
  const at = new Map(nodes.map((each) => [`${each.step}.${each.place}`, each]));
  const parent = (node) => at.get(`${node.step - 1}.${node.parent}`);
  for (const node of nodes) if (node.step && parent(node)) parent(node).kept = true;
  const path = (node) => (node.step ? [...path(parent(node)), node] : []);
  for (const node of nodes) {
    const pieces = path(node).map((each) => each.piece);
    node.best = pieces.every((piece, i) => piece === target[i]);
  }
  return nodes;
}
