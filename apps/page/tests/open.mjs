// Opens pages in Chromium for the tests of a file.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before } from "node:test";
import { pathToFileURL } from "node:url";

import { launch } from "./browser.mjs";
import { page as pageOf } from "./fixtures.mjs";

/** A folder for the files of the tests. */
export const folder = mkdtempSync(join(tmpdir(), "page-"));
let browser;
let context;

before(async () => (browser = await launch()));
afterEach(async () => context?.close());
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/** Opens a page. `page.problems` lists the messages of its console, errors and requests. `script`: a
 *  function that runs before those of the page. */
export async function open(html, options = {}, script = () => {}) {
  context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  const url = pathToFileURL(join(folder, "report.html")).href;
  writeFileSync(join(folder, "report.html"), html);
  page.problems = [];
  page.on("console", (message) => page.problems.push(message.text()));
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("request", (request) => {
    if (request.url() !== url && !request.url().startsWith("data:"))
      page.problems.push(request.url());
  });
  await page.addInitScript(script);
  await page.goto(url);
  return page;
}

export const openData = (data, options, script) => open(pageOf(data), options, script);
