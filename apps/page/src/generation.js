// The steps in which a model generated the tokens of a sample.

import { bar, el, labelled, table } from "./dom.js";
import { number, visible } from "./format.js";

/** Steps through the generated tokens of an attention. `choose` is called with the row where the
 *  model looked to choose a token, which is the row before the token. */
export class GenerationSteps {
  constructor(choose) {
    this.slider = el("input", {
      type: "range",
      min: 1,
      step: 1,
      oninput: () => choose(this.firstRow + Number(this.slider.value) - 2),
    });
    this.output = el("output", {});
    const move = (change) => () => {
      this.slider.value = Number(this.slider.value) + change; // stays between min and max
      this.slider.dispatchEvent(new Event("input"));
    };
    this.text = el("p", { "aria-live": "polite" });
    this.predictions = el("div", {});
    this.element = el(
      "div",
      { class: "card generation" },
      el("h3", {}, "Steps of the generation"),
      el(
        "div",
        { class: "controls" },
        labelled("Generated token", this.slider, this.output),
        el(
          "div",
          { class: "buttons" },
          el("button", { type: "button", onclick: move(-1) }, "Previous"),
          el("button", { type: "button", onclick: move(1) }, "Next"),
        ),
      ),
      this.text,
      this.predictions,
    );
  }

  /** Shows the steps of an attention with these rows; nothing if it has no predictions. */
  show(rows, predictions) {
    Object.assign(this, { rows, steps: predictions, firstRow: rows.length - predictions.length });
    this.element.hidden = predictions.length === 0;
    this.slider.max = predictions.length;
    this.slider.value = predictions.length;
    if (predictions.length > 0) this.describe();
  }

  /** Shows the step in which the model looked from `row`; the last shown step if there is none. */
  follow(row) {
    const step = row + 2 - this.firstRow;
    if (step < 1 || step > this.steps.length) return;
    this.slider.value = step;
    this.describe();
  }

  describe() {
    const step = Number(this.slider.value);
    const row = this.firstRow + step - 1;
    const { probability, top } = this.steps[step - 1];
    const token = visible(this.rows[row]);
    const quoted = (text) => el("bdi", { class: "quoted" }, text);
    this.output.textContent = `${step} of ${this.steps.length}`;
    this.slider.setAttribute("aria-valuetext", `${step} of ${this.steps.length}: ${token}`);
    this.text.replaceChildren(
      "After ",
      quoted(visible(this.rows[row - 1])),
      ` (token ${row}), the model generated `,
      quoted(token),
      `, whose probability was ${number(probability)}. The weights below are those of `,
      quoted(visible(this.rows[row - 1])),
      ": where the model looked.",
    );
    this.predictions.replaceChildren(
      table(
        ["Most likely token", "Probability"],
        top.map(([label, value]) => [
          el("td", {}, quoted(visible(label))),
          el("td", {}, el("div", { class: "probability" }, bar(value), el("b", {}, number(value)))),
        ]),
      ),
    );
  }
}
