// How a cell of a matrix is computed: the formula, the same with numbers, and the cells with these
// numbers.

import { decimal } from "./matrix.js";

const MAX_TERMS = 6; // of a sum; the others are added up
const LARGE = 20; // exp of larger numbers has too many digits

/** A part of a line that leads to a cell. */
const cell = (matrix, row, column) => ({ matrix, row, column });

/** A part of a line: the name of a cell, such as S[sky, is]. */
const name = (matrix, row, column) => ({
  name: matrix.name,
  labels: [matrix.rows.length > 1 ? matrix.rows[row] : null, matrix.columns[column]].filter(
    (text) => text !== null,
  ),
});

/** The name of a row or a column of cells: Q[sky, k] or W[k, q1]. */
const line = (matrix, ...labels) => ({ name: matrix.name, labels });

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const range = (count) => Array.from({ length: count }, (_, i) => i);

/** Joins terms, which have parts and a value, to a sum. Of many terms, shows the largest ones and
 *  the sum of the others, unless `all` is set. */
function total(terms, { decimals, all }) {
  const order = terms
    .map((_, i) => i)
    .sort((a, b) => {
      return Math.abs(terms[b].value) - Math.abs(terms[a].value) || a - b;
    });
  const shown = new Set(all || terms.length <= MAX_TERMS + 2 ? order : order.slice(0, MAX_TERMS));
  const parts = terms.filter((_, i) => shown.has(i)).flatMap(({ parts }) => [" + ", ...parts]);
  const rest = terms.filter((_, i) => !shown.has(i));
  if (rest.length > 0) {
    const value = decimal(sum(rest.map(({ value }) => value)), decimals);
    parts.push(` + ${signed(value)} (the other ${rest.length} terms)`);
  }
  return parts.slice(1);
}

/** A negative number in parentheses, so that it can follow an operator. */
const signed = (text) => (text.startsWith("-") ? `(${text})` : text);

const product = (a, b) => ({
  value: a.matrix.at(a.row, a.column) * b.matrix.at(b.row, b.column),
  parts: [a, " · ", b],
});
const single = (a) => ({ value: a.matrix.at(a.row, a.column), parts: [a] });

/** Returns the terms exp(s - shift) of scores s. */
function powers(cells, shift, decimals) {
  const minus = shift === 0 ? "" : ` - ${signed(decimal(shift, decimals))}`;
  return cells.map((each) => ({
    value: Math.exp(each.matrix.at(each.row, each.column) - shift),
    parts: ["exp(", each, `${minus})`],
  }));
}

/** Row `row` of x times column `column` of w, plus b if there is one. `labels` name the row of x. */
function linear([x, w, b], row, column, labels, options) {
  const terms = w.rows.map((_, k) => product(cell(x, row, k), cell(w, k, column)));
  if (b) terms.push(single(cell(b, 0, column)));
  return {
    terms: terms.length,
    lines: [
      [
        "sum over k of ",
        line(x, ...labels),
        " · ",
        line(w, "k", w.columns[column]),
        ...(b ? [" + ", name(b, 0, column)] : []),
      ],
      total(terms, options),
    ],
    sources: [
      [x, (r) => r === row],
      [w, (_, c) => c === column],
      [b, (_, c) => c === column],
    ],
  };
}

/** Operations by name. Each function gets the operands, the result, its row and column, and options.
 *  It returns lines, which are lists of parts, and sources: pairs of a matrix and a function that
 *  returns true for the cells that are used. */
