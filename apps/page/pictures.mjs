// Takes the pictures of the README from the page of a run of the task `senses`.
//
//   node pictures.mjs FILE OUTDIR

import { mkdir } from "node:fs/promises";

import { launch, openFile, pictureOf } from "./tests/browser.mjs";

const [file, output] = process.argv.slice(2);
if (!file || !output) {
  console.error("usage: node pictures.mjs FILE OUTDIR");
  process.exit(2);
}
await mkdir(output, { recursive: true });
const browser = await launch();
const page = await openFile(browser, file, {
  colorScheme: "light",
  viewport: { width: 1200, height: 900 },
});
await page.locator("#embeddings .token-list").selectOption({ label: "bank" });
// In the first sample, the second "bank", before the sense that the model generated.
await page
  .locator("#attention .tokens label.token", { hasText: /^bank$/ })
  .nth(1)
  .click();
for (const id of ["curves", "attention", "embeddings"])
  await pictureOf(page.locator(`#${id}`), `${output}/${id}.png`);
await browser.close();
