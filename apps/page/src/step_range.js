// Fields for the range of steps that the charts show.

import { el, labelled } from "./dom.js";

/** Fields for the first and the last step, and a button for all steps. Calls `change` with [first,
 *  last], or with null for all steps. */
export class StepRange {
  constructor(low, high, change) {
    this.change = change;
    const field = () =>
      el("input", {
        type: "number",
        step: 1,
        onchange: () => this.set([this.first, this.last].map((input) => input.valueAsNumber)),
      });
    [this.first, this.last] = [field(), field()];
    this.reset = el("button", { type: "button", onclick: () => this.set(null) }, "All steps");
    this.element = el(
      "div",
      { class: "control step-range", role: "group", "aria-label": "Steps of the charts" },
      labelled("First step", this.first),
      labelled("Last step", this.last),
      this.reset,
    );
    this.range = null;
    this.setLimits(low, high);
  }

  /** Sets the first and the last step of the data. */
  setLimits(low, high) {
    Object.assign(this, { low, high });
    for (const field of [this.first, this.last]) Object.assign(field, { min: low, max: high });
    this.show(this.range);
  }

  /** Sets the range; null for all steps. A range without steps changes nothing. */
  set(range) {
    const next = range && [Math.max(this.low, range[0]), Math.min(this.high, range[1])];
    const isRange = next === null || next[0] < next[1]; // false for an empty field, which is NaN
    if (!isRange) return this.show(this.range);
    const isWhole = next === null || (next[0] === this.low && next[1] === this.high);
    this.show(isWhole ? null : next);
    this.change(this.range);
  }

  show(range) {
    this.range = range;
    [this.first.value, this.last.value] = range ?? [this.low, this.high];
  }
}
