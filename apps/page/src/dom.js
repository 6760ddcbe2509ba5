// Elements of the page. Text reaches the page only as text nodes, so that no string of a run is
// read as HTML.

/** Returns a new HTML element. Values of attributes that are functions are listeners (`onclick`),
 *  null and false omit the attribute. Children are nodes or strings; null and false are skipped. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Returns a new SVG element, as `el` does for HTML. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value);
  }
  element.append(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Returns a label that contains its text and its control. */
export function labelled(text, control, ...more) {
  return el("label", { class: "control" }, el("span", {}, text), control, ...more);
}

/** Returns a frame that scrolls its content sideways, also with the keyboard. */
export function scroll(name, ...children) {
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
    ...children,
  );
}

/** Returns a table. Rows are lists of cells. */
export function table(header, rows) {
  const names = header.map((name) => el("th", { scope: "col" }, name));
  const body = rows.map((cells) => el("tr", {}, cells));
  return el("table", {}, el("thead", {}, el("tr", {}, names)), el("tbody", {}, body));
}

/** Returns a bar that fills a share of the width of its area, or of its height. `name` is another
 *  class of the bar. */
export function bar(share, axis = "width", name = "") {
  const filled = el("span", { class: `bar ${name}`.trim() });
  filled.style.setProperty(axis, `${100 * share}%`);
  return el("span", { class: "bar-area", "aria-hidden": "true" }, filled);
}

/** Returns a `select` whose options have the texts `texts` and the values 0, 1, ...; `change` is
 *  called with the index of the new option. */
export function select(texts, change) {
  const element = el("select", { onchange: () => change(element.selectedIndex) });
  setOptions(element, texts);
  return element;
}

/** Replaces the options of a `select`. */
export function setOptions(element, texts) {
  element.replaceChildren(...texts.map((text, index) => el("option", { value: index }, text)));
}

/** Returns a slider over the steps of a run that calls `change` with the index of the step. It
 *  starts at the last step. */
export function stepSlider(steps, change) {
  const last = steps.length - 1;
  const output = el("output", {}, String(steps[last]));
  const slider = el("input", {
    type: "range",
    min: 0,
    max: last,
    step: 1,
    value: last,
    oninput: () => {
      const index = Number(slider.value);
      output.textContent = String(steps[index]);
      slider.setAttribute("aria-valuetext", `step ${steps[index]}`);
      change(index);
    },
  });
  slider.setAttribute("aria-valuetext", `step ${steps[last]}`);
  return labelled("Step", slider, output);
}

/** Calls `draw` with the width of the element in CSS pixels, now and whenever it changes. */
export function onWidth(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    const next = Math.floor(element.clientWidth);
    if (next > 0 && next !== width) draw((width = next));
  }).observe(element);
}

/** Calls `draw` whenever the reader switches between light and dark while the element is on the
 *  page. */
export function onTheme(element, draw) {
  element.classList.add("themed");
  element.addEventListener("theme", draw);
}

/** Makes the functions of `onTheme` follow the theme of the reader. */
export function followTheme() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const element of document.querySelectorAll(".themed"))
      element.dispatchEvent(new Event("theme"));
  });
}

/** Returns the value of a CSS variable, such as "--text". */
export function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Saves a text as a file of the reader's computer. */
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
