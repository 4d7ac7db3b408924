// The Transformer of Vaswani et al. 2017, "Attention Is All You Need", computed from its weights.
//
// A sequence of vectors is a list of Float32Array, one for each position. Sums are computed in float64.

import { softmax, unpacked } from "./tensor.mjs";

/** Return the model of a form: its layers, with the weights of each. */
export function transformer({ config, weights: packed }) {
  const weights = Object.fromEntries(Object.entries(packed).map(([name, each]) => [name, unpacked(each)]));
  const linear = (name) => ({ weight: weights[`${name}.weight`]?.data, bias: weights[`${name}.bias`]?.data });
  const attention = (name, kind, number) => {
    const matrices = { query: linear(`${name}.query`), keyValue: linear(`${name}.key_value`) };
    return { ...config, kind, number, ...matrices, output: linear(`${name}.output`) };
  };
  const layers = (stack, count, parts) =>
    Array.from({ length: count }, (_, i) => {
      const name = `${stack}.layers.${i}`;
      const sublayers = Object.entries(parts).map(([part, kind]) => [part, attention(`${name}.${part}`, kind, i + 1)]);
      const norms = ["attention", "self", "cross", "feedforward"];
      return {
        ...Object.fromEntries(sublayers),
        inner: linear(`${name}.feedforward.inner`),
        outer: linear(`${name}.feedforward.outer`),
        norms: Object.fromEntries(norms.map((each) => [each, linear(`${name}.add_norm_${each}.norm`)])),
      };
    });
  const source = weights["source_embeddings.weight"];
  const target = weights["target_embeddings.weight"] ?? source; // matrices that are shared are there once (section 3.4)
  return {
    config,
    source: { matrix: source, learned: weights["source_embeddings.positions.table"] },
    target: { matrix: target, learned: weights["target_embeddings.positions.table"] },
    encoder: layers("encoder", config.encoder_layers, { attention: "encoder" }),
    decoder: layers("decoder", config.decoder_layers, { self_attention: "decoder", cross_attention: "cross" }),
    ends: { encoder: linear("encoder.norm"), decoder: linear("decoder.norm") },
    projection: { weight: (weights["projection.weight"] ?? target).data, bias: weights["projection.bias"]?.data },
  };
}

/** Return changes of the model, and places for what it computes; without `keeps` nothing is kept. */
export function probeOf(edits, keeps) {
  if (!keeps) return { edits };
  return { edits, attention: { cross: [], encoder: [], decoder: [] }, states: { encoder: [], decoder: [] } };
}

/** Return what the encoder makes of token ids, as keys and values for each layer of the decoder (section 3.1). */
export function encoded(model, ids, probe) {
  const positions = ids.map((_, i) => i);
  let x = passed(probe, "encoder", 0, embedded(model, model.source, ids, positions), positions);
  for (const [i, layer] of model.encoder.entries()) {
    x = sublayer(model, layer.norms.attention, x, (y) => {
      const own = keysAndValues(layer.attention, y);
      return attended(layer.attention, y, positions, () => own, probe);
    });
    x = sublayer(model, layer.norms.feedforward, x, (y) => feedForward(model, layer, y));
    x = passed(probe, "encoder", i + 1, x, positions);
  }
  const memory = endOfStack(model, "encoder", x);
  return model.decoder.map((layer) => keysAndValues(layer.cross_attention, memory));
}

/** Return caches without a position: the keys and values that each layer of the decoder has computed. */
export function emptyCaches(model) {
  return model.decoder.map(() => ({ keys: [], values: [] }));
}

/**
 * Feed token ids to hypotheses, each after the positions of its caches (section 3.1).
 *
 * Every row is a hypothesis, with as many ids as the others. Return the last states of each, and the longer caches.
 */
export function decoded(model, memory, rows, probe) {
  const [count, first] = [rows[0].ids.length, rows[0].caches[0].keys.length];
  const ids = rows.flatMap((row) => row.ids);
  const positions = ids.map((_, i) => first + (i % count));
  const longer = rows.map(() => []);
  let x = passed(probe, "decoder", 0, embedded(model, model.target, ids, positions), positions);
  for (const [i, layer] of model.decoder.entries()) {
    x = sublayer(model, layer.norms.self, x, (y) => {
      const { keys, values } = keysAndValues(layer.self_attention, y);
      for (const [row, { caches }] of rows.entries()) {
        const own = (all) => all.slice(row * count, (row + 1) * count);
        longer[row].push({ keys: [...caches[i].keys, ...own(keys)], values: [...caches[i].values, ...own(values)] });
      }
      return attended(layer.self_attention, y, positions, (at) => longer[Math.floor(at / count)][i], probe);
    });
    x = sublayer(model, layer.norms.cross, x, (y) =>
      attended(layer.cross_attention, y, positions, () => memory[i], probe),
    );
    x = sublayer(model, layer.norms.feedforward, x, (y) => feedForward(model, layer, y));
    x = passed(probe, "decoder", i + 1, x, positions);
  }
  const hidden = endOfStack(model, "decoder", x);
  return rows.map((_, row) => ({ hidden: hidden.slice(row * count, (row + 1) * count), caches: longer[row] }));
}

