// Chromium for the tests and for pictures.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

/** Widths of a phone, a tablet and a desktop. */
export const WIDTHS = [360, 768, 1440];

/** Starts the system's Chromium: CHROMIUM, default /usr/bin/chromium. */
export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  }); // containers often allow no sandbox; pages are our own files
}

/** Opens the page in a file. */
export async function openFile(browser, file, options) {
  const page = await browser.newPage(options);
  await page.goto(pathToFileURL(resolve(file)).href);
  return page;
}

/** Takes a picture of a section. */
export async function pictureOf(section, path) {
  // Otherwise the bar of links, which stays at the top of the window, covers parts of long sections.
  await section
    .page()
    .locator("nav")
    .evaluate((nav) => (nav.style.position = "static"));
  await section.scrollIntoViewIfNeeded();
  await section.page().waitForTimeout(200); // until thumbnails are drawn
  await section.screenshot({ path });
}
