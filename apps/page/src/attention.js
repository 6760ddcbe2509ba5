// Attention weights: all heads at a glance, one head enlarged, and one token with the tokens it
// attends to.

import { headWeights } from "./decode.js";
import { bar, el, labelled, onTheme, scroll, select, setOptions, table } from "./dom.js";
import { number, truncated, visible } from "./format.js";
import { GenerationSteps } from "./generation.js";
import { HeadMap } from "./head_map.js";
import { drawMap, palette } from "./heat.js";

const MAX_INPUT = 24; // characters of an input in the list of inputs
const MAX_COARSE = 48; // columns of a map up to which its thumbnail shows square cells
const MAX_WIDE = 40; // columns up to which their labels are wide
const NUM_LARGEST = 10;

const weightText = (byte) => (byte / 255).toFixed(2);

/** Returns the name of an entry of the data: its title and the input of its sample. */
function entryName({ title, sample }, inputs) {
  return inputs[sample] === undefined
    ? title
    : `${truncated(visible(inputs[sample]), MAX_INPUT)} (sample ${sample + 1}): ${title}`;
}

const inputsOf = (data) => (data.samples?.at(-1)?.samples ?? []).map(({ input }) => input);

/** Returns the attention section, or null if the data has no attention. */
export function attention(data) {
  const entries = data.attention ?? [];
  const inputs = inputsOf(data);
  return entries.length === 0 ? null : attentionView(entries, inputs);
}

/** Returns a view of entries of `attention` in the data. `inputs`: the inputs of their samples. `name`
 *  differs between the views of a page. `update(data)` of the view shows the entries of new data. */
export function attentionView(entries, inputs, name = "") {
  const view = new AttentionView(entries, inputs, name);
  view.element.update = (data) => view.update(data.attention ?? [], inputsOf(data));
  return view.element;
}

class AttentionView {
  constructor(entries, inputs, name) {
    this.entries = entries;
    this.name = name;
    this.layer = 0;
    this.head = 0;
    this.entrySelect = select(
      entries.map((entry) => entryName(entry, inputs)),
      (index) => this.showEntry(index),
    );
    this.layerSelect = select([], (layer) => this.showHead(layer, this.head));
    this.headSelect = select([], (head) => this.showHead(this.layer, head));
    this.overview = el("div", { class: "overview", role: "radiogroup", "aria-label": "Heads" });
    this.map = new HeadMap(
      (row) => this.showRow(row),
      (cell) => this.describeCell(cell),
      this.named("Map of the head"),
    );
    this.generation = new GenerationSteps((row) => this.showRow(row));
    this.cell = el("p", { class: "readout", id: `${name}cell` });
    this.rowTokens = el("div", { class: "tokens", role: "radiogroup", "aria-label": "Token" });
    this.columnTokens = el("ol", { class: "tokens columns", "aria-label": "Weights of the token" });
    this.rowTitle = el("h4", { "aria-live": "polite" });
    this.largest = el("div", {});
    this.note = el("p", { class: "note" });
    this.element = el(
      "div",
      {},
      el(
        "div",
        { class: "controls" },
        labelled("Attention", this.entrySelect),
        labelled("Layer", this.layerSelect),
        labelled("Head", this.headSelect),
      ),
      this.note,
      el(
        "div",
        { class: "split" },
        el(
          "div",
          { class: "card" },
          el("h3", {}, "All heads"),
          scroll(this.named("All heads"), this.overview),
          this.legend(),
        ),
        el(
          "div",
          { class: "card grow" },
          (this.mapTitle = el("h3", {})),
          this.map.element,
          this.cell,
        ),
      ),
      this.generation.element,
      el(
        "div",
        { class: "card" },
        el("h3", {}, "Choose a token to see the tokens it attends to"),
        this.rowTokens,
        this.rowTitle,
        this.columnTokens,
        this.largest,
      ),
    );
    this.observer = new IntersectionObserver(
      (seen) => {
        for (const { target, isIntersecting } of seen)
          if (isIntersecting) this.drawThumbnail(target);
      },
      { rootMargin: "400px" },
    );
    onTheme(this.element, () => this.showEntry(this.entrySelect.selectedIndex));
    this.showEntry(0);
  }

