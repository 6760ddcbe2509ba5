// The map of one head: a row for each token, a column for each token that it attends to.

import { cssColor, el, onWidth, scroll } from "./dom.js";
import { truncated, visible } from "./format.js";
import { drawMap } from "./heat.js";

const MAX_LABEL = 9; // characters of a label
const MIN_CELL = 6; // pixels
const MAX_CELL = 30;
const MIN_LABELLED_CELL = 11; // width of a cell from which each row and column has a label

/** A heat map with labels on canvas. `choose` is called with the row of a click, `hover` with [row,
 *  column] under the pointer, or null. `name` is the name of the region. */
export class HeadMap {
  constructor(choose, hover, name) {
    this.canvas = el("canvas", {
      class: "map",
      role: "img",
      onclick: (event) => {
        const [row] = this.cellAt(event);
        if (row >= 0 && row < this.content.rows.length) choose(row);
      },
      onpointermove: (event) => {
        const [row, column] = this.cellAt(event);
        const { rows, columns } = this.content;
        const inside = row >= 0 && row < rows.length && column >= 0 && column < columns.length;
        hover(inside ? [row, column] : null);
      },
      onpointerleave: () => hover(null),
    });
    this.element = scroll(name, this.canvas);
    onWidth(this.element, () => this.draw());
  }

  /** Draws `content`: weights (bytes, row-major), labels rows and columns, the chosen row,
   *  generatedFrom (the first generated row), colors (of `palette`) and name. */
  show(content) {
    this.content = content;
    const { name, rows, columns } = content;
    this.canvas.setAttribute(
      "aria-label",
      `Attention weights of ${name}: ${rows.length} rows, ${columns.length} columns. ` +
        "The list of the chosen token contains the weights of its row.",
    );
    this.draw();
  }

  draw() {
    const width = this.element.clientWidth;
    if (width === 0 || !this.content) return;
    const { weights, rows, columns, row: chosen, generatedFrom, colors } = this.content;
    const labels = [rows, columns].map((tokens) =>
      tokens.map((token) => truncated(visible(token), MAX_LABEL)),
    );
    const longest = Math.max(...labels.flat().map((label) => [...label].length));
    // The margin has the width of the row labels and the height of the column labels.
    const margin = (this.margin = 12 + 9 * longest);
    const fitting = Math.floor((width - margin - 2) / columns.length);
    const cell = (this.cell = Math.max(MIN_CELL, Math.min(MAX_CELL, fitting)));
    const [right, bottom] = [cell * columns.length, cell * rows.length];
    const context = this.resize(margin + right + 2, margin + bottom + 2);
    context.translate(margin, margin);

    const image = document.createElement("canvas");
    drawMap(image, weights, rows.length, columns.length, colors);
    context.imageSmoothingEnabled = false;
    context.drawImage(image, 0, 0, right, bottom);
    context.strokeStyle = cssColor("--line");
    context.strokeRect(-0.5, -0.5, right + 1, bottom + 1);

    const every = Math.ceil(MIN_LABELLED_CELL / cell);
    context.font = `${Math.min(13, cell + 1)}px ui-monospace, monospace`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    labels[0].forEach((label, row) => {
      const hidden = row % every !== 0 || (every > 1 && Math.abs(row - chosen) < every);
      if (hidden && row !== chosen) return;
      context.fillStyle = cssColor(row === chosen ? "--accent" : "--text");
      context.fillText(label, -6, (row + 0.5) * cell, margin - 8);
    });
    const upright = longest === 1 && every === 1;
    context.textAlign = upright ? "center" : "left";
    context.fillStyle = cssColor("--text");
    labels[1].forEach((label, column) => {
      if (column % every !== 0) return;
      context.save();
      context.translate((column + 0.5) * cell, upright ? -10 : -6);
      if (!upright) context.rotate(-Math.PI / 2);
      context.fillText(label, 0, 0, margin - 8);
      context.restore();
    });

    if (generatedFrom > 0 && generatedFrom < rows.length) {
      context.strokeStyle = cssColor("--text");
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(-margin, generatedFrom * cell);
      context.lineTo(right, generatedFrom * cell);
      context.stroke();
      context.setLineDash([]);
    }
    context.strokeStyle = cssColor("--accent");
    context.lineWidth = 2;
    context.strokeRect(0, chosen * cell, right, cell);
  }

  /** Sets the size of the canvas in CSS pixels and returns its context. */
  resize(width, height) {
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.setProperty("width", `${width}px`);
    this.canvas.style.setProperty("height", `${height}px`);
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    return context;
  }

  /** Returns [row, column] at the pointer, which may be outside of the map. */
  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientY - box.top, event.clientX - box.left].map((place) =>
      Math.floor((place - this.margin) / this.cell),
    );
  }
}
