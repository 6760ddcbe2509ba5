// Opens pages of fixtures.mjs in Chromium and checks what a reader sees and can do.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, test } from "node:test";

import { bytes, embeddingPoints, headWeights } from "../src/decode.js";
import { number, percent, visible } from "../src/format.js";
import { smoothed } from "../src/series.js";
import { WIDTHS } from "./browser.mjs";
import {
  comparison,
  FIXTURES,
  generation,
  HOSTILE,
  large,
  page as pageOf,
  short,
  translation,
  usual,
} from "./fixtures.mjs";
import { folder, open, openData } from "./open.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Returns the text of the file that a click on a button saves. */
async function saved(page, name) {
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name, exact: true }).click(),
  ]);
  return [download.suggestedFilename(), readFileSync(await download.path(), "utf8")];
}

const weights = (page) => page.locator(".columns .value").allTextContents();
const weightsOf = (entry, layer, head, row) => {
  const width = entry.columns.length;
  return [...headWeights(entry, layer, head).subarray(row * width, (row + 1) * width)].map(
    (value) => (value / 255).toFixed(2),
  );
};

/** Functions that return the HTML of a page, by name. */
const PAGES = Object.fromEntries(
  Object.entries(FIXTURES).map(([name, make]) => [name, () => pageOf(make())]),
);
// Pages that attend wrote.
if (process.env.REPORT) PAGES.written = () => readFileSync(process.env.REPORT, "utf8");
if (process.env.COMPARISON) PAGES.compared = () => readFileSync(process.env.COMPARISON, "utf8");

/** Skips a test without the page in an environment variable. */
const written = (name) => ({ skip: process.env[name] ? false : `no ${name}` });
const dataOf = (html) => JSON.parse(html.match(/<script [^>]*id="data">(.*?)<\/script>/)[1]);

describe("every page", () => {
  for (const [name, html] of Object.entries(PAGES)) {
    test(`${name} has no console message, no request, and no overflow at ${WIDTHS.join(", ")} px`, async () => {
      const page = await open(html());
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        await page.waitForTimeout(100); // until the charts have the new width
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
      }
      assert.deepEqual(page.problems, []);
    });

    if (name === "large") continue; // takes a minute, and differs in numbers only
    for (const colorScheme of ["light", "dark"]) {
      test(`${name} has no violation that axe finds, ${colorScheme}`, async () => {
        const page = await open(html(), { colorScheme, viewport: { width: 768, height: 900 } });
        await page
          .locator("details")
          .evaluateAll((all) => all.forEach((details) => (details.open = true)));
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => axe.run());
        assert.deepEqual(
          violations.map(
            ({ id, nodes }) =>
              `${id}: ${nodes
                .slice(0, 3)
                .map(({ html }) => html.slice(0, 200))
                .join(" | ")}`,
          ),
          [],
        );
      });
    }
  }

  test("of a run can be read without JavaScript", written("REPORT"), async () => {
    const html = PAGES.written();
    const page = await open(html, { javaScriptEnabled: false });
    const [first] = dataOf(html).samples.at(-1).samples;
    await page.locator("#samples th", { hasText: first.input }).first().waitFor();
    assert.equal(await page.locator("main > section").count(), 6);
    assert.equal(await page.locator("table:visible").count(), html.split("<table>").length - 1);
    assert.ok(!(await page.locator("nav").isVisible()));
  });

  test("shows hostile strings as text", async () => {
    const page = await openData(FIXTURES.hostile());
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("main script, main img").count(), 0);
    assert.equal(await page.title(), `${HOSTILE[0]} – attend`);
    assert.deepEqual(
      await page.locator(".columns .token bdi").allTextContents(),
      HOSTILE.map(visible),
    );
    assert.equal(await page.getByRole("radio", { name: /⟨U\+202E⟩evil/ }).count(), 1);
    assert.deepEqual(await page.locator(".sample dd:nth-of-type(1)").allTextContents(), HOSTILE);
    assert.equal(await page.locator("pre[aria-label=Recipe]").textContent(), HOSTILE.join(""));
  });

  test("shows the other sections if one is damaged", async () => {
    const page = await openData({
      ...usual(),
      attention: [{ ...usual().attention[0], weights: "!" }],
    });
    assert.equal(await page.getByRole("alert").count(), 1);
    await page.locator("#attention table").waitFor();
    assert.equal(await page.locator(".scatter circle").count(), usual().embeddings.tokens.length);
  });

  test("reports a short run without empty charts", async () => {
    const page = await openData(short());
    assert.deepEqual(
      await page
        .locator(".chart")
        .evaluateAll((charts) => charts.map((chart) => chart.dataset.chart)),
      ["loss", "lr", "grad_norm"],
    );
    assert.deepEqual(await page.locator("nav a").allTextContents(), ["Curves", "Run"]);
    for (const name of ["Loss as SVG", "Learning rate as SVG"]) {
      assert.doesNotMatch((await saved(page, name))[1], /NaN|Infinity/);
    }
  });

  test("a large run opens", async () => {
    const page = await openData(large());
    await page.locator(".scatter circle").last().waitFor();
    assert.equal(await page.locator(".scatter circle").count(), 1000);
    assert.deepEqual(
      await page.locator("main > div > ul.note li").allTextContents(),
      large().notes,
    );
  });
});

