// Writes the page of each run of fixtures.mjs.
//
//   node tests/write_fixtures.mjs OUTDIR

import { mkdirSync, writeFileSync } from "node:fs";

import { FIXTURES, page } from "./fixtures.mjs";

const output = process.argv[2];
mkdirSync(output, { recursive: true });
for (const [name, make] of Object.entries(FIXTURES))
  writeFileSync(`${output}/${name}.html`, page(make()));
