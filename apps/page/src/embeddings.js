// Token embeddings in two dimensions: points by step, search, nearest neighbors.

import { embeddingPoints } from "./decode.js";
import { bar, el, labelled, onWidth, stepSlider, svg } from "./dom.js";
import { number, percent, truncated, visible } from "./format.js";

const MARGIN = 28;
const MAX_HEIGHT = 520;
const REACH = 24; // distance from the pointer within which a point is hovered, in pixels
const LABEL_LENGTH = 16;
const MAX_LABELS = 60;

/** Returns the embeddings section, or null if the data has no embeddings. `before`: a section with
 *  the same choice and search. */
export function embeddings(data, before) {
  if (!(data.embeddings?.tokens?.length > 0)) return null;
  const view = new EmbeddingsView(data.embeddings);
  if (before) view.choose(Math.min(before.view.chosen ?? 0, view.content.tokens.length - 1));
  if (before) view.search.value = before.view.search.value;
  view.filter();
  view.element.view = view;
  return view.element;
}

class EmbeddingsView {
  constructor(content) {
    this.content = content;
    const { tokens, steps, explained_variance } = content;
    this.points = embeddingPoints(content);
    this.step = steps.length - 1;
    this.matches = tokens.map((_, token) => token);
    this.chosen = null;
    this.hovered = null;
    this.search = el("input", {
      type: "search",
      autocomplete: "off",
      oninput: () => this.filter(),
    });
    this.list = el("select", {
      class: "token-list",
      size: 8,
      "aria-label": "Tokens",
      onchange: () => this.choose(Number(this.list.value)),
    });
    this.count = el("p", { class: "note", "aria-live": "polite" });
    this.neighbors = el("div", { class: "neighbors" });
    this.plot = svg("svg", {
      class: "scatter",
      role: "img",
      "aria-label": `Embeddings of ${tokens.length} tokens in two dimensions. The list of tokens contains the same tokens.`,
      onpointermove: (event) => this.hover(this.nearest(event)),
      onpointerleave: () => this.hover(null),
      onclick: (event) => this.choose(this.nearest(event)),
    });
    this.frame = el("div", {}, this.plot);
    this.element = el(
      "div",
      {},
      el(
        "div",
        { class: "controls" },
        steps.length > 1
          ? stepSlider(steps, (index) => {
              this.step = index;
              this.draw();
            })
          : null,
      ),
      el(
        "div",
        { class: "split" },
        el(
          "div",
          { class: "card grow" },
          this.frame,
          el(
            "p",
            { class: "note" },
            `Principal components of the final embeddings. Explained variance: ${percent(explained_variance[0])} (horizontal), ` +
              `${percent(explained_variance[1])} (vertical). `,
            content.vocab_size > tokens.length
              ? `The first ${number(tokens.length)} of ${number(content.vocab_size)} tokens are shown.`
              : "",
          ),
        ),
        el(
          "div",
          { class: "card side" },
          labelled("Search tokens", this.search),
          this.list,
          this.count,
          this.neighbors,
        ),
      ),
    );
    this.build();
    // Special tokens such as <pad> have neighbors without meaning.
    this.choose(
      Math.max(
        0,
        this.content.tokens.findIndex((token) => !/^<.+>$/.test(token)),
      ),
    );
    onWidth(this.frame, (width) => this.resize(width));
  }

  /** Makes the marks of the plot, which `draw` moves. */
  build() {
    this.axes = svg("g", { class: "axes" }, svg("line"), svg("line"));
    this.trail = svg("polyline", { class: "trail" });
    this.circles = this.content.tokens.map((_, token) =>
      svg("circle", { r: 4, "data-token": token }),
    );
    this.labels = svg("g", { class: "labels" });
    this.plot.append(this.axes, this.trail, svg("g", {}, this.circles), this.labels);
  }

  resize(width) {
    const { points } = this;
    this.width = width;
    this.height = Math.max(260, Math.min(MAX_HEIGHT, Math.round(width * 0.72)));
    const bounds = [0, 1].map((axis) => {
      let [low, high] = [0, 0];
      for (let i = axis; i < points.length; i += 2)
        [low, high] = [Math.min(low, points[i]), Math.max(high, points[i])];
      return [low, high];
    });
    const spans = bounds.map(([low, high]) => high - low || 1);
    const factor = Math.min((width - 2 * MARGIN) / spans[0], (this.height - 2 * MARGIN) / spans[1]);
    const centers = bounds.map(([low, high]) => (low + high) / 2);
    this.place = (x, y) => [
      width / 2 + (x - centers[0]) * factor,
      this.height / 2 - (y - centers[1]) * factor,
    ];
    this.plot.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.plot.setAttribute("height", this.height);
    const [x, y] = this.place(0, 0);
    const set = (line, values) =>
      Object.entries(values).forEach(([name, value]) => line.setAttribute(name, value));
    set(this.axes.children[0], { x1: 0, x2: width, y1: y, y2: y });
    set(this.axes.children[1], { x1: x, x2: x, y1: 0, y2: this.height });
    this.draw();
  }

