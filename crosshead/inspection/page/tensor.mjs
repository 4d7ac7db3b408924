// Tensors of a trace.

/** Return a tensor from its JSON form: its shape, and its numbers row by row. An opened one stays as it is. */
export function unpacked({ shape, type, data }) {
  if (typeof data !== "string") return { shape, data };
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = text.charCodeAt(i);
  if (type === "uint8") return { shape, data: bytes };
  if (type === "float32") return { shape, data: new Float32Array(bytes.buffer) };
  return { shape, data: Float32Array.from(new Uint16Array(bytes.buffer), fromHalf) };
}

/** Return the number of float16 bits: 1 for the sign, 5 for the exponent, 10 for the fraction. */
function fromHalf(bits) {
  const [exponent, fraction] = [(bits >> 10) & 31, (bits & 1023) / 1024];
  const size = exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction;
  return bits >> 15 ? -size : size;
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
