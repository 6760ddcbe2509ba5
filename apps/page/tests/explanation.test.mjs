// Follows the numbers of an explanation on its page, from the output back to queries and keys.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { decimal, Matrix } from "../src/matrix.js";
import { trace } from "../src/trace.js";
import { makeExplanation, makeExplanations } from "./explanation_fixtures.mjs";
import { explained } from "./fixtures.mjs";
import { openData } from "./open.mjs";

const TOKENS = ["the@1", "boat", "drifted", "to", "the@5", "bank"];
const data = makeExplanation(TOKENS, { layer: 2, head: 1 });

const values = (title, name) =>
  data.steps.find((step) => step.title === title).matrices.find((matrix) => matrix.name === name)
    .values;

const best = data.steps.find(({ title }) => title === "Prediction").matrices[1].rows[0];

const stepOf = (page, title) =>
  page.locator("details.step", { has: page.getByText(title, { exact: true }) });
const cellOf = (page, title, name, row, column) =>
  stepOf(page, title).getByRole("button", { name: new RegExp(`^${name}, ${row}, ${column}:`) });

/** Opens the page with all steps open, and chooses a cell. */
async function choose(title, name, row, column) {
  const page = await openData(explained());
  await page.getByRole("button", { name: "Open all steps" }).click();
  await cellOf(page, title, name, row, column).click();
  return page;
}

/** Returns the lines of the calculation in a step. */
const lines = (page, title) => stepOf(page, title).locator(".equation").allTextContents();

/** Returns the value of a line such as "= 0.5 · (-0.2) + exp(0.3) / 2 (the other 3 terms)". */
function computed(line) {
  const expression = line
    .replace(/^= /, "")
    .replaceAll("·", "*")
    .replace(/\((the other \d+ terms|attention sink)\)/g, "")
    .replaceAll("-inf", "-Infinity")
    .replace(/(exp|sqrt|tanh)/g, "Math.$1")
    .replaceAll("relu", "Math.max(0, ");
  assert.match(expression, /^[-+*/()., \d]|Math\.(exp|sqrt|tanh|max)|Infinity/);
  return new Function(`return ${expression.replaceAll("Math.max(0, (", "Math.max(0, ")}`)();
}

