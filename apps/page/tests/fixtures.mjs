// Data of runs as `attend report` writes it (README.md, "Data"), and the page of such a run. Random
// numbers come from a generator with a fixed seed.

import { readFileSync } from "node:fs";

import { makeExplanations, random } from "./explanation_fixtures.mjs";

const template = readFileSync(new URL("../dist/report.html", import.meta.url), "utf8");

const base64 = (array) =>
  Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");

/** Returns [low, low + step, ..., high]. */
const range = (low, high, step) =>
  Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => low + i * step);

/** Returns an attention with random weights; rows of a causal one have no weight after the
 *  diagonal. */
function makeAttention(
  rows,
  columns,
  { layers = 2, heads = 2, causal = false, block = 1, seed = 1, ...fields } = {},
) {
  const draw = random(seed);
  const [height, width] = [rows.length, columns.length];
  const weights = new Uint8Array(layers * heads * height * width);
  for (let map = 0; map < layers * heads; map++) {
    const shift = map % 4;
    for (let row = 0; row < height; row++) {
      const scores = Array.from({ length: width }, (_, column) =>
        causal && column > row ? 0 : draw() ** 4 + (Math.abs(column - row + shift) < 1 ? 2 : 0),
      );
      const sum = scores.reduce((a, b) => a + b, 0);
      scores.forEach(
        (score, column) =>
          (weights[(map * height + row) * width + column] = Math.round((255 * score) / sum)),
      );
    }
  }
  return {
    title: "self-attention",
    sample: 0,
    rows,
    columns,
    num_layers: layers,
    num_heads: heads,
    causal,
    generated_from: null,
    weights: base64(weights),
    block,
    ...fields,
  };
}

/** Returns embeddings whose tokens move from the center to places on a spiral. */
function makeEmbeddings(tokens, steps, seed = 2) {
  const draw = random(seed);
  const scale = 2;
  const places = tokens.map((_, token) => {
    const angle = 2.4 * token;
    const radius = 0.3 + Math.sqrt(token / tokens.length) + 0.3 * draw();
    return [radius * Math.cos(angle), 0.6 * radius * Math.sin(angle)];
  });
  const points = new Int16Array(steps.length * tokens.length * 2);
  steps.forEach((_, step) =>
    places.forEach((place, token) =>
      place.forEach((value, axis) => {
        const grown = (value * (step + 1)) / steps.length;
        points[2 * (step * tokens.length + token) + axis] = Math.round((grown / scale) * 32767);
      }),
    ),
  );
  const others = (token) =>
    [1, 2, 3, 4, 5].map((i) => (token + i) % tokens.length).filter((other) => other !== token);
  return {
    tokens,
    steps,
    scale,
    points: base64(points),
    explained_variance: [0.31, 0.12],
    neighbors: tokens.map((_, token) => others(token)),
    vocab_size: tokens.length,
    similarities: tokens.map((_, token) => others(token).map((_, i) => 0.93 - 0.11 * i)),
  };
}

/** Returns the metrics of training and of evaluations at the given steps. */
function makeMetrics(steps, evaluationSteps, seed = 3) {
  const draw = random(seed);
  const last = steps.at(-1);
  const loss = (step) => 0.15 + 3 * Math.exp((-5 * step) / last);
  const noise = (size) => 1 + size * (draw() - 0.5);
  return {
    training: {
      step: steps,
      train_loss: steps.map((step) => loss(step) * noise(0.2)),
      train_accuracy: steps.map((step) => Math.min(1, (0.95 - 0.3 * loss(step)) * noise(0.05))),
      lr: steps.map((step) => 1e-3 * Math.min(1, (10 * step) / last) * (1 - (0.9 * step) / last)),
      grad_norm: steps.map(() => 1.2 * noise(0.8)),
      tokens_per_second: steps.map(() => 11000 * noise(0.1)),
      seconds: steps.map((step) => 0.14 * step),
    },
    evaluations: {
      step: evaluationSteps,
      val_loss: evaluationSteps.map((step) => loss(step) * 1.1 * noise(0.05)),
      val_accuracy: evaluationSteps.map((step) => Math.min(1, 0.97 - 0.31 * loss(step))),
    },
  };
}