  /** Returns the name of a region, which differs between the views of a page. */
  named(region) {
    return this.name === "" ? region : `${region} of the ${this.name}`;
  }

  /** Shows other entries, with the same entry, layer, head and row as before where they exist.
   *  Returns false if there are none. */
  update(entries, inputs) {
    if (entries.length === 0) return false;
    const index = Math.min(this.entrySelect.selectedIndex, entries.length - 1);
    this.entries = entries;
    setOptions(
      this.entrySelect,
      entries.map((entry) => entryName(entry, inputs)),
    );
    this.entrySelect.selectedIndex = index;
    this.showEntry(index);
    return true;
  }

  legend() {
    this.scale = el("canvas", {
      class: "scale",
      role: "img",
      "aria-label": "Colors of the weights from 0 to 1",
    });
    return el("div", { class: "legend" }, "0", this.scale, "1");
  }

  showEntry(index) {
    const entry = (this.entry = this.entries[index]);
    const { block } = entry;
    this.colors = palette();
    drawMap(
      this.scale,
      Uint8Array.from({ length: 256 }, (_, value) => value),
      1,
      256,
      this.colors,
    );
    this.rows = entry.rows;
    this.columns = entry.columns;
    // At first, the row from which the last token was generated, if any.
    const predictions = this.predictionsOf(entry);
    const first = this.rows.length - (predictions.length > 0 ? 2 : 1);
    this.row = Math.min(this.row ?? first, this.rows.length - 1);
    this.generation.show(this.rows, predictions);
    this.generatedFrom = entry.generated_from ?? Infinity;
    setOptions(
      this.layerSelect,
      Array.from({ length: entry.num_layers }, (_, layer) => String(layer + 1)),
    );
    setOptions(
      this.headSelect,
      Array.from({ length: entry.num_heads }, (_, head) => String(head + 1)),
    );
    const notes = [];
    if (entry.causal) notes.push("Causal: a token attends to itself and to the tokens before it.");
    if (this.generatedFrom < this.rows.length)
      notes.push("Tokens with a dashed frame were generated by the model.");
    if (block > 1) {
      notes.push(
        `A cell covers ${block} × ${block} tokens: the sum of the weights over its columns, averaged over its rows.`,
      );
    }
    this.note.textContent = notes.join(" ");
    this.drawOverview();
    this.drawRowTokens();
    this.showHead(
      Math.min(this.layer, entry.num_layers - 1),
      Math.min(this.head, entry.num_heads - 1),
    );
  }

  /** Returns the predictions of the generated rows of an entry. Cross-attention has those of
   *  another entry of the sample. */
  predictionsOf({ sample, generated_from }) {
    if (generated_from === null) return [];
    const same = this.entries.find((entry) => entry.sample === sample && entry.predictions);
    return same?.predictions ?? [];
  }

  drawOverview() {
    const { num_layers, num_heads } = this.entry;
    this.observer.disconnect();
    this.overview.style.setProperty("--heads", num_heads);
    this.overview.replaceChildren(
      ...Array.from({ length: num_layers }, (_, layer) =>
        el(
          "div",
          { class: "layer" },
          el("span", { class: "layer-name", "aria-hidden": "true" }, `Layer ${layer + 1}`),
          Array.from({ length: num_heads }, (_, head) =>
            el(
              "label",
              { class: "thumbnail", title: `Layer ${layer + 1}, head ${head + 1}` },
              el("input", {
                type: "radio",
                name: `${this.name}head`,
                "aria-label": `Layer ${layer + 1}, head ${head + 1}`,
                onchange: () => this.showHead(layer, head),
              }),
              el("canvas", { "data-layer": layer, "data-head": head, width: 1, height: 1 }),
            ),
          ),
        ),
      ),
    );
    this.thumbnails = [...this.overview.querySelectorAll("canvas")];
    this.thumbnails.forEach((canvas) => this.observer.observe(canvas));
  }

  drawThumbnail(canvas) {
    this.observer.unobserve(canvas);
    const weights = headWeights(
      this.entry,
      Number(canvas.dataset.layer),
      Number(canvas.dataset.head),
    );
    drawMap(canvas, weights, this.rows.length, this.columns.length, this.colors);
    canvas.style.setProperty(
      "image-rendering",
      this.columns.length > MAX_COARSE ? "auto" : "pixelated",
    );
  }

