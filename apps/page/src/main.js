// The page of a run, of a comparison or of an explanation. Adds views to the sections that attend wrote as tables.

import { attention } from "./attention.js";
import { comparison, runs } from "./comparison.js";
import { curves } from "./curves.js";
import { el, scroll } from "./dom.js";
import { embeddings } from "./embeddings.js";
import { explanations } from "./explanation.js";
import { model } from "./model.js";
import { run, summary } from "./run.js";
import { samples } from "./samples.js";

const VIEWS = { runs, comparison, curves, attention, embeddings, samples, model, run, explanation: explanations };

/** Puts a view in front of the tables of its section, which are then folded. A section without a
 *  view stays as it is. */
function show(section, view) {
  const heading = section.querySelector("h2");
  const rest = [...section.childNodes].filter((node) => node !== heading);
  const tables = section.querySelector("table") !== null;
  if (view === null) {
    if (section.children.length <= 1)
      section.append(el("p", { class: "empty" }, "The run has no data for this section."));
    return;
  }
  section.replaceChildren(heading ?? "", view);
  if (tables)
    section.append(
      el(
        "details",
        { class: "tables" },
        el("summary", {}, "Data as tables"),
        scroll(`${heading?.textContent ?? ""}: data as tables`, ...rest),
      ),
    );
}

function start() {
  const main = document.querySelector("main");
  const data = JSON.parse(document.getElementById("data").textContent);
  const name = data.run?.name ?? data.explanation?.title ?? data.title;
  if (name) document.title = `${name} – attend`;
  const numbers = summary(data);
  const notes = (data.notes ?? []).map((note) => el("li", {}, note));
  const first = main.querySelector("h1") ?? el("h1", {}, name ?? "Run");
  main.prepend(
    ...[first, numbers, notes.length > 0 ? el("ul", { class: "note" }, notes) : null].filter(
      Boolean,
    ),
  );
  const links = document.querySelector("nav ul");
  for (const [id, makeView] of Object.entries(VIEWS)) {
    const section = document.getElementById(id);
    if (!section) continue;
    links.append(
      el("li", {}, el("a", { href: `#${id}` }, section.querySelector("h2")?.textContent ?? id)),
    );
    try {
      show(section, makeView(data, section));
    } catch (error) {
      // One damaged part must not hide the others; its tables stay visible.
      section.append(
        el(
          "p",
          { class: "error", role: "alert" },
          `This section cannot be drawn: ${error.message}`,
        ),
      );
    }
  }
  document.querySelector("nav").hidden = links.children.length < 2;
}

start();