function leaf(name, type, weight, bias) {
  const tensors = [
    { name: "weight", shape: weight },
    { name: "bias", shape: bias },
  ].filter((tensor) => tensor.shape);
  const sizes = tensors.map(({ shape }) => shape.reduce((a, b) => a * b));
  const parameters = sizes.reduce((a, b) => a + b);
  return { name, type, parameters, shape: weight.join(" × "), repeats: 1, children: [], tensors };
}

function parent(name, type, children, repeats = 1) {
  const parameters = children.reduce((sum, child) => sum + child.parameters * child.repeats, 0);
  return { name, type, parameters, shape: "", repeats, children };
}

/** Returns the modules of a LanguageModel. */
function makeModel(vocab, width, layers) {
  const norm = (name) => leaf(name, "LayerNorm", [width], [width]);
  const linear = (name, out, inner) => leaf(name, "Linear", [out, inner], [out]);
  const block = [
    parent("attention", "MultiheadAttention", [
      linear("qkv", 3 * width, width),
      linear("out", width, width),
    ]),
    norm("norm1"),
    parent("feed_forward", "FeedForward", [
      linear("up", 4 * width, width),
      linear("down", width, 4 * width),
      parent("dropout", "Dropout", []),
    ]),
    norm("norm2"),
  ];
  return parent("language_model", "LanguageModel", [
    parent("embedding", "TokenEmbedding", [
      leaf("token", "Embedding", [vocab, width]),
      leaf("position", "Embedding", [32, width]),
      parent("dropout", "Dropout", []),
    ]),
    parent("decoder", "TransformerEncoder", [
      parent("blocks", "ModuleList", [
        parent(`0 to ${layers - 1}`, "TransformerBlock", block, layers),
      ]),
      norm("norm"),
    ]),
  ]);
}

const letters = [..."abcdefghijklmnopqrstuvwxyz=."];

/** Returns the data of a run of the task sort with everything. */
export function usual() {
  const text = [..."tiujwhq=hijqtuw."];
  const steps = range(50, 300, 50);
  const output = {
    50: "hhhhhhh.",
    100: "hijtttt.",
    150: "hijqttw.",
    200: "hijqtww.",
    250: "hijqtuw.",
    300: "hijqtuw.",
  };
  return {
    run: {
      name: "sort",
      run_id: "7d1f0c9a",
      task: "sort",
      recipe: "sort",
      state: "finished",
      created: "2026-11-25T23:14:56Z",
      version: "0.1.0",
      command: "attend train --task sort --max-steps 300 --out 'runs/my run'",
      os: "Debian GNU/Linux 12",
      cpu: "x86-64, AVX2",
      num_cpus: 2,
      seconds: 5025,
      parameters: 153920,
      steps: 300,
      best_step: 300,
      recipe_toml: 'task = "sort"\n\n[model]\nnum_layers = 3\nnum_heads = 4\nembed_dim = 64\n',
    },
    ...makeMetrics(range(10, 300, 10), steps),
    samples: steps.map((step) => ({
      step,
      samples: [
        {
          input: "tiujwhq=",
          output: output[step],
          expected: "hijqtuw.",
          correct: output[step] === "hijqtuw.",
        },
        { input: "vy=", output: "vy.", expected: "vy.", correct: true },
        {
          input: "wsorppprqhvz=",
          output: "hopppppppppqr",
          expected: "hopppqrrsvwz.",
          correct: false,
        },
      ],
    })),
    attention: [
      makeAttention(text, text, { layers: 3, heads: 4, causal: true, generated_from: 8 }),
      makeAttention([..."vy=vy."], [..."vy=vy."], {
        layers: 3,
        heads: 4,
        causal: true,
        generated_from: 3,
        sample: 1,
        seed: 7,
      }),
    ],
    embeddings: makeEmbeddings(letters, [0, ...steps]),
    model: makeModel(28, 64, 3),
  };
}