describe("a cell", () => {
  test("is worked out, and the numbers give its value", async () => {
    const page = await openData(explained());
    await page.getByRole("button", { name: "Open all steps" }).click();
    for (const [title, name, row, column, expected, tolerance] of [
      ["Query", "Q", "boat", "q2", values("Query", "Q")[1][1], 1e-3],
      ["Value", "V", "to", "v4", values("Value", "V")[3][3], 1e-3],
      ["Scores", "S", "the@5", "boat", values("Scores", "S")[4][1], 1e-3],
      ["Scaled scores", "S", "bank", "to", values("Scaled scores", "S")[5][3], 1e-4],
      ["Causal mask", "S", "bank", "to", values("Causal mask", "S")[5][3], 1e-4],
      ["Attention weights", "A", "bank", "to", values("Attention weights", "A")[5][3], 1e-3],
      ["Output", "Y", "bank", "y3", values("Output", "Y")[5][2], 1e-3],
      ["Heads joined", "Y", "bank", "y3", values("Output", "Y")[5][2], 1e-4],
      ["Residual connection", "R", "to", "r8", values("Residual connection", "R")[3][7], 1e-3],
      ["Norm", "N", "boat", "n2", values("Norm", "N")[1][1], 1e-3],
      ["Activation", "H", "boat", "h3", values("Activation", "H")[1][2], 1e-4],
      ["Feed-forward", "F", "boat", "f3", values("Feed-forward", "F")[1][2], 3e-3],
      [
        "Prediction",
        "prediction",
        best,
        "probability",
        values("Prediction", "prediction")[0][1],
        1e-3,
      ],
    ]) {
      await cellOf(page, title, name, row, column).click();
      const shown = await lines(page, title);
      assert.equal(shown[0], `${name}[${row}, ${column}]`);
      assert.equal(shown.at(-1), `= ${expected.toFixed(4)}`);
      const numbers = shown.slice(1, -1).filter((line) => !line.includes("["));
      assert.ok(numbers.length > 0);
      for (const line of numbers) assert.ok(Math.abs(computed(line) - expected) < tolerance, line);
    }
    assert.deepEqual(page.problems, []);
  });

  test("leads to the cells that it is computed from, and back", async () => {
    const page = await choose("Output", "Y", "bank", "y1");
    const follow = (title, text) =>
      stepOf(page, title).locator(".equation button", { hasText: text }).first().click();
    const decimal = (number) => number.toFixed(4);
    await follow("Output", decimal(values("Attention weights", "A")[5][0]));
    const chosen = page.locator(".cell:focus");
    const name = () => chosen.getAttribute("aria-label");
    assert.match(await name(), /^A, bank, the@1:/);
    await follow("Attention weights", decimal(values("Causal mask", "S")[5][0]));
    await follow("Causal mask", decimal(values("Scaled scores", "S")[5][0]));
    await follow("Scaled scores", decimal(values("Scores", "S")[5][0]));
    assert.match(await name(), /^S, bank, the@1:/);
    assert.equal(await chosen.getAttribute("aria-pressed"), "true");
    const query = cellOf(page, "Query", "Q", "bank", "q3");
    const key = cellOf(page, "Key", "K", "the@1", "k3");
    for (const cell of [query, key]) assert.match(await cell.getAttribute("class"), /source/);
    assert.equal(await page.locator(".cell.source").count(), 8);
    await follow("Scores", await query.textContent());
    assert.match(await name(), /^Q, bank, q/);
    for (const expected of [/^S, bank/, /^S, bank/, /^S, bank/, /^A, bank/, /^Y, bank, y1:/]) {
      await page.getByRole("button", { name: /^Back to/ }).click();
      assert.match(await name(), expected);
    }
    assert.equal(await page.getByRole("button", { name: /^Back to/ }).count(), 0);
  });

  test("leads from a score to the output", async () => {
    const page = await choose("Scores", "S", "bank", "boat");
    for (const [title, used] of [
      ["Scores", "S[bank, boat]"],
      ["Scaled scores", "S[bank, boat]"],
      ["Causal mask", "A[bank, boat]"],
      ["Attention weights", "Y[bank, y1]"],
      ["Output", "Y[bank, y1]"],
      ["Heads joined", "O[bank, o1]"],
      ["Output projection", "R[bank, r1]"],
      ["Residual connection", "N[bank, n1]"],
      ["Norm", "U[bank, u1]"],
      ["Hidden layer", "H[bank, h1]"],
      ["Activation", "F[bank, f1]"],
      ["Feed-forward", `prediction[${best}, logit]`],
      ["Prediction", `prediction[${best}, probability]`],
    ]) {
      const link = stepOf(page, title).locator(".uses button").first();
      assert.equal(await link.textContent(), used);
      await link.click();
    }
    assert.deepEqual(page.problems, []);
  });

  test("of another head says so", async () => {
    const page = await choose("Heads joined", "Y", "bank", "y5");
    assert.match((await lines(page, "Heads joined"))[1], /head 2/);
  });

  test("in a part of a large matrix that is not shown is reached by link and by keyboard", async () => {
    const page = await choose("Activation", "H", "bank", "h12");
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.locator(".cell:focus").getAttribute("data-column"), "12");
    await page.keyboard.press("Enter");
    const [first] = await lines(page, "Activation");
    assert.equal(first, "H[bank, h13]");
    await stepOf(page, "Activation").locator(".equation button").first().click();
    assert.match(await page.locator(".cell:focus").getAttribute("aria-label"), /^U, bank, u13:/);
  });

  test("with many terms shows all of them if asked", async () => {
    const page = await choose("Feed-forward", "F", "bank", "f1");
    const count = async () => (await lines(page, "Feed-forward"))[2].split(" · ").length - 1;
    assert.equal(await count(), 6);
    await stepOf(page, "Feed-forward")
      .getByRole("button", { name: /41 terms/ })
      .click();
    assert.equal(await count(), 40);
  });
});