  drawRowTokens() {
    this.rowTokens.classList.toggle("many", this.rows.length > MAX_WIDE);
    this.rowTokens.replaceChildren(
      ...this.rows.map((token, row) =>
        el(
          "label",
          { class: this.tokenClass(row) },
          el("input", {
            type: "radio",
            name: `${this.name}row`,
            "aria-label": `${visible(this.rows[row])}, ${this.place(row)}`,
            onchange: () => this.showRow(row),
          }),
          el("bdi", { title: token }, visible(token)),
        ),
      ),
    );
  }

  tokenClass(row) {
    return row >= this.generatedFrom ? "token generated" : "token";
  }

  /** Returns the place of a row, such as "generated token 9", or "tokens from 9" for a block. */
  place(row) {
    const { block } = this.entry;
    const kind = row >= this.generatedFrom ? "generated token" : "token";
    if (block === 1) return `${kind} ${row + 1}`;
    return `${kind}s from ${row * block + 1}`;
  }

  showHead(layer, head) {
    this.layer = layer;
    this.head = head;
    this.layerSelect.selectedIndex = layer;
    this.headSelect.selectedIndex = head;
    this.overview.querySelectorAll("input")[layer * this.entry.num_heads + head].checked = true;
    this.weights = headWeights(this.entry, layer, head);
    this.mapTitle.textContent = `Layer ${layer + 1}, head ${head + 1}`;
    this.showLargest();
    this.showRow(this.row);
    this.describeCell(null);
  }

  showRow(row) {
    this.row = row;
    this.rowTokens.querySelectorAll("input")[row].checked = true;
    this.generation.follow(row);
    const weights = this.weights.subarray(
      row * this.columns.length,
      (row + 1) * this.columns.length,
    );
    const highest = Math.max(1, ...weights);
    this.rowTitle.replaceChildren(
      "Weights of ",
      el("bdi", { class: "quoted" }, visible(truncated(this.rows[row], 40))),
      ` (${this.place(row)})`,
    );
    this.columnTokens.classList.toggle("many", this.columns.length > MAX_WIDE);
    this.columnTokens.replaceChildren(
      ...this.columns.map((token, column) =>
        el(
          "li",
          { class: weights[column] === highest ? "token highest" : "token" },
          bar(weights[column] / highest, "height"),
          el("bdi", { title: token }, visible(token)),
          el("span", { class: "value" }, weightText(weights[column])),
        ),
      ),
    );
    this.drawMap();
  }

  /** Lists the exact largest weights of the head, which a map of blocks cannot show. */
  showLargest() {
    const { block, largest = [] } = this.entry;
    const entries = largest
      .filter(([layer, head]) => layer === this.layer && head === this.head)
      .slice(0, NUM_LARGEST);
    this.largest.replaceChildren();
    if (entries.length === 0) return;
    const cell = (token, tokens) => [
      `${token + 1} in `,
      el("bdi", { class: "quoted" }, visible(tokens[Math.floor(token / block)])),
    ];
    const rows = entries.map(([, , row, column, weight]) => [
      el("td", {}, cell(row, this.rows)),
      el("td", {}, cell(column, this.columns)),
      el("td", { class: "number" }, number(weight)),
    ]);
    const title = "Largest weights of the head";
    this.largest.append(
      el("h4", {}, title),
      scroll(title, table(["Token", "Attends to", "Weight"], rows)),
    );
  }

  drawMap() {
    const { weights, rows, columns, row, generatedFrom, colors } = this;
    const name = this.mapTitle.textContent;
    this.map.show({ name, weights, rows, columns, row, generatedFrom, colors });
  }

  describeCell(cell) {
    if (!cell) {
      this.cell.textContent = "A row is a token, its columns are the tokens it attends to.";
      return;
    }
    const [row, column] = cell;
    this.cell.replaceChildren(
      el("bdi", { class: "quoted" }, visible(truncated(this.rows[row], 24))),
      ` (${row + 1}) → `,
      el("bdi", { class: "quoted" }, visible(truncated(this.columns[column], 24))),
      ` (${column + 1}): `,
      el("b", {}, weightText(this.weights[row * this.columns.length + column])),
    );
  }
}
