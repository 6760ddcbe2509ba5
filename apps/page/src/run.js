// Provenance of the run and the numbers at the top of the page.

import { el } from "./dom.js";
import { duration, number, percent } from "./format.js";

const present = (value) => value !== undefined && value !== null && value !== "";

/** Returns the number of the evaluations' table at the best step. */
function atBestStep(data, key) {
  const { step = [], [key]: values } = data.evaluations ?? {};
  const index = step.indexOf(data.run?.best_step);
  return index < 0 ? null : values?.[index];
}

/** Returns the most important numbers of the run, or null if there are none. */
export function summary(data) {
  const { run = {} } = data;
  const entries = [
    ["Validation loss", atBestStep(data, "val_loss"), number],
    ["Accuracy", atBestStep(data, "val_accuracy"), percent],
    ["Best step", run.best_step, (step) => `${number(step)} of ${number(run.steps)}`],
    ["Parameters", run.parameters, number],
    ["Training time", run.seconds, duration],
    ["State", run.state, String],
  ].filter(([, value]) => present(value));
  if (entries.length === 0) return null;
  return el(
    "dl",
    { class: "summary" },
    entries.map(([name, value, format]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, format(value))),
    ),
  );
}

/** Returns the section about the run, or null if the data has no run. */
export function run(data) {
  if (!data.run) return null;
  const { command, recipe_toml, ...fields } = data.run;
  const names = {
    name: "Name",
    run_id: "ID",
    task: "Task",
    recipe: "Recipe",
    state: "State",
    created: "Created",
    version: "attend version",
    os: "Operating system",
    cpu: "CPU",
    num_cpus: "CPUs",
    seconds: "Training time",
    steps: "Steps",
    best_step: "Best step",
    parameters: "Parameters",
  };
  const text = (key) =>
    key === "seconds"
      ? duration(fields[key])
      : typeof fields[key] === "number"
        ? number(fields[key])
        : String(fields[key]);
  return el(
    "div",
    {},
    el(
      "dl",
      { class: "fields" },
      Object.keys(names)
        .filter((key) => present(fields[key]))
        .map((key) =>
          el("div", {}, el("dt", {}, names[key]), el("dd", {}, el("bdi", {}, text(key)))),
        ),
    ),
    present(command)
      ? [el("h3", {}, "Command"), el("pre", { class: "wrapped", "aria-label": "Command" }, command)]
      : null,
    present(recipe_toml)
      ? el(
          "details",
          {},
          el("summary", {}, "Recipe"),
          el("pre", { tabindex: 0, "aria-label": "Recipe" }, recipe_toml),
        )
      : null,
  );
}
