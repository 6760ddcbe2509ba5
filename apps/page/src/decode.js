// Binary arrays of the data, which are base64 in the JSON.

/** Returns the bytes [begin, end) of base64 text without decoding the rest. */
export function bytes(base64, begin = 0, end = Math.floor((base64.length * 3) / 4)) {
  const first = Math.floor(begin / 3);
  const text = atob(base64.slice(4 * first, 4 * Math.ceil(end / 3)));
  const result = new Uint8Array(Math.max(0, Math.min(end, 3 * first + text.length) - begin));
  for (let i = 0; i < result.length; i++) result[i] = text.charCodeAt(begin - 3 * first + i);
  return result;
}

const decoded = new WeakMap();

/** Returns the weights of a head, one byte (weight * 255) for each cell, row-major. Decodes a head
 *  when it is first asked for. */
export function headWeights(attention, layer, head) {
  if (!decoded.has(attention)) decoded.set(attention, new Map());
  const heads = decoded.get(attention);
  const index = layer * attention.num_heads + head;
  if (!heads.has(index)) {
    const size = attention.rows.length * attention.columns.length;
    heads.set(index, bytes(attention.weights, index * size, (index + 1) * size));
  }
  return heads.get(index);
}

/** Returns the points of embeddings, [steps, tokens, 2] row-major. */
export function embeddingPoints({ points, scale, steps, tokens }) {
  const view = new DataView(bytes(points).buffer);
  const result = new Float64Array(steps.length * tokens.length * 2);
  for (let i = 0; i < result.length; i++) result[i] = (view.getInt16(2 * i, true) * scale) / 32767;
  return result;
}