const OPERATIONS = {
  linear({ operands: [x, w, b], row, column, options }) {
    return linear([x, w, b], row, column, [x.rows[row], "k"], options);
  },

  row_products({ operands: [a, b], row, column, options }) {
    const terms = a.columns.map((_, k) => product(cell(a, row, k), cell(b, column, k)));
    return {
      terms: terms.length,
      lines: [
        ["sum over k of ", line(a, a.rows[row], "k"), " · ", line(b, b.rows[column], "k")],
        total(terms, options),
      ],
      sources: [
        [a, (r) => r === row],
        [b, (r) => r === column],
      ],
    };
  },

  divide({ operands: [s], number, row, column, options }) {
    return {
      lines: [[cell(s, row, column), ` / ${decimal(number, options.decimals)}`]],
      sources: [same(s, row, column)],
    };
  },

  soft_cap({ operands: [s], number, row, column }) {
    return {
      lines: [[`${number} · tanh(`, cell(s, row, column), ` / ${number})`]],
      sources: [same(s, row, column)],
    };
  },

  layer: ({ number }) => ({ reason: "layer", layer: number }),

  sum({ operands, row, column, options }) {
    return {
      lines: [
        operands.flatMap((matrix) => [" + ", name(matrix, row, column)]).slice(1),
        total(
          operands.map((matrix) => single(cell(matrix, row, column))),
          options,
        ),
      ],
      sources: operands.map((matrix) => same(matrix, row, column)),
    };
  },

  mask({ operands: [s], result, row, column, options }) {
    const value = result.at(row, column);
    return {
      lines: [
        value === s.at(row, column)
          ? [cell(s, row, column)]
          : [
              `${decimal(value, options.decimals)} instead of `,
              cell(s, row, column),
              result.betweenTokens ? ", because it is masked" : ", because it is not chosen",
            ],
      ],
      sources: [same(s, row, column)],
    };
  },

  softmax({ operands: [s], result, row, column, options }) {
    const largest = Math.max(...s.row(row));
    const shift = Math.abs(largest) > LARGE ? largest : 0;
    const terms = powers(
      s.columns.map((_, k) => cell(s, row, k)),
      shift,
      options.decimals,
    );
    const weights = result.row(row);
    const best = weights.indexOf(Math.max(...weights));
    const whole = terms[best].value / weights[best];
    const sink = whole - sum(terms.map(({ value }) => value));
    if (sink > 1e-4 * whole)
      terms.push({ value: sink, parts: [`${decimal(sink, options.decimals)} (attention sink)`] });
    const { value, parts } = terms[column];
    return {
      terms: terms.length,
      lines: [
        ["exp(", name(s, row, column), ") / sum over k of exp(", line(s, s.rows[row], "k"), ")"],
        [...parts, " / (", ...total(terms, options), ")"],
        [`${decimal(value, options.decimals)} / ${decimal(whole, options.decimals)}`],
      ],
      note: shift === 0 ? "" : SHIFTED,
      sources: [[s, (r) => r === row]],
    };
  },

  product({ operands: [x, c], row, column }) {
    const factor = [c.rows.length > 1 ? row : 0, c.columns.length > 1 ? column : 0];
    return {
      lines: [[cell(x, row, column), " · ", cell(c, ...factor)]],
      sources: [same(x, row, column), same(c, ...factor)],
    };
  },

  mix({ operands: [x, y, m], row, column }) {
    return {
      lines: [
        [
          cell(x, row, column),
          " + ",
          cell(m, 0, 0),
          " · (",
          cell(y, row, column),
          " - ",
          cell(x, row, column),
          ")",
        ],
      ],
      sources: [same(x, row, column), same(y, row, column), same(m, 0, 0)],
    };
  },

  rotary({ operands: [x, cos, sin], number: distance, row, column, options }) {
    const isFirst = Math.floor(column / distance) % 2 === 0;
    const other = column + (isFirst ? distance : -distance);
    const terms = [product(cell(x, row, column), cell(cos, row, column))];
    const sources = [same(x, row, column), same(cos, row, column)];
    // A model may turn only the first numbers of a row. The others have sin 0.
    if (other < x.columns.length) {
      terms.push(product(cell(x, row, other), cell(sin, row, column)));
      sources.push(same(x, row, other), same(sin, row, column));
    }
    return { lines: [total(terms, options)], sources };
  },

  mixture({ operands: [g, ...experts], row, column, options }) {
    const chosen = g.columns.map((_, e) => e).filter((e) => g.at(row, e) !== 0);
    return {
      lines: [
        [`sum over the chosen experts ${chosen.map((e) => e + 1).join(", ")}`],
        total(
          chosen.map((e) => product(cell(g, row, e), cell(experts[e], row, column))),
          options,
        ),
      ],
      sources: chosen.flatMap((e) => [same(g, row, e), same(experts[e], row, column)]),
    };
  },

  columns({ operands, result, row, column }) {
    const width = result.columns.length / operands.length;
    const head = Math.floor(column / width);
    const source = operands[head];
    if (!source)
      return {
        lines: [[`the output of head ${head + 1}, which is another explanation`]],
        sources: [],
      };
    return {
      lines: [[cell(source, row, column % width)]],
      sources: [same(source, row, column % width)],
    };
  },

  activation({ operands: [u], name: activation, result, row, column }) {
    const lines = [[`${activation}(`, cell(u, row, column), ")"]];
    const sources = [same(u, row, column)];
    const width = result.columns.length;
    if (u.columns.length > width) {
      lines[0].push(" · ", cell(u, row, column + width)); // gated
      sources.push(same(u, row, column + width));
    }
    return { lines, sources };
  },

  /** `result` has a row for each token or class, with logit and probability. `number` is the sum of
   *  exp(logit - shift) of all of them, of which the matrix contains the largest. */
  prediction({ operands: [x, w, b], number, shift, result, row, column, options }) {
    const { decimals, token } = options;
    if (column === 0 && w) {
      const from = Math.max(0, x.rows.indexOf(token));
      const labels = x.rows.length > 1 ? [x.rows[from], "k"] : ["k"];
      return linear([x, w, b], from, row, labels, options);
    }
    if (column === 0) return { lines: [["a function of the last vector"]], sources: [] };
    const [{ value, parts }] = powers([cell(result, row, 0)], shift, decimals);
    return {
      lines: [
        ["exp(", name(result, row, 0), ") / sum of exp(logit)"],
        [...parts, ` / ${decimal(number, decimals)}`],
        [`${decimal(value, decimals)} / ${decimal(number, decimals)}`],
      ],
      note: shift === 0 ? "" : SHIFTED,
      sources: [same(result, row, 0)],
    };
  },

  layer_norm({ operands: [x, w, b], number, row, column, options: { decimals } }) {
    const values = x.row(row);
    const mean = sum(values) / values.length;
    const variance = sum(values.map((value) => (value - mean) ** 2)) / values.length;
    return {
      lines: [
        [
          "(",
          name(x, row, column),
          ` - mean) / sqrt(variance + ${number}) · `,
          name(w, 0, column),
          ...(b ? [" + ", name(b, 0, column)] : []),
        ],
        [
          "(",
          cell(x, row, column),
          ` - ${signed(decimal(mean, decimals))}) / sqrt(${decimal(variance, decimals)} + ${number}) · `,
          cell(w, 0, column),
          ...(b ? [" + ", cell(b, 0, column)] : []),
        ],
      ],
      note: `The mean and the variance are those of the ${values.length} numbers of the row.`,
      sources: [
        [x, (r) => r === row],
        [w, (_, c) => c === column],
        [b, (_, c) => c === column],
      ],
    };
  },

  rms_norm({ operands: [x, w], number, row, column, options: { decimals } }) {
    const squares = x.row(row).map((value) => value ** 2);
    const mean = sum(squares) / squares.length;
    return {
      lines: [
        [name(x, row, column), ` / sqrt(mean of squares + ${number}) · `, name(w, 0, column)],
        [
          cell(x, row, column),
          ` / sqrt(${decimal(mean, decimals)} + ${number}) · `,
          cell(w, 0, column),
        ],
      ],
      note: `The mean is that of the squares of the ${squares.length} numbers of the row.`,
      sources: [
        [x, (r) => r === row],
        [w, (_, c) => c === column],
      ],
    };
  },

  l2_norm({ operands: [x, w], row, column, options: { decimals } }) {
    const squares = sum(x.row(row).map((value) => value ** 2));
    return {
      lines: [
        [name(x, row, column), " / sqrt(sum of squares) · ", name(w, 0, 0)],
        [cell(x, row, column), ` / sqrt(${decimal(squares, decimals)}) · `, cell(w, 0, 0)],
      ],
      note: `The sum is that of the squares of the ${x.columns.length} numbers of the row.`,
      sources: [[x, (r) => r === row], same(w, 0, 0)],
    };
  },
};

