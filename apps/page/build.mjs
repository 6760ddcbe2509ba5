// Bundles src/ into one file, dist/report.html, which `attend` embeds.
//
//   node build.mjs [FILE]     default: dist/report.html

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url));
const output = process.argv[2] ?? `${folder}dist/report.html`;

async function bundle(source) {
  const { outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: [source],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["chrome111", "firefox113", "safari16.4"],
    legalComments: "none",
    charset: "utf8",
  });
  return outputFiles[0].text.trim();
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

// The license requires that copies of uPlot contain it.
const license = (await readFile(`${folder}node_modules/uplot/LICENSE`, "utf8")).trim();
const [template, script, style] = [
  await readFile(`${folder}src/report.html`, "utf8"),
  await bundle("src/main.js"),
  await bundle("src/style.css"),
];
const values = {
  script,
  style,
  "script hash": hash(script),
  "style hash": hash(style),
  licenses: `<!--\nThis page contains uPlot:\n\n${license}\n-->`,
};
const page = template.replace(/\{\{([a-z ]+)\}\}/g, (_, name) => values[name]);
for (const marker of ["<!--content-->", "<!--data-->"]) {
  const count = page.split(marker).length - 1;
  if (count !== 1) throw new Error(`The page contains ${marker} ${count} times, expected once.`);
}
if (/<\/script|<!--/i.test(script))
  throw new Error("The script contains </script or <!--, which would end it.");
await writeFile(output, page);
