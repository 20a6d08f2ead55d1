// Which cells are neighbours, and what lies beyond the edge.

/** The raster index of each of the nine neighbours of every cell; `height * width` stands for beyond the edge. */
export function neighbourTable(step, height, width) {
  const cells = height * width, table = new Int32Array(9 * cells), wraps = step.padding === "wrap";
  for (let cell = 0, at = 0; cell < cells; cell++) {
    const y = Math.floor(cell / width), x = cell % width;
    for (let dy = -1; dy <= 1; dy++) {
      for (let dx = -1; dx <= 1; dx++, at++) {
        const ny = y + dy, nx = x + dx, inside = ny >= 0 && ny < height && nx >= 0 && nx < width;
        const wrapped = ((ny + height) % height) * width + ((nx + width) % width);
        table[at] = inside || wraps ? wrapped : cells;
      }
    }
  }
  return table;
}

/** The state of the imagined cells beyond an edge that does not wrap. */
export function beyondEdge(model) {
  const { channels, padding, padding_token: token } = model.step;
  if (padding !== "token") return new Float32Array(channels);
  return model.weights["layout.tokens"].subarray(token * channels, (token + 1) * channels);
}
