// Takes screenshots of each section of a page at three widths, light and dark.
//
//   node screenshots.mjs FILE OUTDIR

import { mkdir } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { launch, WIDTHS } from "./tests/browser.mjs";

const [file, output] = process.argv.slice(2);
if (!file || !output) {
  console.error("usage: node screenshots.mjs FILE OUTDIR");
  process.exit(2);
}
await mkdir(output, { recursive: true });
const browser = await launch();
for (const colorScheme of ["light", "dark"]) {
  for (const width of WIDTHS) {
    const page = await browser.newPage({ colorScheme, viewport: { width, height: 900 } });
    await page.goto(pathToFileURL(resolve(file)).href);
    await page.screenshot({ path: `${output}/top-${width}-${colorScheme}.png` });
    // Otherwise the bar of links, which stays at the top of the window, covers parts of long
    // sections.
    await page.locator("nav").evaluate((nav) => (nav.style.position = "static"));
    for (const section of await page.locator("section").all()) {
      await section.scrollIntoViewIfNeeded();
      await page.waitForTimeout(200); // until thumbnails are drawn
      await section.screenshot({
        path: `${output}/${await section.getAttribute("id")}-${width}-${colorScheme}.png`,
      });
    }
    await page.close();
  }
}
await browser.close();
