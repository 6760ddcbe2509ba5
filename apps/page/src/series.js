// Columns of metrics: what a chart shows, new rows, smoothing and CSV.

/** Charts of the curves. Each series is a column of `training` or `evaluations`. */
export const CHARTS = [
  {
    id: "loss",
    title: "Loss",
    series: [
      ["training", "train_loss", "train"],
      ["evaluations", "val_loss", "val"],
    ],
  },
  {
    id: "accuracy",
    title: "Accuracy",
    percent: true,
    series: [
      ["training", "train_accuracy", "train"],
      ["evaluations", "val_accuracy", "val"],
    ],
  },
  { id: "lr", title: "Learning rate", series: [["training", "lr", "learning rate"]] },
  { id: "grad_norm", title: "Gradient norm", series: [["training", "grad_norm", "gradient norm"]] },
  {
    id: "tokens_per_second",
    title: "Tokens per second",
    series: [["training", "tokens_per_second", "tok/s"]],
  },
];

/** Returns the column of a metric: `run` has the tables `training` and `evaluations`. `key` is its
 *  name in CSV files, `label` its name in the chart, `style` the style of its line. */
export function column(run, table, metric, { key = metric, label, style }) {
  const { step = [], [metric]: values = [] } = run[table] ?? {};
  return { table, key, label, style, steps: step, values };
}

/** Returns the steps and the columns of a chart, or null if no column has values. All columns have
 *  the length of `steps`, with null at steps without a value. */
export function chartData(allColumns) {
  const columns = allColumns.filter(({ values }) => values.some((value) => Number.isFinite(value)));
  if (columns.length === 0) return null;
  const all = columns.reduce((set, { steps }) => {
    steps.forEach((step) => set.add(step));
    return set;
  }, new Set());
  const steps = [...all].sort((a, b) => a - b);
  const position = new Map(steps.map((step, index) => [step, index]));
  return {
    steps,
    columns: columns.map(({ steps: own, values, ...rest }) => {
      const aligned = new Array(steps.length).fill(null);
      own.forEach((step, index) => (aligned[position.get(step)] = values[index] ?? null));
      return { ...rest, values: aligned };
    }),
  };
}

/** Returns the exponential moving average of a column, corrected for its start: the weight of the
 *  previous average is `factor`. Null stays null. */
export function smoothed(values, factor) {
  let average = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    average = factor * average + (1 - factor) * value;
    weight = factor * weight + (1 - factor);
    return average / weight;
  });
}

const csvCell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Returns the values of a chart as CSV with the keys of its columns. */
export function chartCsv({ steps, columns }) {
  const lines = [["step", ...columns.map(({ key }) => csvCell(key))]];
  steps.forEach((step, index) =>
    lines.push([step, ...columns.map(({ values }) => values[index] ?? "")]),
  );
  return lines.map((line) => `${line.join(",")}\n`).join("");
}

/** Adds a line of metrics.jsonl to the columns of the data. Returns false if its step is not after
 *  those of the data. */
export function addMetrics(data, line) {
  const name = "val_loss" in line ? "evaluations" : "training";
  const columns = (data[name] ??= { step: [] });
  const count = columns.step.length;
  if (count > 0 && line.step <= columns.step[count - 1]) return false;
  for (const key of new Set([...Object.keys(columns), ...Object.keys(line)])) {
    columns[key] ??= new Array(count).fill(null);
    columns[key].push(line[key] ?? null);
  }
  return true;
}
