// Opens the page that `attend train --serve` hands out in Chromium. ATTEND is the path of the command;
// without it, these tests are skipped.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { launch, WIDTHS } from "./browser.mjs";
import { addMetrics } from "../src/series.js";

const ATTEND = process.env.ATTEND;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SENTENCE = "the boat drifted while we liked the bank";

/** Starts a training with a page. Returns its process and the address of the page. */
async function train(directory, ...options) {
  const small = "--embed-dim 16 --num-layers 2 --num-heads 2 --batch-size 8".split(" ");
  const training = spawn(ATTEND, ["train", ...small, ...options, "--out", directory, "--serve=0"]);
  for await (const line of createInterface(training.stdout)) {
    const [, url] = line.match(/^page +(\S+)$/) ?? [];
    if (url) return [training, url];
  }
  throw new Error("the training prints no address of its page");
}

describe("the page of a run that is trained", { skip: ATTEND ? false : "no ATTEND" }, () => {
  const folder = mkdtempSync(join(tmpdir(), "live-"));
  let browser;
  let training;
  let page;

  before(async () => {
    browser = await launch();
    const options = "--max-steps 10000000 --eval-every 50 --log-every 10".split(" ");
    let url;
    [training, url] = await train(join(folder, "run"), ...options);
    page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    page.problems = [];
    page.on("console", (message) => page.problems.push(message.text()));
    page.on("pageerror", (error) => page.problems.push(String(error)));
    page.on("request", (request) => {
      if (!request.url().startsWith(url) && !request.url().startsWith("data:"))
        page.problems.push(request.url());
    });
    await page.goto(url);
  });
  after(async () => {
    training?.kill("SIGKILL");
    await browser?.close();
    rmSync(folder, { recursive: true });
  });

  const explain = async (text) => {
    await page.getByRole("textbox", { name: "Sentence" }).fill(text);
    await page.getByRole("button", { name: "Explain" }).click();
  };

  test("shows points and sections that arrive later", async () => {
    await page.locator(".live[data-state=live]").waitFor();
    for (const id of ["curves", "attention", "embeddings", "samples", "model", "run"])
      await page.locator(`nav a[href="#${id}"]`).waitFor();
    const value = page.locator("[data-chart=loss] [data-key=train_loss]");
    const first = await value.textContent();
    await page.waitForFunction(
      ([first, selector]) => document.querySelector(selector).textContent !== first,
      [first, "[data-chart=loss] [data-key=train_loss]"],
    );
  });

  test("keeps the chosen layer and token while data arrives", async () => {
    const layer = page.locator("#attention .controls select").nth(1);
    await layer.selectOption({ value: "1" });
    await page.locator("#attention .tokens input").first().check();
    const before = await page.locator("#curves [data-key=val_loss]").textContent();
    await page.waitForFunction(
      (before) => document.querySelector("#curves [data-key=val_loss]").textContent !== before,
      before,
    );
    assert.equal(await layer.inputValue(), "1");
    assert.ok(await page.locator("#attention .tokens input").first().isChecked());
  });

  test("explains a sentence: prediction, attention of all heads, steps", async () => {
    await explain(SENTENCE);
    await page.locator("#sentence .prediction li").first().waitFor();
    assert.equal(await page.locator("#sentence .overview canvas").count(), 4);
    assert.deepEqual(
      await page.locator("#sentence .tokens[aria-label=Token] bdi").allTextContents(),
      SENTENCE.split(" "),
    );
    const weights = await page.locator("#sentence .columns .value").allTextContents();
    const sum = weights.reduce((total, weight) => total + Number(weight), 0);
    assert.ok(Math.abs(sum - 1) < 0.05, weights.join(" "));
    assert.ok((await page.locator("#sentence .explanation, #sentence details").count()) > 5);
    // The box for the sentence is as wide as the page, but not the tokens.
    const widths = await page
      .locator("#sentence .tokens label")
      .evaluateAll((all) => all.map((each) => each.offsetWidth));
    assert.ok(Math.max(...widths) < 120, widths.join(" "));
  });

  test("has no overflow and no violation that axe finds", async () => {
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      await page.waitForTimeout(100); // until the charts have the new width
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    }
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => axe.run());
    assert.deepEqual(
      violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`),
      [],
    );
  });

  test("shows the message about a sentence that cannot be explained", async () => {
    assert.deepEqual(page.problems, []);
    await explain("<b>zzz</b>");
    assert.match(await page.locator("#sentence [role=alert]").textContent(), /<b>zzz/);
    await explain(SENTENCE);
    await page.locator("#sentence .prediction li").first().waitFor();
  });

  test("says that the server has ended", async () => {
    training.kill("SIGINT");
    await page.locator(".live[data-state=lost]").waitFor();
    await page.locator("#curves .chart").first().waitFor();
  });
});

test("a line of metrics is added once, to the columns of its kind", () => {
  const data = { training: { step: [10], train_loss: [2], lr: [0.1] } };
  assert.ok(addMetrics(data, { step: 20, train_loss: 1, grad_norm: 3 }));
  assert.ok(!addMetrics(data, { step: 20, train_loss: 1, grad_norm: 3 }));
  assert.ok(addMetrics(data, { step: 20, val_loss: 1.5 }));
  assert.deepEqual(data, {
    training: { step: [10, 20], train_loss: [2, 1], lr: [0.1, null], grad_norm: [null, 3] },
    evaluations: { step: [20], val_loss: [1.5] },
  });
});
