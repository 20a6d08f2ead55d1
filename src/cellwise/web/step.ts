// One step of an automaton on a CPU, four numbers at a time: the inner loops of page/engine/cpu.js.
//
// Compiled to page/engine/step.wasm by tools/build_web.py. Memory is laid out by the caller; every pointer
// is a byte address, every array holds float32 or int32. Rows of states are a multiple of four numbers wide.

/** z[i, m * width + d] = sum over n of kernels[m, n] * state[around[cells[i], n], d]. */
export function perceiveByKernels(
  state: usize, around: usize, kernels: usize, cells: usize, count: i32, width: i32, heads: i32, z: usize
): void {
  for (let i = 0; i < count; i++) {
    const near = around + <usize>(load<i32>(cells + (<usize>i << 2)) * 36);
    for (let d = 0; d < width; d += 4) {
      const at = state + (<usize>d << 2);
      const n0 = neighbour(at, near, 0, width), n1 = neighbour(at, near, 1, width);
      const n2 = neighbour(at, near, 2, width), n3 = neighbour(at, near, 3, width);
      const n4 = neighbour(at, near, 4, width), n5 = neighbour(at, near, 5, width);
      const n6 = neighbour(at, near, 6, width), n7 = neighbour(at, near, 7, width);
      const n8 = neighbour(at, near, 8, width);
      for (let m = 0; m < heads; m++) {
        const k = kernels + <usize>(m * 36);
        let sum = f32x4.mul(v128.load32_splat(k), n0);
        sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(k, 4), n1));
        sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(k, 8), n2));
        sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(k, 12), n3));
        sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(k, 16), n4));
        sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(k, 20), n5));
        sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(k, 24), n6));
        sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(k, 28), n7));
        sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(k, 32), n8));
        v128.store(z + (<usize>((i * heads + m) * width + d) << 2), sum);
      }
    }
  }
}

// @ts-ignore: decorator
@inline
function neighbour(at: usize, near: usize, n: i32, width: i32): v128 {
  return v128.load(at + (<usize>(load<i32>(near + (<usize>n << 2)) * width) << 2));
}

/** The same where each head weighs its own part of the projected neighbours; `stride` is 0 if all places share. */
export function perceiveByAttention(
  projected: usize, around: usize, attention: usize, stride: i32, cells: usize, count: i32, width: i32,
  heads: i32, z: usize
): void {
  const part = width / heads;
  for (let i = 0; i < count; i++) {
    const cell = load<i32>(cells + (<usize>i << 2));
    const near = around + <usize>(cell * 36);
    for (let m = 0; m < heads; m++) {
      const weights = attention + (<usize>(cell * stride + m * 9) << 2);
      for (let d = m * part; d < (m + 1) * part; d++) {
        let sum: f32 = 0;
        for (let n = 0; n < 9; n++) {
          const row = load<i32>(near + (<usize>n << 2));
          sum += load<f32>(weights + (<usize>n << 2)) * load<f32>(projected + (<usize>(row * width + d) << 2));
        }
        store<f32>(z + (<usize>(i * width + d) << 2), sum);
      }
    }
  }
}

/**
 * out = rows @ matrix + bias, and nothing below `least`. The matrix comes in panels of eight columns,
 * panel after panel, each with its rows in order; `columns` is a multiple of eight.
 */
export function product(
  rows: usize, count: i32, depth: i32, panels: usize, bias: usize, columns: i32, least: f32, out: usize
): void {
  const floor = f32x4.splat(least);
  const row = <usize>depth << 2;
  const wide = <usize>columns << 2;
  for (let column = 0; column < columns; column += 8) {
    const panel = panels + <usize>(column * depth) * 4;
    const left = v128.load(bias + (<usize>column << 2)), right = v128.load(bias + (<usize>column << 2), 16);
    let from = rows, to = out + (<usize>column << 2), i = 0;
    for (; i + 4 <= count; i += 4) {
      let a0 = left, a1 = right, b0 = left, b1 = right, c0 = left, c1 = right, d0 = left, d1 = right;
      let a = from, b = from + row, c = b + row, d = c + row, p = panel;
      for (const end = a + row; a < end; a += 4, b += 4, c += 4, d += 4, p += 32) {
        const p0 = v128.load(p), p1 = v128.load(p, 16);
        let x = v128.load32_splat(a);
        a0 = f32x4.add(a0, f32x4.mul(x, p0)); a1 = f32x4.add(a1, f32x4.mul(x, p1));
        x = v128.load32_splat(b);
        b0 = f32x4.add(b0, f32x4.mul(x, p0)); b1 = f32x4.add(b1, f32x4.mul(x, p1));
        x = v128.load32_splat(c);
        c0 = f32x4.add(c0, f32x4.mul(x, p0)); c1 = f32x4.add(c1, f32x4.mul(x, p1));
        x = v128.load32_splat(d);
        d0 = f32x4.add(d0, f32x4.mul(x, p0)); d1 = f32x4.add(d1, f32x4.mul(x, p1));
      }
      v128.store(to, f32x4.max(a0, floor)); v128.store(to, f32x4.max(a1, floor), 16); to += wide;
      v128.store(to, f32x4.max(b0, floor)); v128.store(to, f32x4.max(b1, floor), 16); to += wide;
      v128.store(to, f32x4.max(c0, floor)); v128.store(to, f32x4.max(c1, floor), 16); to += wide;
      v128.store(to, f32x4.max(d0, floor)); v128.store(to, f32x4.max(d1, floor), 16); to += wide;
      from += row << 2;
    }
    for (; i < count; i++) {
      let a0 = left, a1 = right, a = from, p = panel;
      for (const end = a + row; a < end; a += 4, p += 32) {
        const x = v128.load32_splat(a);
        a0 = f32x4.add(a0, f32x4.mul(x, v128.load(p)));
        a1 = f32x4.add(a1, f32x4.mul(x, v128.load(p, 16)));
      }
      v128.store(to, f32x4.max(a0, floor)); v128.store(to, f32x4.max(a1, floor), 16);
      to += wide;
      from += row;
    }
  }
}
