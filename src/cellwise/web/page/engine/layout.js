// What the channels of a cell mean, as in automaton/layout.py: puzzle to state and state to answer.

import { START, atCell, atStep, normals } from "./bits.js";

const EPS = 1e-6;

/** Writes the first state of the given cells (all of them if none are named) into `state`. */
export function start(model, state, inputs, given, key, cells = null) {
  const { channels } = model.step, { read, spread } = model.layout;
  const tokens = model.weights["layout.tokens"], at = atStep(key, START, 0);
  const scale = Math.fround(spread), count = cells ? cells.length : inputs.length;
  for (let i = 0; i < count; i++) {
    const cell = cells ? cells[i] : i, row = state.subarray(cell * channels, (cell + 1) * channels);
    normals(atCell(at, cell), row);
    for (let c = 0; c < channels; c++) row[c] *= scale;
    if (given[cell]) row.set(tokens.subarray(inputs[cell] * read, (inputs[cell] + 1) * read));
    normalise(model.step, row);
  }
}

/** Brings every unit of some rows of states to length one; a unit of zeros stays zero. */
export function normalise(step, rows) {
  if (step.unit === null) return;
  const { channels, unit, first_unit: first } = step;
  for (let row = 0; row < rows.length; row += channels) {
    for (let from = row + first; from < row + channels; from += unit) {
      let square = 0;
      for (let c = from; c < from + unit; c++) square += rows[c] * rows[c];
      const by = step.eps_inside ? 1 / Math.sqrt(square + EPS) : 1 / (Math.sqrt(square) + EPS);
      for (let c = from; c < from + unit; c++) rows[c] *= by;
    }
  }
}

/** Reads answers: what a cell says, how sure it is, and what it would say otherwise. */
export class Reader {
  constructor(model) {
    const { tokens, read, write, head } = model.layout;
    this.layout = model.layout;
    this.channels = model.step.channels;
    this.table = new Float64Array(tokens * write);
    this.fit = new Float64Array(tokens);
    const vectors = model.weights["layout.tokens"];
    for (let token = 0; token < tokens; token++) {
      const vector = vectors.subarray(token * read, token * read + write);
      const length = head === "cosine" ? Math.hypot(...vector) + EPS : 1;
      for (let c = 0; c < write; c++) this.table[token * write + c] = vector[c] / length;
    }
  }

  /** How well each token fits a cell: in (0, 1] by distance, in [-1, 1] by cosine; held in `this.fit`. */
  score(state, cell) {
    const { tokens, write, write_first: first, head } = this.layout, { table, fit } = this;
    const at = cell * this.channels + first;
    let length = 0;
    if (head === "cosine") {
      for (let c = 0; c < write; c++) length += state[at + c] ** 2;
      length = Math.sqrt(length) + EPS;
    }
    for (let token = 0; token < tokens; token++) {
      let sum = 0;
      for (let c = 0; c < write; c++) {
        const wanted = table[token * write + c];
        sum += head === "cosine" ? state[at + c] * wanted : (state[at + c] - wanted) ** 2;
      }
      fit[token] = head === "cosine" ? sum / length : 1 / (1 + Math.sqrt(sum));
    }
    return fit;
  }

  /** The token a cell says; ties go to the lowest. Its confidence is then `this.fit[token]`. */
  says(state, cell) {
    const fit = this.score(state, cell);
    let best = 0;
    for (let token = 1; token < fit.length; token++) if (fit[token] > fit[best]) best = token;
    return best;
  }

  /** Fills `grid` and `sure`; `second`, if given, gets the runner-up of each cell. */
  read(state, grid, sure, second = null) {
    for (let cell = 0; cell < grid.length; cell++) {
      const best = this.says(state, cell);
      grid[cell] = best;
      sure[cell] = this.fit[best];
      if (second) {
        let next = best ? 0 : 1;
        for (let t = 0; t < this.fit.length; t++) if (t !== best && this.fit[t] > this.fit[next]) next = t;
        second[cell] = next;
      }
    }
  }
}
