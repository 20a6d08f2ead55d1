// One trajectory of an automaton on a board that may change while it thinks.

import { NOISE, NOISE_WHEN, NOISE_WHERE, atCell, atStep, normals, threshold, trajectoryKey } from "./bits.js";
import { Reader, normalise, start } from "./layout.js";

const SURE = 0.95; // A cell this sure of itself is dormant with adaptive firing:
const DORMANT = 0.5; // it fires half as often.
const KICKED_BOARDS = 0.1; // The published chance that a step is followed by kicks,
const KICKED_CELLS = { maze: 0.3, "directed-maze": 0.3, sudoku: 0.2 }; // and then the share of cells.
const STILL = 1e-5; // A thought in which no number changes by more
const STILL_FOR = 24; // for so many steps is at rest.

export const DEFAULTS = { rate: 0.8, adaptive: false, noise: 0 };

export class Thought {
  constructor(model, board, seed, trial) {
    const cells = board.inputs.length, { channels } = model.step;
    Object.assign(this, { model, seed, trial, height: board.height, width: board.width });
    this.key = trajectoryKey(seed, 0, trial);
    this.inputs = board.inputs.slice();
    this.given = givenCells(model, this.inputs);
    this.state = new Float32Array(cells * channels);
    this.activity = new Float32Array(cells);
    this.grid = new Uint8Array(cells);
    this.second = model.puzzle === "sudoku" ? new Uint8Array(cells) : null;
    this.sure = new Float32Array(cells);
    this.reader = new Reader(model);
    this.steps = this.updates = this.quiet = 0;
    start(model, this.state, this.inputs, this.given, this.key);
    this.read();
  }

  /** The number of cells that can change. */
  get open() {
    return this.given.reduce((sum, given) => sum + (given ? 0 : 1), 0);
  }

  /** Whether nothing moves any more and nothing will, unless someone interferes. */
  get resting() {
    return this.quiet >= STILL_FOR;
  }

  /** Takes `count` steps on a stepper, which may take several at a time. */
  async advance(stepper, count, settings) {
    while (count > 0) {
      const together = Math.min(count, settings.adaptive ? 1 : stepper.most, this.untilKick(settings.noise));
      if (settings.adaptive) this.read();
      const rates = settings.adaptive ? this.rates(settings.rate) : settings.rate;
      this.updates += await stepper.run(this, together, rates);
      this.steps += together;
      this.kick(settings.noise);
      const moved = this.activity.reduce((most, change) => Math.max(most, change), 0);
      this.quiet = moved > STILL || settings.noise > 0 ? 0 : this.quiet + together;
      count -= together;
    }
    this.stale = true;
  }

  /** The chance of each cell to fire in adaptive firing. */
  rates(rate) {
    return Float32Array.from(this.sure, (sure) => (sure > SURE ? rate * DORMANT : rate));
  }

  /** How many steps there are up to the next that is followed by kicks. */
  untilKick(size) {
    let count = 1;
    while (size > 0 && !this.isKicked(this.steps + count - 1)) count++;
    return size > 0 ? count : Infinity;
  }

  isKicked(step) {
    return atStep(this.key, NOISE_WHEN, step) >>> 8 < threshold(KICKED_BOARDS);
  }

  /** Normal noise of this size on few of the cells, if the step before calls for it. */
  kick(size) {
    const step = this.steps - 1;
    if (!size || !this.isKicked(step)) return;
    const { channels, frozen } = this.model.step;
    const where = atStep(this.key, NOISE_WHERE, step), how = atStep(this.key, NOISE, step);
    const limit = threshold(KICKED_CELLS[this.model.puzzle]), by = new Float32Array(channels), much = Math.fround(size);
    for (let cell = 0; cell < this.given.length; cell++) {
      if (atCell(where, cell) >>> 8 >= limit) continue;
      normals(atCell(how, cell), by);
      for (let c = this.given[cell] ? frozen : 0; c < channels; c++) this.state[cell * channels + c] += much * by[c];
    }
  }

  /** Fills `grid` and `sure` from the state; after steps that is left to who looks at them. */
  read() {
    this.stale = false;
    this.reader.read(this.state, this.grid, this.sure, this.second);
  }

  /** Puts tokens on the board, in mid-thought: a given cell holds its token's vector, all else stays as it is. */
  put(changes) {
    const { channels } = this.model.step, { read } = this.model.layout;
    const tokens = this.model.weights["layout.tokens"], freed = [];
    for (const [cell, token] of changes) {
      const before = this.given[cell];
      this.inputs[cell] = token;
      this.given[cell] = isGiven(this.model, token) ? 1 : 0;
      const row = this.state.subarray(cell * channels, (cell + 1) * channels);
      if (this.given[cell]) {
        row.set(tokens.subarray(token * read, (token + 1) * read));
        normalise(this.model.step, row);
      } else if (before) freed.push(cell);
    }
    // A cell that was a wall or a clue forgets it: it starts as noise, as all cells do.
    start(this.model, this.state, this.inputs, this.given, this.key, freed);
    this.quiet = 0;
    this.read();
  }

  /** Wipes what free cells hold: the damage of training, which is zeros (mazes) or ones (units). */
  wipe(cells) {
    const { channels, frozen, unit } = this.model.step;
    for (const cell of cells) {
      const row = this.state.subarray(cell * channels, (cell + 1) * channels);
      row.fill(unit === null ? 0 : 1, this.given[cell] ? frozen : 0);
      normalise(this.model.step, row);
    }
    this.quiet = 0;
    this.read();
  }

  /** The mean confidence of all cells, by which trials are compared. */
  get confidence() {
    return this.sure.reduce((sum, sure) => sum + sure, 0) / this.sure.length;
  }

  /** What it takes to come back to this moment. */
  snapshot() {
    const { steps, updates, quiet } = this;
    return { steps, updates, quiet, inputs: this.inputs.slice(), state: this.state.slice() };
  }

  /** Comes back to a moment. */
  restore(moment) {
    Object.assign(this, { steps: moment.steps, updates: moment.updates, quiet: moment.quiet });
    this.inputs.set(moment.inputs);
    this.given.set(givenCells(this.model, this.inputs));
    this.state.set(moment.state);
    this.activity.fill(0);
    this.read();
  }
}

function isGiven(model, token) {
  return model.puzzle === "sudoku" ? token > 0 : token > 1;
}

function givenCells(model, inputs) {
  return Uint8Array.from(inputs, (token) => (isGiven(model, token) ? 1 : 0));
}