/** Returns the data of an encoder-decoder with cross-attention, 6 layers and 8 heads. */
export function translation() {
  const source = ["the", "small", "red", "house", "stands", "near", "the", "river", "</s>"];
  const target = ["<s>", "la", "petite", "maison", "rouge", "est", "près", "du", "fleuve", "</s>"];
  const size = { layers: 6, heads: 8 };
  const samples = [
    {
      step: 300,
      samples: [
        {
          input: source.join(" "),
          output: "la petite maison est du fleuve",
          expected: "la petite maison rouge est près du fleuve",
          correct: false,
        },
      ],
    },
  ];
  return {
    ...usual(),
    samples,
    attention: [
      makeAttention(source, source, { ...size, title: "encoder self-attention" }),
      makeAttention(target, target, {
        ...size,
        title: "decoder self-attention",
        causal: true,
        generated_from: 1,
        seed: 4,
      }),
      makeAttention(target, source, {
        ...size,
        title: "cross-attention",
        generated_from: 1,
        seed: 5,
      }),
    ],
  };
}

/** Returns the data of a run of 100,000 steps with a vocabulary of 50,257 tokens, as much as a report
 *  keeps: 5,000 rows of metrics, samples of 30 evaluations, 1,000 tokens at 50 steps, an input of
 *  1,000 tokens in blocks of 8. */
export function large() {
  const tokens = range(0, 999, 1).map((i) => `token${i}`);
  const blocks = range(0, 124, 1).map((i) =>
    range(8 * i, 8 * i + 7, 1)
      .map((at) => ["the ", "cat ", "sat ", "on ", "it"][at % 5])
      .join(""),
  );
  const steps = range(0, 4900, 100);
  return {
    ...usual(),
    ...makeMetrics(range(20, 100000, 20), range(20, 100000, 20)),
    samples: range(1000, 30000, 1000).map((step) => ({
      step,
      samples: usual().samples[0].samples,
    })),
    notes: ["The report has 5,000 of 100,000 rows of the metrics."],
    embeddings: { ...makeEmbeddings(tokens, steps), vocab_size: 50257 },
    attention: [
      makeAttention(blocks, blocks, {
        layers: 12,
        heads: 12,
        block: 8,
        causal: true,
        largest: [
          [0, 0, 999, 0, 0.87],
          [0, 0, 500, 17, 0.61],
          [3, 1, 4, 4, 0.99],
        ],
      }),
    ],
  };
}

/** Strings that would change the page if they were read as HTML, or its layout. */
export const HOSTILE = [
  "<script>window.hacked = true</script>",
  "</script><script>window.hacked = true</script>",
  "<!--",
  "-->",
  "<!--data-->",
  "<img src=x onerror='window.hacked = true'>",
  "\"'&amp;",
  "$&$1",
  "מילה בעברית",
  "\u202eevil",
  "W".repeat(400),
  "",
  " ",
  "\n",
  "\t",
  "🦜",
  "constructor",
];

/** Returns the data of a run whose strings are HOSTILE. */
export function hostile() {
  const data = usual();
  const all = HOSTILE.join("");
  return {
    ...data,
    run: {
      ...data.run,
      name: HOSTILE[0],
      recipe: HOSTILE[1],
      os: all,
      cpu: HOSTILE[10],
      command: all,
      recipe_toml: all,
    },
    samples: [
      {
        step: 300,
        samples: HOSTILE.map((text) => ({
          input: text,
          output: all,
          expected: text,
          correct: false,
        })),
      },
    ],
    attention: [
      makeAttention(HOSTILE, HOSTILE, { causal: true, generated_from: 9, title: HOSTILE[2] }),
    ],
    embeddings: makeEmbeddings(HOSTILE, [0, 300]),
    model: { ...data.model, name: HOSTILE[10], type: HOSTILE[0] },
  };
}

