// Takes the pictures of the documentation: of the page of a run of the task `senses`, and of the
// explanation of a sentence by its model.
//
//   node pictures.mjs REPORT EXPLANATION OUTDIR

import { mkdir } from "node:fs/promises";

import { launch, openFile, pictureOf } from "./tests/browser.mjs";

const [report, explanation, output] = process.argv.slice(2);
if (!report || !explanation || !output) {
  console.error("usage: node pictures.mjs REPORT EXPLANATION OUTDIR");
  process.exit(2);
}
await mkdir(output, { recursive: true });
const browser = await launch();
const open = (file, width) =>
  openFile(browser, file, { colorScheme: "light", viewport: { width, height: 900 } });

/** Takes the pictures of the README. */
async function reportPictures() {
  const page = await open(report, 1200);
  await page.locator("#embeddings .token-list").selectOption({ label: "bank" });
  // In the first sample, the second "bank", before the sense that the model generated.
  await page
    .locator("#attention .tokens label.token", { hasText: /^bank$/ })
    .nth(1)
    .click();
  for (const id of ["curves", "attention", "embeddings"])
    await pictureOf(page.locator(`#${id}`), `${output}/${id}.png`);
}

/** Takes a picture of two steps, in which the attention weight of a token is chosen. */
async function explanationPicture() {
  const page = await open(explanation, 1000);
  const [mask, weights] = ["Causal mask", "Attention weights"].map((title) =>
    page.locator("details.step", { has: page.getByText(`head 1: ${title}`, { exact: true }) }),
  );
  for (const step of [mask, weights]) await step.locator("summary").click();
  await weights.getByRole("button", { name: /^A, bank@8, boat:/ }).click();
  const [first, last] = [await mask.boundingBox(), await weights.boundingBox()];
  const y = first.y + (await page.evaluate(() => window.scrollY));
  const clip = { x: first.x, y, width: first.width, height: last.y + last.height - first.y };
  await page.screenshot({ path: `${output}/explanation.png`, fullPage: true, clip });
}

await reportPictures();
await explanationPicture();
await browser.close();
