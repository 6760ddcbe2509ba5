// Chromium for the tests.

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