test("each operation of a run gives the value of its cell", () => {
  const numbers = (name, values) =>
    new Matrix(0, {
      name,
      rows: values.map((_, i) => `r${i}`),
      columns: values[0].map((_, j) => `c${j}`),
      values,
    });
  const x = numbers("x", [
    [0.5, -1.5, 2, 0.25],
    [1, 3, -2, 0.5],
  ]);
  const y = numbers("y", [
    [1, 2, 3, 4],
    [-4, 3, -2, 1],
  ]);
  const shares = numbers("G", [
    [0.25, 0, 0.75],
    [0, 1, 0],
  ]);
  for (const [origin, operands, row, column, expected] of [
    [{ operation: "product" }, [x, numbers("G", [[0.5], [0.25]])], 1, 2, -0.5],
    [{ operation: "product" }, [x, numbers("c", [[2, 3, 4, 5]])], 1, 2, -8],
    [{ operation: "mix" }, [x, y, numbers("m", [[0.25]])], 0, 1, -1.5 + 0.25 * 3.5],
    [{ operation: "rotary", number: 1 }, [x, y, y], 0, 1, -1.5 * 2 + 0.5 * 2],
    [{ operation: "rotary", number: 2 }, [x, y, y], 1, 0, 1 * -4 + -2 * -4],
    [{ operation: "rotary", number: 3 }, [x, y, y], 1, 2, -2 * -2],
    [{ operation: "mixture" }, [shares, x, null, y], 0, 2, 0.25 * 2 + 0.75 * 3],
    [{ operation: "l2_norm" }, [x, numbers("w", [[2]])], 1, 3, (2 * 0.5) / Math.sqrt(14.25)],
    [{ operation: "mask" }, [x], 1, 1, 0],
  ]) {
    const result = numbers(
      "result",
      x.rows.map((_, i) => x.columns.map((_, j) => (i === row && j === column ? expected : 9))),
    );
    result.origin = { ...origin, operands };
    const { lines, sources } = trace(result, row, column, (operand) => operand, { decimals: 4 });
    const text = lines
      .at(-1)
      .map((part) => {
        if (typeof part === "string") return part;
        return `(${decimal(part.matrix.at(part.row, part.column), 4)})`;
      })
      .join("");
    const [number] = text.split(" instead of ");
    assert.ok(Math.abs(computed(number) - expected) < 1e-3, `${origin.operation}: ${text}`);
    assert.ok(sources.every(([matrix]) => operands.includes(matrix)));
  }
});

test("the probability of large logits is computed after the shift", () => {
  const shares = [1, Math.exp(-2)];
  const number = shares[0] + shares[1];
  const matrix = new Matrix(0, {
    name: "prediction",
    rows: ["a", "b"],
    columns: ["logit", "probability"],
    values: shares.map((share, i) => [30 - 2 * i, share / number]),
    origin: { operation: "prediction", operands: [], number, shift: 30 },
  });
  const { lines } = trace(matrix, 1, 1, () => null, { decimals: 4 });
  assert.ok(Math.abs(computed(lines.at(-1)[0]) - matrix.at(1, 1)) < 1e-3, lines.at(-1)[0]);
});