/** Operations whose operands may be absent: other heads, and experts that no token chooses. */
const WITH_ABSENT = ["columns", "mixture"];

const SHIFTED =
  "The largest score is subtracted from all scores, which does not change the result.";

const same = (matrix, row, column) => [matrix, (r, c) => r === row && c === column];

/** Returns how a cell is computed: {lines, sources, note, terms}, or a reason why this is unknown:
 *  {reason}, and {layer} if it is the output of another layer. `resolve` returns the matrix of an operand, or null. */
export function trace(matrix, row, column, resolve, options) {
  const { origin } = matrix;
  const operation = OPERATIONS[origin?.operation];
  if (!operation) return { reason: "given" };
  const operands = origin.operands.map(resolve);
  const missing = operands.find((operand, i) => {
    return operand ? !operand.present : !WITH_ABSENT.includes(origin.operation);
  });
  if (missing !== undefined) return { reason: "missing", name: missing?.name };
  return operation({ ...origin, operands, result: matrix, row, column, options });
}

/** Returns a cell of `user`, a matrix that is computed from `matrix`, in which a cell of `matrix` is
 *  used. `row` is the row of the token that is followed. */
export function useOf(user, operand, matrix, cellRow, cellColumn, followed) {
  const { operation, operands } = user.origin;
  if (operation === "row_products")
    return operand === 0 ? [cellRow, followed] : [followed, cellRow];
  if (operation === "linear") {
    if (operand === 0) return [cellRow, 0];
    return [followed, cellColumn];
  }
  if (operation === "prediction") return [operand === 0 ? 0 : cellColumn, 0];
  if (operation === "columns")
    return [cellRow, cellColumn + operand * (user.columns.length / operands.length)];
  if (matrix.rows.length === 1 && user.rows.length > 1)
    return [followed, cellColumn % user.columns.length];
  return [cellRow, cellColumn % user.columns.length];
}
