// A page that `attend serve` hands out: follows the run, and explains a sentence.

import { attentionView } from "./attention.js";
import { bar, el, labelled } from "./dom.js";
import { explanation, unpacked } from "./explanation.js";
import { percent, visible } from "./format.js";
import { addMetrics } from "./series.js";

/** Follows the run whose data the page shows: calls `showMetrics` when the data has new lines of
 *  metrics, once for all lines of a frame, and `showAll` with new data. Returns an element that says whether the page is live. */
export function follow(data, showMetrics, showAll) {
  const status = el("p", { class: "live", role: "status" });
  const say = (state, text) => {
    status.dataset.state = state;
    status.textContent = text;
  };
  say("connecting", "Connecting to the server.");
  const events = new EventSource(`events?version=${encodeURIComponent(data.version)}`);
  let frame = 0;
  events.onopen = () => say("live", "Live: the page follows the run.");
  events.onerror = () => say("lost", "The server does not answer: the page shows the last data.");
  events.addEventListener("metrics", (event) => {
    if (!addMetrics(data, JSON.parse(event.data))) return;
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      showMetrics(data);
    });
  });
  events.addEventListener("data", (event) => {
    data = JSON.parse(event.data);
    showAll(data);
  });
  return status;
}

/** Returns the tokens or classes that the model predicts, with their probabilities. */
function predictionList(prediction) {
  return el(
    "ol",
    { class: "prediction" },
    prediction.map(({ name, probability }) =>
      el(
        "li",
        {},
        el("bdi", { class: "quoted" }, visible(name)),
        bar(probability),
        el("span", { class: "number" }, percent(probability)),
      ),
    ),
  );
}

/** Returns the answer of the server to a sentence. */
async function ask(text) {
  const response = await fetch("explain", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text }),
  }).catch(() => {
    throw new Error("The server does not answer.");
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

/** Returns a box for a sentence that the model of the run explains. */
export function sentence() {
  const input = el("input", { type: "text", autocomplete: "off", required: true, dir: "auto" });
  const button = el("button", { type: "submit" }, "Explain");
  const result = el("div", { "aria-live": "polite" });
  let state;
  const show = (answer) => {
    const [first] = unpacked(answer.explanation);
    const steps = explanation(first, state);
    state = steps.state;
    result.replaceChildren(
      ...answer.notes.map((note) => el("p", { class: "note" }, note)),
      ...(answer.answer === undefined
        ? [el("h3", {}, "Prediction"), predictionList(answer.prediction)]
        : [
            el("h3", {}, "Answer"),
            el("p", { class: "answer" }, el("bdi", { class: "quoted" }, visible(answer.answer))),
          ]),
      el("h3", {}, "Attention"),
      answer.attention.length > 0 ? attentionView(answer.attention, [], "sentence") : "",
      el("h3", {}, "Steps"),
      steps,
    );
  };
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    if (!result.hasChildNodes())
      result.append(el("p", { class: "note" }, "The model reads the sentence …"));
    try {
      show(await ask(input.value));
    } catch (error) {
      result.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
    }
    button.disabled = false;
  };
  return el(
    "div",
    {},
    el("form", { class: "controls", onsubmit: submit }, labelled("Sentence", input), button),
    result,
  );
}
