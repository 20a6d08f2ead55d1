// Steps on a GPU by WebGPU: the same plan and the same bits as on a CPU, many steps at a time.

import { FIRE, atStep, threshold } from "./bits.js";
import { beyondEdge, neighbourTable } from "./plan.js";
import { PRODUCT, advance, perceive } from "./shaders.js";

const MOST = 16; // Steps in one submission.
const ALIGNED = 256; // Bytes between the uniforms of two steps.

export class Gpu {
  /** A stepper, or an Error that says why there is none. A software adapter is refused if `real` is asked for. */
  static async make(model, real, onLost) {
    if (!navigator.gpu) throw new Error("this browser offers no WebGPU");
    const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw new Error("no GPU was found");
    if (real && (adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter)) {
      throw new Error("the only GPU here is emulated, which is slower");
    }
    const device = await adapter.requestDevice();
    device.pushErrorScope("validation");
    const gpu = new Gpu(model, device, adapter.info?.description || adapter.info?.vendor, onLost);
    const problem = await device.popErrorScope();
    if (!problem) return gpu;
    gpu.free();
    throw new Error(`the GPU cannot run this rule (${problem.message.split("\n")[0]})`);
  }

  constructor(model, device, about, onLost) {
    Object.assign(this, { model, device, freed: false, most: MOST });
    this.name = about ? `GPU (${about})` : "GPU";
    device.lost.then(({ message }) => this.freed || onLost(message || "the GPU went away"));
    const { step, weights } = model, { channels: c, hidden } = step;
    this.product = this.pipeline(PRODUCT);
    this.perceive = this.pipeline(perceive(step, model.perceived, model.placed));
    this.advance = this.pipeline(advance(step));
    this.perception = this.filled(weights[step.perception === "kernels" ? "perceive.kernels" : "perceive.attention"]);
    this.wIn = this.filled(weights["update.w_in"]);
    this.bIn = this.filled(weights["update.b_in"]);
    this.wOut = this.filled(transposed(weights["update.w_out"], c, hidden));
    this.bOut = this.filled(weights["update.b_out"]);
    if (step.perception === "attention") {
      this.value = this.filled(transposed(weights["perceive.value"], c, c));
      this.noBias = this.filled(new Float32Array(c));
    }
    this.clock = device.createBuffer({ size: MOST * ALIGNED, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
  }

  /** Gives everything back. */
  free() {
    this.freed = true;
    this.device.destroy();
  }

  /** Loses the GPU on purpose, for tests. */
  lose() {
    this.device.destroy();
  }

  /** The next `count` steps of a thought; see `Cpu.run`. */
  async run(thought, count, rate) {
    const { device } = this;
    this.fit(thought);
    device.queue.writeBuffer(this.state, 0, thought.state);
    device.queue.writeBuffer(this.fired, 0, new Uint32Array(1));
    for (let i = 0; i < count; i++) {
      const uniforms = [atStep(thought.key, FIRE, thought.steps + i), threshold(rate)];
      device.queue.writeBuffer(this.clock, i * ALIGNED, new Uint32Array(uniforms));
    }
    const commands = device.createCommandEncoder();
    for (let i = 0; i < count; i++) this.encode(commands, i);
    const cells = thought.given.length, bytes = thought.state.byteLength;
    commands.copyBufferToBuffer(this.state, 0, this.back, 0, bytes);
    commands.copyBufferToBuffer(this.activity, 0, this.back, bytes, 4 * cells);
    commands.copyBufferToBuffer(this.fired, 0, this.back, bytes + 4 * cells, 4);
    device.queue.submit([commands.finish()]);
    await this.back.mapAsync(GPUMapMode.READ);
    const copy = this.back.getMappedRange().slice(0);
    this.back.unmap();
    thought.state.set(new Float32Array(copy, 0, thought.state.length));
    thought.activity.set(new Float32Array(copy, bytes, cells));
    return new Uint32Array(copy, bytes + 4 * cells, 1)[0];
  }

  encode(commands, i) {
    const pass = commands.beginComputePass();
    const dispatch = (pipeline, bindings, x, y = 1) => {
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, bindings);
      pass.dispatchWorkgroups(x, y);
    };
    const { channels, hidden } = this.model.step, rows = tiles(this.count);
    if (this.project) dispatch(this.product, this.project, tiles(channels), tiles(this.cells + 1));
    const groups = Math.ceil((this.count * this.model.perceived) / 64), across = Math.min(groups, 32768);
    dispatch(this.perceive, this.perceiving, across, Math.ceil(groups / across));
    dispatch(this.product, this.inner, tiles(hidden), rows);
    dispatch(this.product, this.outer, tiles(channels), rows);
    dispatch(this.advance, this.advancing[i], Math.ceil(this.cells / 64));
    pass.end();
  }

  /** Makes buffers for a board; the list of cells changes with its walls. */
  fit({ height, width, given }) {
    const signature = `${height} ${width} ${given.join("")}`;
    if (signature === this.signature) return;
    this.signature = signature;
    this.buffers?.forEach((buffer) => buffer.destroy());
    this.buffers = [];
    const { model } = this, { step } = model, { channels, hidden } = step, cells = height * width;
    const mayChange = step.frozen < channels;
    const list = [...given.keys()].filter((cell) => mayChange || !given[cell]);
    const slot = new Int32Array(cells).fill(-1);
    list.forEach((cell, i) => (slot[cell] = i));
    this.cells = cells;
    this.count = list.length;
    const room = (numbers) => this.kept(this.filled(new Float32Array(Math.max(1, numbers))));
    const state = new Float32Array((cells + 1) * channels);
    state.set(beyondEdge(model), cells * channels);
    this.state = this.kept(this.filled(state));
    this.activity = room(cells);
    this.fired = room(1);
    this.back = this.kept(
      this.device.createBuffer({
        size: 4 * (cells * channels + cells + 1),
        usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
      })
    );
    const around = this.kept(this.filled(neighbourTable(step, height, width)));
    const where = this.kept(this.filled(Uint32Array.from(list.length ? list : [0])));
    const z = room(list.length * model.perceived), inner = room(list.length * hidden);
    const change = room(list.length * channels);
    let source = this.state;
    if (step.perception === "attention") {
      source = room((cells + 1) * channels);
      const shape = this.shape(cells + 1, channels, channels, -3e38);
      this.project = this.bind(this.product, [shape, this.state, this.value, this.noBias, source]);
    }
    this.perceiving = this.bind(this.perceive, [source, this.perception, around, where, z]);
    const one = this.shape(list.length, model.perceived, hidden, 0), two = this.shape(list.length, hidden, channels, -3e38);
    this.inner = this.bind(this.product, [one, z, this.wIn, this.bIn, inner]);
    this.outer = this.bind(this.product, [two, inner, this.wOut, this.bOut, change]);
    const isGiven = this.kept(this.filled(Uint32Array.from(given))), slots = this.kept(this.filled(slot));
    this.advancing = Array.from({ length: MOST }, (_, i) =>
      this.bind(this.advance, [
        { buffer: this.clock, offset: i * ALIGNED, size: 8 }, change, slots, isGiven, this.state, this.activity, this.fired,
      ])
    );
  }

  kept(buffer) {
    this.buffers.push(buffer);
    return buffer;
  }

  shape(rows, depth, columns, least) {
    const numbers = new DataView(new ArrayBuffer(16));
    [rows, depth, columns].forEach((number, i) => numbers.setUint32(4 * i, number, true));
    numbers.setFloat32(12, least, true);
    return this.kept(this.filled(new Uint8Array(numbers.buffer), GPUBufferUsage.UNIFORM));
  }

  filled(numbers, usage = GPUBufferUsage.STORAGE) {
    const buffer = this.device.createBuffer({
      size: numbers.byteLength,
      usage: usage | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
    });
    this.device.queue.writeBuffer(buffer, 0, numbers);
    return buffer;
  }

  pipeline(code) {
    const module = this.device.createShaderModule({ code });
    return this.device.createComputePipeline({ layout: "auto", compute: { module, entryPoint: "main" } });
  }

  bind(pipeline, resources) {
    const entries = resources.map((one, binding) => ({ binding, resource: one.buffer ? one : { buffer: one } }));
    return this.device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  }
}

const tiles = (number) => Math.ceil(number / 16);

function transposed(numbers, rows, columns) {
  const out = new Float32Array(numbers.length);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) out[j * rows + i] = numbers[i * columns + j];
  return out;
}
