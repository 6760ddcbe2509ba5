// Attention step by step: the steps of `attend explain`, in which each number leads to the numbers
// that it is computed from.

import { bar, el, labelled, scroll, select } from "./dom.js";
import { truncated, visible } from "./format.js";
import { decimal, label, Matrix, MatrixTable } from "./matrix.js";
import { trace, useOf } from "./trace.js";

/** Returns an element that shows an explanation: the object that `attend explain --json` prints.
 *  The token that is followed is chosen in the element. A cell of a matrix that is chosen shows how
 *  it is computed. `state` is that of an explanation that was shown before (`element.state`): the
 *  same steps are open, and the same token is chosen. `state.title` is a title that is shown already.
 *  `state.showLayer` returns a function that shows another layer, or null. */
export function explanation(data, state = {}) {
  const view = new ExplanationView(data, state);
  view.element.state = view.state;
  return view.element;
}

/** Returns the section of the explanations of a file, or null if the data has none. Explanations of
 *  several layers and heads have controls. */
export function explanations(data) {
  const { explanation: file } = data;
  if (!file) return null;
  const all = unpacked(file);
  const place = el("div", {});
  const showLayer = (layer) => {
    const index = layers.indexOf(layer);
    return index < 0
      ? null
      : () => {
          layerControl.selectedIndex = index;
          choose(layer, Number(headControl.value));
          layerControl.focus();
        };
  };
  let shown;
  const show = (index) => {
    shown = explanation(all[index], shown?.state ?? { title: file.title, showLayer });
    place.replaceChildren(shown);
  };
  const layers = [...new Set(all.map(({ layer }) => layer))].sort((a, b) => a - b);
  const headsOf = (layer) =>
    all
      .filter((each) => each.layer === layer)
      .map(({ head }) => head)
      .sort((a, b) => a - b);
  const choose = (layer, head) => {
    const heads = headsOf(layer);
    const next = heads.includes(head) ? head : heads[0];
    headControl.replaceChildren(
      ...heads.map((each) => el("option", { value: each, selected: each === next }, String(each))),
    );
    show(all.findIndex((each) => each.layer === layer && each.head === next));
  };
  const layerControl = select(layers.map(String), (index) =>
    choose(layers[index], Number(headControl.value)),
  );
  const headControl = el("select", {
    onchange: () => choose(layers[layerControl.selectedIndex], Number(headControl.value)),
  });
  if (all.length === 1) {
    show(0);
    return place;
  }
  layerControl.selectedIndex = layers.indexOf(all[0].layer);
  choose(all[0].layer, all[0].head);
  return el(
    "div",
    {},
    el(
      "div",
      { class: "controls" },
      labelled("Layer", layerControl),
      labelled("Head", headControl),
    ),
    place,
  );
}

/** Returns the explanations of the key `explanation`: matrices have their own labels and numbers
 *  instead of indices. */
export function unpacked({ explanations, labels, numbers }) {
  return explanations.map((data) => ({
    ...data,
    steps: data.steps.map((step) => ({
      ...step,
      matrices: step.matrices.map((matrix) => ({
        ...matrix,
        rows: labels[matrix.rows],
        columns: labels[matrix.columns],
        values: matrix.values === null ? null : numbers[matrix.values],
      })),
    })),
  }));
}

