// Tensors of a trace.

const TYPES = { float32: Float32Array, uint8: Uint8Array };

/** Return a tensor from its JSON form: its shape, and its numbers row by row. */
export function unpacked({ shape, type, data }) {
  const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
  return { shape, data: new TYPES[type](bytes.buffer) };
}

/** Return the part of a tensor at the first indices, as a flat array. */
export function part(tensor, ...index) {
  let [start, size] = [0, tensor.data.length];
  for (const [axis, each] of index.entries()) {
    size /= tensor.shape[axis];
    start += each * size;
  }
  return tensor.data.subarray(start, start + size);
}

/** Return a trace with its tensors unpacked. */
export function opened(trace) {
  const layer = (tensors) => Object.fromEntries(Object.entries(tensors).map(([name, each]) => [name, unpacked(each)]));
  const kinds = Object.entries(trace.attention).map(([kind, each]) => [
    kind,
    { ...each, layers: each.layers.map(layer) },
  ]);
  return { ...trace, attention: Object.fromEntries(kinds) };
}

/** Return the dot product of two vectors. */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

/** Return the softmax of scores; those that `allowed` excludes have the weight 0. */
export function softmax(scores, allowed) {
  const most = Math.max(...scores.filter((_, i) => allowed[i]));
  const powers = Array.from(scores, (score, i) => (allowed[i] ? Math.exp(score - most) : 0));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => (sum ? power / sum : 0));
}

/** Return the mean of the heads of a tensor "H Q K", flat. */
export function meanOfHeads(tensor) {
  const [heads, queries, keys] = tensor.shape;
  const mean = new Float32Array(queries * keys);
  tensor.data.forEach((value, i) => (mean[i % mean.length] += value / heads));
  return mean;
}
