// Explanations as `attend explain --html` writes them (README.md, "Explanations"), with random
// numbers.

/** Returns a generator of numbers from 0 to 1. */
export function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const range = (count) => Array.from({ length: count }, (_, i) => i);
const numbered = (prefix, count) => range(count).map((i) => `${prefix}${i + 1}`);
const map = (a, f) => a.map((row, i) => row.map((value, j) => f(value, i, j)));
const transposed = (a) => a[0].map((_, j) => a.map((row) => row[j]));
const multiplied = (a, b) =>
  a.map((row) => b[0].map((_, j) => row.reduce((sum, value, k) => sum + value * b[k][j], 0)));

function softmax(row) {
  const powers = row.map((value) => (value === null ? 0 : Math.exp(value)));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((value) => value / sum);
}

/** Returns the explanation of a block with one feed-forward layer, for a layer and a head of a model
 *  with two of each, without position encoding. */
export function makeExplanation(tokens, { layer = 1, head = 1, heads = 2 } = {}) {
  const [width, headWidth, hidden, seed] = [8, 4, 40, 10 * layer + head];
  const draw = random(seed);
  const drawn = (rows, columns) =>
    range(rows).map(() => range(columns).map(() => Math.round(20000 * draw() - 10000) / 10000));
  const steps = [];
  const places = new Map();
  const step = (title, formula, matrices, texts = {}) => {
    steps.push({
      title,
      formula,
      description: `${title} of each token.`,
      matrices: matrices.map((matrix, i) => {
        places.set(matrix.values, [steps.length, i]);
        return { by_token: false, between_tokens: false, comparison: false, ...matrix };
      }),
      calculation: "",
      conclusion: "",
      ...texts,
    });
    return matrices.at(-1).values;
  };
  const origin = (operation, operands, fields = {}) => ({
    operation,
    operands: operands.map((values) => places.get(values) ?? null),
    ...fields,
  });
  const byToken = (name, values, from, prefix = name.toLowerCase()) => ({
    name,
    rows: tokens,
    columns: numbered(prefix, values[0].length),
    values,
    by_token: true,
    ...(from ? { origin: from } : {}),
  });
  const between = (name, values, from) => ({
    name,
    rows: tokens,
    columns: tokens,
    values,
    by_token: true,
    between_tokens: true,
    origin: from,
  });
  const weight = (name, values, from, to, fields = {}) => ({
    name,
    rows: values.length === 1 ? [name[0]] : numbered(from, values.length),
    columns: numbered(to, values[0].length),
    values,
    ...fields,
  });
  /** Adds the matrices to the step before the result, whose origin needs their places. */
  const withWeights = (title, formula, weights, result) => {
    weights.forEach(({ values }, i) => places.set(values, [steps.length, i]));
    return step(title, formula, [...weights, result()]);
  };
  const linear = (title, name, x, columns, bias, to) => {
    const w = drawn(x[0].length, columns);
    const b = bias ? drawn(1, columns) : null;
    const y = map(multiplied(x, w), (value, _, j) => value + (b ? b[0][j] : 0));
    const weights = [weight(`W_${name}`, w, "x", to)];
    if (b) weights.push(weight(`b_${name}`, b, "b", to));
    return withWeights(title, `${name} = X W_${name}`, weights, () =>
      byToken(name, y, origin("linear", b ? [x, w, b] : [x, w]), to),
    );
  };

  const x = step("Token vectors", "X", [byToken("X", drawn(tokens.length, width))]);
  const query = linear("Query", "Q", x, headWidth, false, "q");
  const key = linear("Key", "K", x, headWidth, false, "k");
  const value = linear("Value", "V", x, headWidth, true, "v");
  const scores = step("Scores", "S = Q K^T", [
    between("S", multiplied(query, transposed(key)), origin("row_products", [query, key])),
  ]);
  const scaled = step("Scaled scores", "S / 2", [
    between(
      "S",
      map(scores, (score) => score / 2),
      origin("divide", [scores], { number: 2 }),
    ),
  ]);
  const masked = step("Causal mask", "S[i, j] = -inf for j > i", [
    between(
      "S",
      map(scaled, (score, i, j) => (j > i ? null : score)),
      origin("mask", [scaled]),
    ),
  ]);
  const weights = step(
    "Attention weights",
    "A = softmax(S)",
    [between("A", masked.map(softmax), origin("softmax", [masked]))],
    { conclusion: `'${tokens.at(-1)}' attends most to itself.` },
  );
  const output = step("Output", "Y = A V", [
    byToken("Y", multiplied(weights, value), origin("linear", [weights, value])),
  ]);
  const other = drawn(tokens.length, headWidth);
  const parts = range(heads).map((i) => (i + 1 === head ? output : other));
  const joined = step("Heads joined", "Y = [Y1 Y2]", [
    byToken(
      "Y",
      tokens.map((_, i) => parts.flatMap((part) => part[i])),
      origin("columns", parts),
    ),
  ]);
  const projected = linear("Output projection", "O", joined, width, true, "o");
  const residual = step("Residual connection", "R = X + O", [
    byToken(
      "R",
      map(x, (value, i, j) => value + projected[i][j]),
      origin("sum", [x, projected]),
    ),
  ]);
  const [w, b] = [drawn(1, width), drawn(1, width)];
  const normalized = withWeights(
    "Norm",
    "N = (R - mean) / sqrt(variance + 1e-05) * w + b",
    [weight("w", w, "w", "n"), weight("b", b, "b", "n")],
    () => {
      const values = residual.map((row) => {
        const mean = row.reduce((sum, value) => sum + value, 0) / width;
        const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / width;
        return row.map(
          (value, j) => ((value - mean) / Math.sqrt(variance + 1e-5)) * w[0][j] + b[0][j],
        );
      });
      return byToken("N", values, origin("layer_norm", [residual, w, b], { number: 1e-5 }));
    },
  );
  const up = linear("Hidden layer", "U", normalized, hidden, true, "u");
  const active = step("Activation", "H = relu(U)", [
    byToken(
      "H",
      map(up, (value) => Math.max(0, value)),
      origin("activation", [up], { name: "relu" }),
    ),
  ]);
  const last = linear("Feed-forward", "F", active, width, true, "f");
  const head8 = drawn(width, 3);
  const logits = multiplied([last.at(-1)], head8)[0];
  const order = range(3).sort((i, j) => logits[j] - logits[i]);
  const ordered = map(head8, (_, i, j) => head8[i][order[j]]);
  const sum = logits.reduce((total, logit) => total + Math.exp(logit), 0) + 1.5;
  const names = order.map((i) => ["shore", "<b>", "money"][i]);
  withWeights(
    "Prediction",
    "P = softmax(logits)",
    [{ name: "W", rows: numbered("f", width), columns: names, values: ordered }],
    () => ({
      name: "prediction",
      rows: names,
      columns: ["logit", "probability"],
      values: order.map((i) => [logits[i], Math.exp(logits[i]) / sum]),
      origin: origin("prediction", [last, ordered], { number: sum, shift: 0 }),
    }),
  );
  step("What if", "", [
    {
      name: `weights of '${tokens.at(-1)}'`,
      rows: tokens,
      columns: ["before", "after"],
      comparison: true,
      values: weights.at(-1).map((value, i) => [value, i === 0 ? 0 : value * 1.2]),
    },
  ]);
  return {
    title: `Layer ${layer} of 2, head ${head} of 2`,
    token: tokens.at(-1),
    decimals: 4,
    layer,
    head,
    steps,
  };
}

/** Returns the data of the page of an explanation for each layer and head. Large lists of numbers are
 *  base64, and equal lists are contained once. */
export function makeExplanations(tokens) {
  const [labels, numbers] = [[], []];
  const indexOf = (table, value) => {
    const text = JSON.stringify(value);
    const index = table.findIndex((each) => JSON.stringify(each) === text);
    return index < 0 ? table.push(value) - 1 : index;
  };
  const packed = (values) =>
    values.length * values[0].length < 100
      ? values
      : Buffer.from(
          Float32Array.from(values.flat().map((value) => value ?? -Infinity)).buffer,
        ).toString("base64");
  const explanations = [2, 1].flatMap((layer) =>
    [1, 2].map((head) => {
      const explanation = makeExplanation(tokens, { layer, head });
      for (const matrix of explanation.steps.flatMap((step) => step.matrices)) {
        matrix.rows = indexOf(labels, matrix.rows);
        matrix.columns = indexOf(labels, matrix.columns);
        matrix.values = indexOf(numbers, packed(matrix.values));
      }
      return explanation;
    }),
  );
  return {
    notes: [],
    explanation: { title: "the boat drifted to the bank", explanations, labels, numbers },
  };
}