class ExplanationView {
  constructor(data, state) {
    this.data = data;
    this.decimals = data.decimals ?? 4;
    this.steps = data.steps.map((step, index) => ({
      ...step,
      matrices: step.matrices.map((matrix) => new Matrix(index, matrix)),
    }));
    const matrices = this.steps.flatMap((step) => step.matrices);
    this.tokens = [
      ...new Set(matrices.filter((matrix) => matrix.byToken).flatMap((matrix) => matrix.rows)),
    ];
    this.resolve = (place) => (place ? (this.steps[place[0]]?.matrices[place[1]] ?? null) : null);
    this.users = new Map(matrices.map((matrix) => [matrix, []]));
    for (const matrix of matrices) {
      (matrix.origin?.operands ?? []).forEach((place, operand) =>
        this.users.get(this.resolve(place))?.push([matrix, operand]),
      );
    }
    const open = state.open ?? new Set([data.steps[0]?.title, "What if"]);
    const token = this.tokens.includes(state.token) ? state.token : data.token;
    this.state = { open, token, title: state.title, showLayer: state.showLayer };
    this.chosen = null; // {matrix, row, column} that a reader has chosen
    this.past = []; // cells that led to it
    this.panels = this.steps.map((step, index) => this.panel(step, index));
    this.element = el(
      "div",
      { class: "explanation" },
      state.title === data.title ? null : el("p", { class: "subtitle" }, visible(data.title)),
      this.tokens.length > 1 ? this.tokenChooser() : null,
      el(
        "div",
        { class: "controls buttons" },
        el("button", { type: "button", onclick: () => this.openAll(true) }, "Open all steps"),
        el("button", { type: "button", onclick: () => this.openAll(false) }, "Close all steps"),
      ),
      el(
        "ol",
        { class: "steps" },
        this.panels.map(({ element }) => el("li", {}, element)),
      ),
    );
    this.update();
  }

  tokenChooser() {
    const name = `token-${(ExplanationView.count = (ExplanationView.count ?? 0) + 1)}`;
    const tokens = this.tokens.map((token) =>
      el(
        "label",
        { class: "token" },
        el("input", {
          type: "radio",
          name,
          checked: token === this.state.token,
          "aria-label": visible(token),
          onchange: () => this.follow(token),
        }),
        el("bdi", { title: token }, visible(token)),
      ),
    );
    return el(
      "div",
      { class: "follow" },
      el("span", {}, "Follow a token"),
      el("div", { class: "tokens", role: "radiogroup", "aria-label": "Follow a token" }, tokens),
    );
  }

  follow(token) {
    this.state.token = token;
    this.chosen = null;
    this.past = [];
    this.update();
  }

  openAll(open) {
    for (const { element } of this.panels) element.open = open;
    this.update(); // builds the steps at once; their toggle events arrive later
  }

  /** Returns a step: its element, and functions that fill it when it is open. */
  panel(step, index) {
    const body = el("div", { class: "step-body" });
    const element = el(
      "details",
      {
        class: "card step",
        open: this.state.open.has(step.title),
        ontoggle: () => {
          this.state.open[element.open ? "add" : "delete"](step.title);
          this.update();
        },
      },
      el(
        "summary",
        {},
        el("span", { class: "step-number" }, String(index + 1)),
        el("h3", { class: "step-title" }, visible(step.title)),
        step.formula ? el("span", { class: "formula" }, visible(step.formula)) : null,
      ),
      body,
    );
    return { step, index, element, body, tables: null };
  }

  /** Builds the content of a step that is opened for the first time. */
  build(panel) {
    const { step, index, body } = panel;
    panel.tables = step.matrices
      .filter((matrix) => !matrix.comparison)
      .map(
        (matrix) =>
          new MatrixTable(matrix, step.title, this.decimals, (row, column) =>
            this.choose({ matrix, row, column }),
          ),
      );
    panel.worked = el("div", { class: "worked", "aria-live": "polite" });
    panel.conclusion = el("p", { class: "conclusion" });
    const next = this.panels[index + 1];
    body.append(
      el("p", {}, step.description),
      ...step.matrices
        .filter((matrix) => matrix.comparison)
        .map((matrix) => this.comparison(matrix)),
      el(
        "div",
        { class: "matrices" },
        panel.tables.map((table) => table.element),
      ),
      panel.worked,
      panel.conclusion,
      next
        ? el(
            "button",
            { type: "button", onclick: () => this.go(panel, next) },
            `Next: ${visible(next.step.title)}`,
          )
        : "",
    );
  }

  go(panel, next) {
    panel.element.open = false;
    next.element.open = true;
    next.element.querySelector("summary").focus();
    next.element.scrollIntoView({ block: "start" });
  }

