// The modules of the model as nested boxes with shapes and numbers of parameters.

import { bar, el, table } from "./dom.js";
import { number, percent } from "./format.js";

const OPEN_DEPTH = 4; // boxes below this depth are closed at first, and boxes with tensors only

function head(module, share) {
  const repeats = module.repeats > 1 ? `${module.repeats} × ` : "";
  return [
    el(
      "span",
      { class: "module-name" },
      module.name,
      module.type && module.type !== module.name
        ? el("span", { class: "type" }, ` ${module.type}`)
        : null,
    ),
    module.repeats > 1 ? el("span", { class: "repeats" }, `× ${module.repeats}`) : null,
    module.shape ? el("span", { class: "shape" }, module.shape) : null,
    el(
      "span",
      { class: "parameters" },
      `${repeats}${number(module.parameters)}`,
      el("span", { class: "share" }, ` (${percent(share)})`),
    ),
    bar(share),
  ];
}

function tensors(list) {
  const rows = list.map(({ name, shape }) => [
    el("td", {}, name),
    el("td", {}, `(${shape.join(", ")})`),
  ]);
  return table(["Tensor", "Shape"], rows);
}

/** Returns the box of a module. `total` is the number of parameters of the model, `copies` how
 *  often the module occurs because of repeats above it. */
function box(module, total, copies, depth) {
  const repeats = copies * module.repeats;
  const share = total > 0 ? (module.parameters * repeats) / total : 0;
  const { children, tensors: list = [] } = module;
  if (children.length === 0 && list.length === 0)
    return el("div", { class: "module leaf" }, head(module, share));
  return el(
    "details",
    {
      class: module.repeats > 1 ? "module repeated" : "module",
      open: children.length > 0 && depth < OPEN_DEPTH,
    },
    el("summary", {}, head(module, share)),
    list.length > 0 ? tensors(list) : null,
    children.map((child) => box(child, total, repeats, depth + 1)),
  );
}

/** Returns the model section, or null if the data has no model. */
export function model(data) {
  if (!data.model) return null;
  return el("div", { class: "modules" }, box(data.model, data.model.parameters, 1, 0));
}
