// Columns of metrics: what a chart shows, smoothing and CSV.

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
    series: [["training", "tokens_per_second", "tokens/s"]],
  },
];

/** Returns the steps and the columns of a chart, or null if the run has no values for it. All
 *  columns have the length of `steps`, with null at steps without a value. */
export function chartData(chart, data) {
  const columns = chart.series
    .map(([table, key, label]) => ({
      table,
      key,
      label,
      steps: data[table]?.step ?? [],
      values: data[table]?.[key] ?? [],
    }))
    .filter(({ values }) => values.some((value) => Number.isFinite(value)));
  if (columns.length === 0) return null;
  const steps = [...new Set(columns.flatMap((column) => column.steps))].sort((a, b) => a - b);
  const position = new Map(steps.map((step, index) => [step, index]));
  return {
    steps,
    columns: columns.map(({ table, key, label, steps: own, values }) => {
      const aligned = new Array(steps.length).fill(null);
      own.forEach((step, index) => (aligned[position.get(step)] = values[index] ?? null));
      return { table, key, label, values: aligned };
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

/** Returns the values of a chart as CSV with the names of metrics.jsonl. */
export function chartCsv({ steps, columns }) {
  const lines = [["step", ...columns.map(({ key }) => key)]];
  steps.forEach((step, index) =>
    lines.push([step, ...columns.map(({ values }) => values[index] ?? "")]),
  );
  return lines.map((line) => `${line.join(",")}\n`).join("");
}
