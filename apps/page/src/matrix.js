// A matrix of an explanation: its numbers, and the table in which a cell is chosen.

import { bytes } from "./decode.js";
import { el, scroll } from "./dom.js";
import { truncated, visible } from "./format.js";

const MAX_ROWS = 16; // of a table; the others are reached with buttons
const MAX_WEIGHT_ROWS = 8;
const MAX_COLUMNS = 12;
const MAX_LABEL = 12; // characters

/** A matrix as `attend explain --json` writes it. `step` is the index of its step. */
export class Matrix {
  constructor(step, { by_token, between_tokens, ...matrix }) {
    Object.assign(this, { step, ...matrix });
    this.byToken = by_token;
    this.betweenTokens = between_tokens;
  }

  /** False if the file does not contain the numbers. */
  get present() {
    return this.values !== null && this.values !== undefined;
  }

  at(row, column) {
    if (typeof this.values === "string") this.values = new Float32Array(bytes(this.values).buffer);
    if (this.values instanceof Float32Array) return this.values[row * this.columns.length + column];
    return this.values[row][column] ?? -Infinity; // JSON has no -Infinity
  }

  row(row) {
    return this.columns.map((_, column) => this.at(row, column));
  }

  /** Returns the smallest and the largest finite number. */
  range() {
    if (this.limits) return this.limits;
    const finite = this.rows.flatMap((_, row) => this.row(row).filter(Number.isFinite));
    return (this.limits = finite.reduce(
      ([low, high], value) => [Math.min(low, value), Math.max(high, value)],
      [Infinity, -Infinity],
    ));
  }
}