/** Return the norm of the states that leave a stack of pre-norm layers; post-norm layers end with their own. */
export function endOfStack(model, stack, x) {
  return model.config.norm === "pre" ? layerNorm(model, model.ends[stack], x) : x;
}

/** Return the log-probabilities of all tokens after each of the decoder's last states (section 3.4). */
export function logProbabilities(model, hidden) {
  return applied(model.projection, hidden).map((logits) => {
    const most = logits.reduce((a, b) => Math.max(a, b));
    const sum = logits.reduce((total, each) => total + Math.exp(each - most), 0);
    return logits.map((each) => each - most - Math.log(sum));
  });
}

/** Return the vectors of token ids, sqrt(d_model) E[token] + PE(position) (sections 3.4 and 3.5). */
function embedded({ config }, { matrix, learned }, ids, positions) {
  const [width, isLearned] = [config.d_model, config.positions === "learned"];
  return ids.map((id, i) => {
    const position = positions[i];
    if (!(id >= 0 && id < matrix.shape[0])) throw new Error(`found the token id ${id}, which no piece has`);
    if (isLearned && position >= learned.shape[0]) throw new Error(`the model has only ${learned.shape[0]} positions`);
    const place = isLearned ? learned.data.subarray(position * width) : sinusoid(position, width);
    const vector = matrix.data.slice(id * width, (id + 1) * width);
    return vector.map((each, j) => each * Math.sqrt(width) + place[j]);
  });
}