describe("steps", () => {
  test("open one by one, and the first one and the change are open", async () => {
    const page = await openData(explained());
    const open = () =>
      page
        .locator("details.step[open]")
        .evaluateAll((all) => all.map((each) => each.querySelector(".step-title").textContent));
    assert.deepEqual(await open(), ["Token vectors", "What if"]);
    await page.getByRole("button", { name: "Next: Query" }).click();
    assert.deepEqual(await open(), ["Query", "What if"]);
    assert.equal(
      await page.evaluate(() => document.activeElement.querySelector(".step-title").textContent),
      "Query",
    );
    await page.getByRole("button", { name: "Open all steps" }).click();
    assert.equal((await open()).length, data.steps.length);
    await page.getByRole("button", { name: "Close all steps" }).click();
    assert.deepEqual(await open(), []);
  });

  test("of tokens that are called before and after have cells", async () => {
    const page = await openData(makeExplanations(["before", "after"]));
    await page.getByRole("button", { name: "Open all steps" }).click();
    await cellOf(page, "Scores", "S", "after", "before").waitFor();
    assert.equal(await page.locator("table.comparison").count(), 1);
    assert.deepEqual(page.problems, []);
  });

  test("show the weights before and after a change", async () => {
    const page = await openData(explained());
    const cells = await stepOf(page, "What if").locator("tbody tr").first().locator("td").all();
    const numbers = await Promise.all(cells.map(async (cell) => Number(await cell.textContent())));
    const before = Number(values("Attention weights", "A")[5][0].toFixed(4));
    assert.deepEqual(numbers, [before, 0, -before]);
  });
});

test("a chosen token is followed through all steps", async () => {
  const page = await openData(explained());
  await page.getByRole("button", { name: "Open all steps" }).click();
  await page.getByRole("radio", { name: "drifted" }).check();
  const rows = await page
    .locator("tr.followed > th")
    .evaluateAll((all) => all.map((each) => each.textContent));
  assert.deepEqual(new Set(rows), new Set(["drifted"]));
  const byToken = data.steps.flatMap(({ matrices }) => matrices).filter((each) => each.by_token);
  assert.equal(rows.length, byToken.length);
  assert.ok((await lines(page, "Query"))[0].startsWith("Q[drifted, q1]"));
  assert.equal(await page.locator(".conclusion:not(:empty)").count(), 0);
  await page.getByRole("radio", { name: "bank" }).check();
  assert.equal(await page.locator(".conclusion:not(:empty)").count(), 1);
});

test("layer and head are chosen, and the same steps stay open", async () => {
  const page = await openData(explained());
  await page.getByRole("button", { name: "Next: Query" }).click();
  await page.getByRole("radio", { name: "to", exact: true }).check();
  await page.getByRole("combobox", { name: "Layer" }).selectOption("1");
  await page.getByRole("combobox", { name: "Head" }).selectOption("2");
  const expected = makeExplanation(TOKENS, { layer: 1, head: 2 });
  const cell = cellOf(page, "Query", "Q", "to", "q1");
  assert.equal(await cell.textContent(), expected.steps[1].matrices.at(-1).values[3][0].toFixed(4));
  assert.ok(await page.getByRole("radio", { name: "to", exact: true }).isChecked());
  assert.equal(await page.locator(".subtitle").textContent(), expected.title);
});

test("the output of another layer leads to this layer", async () => {
  const file = explained();
  file.explanation.explanations
    .filter(({ layer }) => layer === 2)
    .forEach(({ steps }) => {
      steps[0].matrices.at(-1).origin = { operation: "layer", number: 1, operands: [] };
    });
  const page = await openData(file);
  await stepOf(page, "Token vectors").getByRole("button", { name: "Show layer 1" }).click();
  assert.equal(await page.getByRole("combobox", { name: "Layer" }).inputValue(), "0");
  assert.equal(
    await page.locator(".subtitle").textContent(),
    makeExplanation(TOKENS, { layer: 1, head: 1 }).title,
  );
});

test("a title that is that of the page is shown once", async () => {
  const file = explained();
  const [first] = file.explanation.explanations;
  first.title = file.explanation.title;
  file.explanation.explanations = [first];
  const page = await openData(file);
  assert.equal(await page.getByText(first.title, { exact: true }).count(), 1);
});

test("numbers that the file does not contain are reported", async () => {
  const file = explained();
  const { matrices } = file.explanation.explanations[0].steps[15];
  matrices[0].values = null;
  const page = await openData(file);
  await page.getByRole("button", { name: "Open all steps" }).click();
  await cellOf(page, "Feed-forward", "F", "bank", "f1").click();
  assert.match(await stepOf(page, "Feed-forward").locator(".worked .note").textContent(), /W_F/);
  assert.deepEqual(page.problems, []);
});
