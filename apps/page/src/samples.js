// Samples of the validation set at each evaluation.

import { el, stepSlider } from "./dom.js";

/** Returns the text of an output with its differences from the expected text marked: by word if the
 *  expected text has several words, otherwise by character. */
function marked(output, expected) {
  if (expected === null || expected === undefined || expected === output) return [output];
  const units = (text) =>
    /\S\s+\S/.test(expected) ? (text.match(/\s*\S+|\s+$/g) ?? []) : [...text];
  const wanted = units(expected);
  const parts = [];
  units(output).forEach((unit, index) => {
    const same = unit === wanted[index];
    if (parts.length > 0 && parts.at(-1).same === same) parts.at(-1).text += unit;
    else parts.push({ same, text: unit });
  });
  return parts.map(({ same, text }) => (same ? text : el("mark", {}, text)));
}

function card({ input, output, expected, correct }) {
  const known = correct === true || correct === false;
  const row = (name, content) => [el("dt", {}, name), el("dd", {}, el("bdi", {}, content))];
  return el(
    "li",
    { class: known ? `card sample ${correct ? "correct" : "wrong"}` : "card sample" },
    known
      ? el(
          "p",
          { class: "verdict" },
          el("span", { "aria-hidden": "true" }, correct ? "✓ " : "✗ "),
          correct ? "correct" : "wrong",
        )
      : null,
    el(
      "dl",
      {},
      row("Input", [input]),
      row("Output", marked(output, expected)),
      correct === false && expected !== null && expected !== undefined
        ? row("Expected", [expected])
        : null,
    ),
  );
}

/** Returns the samples section, or null if the run has no samples. */
export function samples(data) {
  const evaluations = (data.samples ?? []).filter((evaluation) => evaluation.samples.length > 0);
  if (evaluations.length === 0) return null;
  const list = el("ul", { class: "samples" });
  const summary = el("p", { class: "note", "aria-live": "polite" });
  const show = (index) => {
    const shown = evaluations[index].samples;
    const checked = shown.filter(({ correct }) => correct === true || correct === false);
    const right = checked.filter(({ correct }) => correct).length;
    summary.textContent =
      checked.length > 0 ? `${right} of ${checked.length} samples are correct.` : "";
    list.replaceChildren(...shown.map(card));
  };
  show(evaluations.length - 1);
  return el(
    "div",
    {},
    el(
      "div",
      { class: "controls" },
      evaluations.length > 1
        ? stepSlider(
            evaluations.map(({ step }) => step),
            show,
          )
        : el("p", { class: "note" }, `Step ${evaluations[0].step}`),
    ),
    summary,
    list,
  );
}
