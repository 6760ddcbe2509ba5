// Charts of the metrics by step.

import uPlot from "uplot";

import { chartSvg } from "./chart_svg.js";
import { cssColor, download, el, labelled, onTheme, onWidth } from "./dom.js";
import { number, percent, short } from "./format.js";
import { CHARTS, chartCsv, chartData, column, smoothed } from "./series.js";
import { StepRange } from "./step_range.js";

const HEIGHT = 220;
const MAX_MARKED = 40; // a line of at most this many values has a mark at each value
// Styles of lines: the variable of a color, the color in SVG files, and dashes, if any.
const STYLES = {
  training: { color: "--series-1", paper: "#1f6fc5" },
  evaluations: { color: "--series-2", paper: "#b93f06", dash: [6, 3] },
};

/** Returns the lines of a chart: for each column the line that is read, and before it, faint, the
 *  values of a column that is smoothed. */
function lines({ columns }, smoothing) {
  return columns.flatMap((column) => {
    if (smoothing === 0 || column.table !== "training") return [column];
    return [
      { ...column, faint: true },
      { ...column, raw: column.values, values: smoothed(column.values, smoothing) },
    ];
  });
}

/** Returns the range of a logarithmic scale; `low` is null if no step of the range has a value. */
const logRange = (_, low, high) => (low === null ? [1, 10] : uPlot.rangeLog(low, high, 10, false));

const count = ({ values }) => values.filter((value) => value !== null).length;

/** A chart with its readout and buttons. */
class Chart {
  constructor(chart, content, name, settings) {
    Object.assign(this, { chart, content, name, settings, index: null });
    this.format = chart.percent ? percent : number;
    this.plot = el("div", {
      class: "plot",
      tabindex: 0,
      role: "group",
      "aria-label": `Chart: ${chart.title} by step. Arrow keys move the cursor.`,
      onkeydown: (event) => this.key(event),
      onmousedown: () => (this.dragged = true),
    });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    const base = `${name}-${chart.id}`;
    this.element = el(
      "figure",
      { class: "card chart", "data-chart": chart.id },
      el(
        "div",
        { class: "card-head" },
        el("h3", {}, chart.title),
        el(
          "div",
          { class: "buttons" },
          el(
            "button",
            {
              type: "button",
              "aria-label": `${chart.title} as SVG`,
              onclick: () => download(`${base}.svg`, "image/svg+xml", this.svg()),
            },
            "SVG",
          ),
          el(
            "button",
            {
              type: "button",
              "aria-label": `${chart.title} as CSV`,
              onclick: () => download(`${base}.csv`, "text/csv", chartCsv(this.content)),
            },
            "CSV",
          ),
        ),
      ),
      this.readout,
      this.plot,
    );
    onWidth(this.plot, (width) => this.draw(width));
    onTheme(this.plot, () => this.draw());
    this.read(null);
  }

  /** Draws the chart again, with the steps of the settings. */
  draw(width = this.width) {
    if (!width) return;
    this.width = width;
    const { smoothing } = this.settings;
    const log = this.log();
    const shown = lines(this.content, smoothing);
    const values = shown.map((line) =>
      log ? line.values.map((value) => (value > 0 ? value : null)) : line.values,
    );
    const axis = {
      stroke: cssColor("--muted"),
      font: "12px system-ui, sans-serif",
      grid: { stroke: cssColor("--line"), width: 1 },
      ticks: { stroke: cssColor("--line"), width: 1 },
    };
    this.uplot?.destroy();
    this.uplot = new uPlot(
      {
        width,
        height: HEIGHT,
        legend: { show: false },
        padding: [8, 12, 0, 0],
        cursor: {
          sync: { key: "steps" },
          y: false,
          points: { size: 7 },
          drag: { x: true, y: false, setScale: false },
        },
        scales: {
          x: { time: false },
          y: {
            distr: log ? 3 : 1,
            ...(log ? { range: logRange } : {}),
          },
        },
        axes: [
          { ...axis, size: 32, space: 64, values: (_, ticks) => ticks.map(short) },
          {
            ...axis,
            size: 58,
            values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : this.tick(tick))),
          },
        ],
        series: [
          {},
          ...shown.map((line) => ({
            label: line.label,
            spanGaps: true,
            dash: line.style.dash,
            stroke: cssColor(line.style.color),
            alpha: line.faint ? 0.3 : 1,
            width: line.faint ? 1 : 2,
            points: {
              show: !line.faint && count(line) <= MAX_MARKED,
              size: 6,
              fill: cssColor("--card"),
            },
          })),
        ],
        hooks: {
          setCursor: [(plot) => this.read(plot.cursor.left >= 0 ? plot.cursor.idx : null)],
          setSelect: [(plot) => this.zoom(plot)],
        },
      },
      [this.content.steps, ...values],
      this.plot,
    );
    this.uplot.over.addEventListener("dblclick", () => this.settings.setRange(null));
    if (this.settings.range) {
      const [min, max] = this.settings.range;
      this.uplot.setScale("x", { min, max });
    }
    this.read(null);
  }

  /** Shows the steps that were selected in this chart in all charts. The other charts have the same
   *  selection, because their cursors are synchronized. */
  zoom({ select, posToVal }) {
    if (!this.dragged || select.width === 0) return;
    this.dragged = false;
    this.settings.setRange(
      [select.left, select.left + select.width].map((left) => Math.round(posToVal(left, "x"))),
    );
  }

  /** Whether the scale is logarithmic: it must have a value to show. */
  log() {
    return (
      this.settings.log &&
      this.content.columns.some(({ values }) => values.some((value) => value > 0))
    );
  }

  tick(value) {
    return this.chart.percent ? percent(value) : short(value);
  }

  /** Shows the values at an index of the steps; the last value of each column if it is null. */
  read(index) {
    this.index = index;
    const { steps } = this.content;
    this.readout.replaceChildren(
      el("span", { class: "step" }, index === null ? "last" : `step ${number(steps[index])}`),
      ...lines(this.content, this.settings.smoothing)
        .filter((line) => !line.faint)
        .map((line) => {
          const at = index ?? line.values.findLastIndex((value) => value !== null);
          const value =
            line.raw && line.raw[at] !== null
              ? `${this.format(line.raw[at])} (smoothed ${this.format(line.values[at])})`
              : this.format(line.values[at]);
          const key = el(
            "span",
            { class: line.style.dash ? "key dashed" : "key" },
            el("bdi", {}, line.label),
            " ",
            el("b", { "data-key": line.key }, value),
          );
          key.style.setProperty("--key", `var(${line.style.color})`);
          return key;
        }),
    );
  }

  /** Moves the cursor with the arrow keys, Home and End. */
  key(event) {
    const { steps } = this.content;
    const [low, high] = this.settings.range ?? [-Infinity, Infinity];
    const first = steps.findIndex((step) => step >= low);
    const last = steps.findLastIndex((step) => step <= high);
    const at = this.index ?? last;
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: first, End: last }[event.key];
    if (next === undefined || !this.uplot || first < 0 || last < first) return;
    event.preventDefault();
    const left = this.uplot.valToPos(steps[Math.max(first, Math.min(last, next))], "x");
    this.uplot.setCursor({ left: Math.max(0, left), top: HEIGHT / 3 });
  }

  svg() {
    const series = lines(this.content, this.settings.smoothing).map((line) => ({
      label: line.faint ? "" : line.label,
      values: line.values,
      dash: line.style.dash,
      color: line.style.paper,
      opacity: line.faint ? 0.4 : 1,
      width: line.faint ? 1 : 2,
    }));
    return chartSvg({
      title: this.chart.title,
      steps: this.content.steps,
      series,
      log: this.log(),
      format: (value) => this.tick(value),
    });
  }
}