/** Returns a number with a fixed number of decimals, and -inf for -Infinity. */
export function decimal(value, decimals) {
  if (value === -Infinity) return "-inf";
  const text = value.toFixed(decimals);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

/** Returns a token or the name of a column as a node. */
export function label(text) {
  return el(
    "bdi",
    text.length > MAX_LABEL ? { title: text } : {},
    visible(truncated(text, MAX_LABEL)),
  );
}

/** The table of a matrix of the step `stepTitle`. A large matrix shows a part of its rows and columns. `choose` is called
 *  with the row and the column of a cell. */
export class MatrixTable {
  constructor(matrix, stepTitle, decimals, choose) {
    Object.assign(this, { matrix, decimals, choose });
    this.first = [0, 0];
    this.size = [
      Math.min(matrix.rows.length, matrix.byToken ? MAX_ROWS : MAX_WEIGHT_ROWS),
      Math.min(matrix.columns.length, MAX_COLUMNS),
    ];
    const shape = `${matrix.rows.length} × ${matrix.columns.length}`;
    this.title = `${visible(stepTitle)}: ${visible(matrix.name)} (${shape})`;
    this.frame = scroll(this.title);
    this.element = el(
      "div",
      { class: "matrix" },
      el("h4", {}, visible(matrix.name), el("span", { class: "shape" }, shape)),
      this.frame,
      matrix.present
        ? this.arrows()
        : el("p", { class: "note" }, "This file does not contain these numbers."),
    );
    if (matrix.present) this.build();
  }

  /** Buttons that show another part of a large matrix, or null. */
  arrows() {
    const counts = [this.matrix.rows.length, this.matrix.columns.length];
    const button = (axis, direction, text) =>
      el("button", { type: "button", onclick: () => this.shift(axis, direction) }, text);
    const groups = [
      ["rows", "↑", "↓"],
      ["columns", "←", "→"],
    ].map(([name, back, forth], axis) => {
      if (counts[axis] <= this.size[axis]) return null;
      return [button(axis, -1, `${back} ${name}`), button(axis, 1, `${name} ${forth}`)];
    });
    this.place = el("span", { class: "note" });
    return groups.some(Boolean) ? el("div", { class: "buttons" }, groups.flat(), this.place) : null;
  }

  shift(axis, direction) {
    const count = [this.matrix.rows.length, this.matrix.columns.length][axis];
    const next = this.first[axis] + direction * this.size[axis];
    this.first[axis] = Math.max(0, Math.min(next, count - this.size[axis]));
    this.build();
  }

  /** Shows a cell that is in another part of the matrix. */
  include(row, column) {
    const outside = [row, column].map((place, axis) => {
      return place < this.first[axis] || place >= this.first[axis] + this.size[axis];
    });
    if (!outside.some(Boolean)) return;
    [row, column].forEach((place, axis) => {
      if (outside[axis]) this.first[axis] = place - (place % this.size[axis]);
    });
    this.shift(0, 0);
    this.shift(1, 0);
  }

  build() {
    const { matrix } = this;
    const [rows, columns] = this.first.map((first, axis) =>
      Array.from({ length: this.size[axis] }, (_, i) => first + i),
    );
    this.buttons = new Map();
    const header = columns.map((column) =>
      el("th", { scope: "col", "data-column": column }, label(matrix.columns[column])),
    );
    const body = rows.map((row) =>
      el(
        "tr",
        { "data-row": row },
        el("th", { scope: "row" }, label(matrix.rows[row])),
        columns.map((column) => el("td", {}, this.cell(row, column))),
      ),
    );
    this.frame.replaceChildren(
      el(
        "table",
        { class: "cells", "aria-label": this.title, onkeydown: (event) => this.move(event) },
        el("thead", {}, el("tr", {}, el("td", {}), header)),
        el("tbody", {}, body),
      ),
    );
    if (this.place) {
      const part = (axis, name, count) =>
        count > this.size[axis]
          ? `${name} ${this.first[axis] + 1}–${this.first[axis] + this.size[axis]} of ${count}`
          : "";
      this.place.textContent = [
        part(0, "rows", matrix.rows.length),
        part(1, "columns", matrix.columns.length),
      ]
        .filter(Boolean)
        .join(", ");
    }
    if (this.marks) this.mark(this.marks);
  }

  cell(row, column) {
    const { matrix } = this;
    const value = matrix.at(row, column);
    const text = decimal(value, this.decimals);
    const button = el(
      "button",
      {
        type: "button",
        class: "cell",
        tabindex: this.buttons.size === 0 ? 0 : -1,
        "data-column": column,
        "aria-label": `${matrix.name}, ${visible(matrix.rows[row])}, ${visible(matrix.columns[column])}: ${text}`,
        onclick: () => this.choose(row, column),
      },
      text,
    );
    if (matrix.betweenTokens && Number.isFinite(value)) {
      const [low, high] = matrix.range();
      const heat = high > low ? (value - low) / (high - low) : 0;
      button.style.setProperty("--heat", `${Math.round(45 * heat)}%`);
    }
    this.buttons.set(row * matrix.columns.length + column, button);
    return button;
  }

  button(row, column) {
    return this.buttons?.get(row * this.matrix.columns.length + column);
  }

  /** Marks the rows and columns of a token, the chosen cell ([row, column] or null), and the cells
   *  for which one of the functions `sources` returns true. */
  mark(marks) {
    this.marks = marks;
    if (!this.matrix.present) return;
    const { token, chosen, sources } = marks;
    const { matrix } = this;
    for (const row of this.frame.querySelectorAll("tr[data-row]"))
      row.classList.toggle("followed", matrix.byToken && matrix.rows[row.dataset.row] === token);
    for (const header of this.frame.querySelectorAll("th[data-column]")) {
      const same = matrix.columns[header.dataset.column] === token;
      header.classList.toggle("followed", matrix.betweenTokens && same);
    }
    const width = matrix.columns.length;
    for (const [index, button] of this.buttons) {
      const [row, column] = [Math.floor(index / width), index % width];
      const isChosen = chosen !== null && chosen[0] === row && chosen[1] === column;
      button.setAttribute("aria-pressed", isChosen);
      button.classList.toggle(
        "source",
        sources.some((isSource) => isSource(row, column)),
      );
    }
  }

  /** Moves the focus with the arrow keys. */
  move(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[
      event.key
    ];
    const row = Number(event.target.closest("tr").dataset.row);
    const column = Number(event.target.dataset.column);
    if (!step || !(column >= 0)) return;
    event.preventDefault();
    const [nextRow, nextColumn] = [row + step[0], column + step[1]];
    if (nextRow < 0 || nextRow >= this.matrix.rows.length) return;
    if (nextColumn < 0 || nextColumn >= this.matrix.columns.length) return;
    this.focus(nextRow, nextColumn);
  }

  focus(row, column) {
    this.include(row, column);
    for (const button of this.buttons.values()) button.tabIndex = -1;
    const button = this.button(row, column);
    button.tabIndex = 0;
    button.focus();
  }
}