describe("curves", () => {
  const readout = (page, chart, key) =>
    page.locator(`[data-chart=${chart}] [data-key=${key}]`).textContent();

  test("show the values of the data at the last step and at the cursor", async () => {
    const data = usual();
    const page = await openData(data);
    assert.equal(
      await readout(page, "loss", "train_loss"),
      number(data.training.train_loss.at(-1)),
    );
    assert.equal(
      await readout(page, "accuracy", "val_accuracy"),
      percent(data.evaluations.val_accuracy.at(-1)),
    );
    await page.locator("[data-chart=loss] .plot").focus();
    for (const key of ["Home", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight"])
      await page.keyboard.press(key);
    await page.waitForFunction(
      () => document.querySelector("[data-chart=loss] .step").textContent === "step 50",
    );
    assert.equal(await readout(page, "loss", "train_loss"), number(data.training.train_loss[4]));
    assert.equal(await readout(page, "loss", "val_loss"), number(data.evaluations.val_loss[0]));
  });

  test("smooth with a debiased exponential moving average", async () => {
    const values = usual().training.grad_norm;
    const page = await openData(usual());
    await page.locator("#smoothing").fill("0.9");
    let [average, sum] = [0, 0];
    values.forEach((value, i) => {
      average += 0.1 * 0.9 ** (values.length - 1 - i) * value;
      sum += 0.1 * 0.9 ** (values.length - 1 - i);
    });
    assert.ok(Math.abs(smoothed(values, 0.9).at(-1) - average / sum) < 1e-9);
    const shown = `${number(values.at(-1))} (smoothed ${number(average / sum)})`;
    await page.waitForFunction(
      (text) => document.querySelector("[data-key=grad_norm]").textContent === text,
      shown,
    );
  });

  test("are saved as CSV", async () => {
    const { training, evaluations } = usual();
    const page = await openData(usual());
    const [name, csv] = await saved(page, "Loss as CSV");
    assert.equal(name, "sort-loss.csv");
    const rows = csv
      .trim()
      .split("\n")
      .map((line) => line.split(","));
    assert.deepEqual(rows[0], ["step", "train_loss", "val_loss"]);
    assert.deepEqual(
      rows.slice(1),
      training.step.map((step, i) => {
        const at = evaluations.step.indexOf(step);
        return [step, training.train_loss[i], at < 0 ? "" : evaluations.val_loss[at]].map(String);
      }),
    );
  });

  test("are saved as SVG, with the scale of the chart", async () => {
    const page = await openData(usual());
    const heights = [];
    for (const check of [false, true]) {
      await page.locator("#log-scale").setChecked(check);
      const [name, svg] = await saved(page, "Loss as SVG");
      assert.equal(name, "sort-loss.svg");
      const path = await page.evaluate((text) => {
        const image = new DOMParser().parseFromString(text, "image/svg+xml");
        return image.querySelector("parsererror")
          ? null
          : image.querySelector("path").getAttribute("d");
      }, svg);
      heights.push(
        path
          .slice(1)
          .split("L")
          .map((point) => Number(point.split(" ")[1])),
      );
    }
    const losses = usual().training.train_loss;
    const places = [(value) => value, Math.log];
    heights.forEach((points, scale) => {
      assert.equal(points.length, losses.length);
      const [first, middle, last] = [0, 10, losses.length - 1].map((i) => [
        points[i],
        places[scale](losses[i]),
      ]);
      const share = (at) => (middle[at] - first[at]) / (last[at] - first[at]);
      assert.ok(Math.abs(share(0) - share(1)) < 0.01);
    });
  });
});

describe("the steps of the charts", () => {
  const fields = async (page) => [
    await page.getByLabel("First step").inputValue(),
    await page.getByLabel("Last step").inputValue(),
  ];
  /** Moves the cursor of a chart to its first and to its last step, and returns these. */
  const ends = async (page, chart = "loss") => {
    const steps = [];
    await page.locator(`[data-chart=${chart}] .plot`).focus();
    for (const key of ["Home", "End"]) {
      const before = await page.locator(`[data-chart=${chart}] .step`).textContent();
      await page.keyboard.press(key);
      await page.waitForFunction(
        ([id, text]) => document.querySelector(`[data-chart=${id}] .step`).textContent !== text,
        [chart, before],
      );
      steps.push(await page.locator(`[data-chart=${chart}] .step`).textContent());
    }
    return steps;
  };

  test("are set with the keyboard, for all charts", async () => {
    const page = await openData(usual());
    assert.deepEqual(await fields(page), ["10", "300"]);
    await page.getByLabel("First step").focus();
    for (const key of ["Control+a", "1", "0", "0", "Tab", "Control+a", "2", "0", "0", "Enter"])
      await page.keyboard.press(key);
    assert.deepEqual(await fields(page), ["100", "200"]);
    await page.waitForTimeout(100); // until the charts are drawn
    assert.deepEqual(await ends(page), ["step 100", "step 200"]);
    assert.deepEqual(await ends(page, "lr"), ["step 100", "step 200"]);
    await page.getByRole("button", { name: "All steps" }).focus();
    await page.keyboard.press("Enter");
    assert.deepEqual(await fields(page), ["10", "300"]);
    await page.waitForTimeout(100);
    assert.deepEqual(await ends(page), ["step 10", "step 300"]);
  });

  test("stay as they are if a field has no step or no range", async () => {
    const page = await openData(usual());
    await page.getByLabel("First step").fill("100");
    await page.getByLabel("First step").press("Enter");
    for (const [label, value] of [
      ["First step", ""],
      ["Last step", "100"],
      ["First step", "300"],
    ]) {
      await page.getByLabel(label).fill(value);
      await page.getByLabel(label).press("Enter");
      assert.deepEqual(await fields(page), ["100", "300"]);
    }
    await page.getByLabel("Last step").fill("999");
    await page.getByLabel("Last step").press("Enter");
    assert.deepEqual(await fields(page), ["100", "300"]);
  });

  test("are chosen by a drag, and reset by a double click", async () => {
    const page = await openData(usual());
    const box = await page.locator("[data-chart=loss] .u-over").boundingBox();
    const drag = async (from, to) => {
      await page.mouse.move(box.x + from * box.width, box.y + 50);
      await page.mouse.down();
      await page.mouse.move(box.x + to * box.width, box.y + 50, { steps: 5 });
      await page.mouse.up();
    };
    await drag(0.25, 0.75);
    const [low, high] = (await fields(page)).map(Number);
    assert.ok(Math.abs(low - 82.5) < 3 && Math.abs(high - 227.5) < 3, `${low} to ${high}`);
    await page.waitForTimeout(100);
    assert.deepEqual(await ends(page), ["step 90", "step 220"]);
    await page.locator("[data-chart=lr] .u-over").dblclick();
    assert.deepEqual(await fields(page), ["10", "300"]);
  });
});

describe("a comparison", () => {
  const readout = (page, chart) =>
    page
      .locator(`[data-chart=${chart}] .key`)
      .evaluateAll((keys) =>
        keys.map((key) => ["bdi", "b"].map((tag) => key.querySelector(tag).textContent)),
      );

  test("shows the value of each run at the cursor", async () => {
    const { comparison: runs } = comparison();
    const page = await openData(comparison());
    assert.equal(await page.title(), `${comparison().title} – attend`);
    assert.deepEqual(
      await page
        .locator(".chart")
        .evaluateAll((charts) => charts.map((chart) => chart.dataset.chart)),
      [
        "val_loss",
        "val_accuracy",
        "train_loss",
        "train_accuracy",
        "lr",
        "grad_norm",
        "tokens_per_second",
      ],
    );
    const expected = (table, key, at) =>
      runs.map((run) => [run.label, number(run[table][key].at(at))]);
    assert.deepEqual(await readout(page, "val_loss"), expected("evaluations", "val_loss", -1));
    await page.locator("[data-chart=train_loss] .plot").focus();
    await page.keyboard.press("Home");
    await page.waitForFunction(
      () => document.querySelector("[data-chart=train_loss] .step").textContent === "step 10",
    );
    assert.deepEqual(await readout(page, "train_loss"), expected("training", "train_loss", 0));
  });

  test("has another color or dashes for each run", async () => {
    const page = await openData(comparison(20));
    const keys = await page
      .locator("[data-chart=val_loss] .key")
      .evaluateAll((all) => all.map((key) => getComputedStyle(key, "::before").borderTop));
    assert.equal(keys.length, 20);
    assert.equal(new Set(keys.slice(0, 16)).size, 16);
    const [, svg] = await saved(page, "Validation loss as SVG");
    const lines = [...svg.matchAll(/<path [^>]*>/g)].map(
      ([path]) => `${path.match(/ stroke="[^"]*"/)} ${path.match(/stroke-dasharray="[^"]*"/)}`,
    );
    assert.equal(new Set(lines).size, 20);
    const height = Number(svg.match(/<svg[^>]* height="([0-9]+)"/)[1]);
    for (const [, y] of svg.matchAll(/<line [^>]*x1="64"[^>]*y1="([0-9.]+)"/g))
      assert.ok(Number(y) < height);
  });

  test("is saved as CSV with a column for each run", async () => {
    const { comparison: runs } = comparison();
    runs[0].label = 'a, "b"';
    const page = await openData({ ...comparison(), comparison: runs });
    const [name, csv] = await saved(page, "Validation loss as CSV");
    assert.equal(name, "comparison-val_loss.csv");
    const lines = csv.trim().split("\n");
    assert.equal(lines[0], `step,"a, ""b""",${runs[1].label},${runs[2].label}`);
    assert.deepEqual(
      lines.at(-1).split(","),
      [300, runs[0].evaluations.val_loss.at(-1), "", ""].map(String),
    );
  });

  test("has the tables of the runs in front", async () => {
    const page = await openData(comparison());
    await page.locator("#runs table").first().waitFor();
    assert.deepEqual(await page.locator("nav a").allTextContents(), ["Runs", "Curves"]);
    assert.equal(await page.locator("#runs .scroll > table").count(), 2);
    assert.equal(await page.locator("#runs p").count(), 1);
  });

  test("can be read without JavaScript", written("COMPARISON"), async () => {
    const html = PAGES.compared();
    const page = await open(html, { javaScriptEnabled: false });
    const [{ label }] = dataOf(html).comparison;
    await page.getByRole("columnheader", { name: label }).first().waitFor();
    assert.equal(await page.locator("table:visible").count(), html.split("<table>").length - 1);
  });
});

describe("the steps of the generation", () => {
  const step = (page) => page.locator(".generation output").textContent();
  const predictions = (page) => page.locator(".generation td b").allTextContents();

  test("show where the model looked, and the most likely tokens", async () => {
    const [entry] = generation().attention;
    const page = await openData(generation());
    const check = async (at) => {
      assert.equal(await step(page), `${at} of ${entry.predictions.length}`);
      assert.deepEqual(await weights(page), weightsOf(entry, 0, 0, entry.generated_from + at - 2));
      const { top } = entry.predictions[at - 1];
      assert.deepEqual(
        await predictions(page),
        top.map(([, probability]) => number(probability)),
      );
      assert.deepEqual(
        await page.locator(".generation td .quoted").allTextContents(),
        top.map(([token]) => token),
      );
    };
    await check(8);
    await page.getByRole("slider", { name: "Generated token" }).fill("1");
    await check(1);
    await page.keyboard.press("ArrowRight");
    await check(2);
    await page.getByRole("button", { name: "Next", exact: true }).click();
    await check(3);
    await page.getByRole("button", { name: "Previous", exact: true }).click();
    await check(2);
  });

  test("follow the chosen token and the chosen sample", async () => {
    const [first, second] = generation().attention;
    const page = await openData(generation());
    await page.getByRole("radio", { name: "h, generated token 9", exact: true }).check();
    assert.equal(await step(page), `2 of ${first.predictions.length}`);
    await page.getByRole("combobox", { name: "Attention" }).selectOption({ value: "1" });
    assert.match(await step(page), new RegExp(` of ${second.predictions.length}$`));
  });

  test("of cross-attention are those of the decoder", async () => {
    const data = translation();
    const [, decoder, cross] = data.attention;
    decoder.predictions = decoder.rows
      .slice(1)
      .map((token, i) => ({ probability: 0.5 + 0.01 * i, top: [[token, 0.5 + 0.01 * i]] }));
    const page = await openData(data);
    assert.ok(await page.locator(".generation").isHidden());
    await page.getByRole("combobox", { name: "Attention" }).selectOption({ value: "2" });
    await page.getByRole("slider", { name: "Generated token" }).fill("3");
    assert.equal(await step(page), `3 of ${cross.rows.length - 1}`);
    assert.deepEqual(await predictions(page), [number(0.52)]);
  });

  test("are hidden without generated tokens", async () => {
    const page = await openData(large());
    assert.ok(await page.locator(".generation").isHidden());
  });
});

describe("attention", () => {
  test("of a chosen token has the weights of the data", async () => {
    const [entry] = usual().attention;
    const page = await openData(usual());
    assert.deepEqual(await weights(page), weightsOf(entry, 0, 0, 15));
    await page.getByRole("radio", { name: "j, token 4", exact: true }).check();
    assert.deepEqual(await weights(page), weightsOf(entry, 0, 0, 3));
    await page.keyboard.press("ArrowRight");
    assert.deepEqual(await weights(page), weightsOf(entry, 0, 0, 4));
    assert.equal(
      await page.locator("label.generated").count(),
      entry.rows.length - entry.generated_from,
    );
  });

  test("of a head is chosen by select, by click and by keyboard", async () => {
    const [entry] = usual().attention;
    const page = await openData(usual());
    const image = () => page.locator(".map").evaluate((canvas) => canvas.toDataURL());
    const images = new Set([await image()]);
    const check = async (layer, head) => {
      assert.deepEqual(await weights(page), weightsOf(entry, layer, head, 15));
      assert.equal(await page.getByRole("combobox", { name: "Layer" }).inputValue(), String(layer));
      assert.equal(await page.getByRole("combobox", { name: "Head" }).inputValue(), String(head));
      assert.ok(
        await page.getByRole("radio", { name: `Layer ${layer + 1}, head ${head + 1}` }).isChecked(),
      );
      images.add(await image());
    };
    await page.getByRole("combobox", { name: "Layer" }).selectOption({ value: "2" });
    await check(2, 0);
    await page.getByRole("radio", { name: "Layer 2, head 3" }).click();
    await check(1, 2);
    await page.keyboard.press("ArrowRight");
    await check(1, 3);
    assert.equal(images.size, 4);
  });

  test("has other colors in the dark, without a new load", async () => {
    const page = await openData(usual(), { colorScheme: "light" });
    // The browser reports a change of colors with its next frame.
    const cornerIs = (dark) =>
      page.waitForFunction((dark) => {
        const canvas = document.querySelector(".map");
        const [red] = canvas
          .getContext("2d")
          .getImageData(canvas.width - 15, canvas.height / 2, 1, 1).data;
        return dark ? red < 60 : red > 200;
      }, dark);
    await cornerIs(false);
    await page.getByRole("radio", { name: "Layer 2, head 3" }).check();
    await page.emulateMedia({ colorScheme: "dark" });
    await cornerIs(true);
    assert.ok(await page.getByRole("radio", { name: "Layer 2, head 3" }).isChecked());
  });

  test("of a row is chosen by a click on the map", async () => {
    const [entry] = usual().attention;
    const page = await openData(usual());
    const { width, height } = await page.locator(".map").boundingBox();
    await page.locator(".map").click({ position: { x: width - 15, y: height - 15 - 3 * 30 } });
    assert.deepEqual(await weights(page), weightsOf(entry, 0, 0, 12));
  });

  test("thumbnails have the colors of the weights", async () => {
    const [entry] = usual().attention;
    const page = await openData(usual());
    await page.locator(".overview").scrollIntoViewIfNeeded();
    await page.waitForFunction(() => document.querySelector(".overview canvas").width > 1);
    const colors = await page
      .locator(".overview canvas")
      .first()
      .evaluate((canvas) => [
        ...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data,
      ]);
    const values = [...headWeights(entry, 0, 0)];
    assert.equal(colors.length, 4 * values.length);
    const red = values
      .map((value, i) => [value, colors[4 * i]])
      .sort((a, b) => a[0] - b[0] || b[1] - a[1]);
    assert.ok(
      red.every(([, shade], i) => i === 0 || shade <= red[i - 1][1]),
      "a larger weight is darker",
    );
    assert.ok(red[0][1] > red.at(-1)[1]);
  });

  test("has cross-attention with its own columns", async () => {
    const [, , cross] = translation().attention;
    const page = await openData(translation());
    await page.getByRole("combobox", { name: "Attention" }).selectOption({ value: "2" });
    await page.getByRole("combobox", { name: "Head" }).selectOption({ value: "7" });
    assert.deepEqual(await page.locator(".columns .token bdi").allTextContents(), cross.columns);
    assert.deepEqual(await weights(page), weightsOf(cross, 0, 7, 8));
  });

  test("of a long input lists the largest weights of the head", async () => {
    const page = await openData(large());
    const cells = () => page.locator("#attention td.number").allTextContents();
    assert.deepEqual(await cells(), ["0.87", "0.61"]);
    await page.getByRole("combobox", { name: "Layer" }).selectOption({ value: "3" });
    await page.getByRole("combobox", { name: "Head" }).selectOption({ value: "1" });
    assert.deepEqual(await cells(), ["0.99"]);
  });
});

describe("embeddings", () => {
  const places = (page) =>
    page
      .locator(".scatter circle")
      .evaluateAll((circles) =>
        circles.map((circle) => [
          Number(circle.getAttribute("cx")),
          Number(circle.getAttribute("cy")),
        ]),
      );

  test("are at the coordinates of the step", async () => {
    const data = usual().embeddings;
    const points = embeddingPoints(data);
    const page = await openData(usual());
    for (const step of [6, 2]) {
      await page.locator("#embeddings input[type=range]").fill(String(step));
      const shown = await places(page);
      const point = (token, axis) => points[2 * (step * data.tokens.length + token) + axis];
      const factor = (shown[5][0] - shown[1][0]) / (point(5, 0) - point(1, 0));
      shown.forEach(([x, y], token) => {
        assert.ok(Math.abs(x - shown[0][0] - factor * (point(token, 0) - point(0, 0))) < 0.5);
        assert.ok(Math.abs(y - shown[0][1] + factor * (point(token, 1) - point(0, 1))) < 0.5);
      });
    }
    assert.equal(await page.locator("#embeddings output").textContent(), String(data.steps[2]));
  });

  test("list the neighbors of a chosen and of a hovered token", async () => {
    const { tokens, neighbors } = usual().embeddings;
    const page = await openData(usual());
    const shown = () => page.locator(".neighbors button").allTextContents();
    await page.getByLabel("Tokens", { exact: true }).selectOption("7");
    assert.deepEqual(
      await shown(),
      neighbors[7].map((other) => tokens[other]),
    );
    await page.locator(".scatter circle").nth(20).hover();
    assert.deepEqual(
      await shown(),
      neighbors[20].map((other) => tokens[other]),
    );
    await page.mouse.move(0, 0);
    assert.deepEqual(
      await shown(),
      neighbors[7].map((other) => tokens[other]),
    );
    await page.locator(".neighbors button").first().click();
    assert.deepEqual(
      await shown(),
      neighbors[neighbors[7][0]].map((other) => tokens[other]),
    );
  });

  test("are searched", async () => {
    const page = await openData(large());
    await page.getByLabel("Search tokens").fill("TOKEN99");
    const found = await page
      .getByLabel("Tokens", { exact: true })
      .locator("option")
      .allTextContents();
    assert.deepEqual(
      found,
      large().embeddings.tokens.filter((token) => token.startsWith("token99")),
    );
    assert.equal(
      (await page.locator(".scatter circle.searched").count()) +
        (await page.locator(".scatter circle.near.searched").count()),
      found.length,
    );
  });
});

test("many lines of metrics that arrive at once are drawn once", async () => {
  const data = usual();
  const script = () => {
    window.EventSource = class extends EventTarget {
      constructor() {
        super();
        window.events = this;
      }
    };
    const request = window.requestAnimationFrame.bind(window);
    window.requested = 0;
    window.requestAnimationFrame = (draw) => ++window.requested && request(draw);
  };
  const page = await openData({ ...data, version: "1-x" }, {}, script);
  const count = await page.evaluate(() => {
    const before = window.requested;
    for (let step = 310; step <= 3000; step += 10) {
      const line = JSON.stringify({ step, train_loss: 1 / step });
      window.events.dispatchEvent(new MessageEvent("metrics", { data: line }));
    }
    return window.requested - before;
  });
  assert.equal(count, 1);
  await page.waitForFunction(
    (last) => document.querySelector("[data-key=train_loss]").textContent === last,
    number(1 / 3000),
  );
  assert.equal(await page.getByLabel("Last step").inputValue(), "3000");
});

test("samples of a step have their verdict as text", async () => {
  const { samples } = usual();
  const page = await openData(usual());
  const shown = () =>
    page.locator(".sample").evaluateAll((cards) =>
      cards.map((card) => ({
        wrong: card.querySelector(".verdict").textContent.includes("wrong"),
        output: card.querySelector("dd:nth-of-type(2)").textContent,
      })),
    );
  for (const index of [5, 1]) {
    await page.locator("#samples input[type=range]").fill(String(index));
    assert.deepEqual(
      await shown(),
      samples[index].samples.map(({ output, correct }) => ({ wrong: !correct, output })),
    );
  }
  assert.equal((await page.locator(".sample.wrong mark").count()) > 0, true);
});

test("the model has its parameters and repeats", async () => {
  const { model } = usual();
  const page = await openData(usual());
  assert.ok(
    (await page.locator(".modules > .module > summary .parameters").textContent()).startsWith(
      number(model.parameters),
    ),
  );
  const block = model.children[1].children[0].children[0];
  const shown = await page.locator(".module.repeated > summary .parameters").textContent();
  assert.ok(
    shown.startsWith(
      `3 × ${number(block.parameters)} (${percent((3 * block.parameters) / model.parameters)})`,
    ),
    shown,
  );
});

test("the command of the run can be pasted into a shell", async () => {
  const page = await openData({
    ...usual(),
    run: { ...usual().run, command: "attend 'it'\\''s' '' 'a b' '$x'" },
  });
  const command = await page.locator("pre[aria-label=Command]").textContent();
  assert.equal(
    execFileSync("sh", ["-c", `printf '%s|' ${command}`], { encoding: "utf8" }),
    "attend|it's||a b|$x|",
  );
});

test("bytes of a range of base64 are those of the whole", () => {
  const all = Uint8Array.from({ length: 20 }, (_, i) => 11 * i);
  const base64 = Buffer.from(all).toString("base64");
  for (let begin = 0; begin < 20; begin++) {
    for (let end = begin; end <= 20; end++)
      assert.deepEqual(bytes(base64, begin, end), all.slice(begin, end));
  }
});

test("dist/report.html is the build of src", () => {
  const output = join(folder, "built.html");
  execFileSync(process.execPath, [new URL("../build.mjs", import.meta.url).pathname, output]);
  const committed = readFileSync(new URL("../dist/report.html", import.meta.url), "utf8");
  assert.ok(
    readFileSync(output, "utf8") === committed,
    "dist/report.html is out of date: run npm run build in apps/page",
  );
});