/** Returns the data of a run that stopped early: one row, no accuracy, no evaluation, nothing else.
 *  */
export function short() {
  return {
    run: {
      name: "short",
      state: "unfinished",
      task: "text",
      command: "",
      parameters: 1000,
      steps: 10,
    },
    training: {
      step: [10],
      train_loss: [2.5],
      train_accuracy: [null],
      lr: [0],
      grad_norm: [1.5],
      tokens_per_second: [null],
      seconds: [1],
    },
    evaluations: { step: [], val_loss: [], val_accuracy: [] },
    samples: [],
    attention: [],
  };
}

/** Returns the data of a run whose attention has the steps of the generation. */
export function generation() {
  const data = usual();
  const draw = random(6);
  for (const entry of data.attention) {
    entry.predictions = entry.rows.slice(entry.generated_from).map((token) => {
      const probability = 0.5 + draw() / 2;
      const others = letters.filter((letter) => letter !== token).slice(0, 4);
      return {
        probability,
        top: [[token, probability], ...others.map((other, i) => [other, 0.1 / (i + 1)])],
      };
    });
  }
  return data;
}

/** Returns the data of a comparison of `count` runs. */
export function comparison(count = 3) {
  const labels = Array.from({ length: count }, (_, i) =>
    i === 1 ? HOSTILE[0] : `${String.fromCharCode(65 + i)} lr=${i + 1}e-3`,
  );
  return {
    title: `Comparison of ${count} runs`,
    notes: [],
    comparison: labels.map((label, i) => ({
      label,
      ...makeMetrics(range(10, 300 - 40 * (i % 3), 10), range(50, 300 - 40 * (i % 3), 50), 3 + i),
    })),
  };
}

const manyRuns = () => comparison(20);

/** Returns the data of the page of an explanation. */
export function explained() {
  return makeExplanations(["the@1", "boat", "drifted", "to", "the@5", "bank"]);
}

/** Returns the data of an explanation whose tokens are HOSTILE. */
function explainedHostile() {
  const data = makeExplanations([...new Set(HOSTILE)]);
  data.explanation.title = HOSTILE[0];
  return data;
}

export const FIXTURES = {
  usual,
  translation,
  generation,
  large,
  hostile,
  short,
  comparison,
  manyRuns,
  explained,
  explainedHostile,
};

const SECTIONS = {
  runs: "Runs",
  comparison: "Curves",
  curves: "Curves",
  attention: "Attention",
  embeddings: "Token embeddings",
  samples: "Samples",
  model: "Model",
  run: "Run",
  explanation: "Steps",
};

/** Returns a small table as the command writes it. */
const table = (caption) =>
  `<table><caption>${caption}</caption>\n<tbody>\n` +
  `<tr><th scope="row">wide</th><td>${"W".repeat(400)}</td></tr>\n</tbody></table>\n`;

/** Returns the title and the sections of a page, each with a small table instead of its data. */
function content(data) {
  const has = {
    ...data,
    curves: data.training,
    runs: data.comparison,
    attention: data.attention?.length,
    samples: data.samples?.length,
  };
  const title = data.run?.name ?? data.explanation?.title ?? data.title;
  const sections = Object.entries(SECTIONS).filter(([id]) => has[id]);
  const body = (id) =>
    id === "runs" ? `${table("Options")}${table("Results")}<p>Note.</p>\n` : table(SECTIONS[id]);
  return (
    `<h1>${title.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</h1>\n` +
    sections
      .map(([id, title]) => `<section id="${id}"><h2>${title}</h2>\n${body(id)}</section>\n`)
      .join("")
  );
}

/** Returns the page of a run. */
export function page(data) {
  const values = {
    "<!--content-->": content(data),
    "<!--data-->": JSON.stringify(data).replaceAll("<", "\\u003c"),
  };
  return template.replace(/<!--(content|data)-->/g, (marker) => values[marker]);
}
