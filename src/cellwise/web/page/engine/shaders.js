// The step on a GPU, in WGSL: the passes of gpu.js. The random bits are those of bits.js.

/** rows @ matrix + bias, and nothing below `least`; in tiles of 16 × 16 numbers. */
export const PRODUCT = `
struct Shape { rows: u32, depth: u32, columns: u32, least: f32 }
@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read> rows: array<f32>;
@group(0) @binding(2) var<storage, read> matrix: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> result: array<f32>;
var<workgroup> left: array<array<f32, 16>, 16>;
var<workgroup> right: array<array<f32, 16>, 16>;

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u) {
  let row = group.y * 16u + local.y;
  let column = group.x * 16u + local.x;
  var sum = 0.0;
  for (var k = 0u; k < shape.depth; k += 16u) {
    let across = k + local.x;
    let down = k + local.y;
    left[local.y][local.x] = select(0.0, rows[row * shape.depth + across], row < shape.rows && across < shape.depth);
    right[local.y][local.x] = select(0.0, matrix[down * shape.columns + column], down < shape.depth && column < shape.columns);
    workgroupBarrier();
    for (var i = 0u; i < 16u; i++) { sum += left[local.y][i] * right[i][local.x]; }
    workgroupBarrier();
  }
  if (row < shape.rows && column < shape.columns) {
    result[row * shape.columns + column] = max(sum + bias[column], shape.least);
  }
}`;

/** What each listed cell perceives; one invocation for each of its numbers. */
export function perceive({ perception, channels, heads }, perceived, placed) {
  const kernels = perception === "kernels";
  const head = kernels ? `number / ${channels}u` : `number / ${channels / heads}u`;
  const place = placed ? `cell * ${9 * heads}u + ` : "";
  return `
@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read> weights: array<f32>;
@group(0) @binding(2) var<storage, read> around: array<u32>;
@group(0) @binding(3) var<storage, read> cells: array<u32>;
@group(0) @binding(4) var<storage, read_write> z: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.y * groups.x * 64u + id.x;
  if (i >= arrayLength(&z)) { return; }
  let cell = cells[i / ${perceived}u];
  let number = i % ${perceived}u;
  let weight = ${place}(${head}) * 9u;
  var sum = 0.0;
  for (var n = 0u; n < 9u; n++) {
    sum += weights[weight + n] * source[around[cell * 9u + n] * ${channels}u + number % ${channels}u];
  }
  z[i] = sum;
}`;
}

/** Adds the changes of the cells that fire, and keeps units at length one; one invocation for each cell. */
export function advance({ channels, frozen, unit, first_unit: first, tangent, eps_inside: inside }) {
  const units = (body) => (unit === null ? "" : `
  for (var begin = at + ${first}u; begin < at + ${channels}u; begin += ${unit}u) {${body}
  }`);
  const along = `
    if (fires) {
      let shift = begin - at;
      var along = 0.0;
      for (var c = 0u; c < ${unit}u; c++) {
        along += select(change[row + shift + c], 0.0, given && shift + c < ${frozen}u) * state[begin + c];
      }
      for (var c = 0u; c < ${unit}u; c++) { spare[shift + c] = -along * state[begin + c]; }
    }`;
  const normal = `
    var square = 0.0;
    for (var c = begin; c < begin + ${unit}u; c++) { square += state[c] * state[c]; }
    let by = ${inside ? "1.0 / sqrt(square + 1e-6)" : "1.0 / (sqrt(square) + 1e-6)"};
    for (var c = begin; c < begin + ${unit}u; c++) { state[c] *= by; }`;
  return `
struct Step { key: u32, limit: u32 }
@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read> change: array<f32>;
@group(0) @binding(2) var<storage, read> slot: array<i32>;
@group(0) @binding(3) var<storage, read> isGiven: array<u32>;
@group(0) @binding(4) var<storage, read_write> state: array<f32>;
@group(0) @binding(5) var<storage, read_write> activity: array<f32>;
@group(0) @binding(6) var<storage, read_write> fired: atomic<u32>;

fn mix(given: u32) -> u32 {
  var word = given;
  word ^= word >> 16u;
  word *= 0x7feb352du;
  word ^= word >> 15u;
  word *= 0x846ca68bu;
  return word ^ (word >> 16u);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let cell = id.x;
  if (cell >= arrayLength(&slot)) { return; }
  let at = cell * ${channels}u;
  let row = u32(max(slot[cell], 0)) * ${channels}u;
  let given = isGiven[cell] == 1u;
  let fires = slot[cell] >= 0 && (mix(step.key + cell * 0x9e3779b9u) >> 8u) < step.limit;
  var most = 0.0;
  var spare: array<f32, ${channels}>;${unit !== null && tangent ? units(along) : ""}
  if (fires) {
    atomicAdd(&fired, 1u);
    for (var c = 0u; c < ${channels}u; c++) {
      let d = select(change[row + c], 0.0, given && c < ${frozen}u) + spare[c];
      state[at + c] += d;
      most = max(most, abs(d));
    }
  }
  activity[cell] = most;${units(normal)}
}`;
}
