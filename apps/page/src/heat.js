// Heat maps of attention weights on canvas.

import { cssColor } from "./dom.js";

/** Returns the colors of the 256 weights, [256, 3]. Colors change with the square root of the
 *  weight, so that weights spread over many tokens are visible; all maps of a page use the same
 *  colors. */
export function palette() {
  const stops = ["--heat-0", "--heat-1", "--heat-2"]
    .map(cssColor)
    .map((color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)));
  const colors = new Uint8Array(256 * 3);
  for (let value = 0; value < 256; value++) {
    const place = 2 * Math.sqrt(value / 255);
    const stop = Math.min(1, Math.floor(place));
    for (let i = 0; i < 3; i++) {
      colors[3 * value + i] = Math.round(
        stops[stop][i] + (place - stop) * (stops[stop + 1][i] - stops[stop][i]),
      );
    }
  }
  return colors;
}

/** Sets a canvas to a map of rows x columns pixels, one for each weight. */
export function drawMap(canvas, weights, rows, columns, colors) {
  canvas.width = columns;
  canvas.height = rows;
  const image = new ImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    for (let j = 0; j < 3; j++) image.data[4 * i + j] = colors[3 * weights[i] + j];
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}