  /** Chooses a cell. A link to a cell of another step opens the step. */
  choose(cell, isLink = false) {
    this.past = isLink && this.chosen ? [...this.past, this.chosen] : [];
    this.show(cell, isLink);
  }

  show(cell, move) {
    this.chosen = cell;
    const panel = this.panels[cell.matrix.step];
    panel.element.open = true;
    this.update();
    const table = panel.tables.find(({ matrix }) => matrix === cell.matrix);
    if (!move || !table) return;
    table.focus(cell.row, cell.column);
    table.element.scrollIntoView({ block: "nearest" });
  }

  /** The cell of a step that is worked out unless a reader chooses another one: in the row of the
   *  token that is followed, the first one, or the largest between tokens. */
  usual(step) {
    const matrix = step.matrices.filter(({ origin }) => origin).at(-1);
    if (!matrix) return null;
    const row = matrix.byToken ? matrix.rows.indexOf(this.state.token) : 0;
    if (row < 0 || !matrix.present) return null;
    const numbers = matrix.row(row);
    const column = matrix.betweenTokens
      ? numbers.indexOf(Math.max(...numbers))
      : matrix.columns.indexOf("probability");
    return { matrix, row, column: Math.max(0, column) };
  }

  update() {
    const options = { decimals: this.decimals, token: this.data.token };
    const traceOf = ({ matrix, row, column }) =>
      trace(matrix, row, column, this.resolve, { ...options, all: this.all });
    const sources = this.chosen ? (traceOf(this.chosen).sources ?? []) : [];
    for (const panel of this.panels) {
      if (!panel.element.open) continue;
      if (!panel.tables) this.build(panel);
      const own = this.chosen?.matrix.step === panel.index;
      const cell = own ? this.chosen : this.usual(panel.step);
      for (const table of panel.tables) {
        if (cell?.matrix === table.matrix && own) table.include(cell.row, cell.column);
        table.mark({
          token: this.state.token,
          chosen: cell?.matrix === table.matrix ? [cell.row, cell.column] : null,
          sources: sources
            .filter(([matrix]) => matrix === table.matrix)
            .map(([, isSource]) => isSource),
        });
      }
      this.work(panel, cell, cell ? traceOf(cell) : null, own);
      panel.conclusion.textContent = this.said(panel.step.conclusion);
    }
  }

  /** Returns a sentence of the data, which is about the token of the data. */
  said(text) {
    return text && this.state.token === this.data.token ? visible(text) : "";
  }

  /** Shows how a cell is computed. */
  work(panel, cell, found, own) {
    if (!cell) {
      panel.worked.replaceChildren(...[this.said(panel.step.calculation)].filter(Boolean));
      return;
    }
    const { matrix, row, column } = cell;
    const equation = (...parts) => el("p", { class: "equation" }, parts.flat());
    const value = decimal(matrix.at(row, column), this.decimals);
    const back = this.past.at(-1);
    const many = (found.terms ?? 0) > 8;
    const showLayer = found.reason === "layer" ? this.state.showLayer?.(found.layer) : null;
    panel.worked.replaceChildren(
      ...[
        equation(
          el("b", {}, this.nodes([this.nameOf(matrix, row, column)])),
          found.lines ? [] : [" = ", el("b", {}, value)],
        ),
        ...(found.lines ?? []).map((parts) => equation("= ", this.nodes(parts))),
        found.lines ? equation("= ", el("b", { class: "result" }, value)) : null,
        found.note ? el("p", { class: "note" }, found.note) : null,
        found.reason === "given"
          ? el(
              "p",
              { class: "note" },
              "This number is given: it is an input or a learned weight, or it is computed outside these steps.",
            )
          : null,
        found.reason === "layer"
          ? el(
              "p",
              { class: "note" },
              `This number is computed in the steps of layer ${found.layer}.`,
            )
          : null,
        found.reason === "missing"
          ? el(
              "p",
              { class: "note" },
              `The numbers that it is computed from are not in this file${found.name ? `: ${found.name}` : ""}.`,
            )
          : null,
        own ? this.usesOf(cell) : null,
        el(
          "p",
          { class: "buttons" },
          showLayer
            ? el("button", { type: "button", onclick: showLayer }, `Show layer ${found.layer}`)
            : null,
          many
            ? el(
                "button",
                {
                  type: "button",
                  onclick: () => {
                    this.all = !this.all;
                    this.update();
                  },
                },
                this.all ? "Show the largest terms" : `Show all ${found.terms} terms`,
              )
            : null,
          own && back
            ? el(
                "button",
                {
                  type: "button",
                  onclick: () => {
                    this.past.pop();
                    this.show(back, true);
                  },
                },
                "Back to ",
                this.nodes([this.nameOf(back.matrix, back.row, back.column)]),
              )
            : null,
        ),
      ].filter(Boolean),
    );
  }

