// Beam search for the output of a model (Wu et al. 2016, section 7).

/** Return the ids of the largest values, the largest first. */
export function largest(values, count) {
  const found = [];
  for (let id = 0; id < values.length; id += 1) {
    if (found.length < count || values[id] > values[found.at(-1)]) {
      let place = found.length;
      while (place && values[found[place - 1]] < values[id]) place -= 1;
      found.splice(place, 0, id);
      found.length = Math.min(found.length, count);
    }
  }
  return found;
}

/**
 * Return the hypotheses of a search, best first, and the rows of each of its steps.
 *
 * `step(rows)` feeds the `ids` of each row, and returns `logProbs`, of all that may follow, and `caches` for each.
 * `prefix` is fed first, and an output has at most `limit` ids with the end. A beam of 1 is greedy search.
 */
export function searched({ step, caches, prefix, limit, rules }) {
  const penalty = (length) => ((rules.length_offset + length) / (rules.length_offset + 1)) ** rules.length_penalty;
  const [steps, finished, scores] = [[], [], []];
  let rows = [{ parent: 0, ids: prefix, caches, tokens: [], values: [], total: 0 }];
  for (let length = 1; ; length += 1) {
    rows = step(rows).map((stepped, i) => ({ ...rows[i], ...stepped }));
    steps.push(rows);
    const candidates = rows
      .flatMap((row, parent) => continued(row, parent, rules))
      .sort((a, b) => b.total - a.total)
      .slice(0, 2 * rules.beam);
    for (const each of candidates.slice(0, rules.beam).filter(({ ids }) => ids[0] === rules.eos)) {
      finished.push(hypothesis(each, penalty, rules));
      scores.push(each.total / penalty(length));
    }
    rows = candidates.filter(({ ids }) => ids[0] !== rules.eos).slice(0, rules.beam);
    const worst = scores.sort((a, b) => b - a)[rules.beam - 1] ?? -Infinity;
    if (isDone(rows[0]?.total ?? -Infinity, worst, finished.length, { length, limit, penalty, rules })) break;
  }
  const cut = rows.slice(0, Math.max(0, rules.beam - finished.length)).map((each) => hypothesis(each, penalty, rules));
  const sorted = [...finished, ...cut].sort((a, b) => b.finished - a.finished || b.score - a.score);
  return { steps, found: sorted.slice(0, rules.beam) };
}

/** Return the best continuations of a hypothesis. At most one of them ends it, so `beam` of them do not. */
function continued({ tokens, values, total, logProbs, caches }, parent, rules) {
  const admitted = withoutForbidden(logProbs, tokens, rules);
  return largest(admitted, rules.beam + 1)
    .filter((id) => admitted[id] > -Infinity)
    .map((id) => {
      const longer = { tokens: [...tokens, id], values: [...values, admitted[id]] };
      return { parent, ids: [id], caches, ...longer, total: Math.fround(total + admitted[id]) };
    });
}

/** Return log-probabilities with minus infinity for what may not follow. Other ids do not get their probability. */
function withoutForbidden(logProbs, tokens, rules) {
  const { eos, min_length, forbidden, bytes } = rules;
  const admitted = logProbs.slice();
  if (tokens.length < min_length) admitted[eos] = -Infinity;
  const state = bytes.length ? utf8State(tokens, bytes) : 0;
  if (!state) {
    for (const id of forbidden) admitted[id] = -Infinity;
    bytes.forEach((id, i) => (admitted[id] = utf8Next(0, 0x80 + i) < 0 ? -Infinity : admitted[id]));
    return admitted;
  }
  const inside = new Float32Array(admitted.length).fill(-Infinity); // the last character is not complete
  bytes.forEach((id, i) => (inside[id] = utf8Next(state, 0x80 + i) < 0 ? -Infinity : admitted[id]));
  return inside;
}

/** Return whether a search is over: no row can do better than the worst of the best `beam` finished hypotheses. */
function isDone(unfinished, worst, finished, { length, limit, penalty, rules }) {
  const stop = rules.beam === 1 ? "full" : rules.stop;
  if (limit <= length || worst >= unfinished / penalty(limit)) return true;
  if (stop === "exact" || finished < rules.beam) return false;
  return (stop === "count" && rules.length_penalty > 0) || worst >= unfinished / penalty(length);
}

/** Return a hypothesis: score = log P / ((k + |Y|) / (k + 1))^alpha (Wu et al. 2016, Eq. 14). */
function hypothesis({ tokens, values }, penalty, { eos, bytes }) {
  const finished = tokens.at(-1) === eos;
  let length = tokens.length - Number(finished);
  // The first bytes of a character that the limit has cut off are left out.
  if (!finished && bytes.length) while (length && utf8State(tokens.slice(0, length), bytes)) length -= 1;
  const used = values.slice(0, length + Number(finished));
  const log_prob = used.reduce((a, b) => a + b, 0);
  return { tokens: tokens.slice(0, length), log_prob, score: log_prob / penalty(Math.max(1, used.length)), finished };
}

// Characters that are spelled in bytes: only valid UTF-8 is admitted (RFC 3629, section 4). Each row is a state, the
// first and the last byte that may follow in it, and the state after them. In state 1 one more byte is missing, in
// state 2 two, in state 3 three; the others forbid forms that are too long, surrogates and numbers above U+10FFFF.
const UTF8 = [
  [0, 0x00, 0x7f, 0], [0, 0xc2, 0xdf, 1], [0, 0xe0, 0xe0, 4], [0, 0xe1, 0xec, 2],
  [0, 0xed, 0xed, 5], [0, 0xee, 0xef, 2], [0, 0xf0, 0xf0, 6], [0, 0xf1, 0xf3, 3],
  [0, 0xf4, 0xf4, 7], [1, 0x80, 0xbf, 0], [2, 0x80, 0xbf, 1], [3, 0x80, 0xbf, 2],
  [4, 0xa0, 0xbf, 1], [5, 0x80, 0x9f, 1], [6, 0x90, 0xbf, 2], [7, 0x80, 0x8f, 2],
];

function utf8Next(state, byte) {
  return UTF8.find(([from, first, last]) => from === state && first <= byte && byte <= last)?.[3] ?? -1;
}

/** Return the state after tokens: 0 if their last character is complete. `bytes` are the ids of the bytes from 0x80. */
function utf8State(tokens, bytes) {
  const values = tokens.slice(-3).map((id) => (bytes.includes(id) ? 0x80 + bytes.indexOf(id) : 0));
  return values.reduce((state, byte) => Math.max(0, utf8Next(state, byte)), 0);
}
