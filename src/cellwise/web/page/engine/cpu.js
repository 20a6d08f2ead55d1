// Steps on a CPU: plans and random bits here, the inner loops in step.wasm (see step.ts).

import { FIRE, atCell, atStep, threshold } from "./bits.js";
import { normalise } from "./layout.js";
import { beyondEdge, neighbourTable } from "./plan.js";

const TILE = 64; // Cells updated together, so that their hidden layer stays in the cache.
const PAGE = 65536;

export class Cpu {
  constructor(module, model) {
    this.name = "CPU";
    this.most = 1; // Steps taken at a time: here, many at a time would save nothing.
    this.model = model;
    this.memory = new WebAssembly.Memory({ initial: 4 });
    this.kernels = new WebAssembly.Instance(module, { env: { memory: this.memory } }).exports;
    this.used = 1024;
    const { step, weights } = model;
    this.wide = roundUp(step.channels, 8);
    const hidden = roundUp(step.hidden, 8), perceived = model.perceived;
    this.hidden = hidden;
    if (step.perception === "kernels") this.perception = this.place(weights["perceive.kernels"]);
    else {
      this.perception = this.place(weights["perceive.attention"]);
      this.value = this.panels(step.channels, step.channels, (k, c) => weights["perceive.value"][c * step.channels + k]);
      this.noBias = this.reserve(this.wide);
    }
    const wIn = weights["update.w_in"], wOut = weights["update.w_out"];
    this.wIn = this.panels(perceived, step.hidden, (k, j) => wIn[k * step.hidden + j]);
    this.bIn = this.place(padded(weights["update.b_in"], hidden));
    this.wOut = this.panels(hidden, step.channels, (k, c) => (k < step.hidden ? wOut[c * step.hidden + k] : 0));
    this.bOut = this.place(padded(weights["update.b_out"], this.wide));
    this.z = this.reserve(TILE * perceived);
    this.inner = this.reserve(TILE * hidden);
    this.afterWeights = this.used;
    this.cells = -1;
  }

  /** Room for some numbers; the address is a multiple of 16. */
  reserve(count) {
    const at = this.used;
    this.used = roundUp(at + 4 * count, 16);
    const missing = this.used - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / PAGE));
    return at;
  }

  place(numbers) {
    const at = this.reserve(numbers.length);
    new Float32Array(this.memory.buffer, at, numbers.length).set(numbers);
    return at;
  }

  /** A matrix as panels of eight columns, the last one filled up with zeros. */
  panels(rows, columns, entry) {
    const packed = new Float32Array(rows * roundUp(columns, 8));
    for (let column = 0; column < columns; column++) {
      for (let row = 0; row < rows; row++) {
        packed[(column >> 3) * 8 * rows + row * 8 + (column & 7)] = entry(row, column);
      }
    }
    return this.place(packed);
  }

  /** Lays out memory for boards of another size. */
  fit(height, width) {
    if (this.height === height && this.width === width) return;
    const { step } = this.model, cells = height * width;
    this.used = this.afterWeights;
    [this.height, this.width] = [height, width];
    // One row more than there are cells: what lies beyond the edge.
    this.state = this.reserve((cells + 1) * step.channels);
    this.around = this.reserve(9 * cells);
    this.list = this.reserve(cells + 1);
    this.change = this.reserve(cells * this.wide);
    this.projected = step.perception === "attention" ? this.reserve((cells + 1) * this.wide) : 0;
    new Int32Array(this.memory.buffer, this.around, 9 * cells).set(neighbourTable(step, height, width));
  }

  /**
   * Takes the next `count` steps of a thought. `rates` is the chance of each cell to fire, or one for all.
   * Sets `thought.activity` to the last change of each cell (its largest number); returns how many cells fired.
   */
  run(thought, count, rates) {
    let fired = 0;
    for (let step = thought.steps; step < thought.steps + count; step++) fired += this.step(thought, step, rates);
    return fired;
  }

  step(thought, number, rates) {
    const { model, kernels } = this, { step } = model, { channels } = step;
    const { height, width, state, given, activity } = thought, cells = height * width;
    this.fit(height, width);
    const mirror = new Float32Array(this.memory.buffer, this.state, (cells + 1) * channels);
    mirror.set(state);
    mirror.set(beyondEdge(model), cells * channels);
    const fired = this.whoFires(thought, number, rates);
    const count = fired.length;
    if (step.perception === "attention") {
      kernels.product(this.state, cells + 1, channels, this.value, this.noBias, this.wide, -Infinity, this.projected);
    }
    for (let from = 0; from < count; from += TILE) {
      const size = Math.min(TILE, count - from), list = this.list + 4 * from;
      if (step.perception === "kernels") {
        kernels.perceiveByKernels(this.state, this.around, this.perception, list, size, channels, step.heads, this.z);
      } else {
        const stride = model.placed ? 9 * step.heads : 0;
        kernels.perceiveByAttention(
          this.projected, this.around, this.perception, stride, list, size, channels, step.heads, this.z
        );
      }
      kernels.product(this.z, size, model.perceived, this.wIn, this.bIn, this.hidden, 0, this.inner);
      kernels.product(
        this.inner, size, this.hidden, this.wOut, this.bOut, this.wide, -Infinity, this.change + 4 * from * this.wide
      );
    }
    const change = new Float32Array(this.memory.buffer, this.change, count * this.wide);
    activity.fill(0);
    for (let i = 0; i < count; i++) {
      const cell = fired[i], x = state.subarray(cell * channels, (cell + 1) * channels);
      const d = change.subarray(i * this.wide, i * this.wide + channels);
      if (given[cell]) d.fill(0, 0, step.frozen);
      activity[cell] = add(step, x, d);
    }
    normalise(step, state);
    return count;
  }

  /** The cells that fire in this step, of those that can change at all. */
  whoFires({ key, given, height, width }, step, rates) {
    const list = new Int32Array(this.memory.buffer, this.list, height * width);
    const at = atStep(key, FIRE, step), mayChange = this.model.step.frozen < this.model.step.channels;
    const common = typeof rates === "number" ? threshold(rates) : null;
    let count = 0;
    for (let cell = 0; cell < list.length; cell++) {
      if (given[cell] && !mayChange) continue;
      const limit = common ?? threshold(rates[cell]);
      if (atCell(at, cell) >>> 8 < limit) list[count++] = cell;
    }
    return list.subarray(0, count);
  }
}

/** Adds a change to a cell, without its parts along the units if the rule says so; returns the largest number. */
function add(step, x, d) {
  let most = 0;
  if (step.unit !== null && step.tangent) {
    for (let from = step.first_unit; from < step.channels; from += step.unit) {
      let along = 0;
      for (let c = from; c < from + step.unit; c++) along += d[c] * x[c];
      for (let c = from; c < from + step.unit; c++) d[c] -= along * x[c];
    }
  }
  for (let c = 0; c < x.length; c++) {
    x[c] += d[c];
    most = Math.max(most, Math.abs(d[c]));
  }
  return most;
}

function padded(numbers, length) {
  const out = new Float32Array(length);
  out.set(numbers);
  return out;
}

function roundUp(number, to) {
  return Math.ceil(number / to) * to;
}