  /** Links to the numbers that are computed from a cell. */
  usesOf({ matrix, row, column }) {
    const cells = this.users.get(matrix).map(([user, operand]) => {
      const followed = Math.max(0, user.rows.indexOf(this.state.token));
      return [user, ...useOf(user, operand, matrix, row, column, followed)];
    });
    if (matrix.origin?.operation === "prediction" && column === 0) cells.push([matrix, row, 1]);
    if (cells.length === 0) return null;
    const links = cells.map(([user, r, c]) =>
      this.link({ matrix: user, row: r, column: c }, [this.nameOf(user, r, c)]),
    );
    return el("p", { class: "uses" }, "Used in ", links.flatMap((link) => [", ", link]).slice(1));
  }

  nameOf(matrix, row, column) {
    return { name: matrix.name, labels: [matrix.rows[row], matrix.columns[column]] };
  }

  link(cell, parts) {
    return el(
      "button",
      {
        type: "button",
        class: "link",
        title: `${cell.matrix.name}: step ${cell.matrix.step + 1}`,
        onclick: () => this.choose(cell, true),
      },
      this.nodes(parts),
    );
  }

  /** Returns nodes of the parts of a line: text, names of cells, and numbers that lead to cells. */
  nodes(parts) {
    return parts.flatMap((part, index) => {
      if (typeof part === "string") return [part];
      if (part.labels) {
        const labels = part.labels.flatMap((text) => [", ", label(text)]).slice(1);
        return [visible(part.name), "[", ...labels, "]"];
      }
      const text = decimal(part.matrix.at(part.row, part.column), this.decimals);
      const after = index > 0 && /[·+-] $/.test(parts[index - 1]);
      const link = this.link(part, [text]);
      return text.startsWith("-") && text !== "-inf" && after
        ? [el("span", { class: "signed" }, "(", link, ")")]
        : [link];
    });
  }

  /** Returns a table of numbers before and after a change, with bars. */
  comparison(matrix) {
    const largest = Math.max(
      ...matrix.rows.flatMap((_, row) => matrix.row(row).map(Math.abs)),
      1e-9,
    );
    const barOf = (value, name) => bar(Math.abs(value) / largest, "width", name);
    const rows = matrix.rows.map((name, row) => {
      const [before, after] = matrix.row(row);
      const change = after - before;
      const text = decimal(change, this.decimals);
      return el(
        "tr",
        {},
        el("th", { scope: "row" }, el("bdi", {}, visible(truncated(name, 24)))),
        el("td", { class: "number" }, decimal(before, this.decimals), barOf(before, "before")),
        el("td", { class: "number" }, decimal(after, this.decimals), barOf(after, "after")),
        el("td", { class: "number" }, el("b", {}, change > 0 ? `+${text}` : text)),
      );
    });
    const title = visible(matrix.name);
    return el(
      "div",
      { class: "matrix" },
      el("h4", {}, title),
      scroll(
        title,
        el(
          "table",
          { class: "comparison" },
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              el("td", {}),
              ["before", "after", "change"].map((text) => el("th", { scope: "col" }, text)),
            ),
          ),
          el("tbody", {}, rows),
        ),
      ),
    );
  }
}