/** Returns the charts of a run, or null if it has no metrics. */
export function curves(data) {
  const chartsOf = (data) =>
    CHARTS.map(({ series, ...chart }) => ({
      ...chart,
      columns: series.map(([table, key, label]) =>
        column(data, table, key, { label, style: STYLES[table] }),
      ),
    }));
  const view = chartsView(chartsOf(data), data.run?.name ?? "run");
  if (view) {
    const { update } = view;
    view.update = (next) => update(chartsOf(next));
  }
  return view;
}

/** Returns charts with their controls, or null if no chart has values. Charts: {id, title, percent,
 *  columns}; `name` is the beginning of the names of saved files. `update(charts)` of the view shows
 *  new data in the same charts; it returns false if the data needs others. */
export function chartsView(allCharts, name) {
  const contents = (all) =>
    all
      .map(({ columns, ...chart }) => [chart, chartData(columns)])
      .filter(([, content]) => content !== null);
  let frame = 0;
  const draw = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => charts.forEach((chart) => chart.draw()));
  };
  const settings = { log: false, smoothing: 0, range: null };
  const charts = contents(allCharts).map(
    ([chart, content]) => new Chart(chart, content, name, settings),
  );
  if (charts.length === 0) return null;
  const limits = () => {
    const steps = charts.map((chart) => chart.content.steps);
    return [
      Math.min(...steps.map((each) => each[0])),
      Math.max(...steps.map((each) => each.at(-1))),
    ];
  };
  const stepRange = new StepRange(...limits(), (range) => {
    settings.range = range;
    draw();
  });
  settings.setRange = (range) => stepRange.set(range);
  const output = el("output", {}, "0");
  const slider = el("input", {
    type: "range",
    min: 0,
    max: 0.99,
    step: 0.01,
    value: 0,
    id: "smoothing",
    oninput: () => {
      settings.smoothing = Number(slider.value);
      output.textContent = slider.value;
      draw();
    },
  });
  const log = el("input", {
    type: "checkbox",
    id: "log-scale",
    onchange: () => {
      settings.log = log.checked;
      draw();
    },
  });
  const element = el(
    "div",
    {},
    el(
      "div",
      { class: "controls" },
      labelled("Smoothing of training", slider, output),
      el("label", { class: "control" }, log, el("span", {}, "Logarithmic scale")),
      stepRange.element,
    ),
    el(
      "div",
      { class: "charts" },
      charts.map((chart) => chart.element),
    ),
    el(
      "p",
      { class: "note" },
      "Drag over a chart to show fewer steps, double-click to show all. SVG and CSV files have all steps.",
    ),
  );
  element.update = (next) => {
    const all = contents(next);
    if (all.length !== charts.length) return false;
    charts.forEach((chart, index) => (chart.content = all[index][1]));
    stepRange.setLimits(...limits());
    draw();
    return true;
  };
  return element;
}
