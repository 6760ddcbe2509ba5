// A chart as an SVG file: black on white, for papers and slides.

import { svg } from "./dom.js";

const WIDTH = 640;
const PLOT_HEIGHT = 256;
const MARGIN = { left: 64, right: 16, top: 56, bottom: 48 };
const LEGEND_LINE = 18;

/** Returns about `count` round numbers between low and high. */
function linearTicks(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) ticks.push(i * step);
  return ticks;
}

/** Returns the powers of 10 between low and high, or linear ticks if there are fewer than two. */
function logTicks(low, high) {
  const ticks = [];
  for (let i = Math.ceil(Math.log10(low)); 10 ** i <= high; i++) ticks.push(10 ** i);
  return ticks.length < 2 ? linearTicks(low, high, 5) : ticks;
}

function range(values, log) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null || (log && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low !== high) return [low, high];
  return log
    ? [low / 2, low * 2]
    : [low - (Math.abs(low) || 1) / 2, low + (Math.abs(low) || 1) / 2];
}

/** Returns the place of each label in a legend that starts at (0, 0), as [x, y]. */
function legendPlaces(labels) {
  let [x, y] = [0, 0];
  return labels.map((label) => {
    const width = 60 + 7 * label.length;
    if (x > 0 && x + width > WIDTH - MARGIN.left) [x, y] = [0, y + LEGEND_LINE];
    x += width;
    return [x - width, y];
  });
}

/** Returns the attributes of a line. */
const stroke = ({ color, dash, width }) => ({
  fill: "none",
  stroke: color,
  "stroke-width": width,
  "stroke-dasharray": dash?.join(" ") ?? null,
});

/** Returns the SVG text of a chart. Series: {label, color, opacity, dash, width, values}; `format` makes the
 *  labels of the vertical axis. */
export function chartSvg({ title, steps, series, log, format }) {
  const labelled = series.filter(({ label }) => label);
  const places = legendPlaces(labelled.map(({ label }) => label));
  const top = MARGIN.top + places.at(-1)[1];
  const height = top + PLOT_HEIGHT + MARGIN.bottom;
  const scale = (value) => (log ? Math.log10(value) : value);
  const [left, right] = range(steps, false);
  const [low, high] = range(
    series.flatMap(({ values }) => values),
    log,
  );
  const x = (step) =>
    MARGIN.left + ((step - left) / (right - left)) * (WIDTH - MARGIN.left - MARGIN.right);
  const y = (value) =>
    top + PLOT_HEIGHT * (1 - (scale(value) - scale(low)) / (scale(high) - scale(low)));
  const text = (attributes, content) =>
    svg("text", { "font-size": 12, fill: "#24292f", ...attributes }, content);
  const root = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${height}`,
      width: WIDTH,
      height,
      "font-family": "sans-serif",
    },
    svg("title", {}, title),
    svg("rect", { width: WIDTH, height, fill: "#ffffff" }),
    text({ x: MARGIN.left, y: 22, "font-size": 16, "font-weight": "bold" }, title),
    text(
      { x: (MARGIN.left + WIDTH - MARGIN.right) / 2, y: height - 10, "text-anchor": "middle" },
      "step",
    ),
  );
  for (const tick of linearTicks(left, right, 6)) {
    root.append(
      text({ x: x(tick), y: top + PLOT_HEIGHT + 18, "text-anchor": "middle" }, String(tick)),
    );
  }
  for (const tick of log ? logTicks(low, high) : linearTicks(low, high, 5)) {
    root.append(
      svg("line", {
        x1: MARGIN.left,
        x2: WIDTH - MARGIN.right,
        y1: y(tick),
        y2: y(tick),
        stroke: "#d0d7de",
      }),
      text({ x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, format(tick)),
    );
  }
  for (const { color, opacity, dash, width, values } of series) {
    const path = [];
    values.forEach((value, index) => {
      if (value === null || (log && value <= 0)) return;
      path.push(`${path.length ? "L" : "M"}${x(steps[index]).toFixed(1)} ${y(value).toFixed(1)}`);
    });
    root.append(
      svg("path", {
        ...stroke({ color, dash, width }),
        "stroke-opacity": opacity,
        d: path.join(""),
        "stroke-linecap": "round",
      }),
    );
  }
  labelled.forEach((line, index) => {
    const [left, baseline] = [MARGIN.left + places[index][0], 40 + places[index][1]];
    root.append(
      svg("line", { ...stroke(line), x1: left, x2: left + 24, y1: baseline, y2: baseline }),
      text({ x: left + 30, y: baseline + 4 }, line.label),
    );
  });
  return new XMLSerializer().serializeToString(root);
}
