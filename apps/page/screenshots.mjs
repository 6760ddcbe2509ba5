// Takes screenshots of each section of a page at three widths, light and dark.
//
//   node screenshots.mjs FILE OUTDIR

import { mkdir } from "node:fs/promises";

import { launch, openFile, pictureOf, WIDTHS } from "./tests/browser.mjs";

const [file, output] = process.argv.slice(2);
if (!file || !output) {
  console.error("usage: node screenshots.mjs FILE OUTDIR");
  process.exit(2);
}
await mkdir(output, { recursive: true });
const browser = await launch();
for (const colorScheme of ["light", "dark"]) {
  for (const width of WIDTHS) {
    const page = await openFile(browser, file, { colorScheme, viewport: { width, height: 900 } });
    await page.screenshot({ path: `${output}/top-${width}-${colorScheme}.png` });
    for (const section of await page.locator("section").all()) {
      const id = await section.getAttribute("id");
      await pictureOf(section, `${output}/${id}-${width}-${colorScheme}.png`);
    }
    await page.close();
  }
}
await browser.close();