/** Return PE(pos, 2i) = sin(pos / 10000^(2i / d_model)) and PE(pos, 2i + 1) = cos of the same angle (section 3.5). */
function sinusoid(position, width) {
  return Float32Array.from({ length: width }, (_, j) => {
    const angle = position / 10000 ** ((j - (j % 2)) / width);
    return j % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** Put the states of other texts in their places, and keep the states that enter or leave a layer. */
function passed(probe, stack, layer, x, positions) {
  const isHere = ({ edit, ...each }) => edit === "patch" && each.stack === stack && each.layer === layer;
  const patches = probe.edits.filter(isHere);
  const found = x.map((own, i) => patches.findLast((each) => each.position === positions[i])?.state ?? own);
  probe.states?.[stack].push(found);
  return found;
}

/**
 * Return the states after a sublayer.
 *
 * They are LayerNorm(x + Sublayer(x)) (section 3.1), or x + Sublayer(LayerNorm(x)) with pre-norm (Xiong et al. 2020).
 */
function sublayer(model, norm, x, compute) {
  if (model.config.norm === "pre") return sums(x, compute(layerNorm(model, norm, x)));
  return layerNorm(model, norm, sums(x, compute(x)));
}

function sums(x, y) {
  return x.map((row, i) => row.map((each, j) => each + y[i][j]));
}

/** Return each vector with mean 0 and variance 1, times a gain, plus a bias (Ba et al. 2016, Eq. 4). */
function layerNorm({ config }, { weight, bias }, x) {
  return x.map((row) => {
    const mean = row.reduce((a, b) => a + b, 0) / row.length;
    const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / row.length;
    const scale = 1 / Math.sqrt(variance + config.norm_eps);
    return row.map((each, j) => (each - mean) * scale * weight[j] + bias[j]);
  });
}

/** Return max(0, x W_1 + b_1) W_2 + b_2, or the same with another activation (section 3.3, Eq. 2). */
function feedForward({ config }, { inner, outer }, x) {
  const activation = ACTIVATIONS[config.activation];
  return applied(outer, applied(inner, x).map((row) => row.map(activation)));
}

const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => (x / 2) * (1 + erf(x / Math.SQRT2)),
  "gelu-tanh": (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  swish: (x) => x / (1 + Math.exp(-x)),
};

/** Return the error function, by Abramowitz and Stegun 1964, 7.1.26; it is exact to 1.5e-7. */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}

/** Return x W^T + b for each vector. */
function applied({ weight, bias }, x) {
  const width = x[0].length;
  const y = x.map(() => new Float32Array(weight.length / width));
  for (let output = 0; output < y[0].length; output += 1) {
    for (let i = 0; i < x.length; i += 1) {
      y[i][output] = partProduct(weight, output * width, x[i], 0, width) + (bias ? bias[output] : 0);
    }
  }
  return y;
}

/** Return the product of `size` numbers of two arrays. Four sums at once are faster than a single one. */
function partProduct(left, from, right, at, size) {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let i = 0;
  for (; i + 3 < size; i += 4) {
    a += left[from + i] * right[at + i];
    b += left[from + i + 1] * right[at + i + 1];
    c += left[from + i + 2] * right[at + i + 2];
    d += left[from + i + 3] * right[at + i + 3];
  }
  for (; i < size; i += 1) a += left[from + i] * right[at + i];
  return a + b + c + d;
}

/** Return K W^K and V W^V of all heads for the vectors to attend to (section 3.2.2). */
function keysAndValues({ keyValue, kv_heads, d_key }, x) {
  const both = applied(keyValue, x);
  const middle = kv_heads * d_key;
  return { keys: both.map((each) => each.subarray(0, middle)), values: both.map((each) => each.subarray(middle)) };
}

/**
 * Return multi-head attention for vectors at some positions: Concat(head_1, ..., head_h) W^O (section 3.2.2).
 *
 * `memoryOf(i)` has the keys and values that vector i attends to. With fewer heads of keys and values than of queries,
 * neighbours share them (Shazeer 2019; Ainslie et al. 2023).
 */
function attended(layer, x, positions, memoryOf, probe) {
  const { kind, heads, kv_heads, d_value } = layer;
  const changes = probe.edits.filter((each) => each.kind === kind && each.layer === layer.number);
  const queries = applied(layer.query, x);
  const contexts = x.map(() => new Float32Array(heads * d_value));
  const found = [];
  for (let head = 0; head < heads; head += 1) {
    const own = changes.filter((each) => !each.head || each.head === head + 1);
    const place = { head, shared: Math.floor((head * kv_heads) / heads), changes: own };
    for (const [i, query] of queries.entries()) {
      const row = weighted(layer, query, positions[i], memoryOf(i), place);
      contexts[i].set(row.context, head * d_value);
      found.push(row);
    }
  }
  probe.attention?.[kind].push(tensorsOf(layer, found, queries, memoryOf(0)));
  return applied(layer.output, contexts);
}

/**
 * Return softmax(q K^T / sqrt(d_k)) V for a query of one head, and its parts, with changes in force (Eq. 1).
 *
 * A query that may attend to nothing has a context and weights of zeros.
 */
function weighted({ kind, d_key, d_value }, query, position, { keys, values }, { head, shared, changes }) {
  const product = (key) => partProduct(key, shared * d_key, query, head * d_key, d_key);
  const scores = Float32Array.from(keys, (key) => product(key) / Math.sqrt(d_key));
  const forbidden = changes.filter((each) => each.edit === "edge" && each.query === position).map((each) => each.key);
  const isLater = (key) => kind === "decoder" && key > position; // the causal mask (section 3.2.3)
  const mask = Uint8Array.from(keys, (_, key) => Number(!isLater(key) && !forbidden.includes(key)));
  const isReachable = mask.includes(1);
  let weights = Float32Array.from(softmax(scores, isReachable ? mask : mask.map(() => 1)));
  for (const { edit } of changes) {
    const count = Math.max(1, mask.reduce((a, b) => a + b));
    const diagonal = Math.min(position, keys.length - 1);
    if (edit === "uniform") weights = Float32Array.from(mask, (each) => each / count);
    if (edit === "diagonal") weights = weights.map((_, key) => Number(key === diagonal));
  }
  const context = new Float32Array(d_value);
  if (isReachable && !changes.some((each) => each.edit === "off")) {
    for (const [key, value] of values.entries()) {
      for (let j = 0; j < d_value; j += 1) context[j] += weights[key] * value[shared * d_value + j];
    }
  }
  return { scores, mask, weights: isReachable ? weights : weights.fill(0), context };
}

/** Return the tensors of an attention as a trace has them: "H Q E", "H K E" and "H Q K". */
function tensorsOf(layer, rows, queries, { keys, values }) {
  const { heads, kv_heads, d_key, d_value } = layer;
  const [asked, size] = [queries.length, keys.length];
  const joined = (type, shape, parts) => {
    const data = new type(shape[0] * shape[1] * shape[2]);
    parts.forEach((each, i) => data.set(each, i * shape[2]));
    return { shape, data };
  };
  // A head of queries has its own part of the vectors, or one that it shares.
  const ofHeads = (x, width, count) =>
    Array.from({ length: heads }, (_, head) => {
      const at = Math.floor((head * count) / heads) * width;
      return x.map((each) => each.subarray(at, at + width));
    });
  const ofValues = ofHeads(values, d_value, kv_heads);
  const lengths = ofValues.map((each, head) => each.map((value) => outputLength(layer, head, value)));
  const norms = rows.map(({ weights }, i) => weights.map((each, key) => each * lengths[Math.floor(i / asked)][key]));
  const ofRows = (name, type = Float32Array) => joined(type, [heads, asked, size], rows.map((each) => each[name]));
  return {
    query: joined(Float32Array, [heads, asked, d_key], ofHeads(queries, d_key, heads).flat()),
    key: joined(Float32Array, [heads, size, d_key], ofHeads(keys, d_key, kv_heads).flat()),
    value: joined(Float32Array, [heads, size, d_value], ofValues.flat()),
    scores: ofRows("scores"),
    mask: ofRows("mask", Uint8Array),
    weights: ofRows("weights"),
    norms: joined(Float32Array, [heads, asked, size], norms),
  };
}

/** Return |v W^O|, the length of what a value of weight 1 adds to the output (Kobayashi et al. 2020, section 2). */
function outputLength({ output, heads, d_value }, head, value) {
  const width = heads * d_value;
  let squares = 0;
  for (let at = head * d_value; at < output.weight.length; at += width) {
    squares += partProduct(output.weight, at, value, 0, d_value) ** 2;
  }
  return Math.sqrt(squares);
}