  /** Returns the coordinates of a token in the plot. */
  position(token, step = this.step) {
    const at = 2 * (step * this.content.tokens.length + token);
    return this.place(this.points[at], this.points[at + 1]);
  }

  /** Moves the points to the step and marks the chosen token, its neighbors and the tokens that
   *  were searched. */
  draw() {
    if (!this.place) return;
    const { tokens, neighbors, steps } = this.content;
    const active = this.hovered ?? this.chosen;
    const near = new Set(active === null ? [] : neighbors[active]);
    const searched = this.search.value === "" ? new Set() : new Set(this.matches);
    this.positions = tokens.map((_, token) => this.position(token));
    this.circles.forEach((circle, token) => {
      circle.setAttribute("cx", this.positions[token][0].toFixed(1));
      circle.setAttribute("cy", this.positions[token][1].toFixed(1));
      circle.setAttribute(
        "class",
        token === active
          ? "chosen"
          : near.has(token)
            ? "near"
            : searched.has(token)
              ? "searched"
              : searched.size > 0
                ? "faded"
                : "",
      );
      circle.setAttribute(
        "r",
        token === active ? 7 : near.has(token) || searched.has(token) ? 5 : 4,
      );
    });
    this.trail.setAttribute(
      "points",
      active === null
        ? ""
        : steps
            .map((_, step) =>
              this.position(active, step)
                .map((value) => value.toFixed(1))
                .join(","),
            )
            .join(" "),
    );
    this.drawLabels(
      [active, ...near, ...searched, ...tokens.keys()].filter((token) => token !== null),
      active,
    );
  }

  /** Labels tokens in this order, and omits labels that overlap earlier ones. */
  drawLabels(order, active) {
    const boxes = [];
    const labels = new Map();
    for (const token of order) {
      if (labels.has(token) || labels.size >= MAX_LABELS) continue;
      const text = truncated(visible(this.content.tokens[token]), LABEL_LENGTH);
      const width = 8 * [...text].length + 4;
      const [x, y] = this.positions[token];
      const left = x + 8 + width > this.width ? x - 8 - width : x + 8;
      const box = [left, y - 8, left + width, y + 8];
      const overlaps = boxes.some(
        (other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3],
      );
      if (overlaps && token !== active) continue;
      boxes.push(box);
      labels.set(
        token,
        svg(
          "text",
          {
            x: left < x ? x - 8 : x + 8,
            y: y + 4,
            "text-anchor": left < x ? "end" : "start",
            direction: "ltr",
            class: token === active ? "chosen" : null,
          },
          text,
        ),
      );
    }
    this.labels.replaceChildren(...labels.values());
  }

  /** Lists the tokens that contain the searched text. */
  filter() {
    const searched = this.search.value.toLowerCase();
    const { tokens } = this.content;
    this.matches = [...tokens.keys()].filter(
      (token) =>
        tokens[token].toLowerCase().includes(searched) || visible(tokens[token]).includes(searched),
    );
    this.list.replaceChildren(
      ...this.matches.map((token) =>
        el(
          "option",
          { value: token, selected: token === this.chosen, dir: "auto" },
          truncated(visible(tokens[token]), 60),
        ),
      ),
    );
    this.count.textContent = `${number(this.matches.length)} of ${number(tokens.length)} tokens`;
    this.draw();
  }

  /** Returns the token at the pointer, or null. */
  nearest(event) {
    if (!this.positions) return null;
    const box = this.plot.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    let reach = REACH;
    this.positions.forEach(([px, py], token) => {
      const distance = Math.hypot(px - x, py - y);
      if (distance < reach) [best, reach] = [token, distance];
    });
    return best;
  }

  hover(token) {
    if (token === this.hovered) return;
    this.hovered = token;
    this.listNeighbors();
    this.draw();
  }

  choose(token) {
    this.chosen = token;
    this.list.value = token === null ? "" : String(token);
    this.listNeighbors();
    this.draw();
  }

  /** Lists the nearest neighbors of the hovered or chosen token. */
  listNeighbors() {
    const token = this.hovered ?? this.chosen;
    if (token === null) {
      this.neighbors.replaceChildren(
        el("p", { class: "empty" }, "Choose a token to list its nearest neighbors."),
      );
      return;
    }
    const { tokens, neighbors, similarities } = this.content;
    this.neighbors.replaceChildren(
      el(
        "h3",
        {},
        "Nearest neighbors of ",
        el("bdi", { class: "quoted" }, truncated(visible(tokens[token]), 40)),
      ),
      el(
        "ol",
        {},
        neighbors[token].map((other, index) =>
          el(
            "li",
            {},
            el(
              "button",
              {
                type: "button",
                class: "link",
                title: tokens[other],
                onclick: () => this.choose(other),
              },
              el("bdi", {}, truncated(visible(tokens[other]), 24)),
            ),
            bar(Math.max(0, similarities[token][index])),
            el("span", { class: "number" }, similarities[token][index].toFixed(2)),
          ),
        ),
      ),
      el("p", { class: "note" }, "Cosine similarity of the embeddings at the last step."),
    );
  }
}
