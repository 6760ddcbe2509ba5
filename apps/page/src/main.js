// The page of a run, of a comparison or of an explanation. Adds views to the sections that attend wrote as tables.

import { attention } from "./attention.js";
import { comparison, runs } from "./comparison.js";
import { curves } from "./curves.js";
import { el, followTheme, scroll } from "./dom.js";
import { embeddings } from "./embeddings.js";
import { explanations } from "./explanation.js";
import { follow, sentence } from "./live.js";
import { model } from "./model.js";
import { run, summary } from "./run.js";
import { samples } from "./samples.js";

const VIEWS = {
  runs,
  comparison,
  curves,
  attention,
  embeddings,
  samples,
  model,
  run,
  explanation: explanations,
};
const TITLES = {
  curves: "Curves",
  attention: "Attention",
  embeddings: "Token embeddings",
  samples: "Samples",
  model: "Model",
  run: "Run",
};

/** Returns the view that `makeView` returns, or why it cannot be drawn: one damaged part must not
 *  hide the others. */
function drawn(makeView) {
  try {
    return makeView();
  } catch (error) {
    return el(
      "p",
      { class: "error", role: "alert" },
      `This section cannot be drawn: ${error.message}`,
    );
  }
}

/** Puts a view in front of the tables of its section, which are then folded unless it
 *  is an error. A section without a view stays as it is. */
function show(section, view) {
  const heading = section.querySelector("h2");
  const rest = [...section.childNodes].filter((node) => node !== heading);
  const tables = section.querySelector("table") !== null;
  if (view === null) return;
  section.replaceChildren(heading ?? "", view);
  if (tables)
    section.append(
      el(
        "details",
        { class: "tables", open: view.matches(".error") },
        el("summary", {}, "Data as tables"),
        scroll(`${heading?.textContent ?? ""}: data as tables`, ...rest),
      ),
    );
}

/** Returns the numbers of the run and the notes. */
function overview(data) {
  const notes = (data.notes ?? []).map((note) => el("li", {}, note));
  return [summary(data), notes.length > 0 ? el("ul", { class: "note" }, notes) : null].filter(
    Boolean,
  );
}

function linkSections() {
  const links = [...document.querySelectorAll("main > section")].map((section) =>
    el("li", {}, el("a", { href: `#${section.id}` }, section.querySelector("h2")?.textContent)),
  );
  const nav = document.querySelector("nav");
  nav.querySelector("ul").replaceChildren(...links);
  nav.hidden = links.length < 2;
}

/** Shows new data of a page that follows its run. `shown`: the views of the page by section. */
function update(data, shown) {
  let previous = document.getElementById("sentence");
  for (const [id, makeView] of Object.entries(VIEWS)) {
    let section = document.getElementById(id);
    const before = shown[id];
    const text = JSON.stringify(data[id]);
    const view = drawn(() => {
      const stays = before?.view && (before.view.update?.(data) ?? text === before.text);
      return stays ? before.view : makeView(data, before?.view);
    });
    if (view && view === before?.view) {
      section.querySelector("details.tables")?.remove(); // of older data
    } else if (view) {
      if (!section) previous.after((section = el("section", { id })));
      section.replaceChildren(el("h2", {}, TITLES[id]), view);
    }
    shown[id] = { view, text };
    previous = section ?? previous;
  }
  linkSections();
}

function start() {
  const main = document.querySelector("main");
  const data = JSON.parse(document.getElementById("data").textContent);
  const name = data.run?.name ?? data.explanation?.title ?? data.title;
  if (name) document.title = `${name} – attend`;
  const first = main.querySelector("h1") ?? el("h1", {}, name ?? "Run");
  const about = el("div", {}, overview(data));
  main.prepend(first, about);
  const shown = {};
  for (const [id, makeView] of Object.entries(VIEWS)) {
    const section = document.getElementById(id);
    if (!section) continue;
    const view = drawn(() => makeView(data));
    show(section, view);
    shown[id] = { view, text: JSON.stringify(data[id]) };
  }
  if (data.version) {
    // Only a server sets this key.
    const showMetrics = (next) => {
      if (!shown.curves?.view?.update(next)) update(next, shown);
    };
    const showAll = (next) => {
      about.replaceChildren(...overview(next));
      update(next, shown);
    };
    about.after(
      follow(data, showMetrics, showAll),
      el("section", { id: "sentence" }, el("h2", {}, "Try a sentence"), sentence()),
    );
  }
  followTheme();
  linkSections();
}

start();
