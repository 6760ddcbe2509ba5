// The page of a comparison of runs.

import { chartsView } from "./curves.js";
import { scroll } from "./dom.js";
import { CHARTS, column } from "./series.js";

// Colors of the lines in SVG files; on the page, the variables --run-1, --run-2, ... of style.css.
const PAPER_COLORS = [
  "#1f6fc5",
  "#b93f06",
  "#17692f",
  "#8a3ffc",
  "#8f6400",
  "#c2185b",
  "#00798c",
  "#5d6670",
];
// Dashes of the first runs, of the next runs with the same colors, and so on.
const DASHES = [undefined, [8, 4], [2, 3], [8, 3, 2, 3], [14, 4], [4, 8], [2, 8]];

function styleOf(index) {
  const color = index % PAPER_COLORS.length;
  return {
    color: `--run-${color + 1}`,
    paper: PAPER_COLORS[color],
    dash: DASHES[Math.floor(index / PAPER_COLORS.length) % DASHES.length],
  };
}

/** Returns a chart for each metric, with a line for each run, or null if no run has metrics. */
export function comparison({ comparison: runs = [] }) {
  const charts = CHARTS.flatMap(({ title, percent, series }) =>
    series.map(([table, metric]) => ({
      id: metric,
      title:
        series.length === 1
          ? title
          : `${table === "training" ? "Training" : "Validation"} ${title.toLowerCase()}`,
      percent,
      columns: runs.map((run, index) =>
        column(run, table, metric, { key: run.label, label: run.label, style: styleOf(index) }),
      ),
    })),
  );
  // Validation first: it is what runs are compared by.
  charts.sort((a, b) => b.title.startsWith("Validation") - a.title.startsWith("Validation"));
  return chartsView(charts, "comparison");
}

/** Returns the tables of the runs, each in a frame that scrolls; null on another page. */
export function runs() {
  const section = document.getElementById("runs");
  if (!section) return null;
  const view = document.createElement("div");
  for (const node of [...section.querySelectorAll("table, p")])
    view.append(
      node.tagName === "TABLE" ? scroll(node.caption?.textContent ?? "Runs", node) : node,
    );
  return view;
}
