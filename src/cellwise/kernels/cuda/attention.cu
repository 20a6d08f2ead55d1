// Many steps of a rule with fixed attention, an MLP and units of length one, in one launch, forward and backward.
//
// A block has a few boards from the first step to the last, so blocks never wait for each other. The cells of its
// boards are rows, TILE of them at a time; the weights are too many to stay on the chip, so one warp streams them
// from L2, a stage at a time, through a ring of STAGES in shared memory, while GROUPS warpgroups compute. One step:
//
//     z       what the rows of a tile perceive: nine neighbours' values, weighed, to shared memory
//     hidden  relu(z · w_in + b_in), CHUNK numbers at a time; they stay in registers, rounded,
//     change  += hidden · w_out, and are the other factor of this product
//     state   change loses its part along the state, is added, units are brought to length one, kicks
//     value   V · state, for the next step
//
// and then a barrier of the block. States are float32, factors bf16, sums float32. States and values live in
// global memory, which is L2 as long as the blocks that run at the same time have few boards.
//
// Tensor cores give a thread numbers 8j + 2t and 8j + 2t + 1 of a row. The columns of all products are weights, so
// they are put in an order in which these are, for j = 0 … 3, the eight numbers from 8t on: a thread has whole
// 16-byte pieces, a quarter of a unit. Rows of weights that meet such columns are put in the same order.
//
// Sizes come as definitions: HEIGHT, WIDTH, CHANNELS, HEADS, HIDDEN, FROZEN, GROUPS, STAGES, STAGE_COLUMNS (of
// CHUNK rows, in a stage), CLUSTER, FIRE_BELOW; with NOISE also NOISE_WHEN_BELOW, NOISE_WHERE_BELOW, NOISE_SIZE,
// NOISE_UNTIL; with KEEP everything that learning needs is kept, and if errors are judged at every step, ANSWER_FIRST
// and ANSWERS are the units that hold the answer.

#include "tiles.cuh"

#ifdef NOISE
// Eight channels of a state, from `channel` on.
__device__ __forceinline__ void kick(float* state, u32 word_of_cell, int channel) {
#pragma unroll 1
  for (int q = 0; q < 8; q += 2) {
    const u32 word = mix(word_of_cell + u32((channel + q) / 2) * GOLDEN);
    const float high = (float(word >> 16) + 0.5f) * 0x1p-16f;
    const float radius = sqrtf(-2.0f * logf(high));
    float sine, cosine;
    sincospif(float(word & 0xFFFFu) * 0x1p-15f, &sine, &cosine);
    state[q] += NOISE_SIZE * (radius * cosine);
    state[q + 1] += NOISE_SIZE * (radius * sine);
  }
}
#endif

constexpr u32 FIRES = 1, GIVEN = 2, GOES_ON = 4, KICKED = 8;

// What is kept is read step by step; else two slots are enough for the values and one for the states.
#ifdef KEEP
#define VALUE_SLOTS steps
#define VALUE_SLOT(t) (t)
#define STATE_SLOTS (steps + 1)
#define STATE_SLOT(t) (t)
#else
#define VALUE_SLOTS 2
#define VALUE_SLOT(t) ((t) & 1)
#define STATE_SLOTS 1
#define STATE_SLOT(t) 0
#endif

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) IN_CLUSTERS steps_forward(
    const int* sizes, const u32* keys, const int* firsts, const int* counts, const unsigned char* given,
    const float4* attention, const char* weights, const float* b_in, const float* b_out, const float* begin,
    float* states, uint4* values
#ifdef KEEP
    , uint4* rounded_states, uint4* perceived, uint4* hidden_all, u32* active, uint4* changes
#endif
) {
  const Shared shared;
  const Boards boards(sizes);
  int steps = 0;  // The most of any board of the cluster.
  for (int i = 0; i < CLUSTER * sizes[1]; i++) {
    const int board = blockIdx.x / CLUSTER * CLUSTER * sizes[1] + i;
    if (board < sizes[0] && counts[board] > steps) steps = counts[board];
  }
  begin_ring(shared);

  if (threadIdx.x >= CREW) {
    registers_down<FEW_REGISTERS>();
    if (threadIdx.x == CREW) {
      Producer producer{shared, weights};
      if (steps > 0) {
        for (int tile = 0; tile < boards.tiles; tile++) producer.stream(ROUND_STAGES, VALUE_STAGES);
      }
      for (int t = 0; t < steps; t++) {
        for (int tile = 0; tile < boards.tiles; tile++) {
          producer.stream(0, ROUND_STAGES + (t + 1 < steps ? VALUE_STAGES : 0));
        }
      }
    }
    cluster_meets();  // Nobody leaves as long as others may write to its memory.
    return;
  }
  registers_up<MANY_REGISTERS>();
  Place me(shared);

  // The values of the states in `sums`, for step t.
  const auto project = [&](float (&sums)[C / 2], int tile, int t) {
    u32 factor[C / 16][4];
    as_factor(factor, sums);
    clear(sums);
    add_factor<C, VALUE_STAGES>(sums, me, factor);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const Row row(me, boards, tile, half);
      if (!row.live) continue;
      uint4* to = values + (cells_at(row.board, VALUE_SLOTS, VALUE_SLOT(t)) + row.cell) * PIECES + me.t;
#pragma unroll
      for (int u = 0; u < UNITS; u++) to[4 * u] = narrowed(taken(sums, u, half));
    }
  };

  for (int tile = 0; tile < boards.tiles; tile++) {
    if (boards.idle(me, tile)) {
      if (steps > 0) me.skip(VALUE_STAGES);
      continue;
    }
    float sums[C / 2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const Row row(me, boards, tile, half);
      const float* from = begin + (size_t(row.board) * CELLS + row.cell) * C + 8 * me.t;
      float* to = states + (cells_at(row.board, STATE_SLOTS, STATE_SLOT(0)) + row.cell) * C + 8 * me.t;
#ifdef KEEP
      uint4* to_rounded = rounded_states + (cells_at(row.board, steps, 0) + row.cell) * PIECES + me.t;
#endif
#pragma unroll
      for (int u = 0; u < UNITS; u++) {
        Eight x = {};
        if (row.live) {
          x = load8(from + UNIT * u);
          store8(to + UNIT * u, x);
#ifdef KEEP
          to_rounded[4 * u] = narrowed(x);
#endif
        }
        put(sums, u, half, x);
      }
    }
    if (steps > 0) project(sums, tile, 0);
  }
  me.crew();

  for (int t = 0; t < steps; t++) {
    for (int tile = 0; tile < boards.tiles; tile++) {
      if (boards.idle(me, tile)) {
        me.skip(ROUND_STAGES + (t + 1 < steps ? VALUE_STAGES : 0));
        continue;
      }
#ifdef KEEP
      gather(me, boards, tile, attention, values, VALUE_SLOTS, VALUE_SLOT(t), perceived, steps, t);
      u32* bits = active + size_t(((blockIdx.x * steps + t) * ((sizes[1] * CELLS + TILE - 1) / TILE) + tile)) *
                               (CHUNKS * 2 * CREW) + threadIdx.x;
#else
      gather(me, boards, tile, attention, values, VALUE_SLOTS, VALUE_SLOT(t), nullptr, 0, 0);
#endif

      // What happens to this thread's rows, found out while there is nothing to wait for; what is needed next is
      // brought closer.
      u32 traits = 0;
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const Row row(me, boards, tile, half);
        const u32 key = keys[row.board], now = u32(firsts[row.board] + t);
        if (row.live && chance(at_cell(at_step(key, FIRE, now), row.cell), FIRE_BELOW)) traits |= FIRES << 4 * half;
        if (given[row.board * CELLS + row.cell]) traits |= GIVEN << 4 * half;
        if (row.live && t < counts[row.board]) traits |= GOES_ON << 4 * half;
#ifdef NOISE
        if ((traits & GOES_ON << 4 * half) && int(now) < NOISE_UNTIL &&
            chance(at_step(key, NOISE_WHEN, now), NOISE_WHEN_BELOW) &&
            chance(at_cell(at_step(key, NOISE_WHERE, now), row.cell), NOISE_WHERE_BELOW)) {
          traits |= KICKED << 4 * half;
        }
#endif
        const float* x = states + (cells_at(row.board, STATE_SLOTS, STATE_SLOT(t)) + row.cell) * C;
#pragma unroll
        for (int line = 0; line < C / 128; line++) bring(x + 32 * (4 * line + me.t));
      }

      float sums[C / 2];
      clear(sums);
      through_mlp(
          sums, me,
          [&](float (&hidden)[CHUNK / 2], int chunk) {
#pragma unroll
            for (int u = 0; u < CHUNK / UNIT; u++) {
              const Eight bias = constant8(b_in + chunk * CHUNK + UNIT * u + 8 * me.t);
              put(hidden, u, 0, bias);
              put(hidden, u, 1, bias);
            }
          },
          [&](float (&hidden)[CHUNK / 2], int chunk) {
#pragma unroll
            for (int i = 0; i < CHUNK / 2; i++) hidden[i] = fmaxf(hidden[i], 0.0f);
#ifdef KEEP
#pragma unroll
            for (int word = 0; word < 2; word++) {
              u32 some = 0;
#pragma unroll
              for (int i = 0; i < 32; i++) some |= u32(hidden[32 * word + i] > 0) << i;
              bits[(chunk * 2 + word) * CREW] = some;
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
              const Row row(me, boards, tile, half);
              if (!row.live) continue;
              uint4* to = hidden_all + (cells_at(row.board, steps, t) + row.cell) * (H / 8) + chunk * (CHUNK / 8);
#pragma unroll
              for (int u = 0; u < CHUNK / UNIT; u++) to[4 * u + me.t] = narrowed(taken(hidden, u, half));
            }
#endif
          });

#pragma unroll
      for (int half = 0; half < 2; half++) {
        const Row row(me, boards, anew(tile), half);
        const u32 mine = traits >> 4 * half;
        const bool fires = mine & FIRES, goes_on = mine & GOES_ON;
        const int fixed = mine & GIVEN ? FROZEN_UNITS : 0;
        const size_t before = (cells_at(row.board, STATE_SLOTS, STATE_SLOT(t)) + row.cell) * C + 8 * me.t;
        const size_t after = (cells_at(row.board, STATE_SLOTS, STATE_SLOT(t + 1)) + row.cell) * C + 8 * me.t;
        Eight some[AT_ONCE];  // Read before anything is written, or else reading would wait.
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
          if (u % AT_ONCE == 0) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
              some[i] = {};
              if (row.live) some[i] = load8(states + before + UNIT * (u + i));
            }
          }
          const Eight x = some[u % AT_ONCE];
          Eight change = taken(sums, u, half);
          const Eight bias = constant8(b_out + UNIT * u + 8 * me.t);
          const bool changes_here = fires && u >= fixed;
#pragma unroll
          for (int q = 0; q < 8; q++) change.x[q] = changes_here ? change.x[q] + bias.x[q] : 0.0f;
          const float along = over_unit(dot(change, x));
          Eight y;
#pragma unroll
          for (int q = 0; q < 8; q++) y.x[q] = x.x[q] + (change.x[q] - along * x.x[q]);
          const float scale = inverse(root(over_unit(dot(y, y))) + EPS);
#pragma unroll
          for (int q = 0; q < 8; q++) y.x[q] *= scale;
          if (goes_on) store8(states + after + UNIT * u, y);
          put(sums, u, half, y);
#ifdef KEEP
          if (row.live) {
            changes[(cells_at(row.board, steps, t) + row.cell) * PIECES + 4 * u + me.t] = narrowed(change);
          }
#endif
        }
#ifdef NOISE
        // Rare, so it takes the way through memory and little code.
        if (mine & KICKED) {
          const u32 noise = at_cell(at_step(keys[row.board], NOISE_BITS, u32(firsts[row.board] + t)), row.cell);
#pragma unroll 1
          for (int u = fixed; u < UNITS; u++) kick(states + after + UNIT * u, noise, UNIT * u + 8 * me.t);
#pragma unroll
          for (int u = 0; u < UNITS; u++) put(sums, u, half, load8(states + after + UNIT * u));
        }
#endif
#ifdef KEEP
        if (row.live && t + 1 < steps) {
          uint4* to = rounded_states + (cells_at(row.board, steps, t + 1) + row.cell) * PIECES + me.t;
#pragma unroll
          for (int u = 0; u < UNITS; u++) to[4 * u] = narrowed(taken(sums, u, half));
        }
#endif
      }
      if (t + 1 < steps) project(sums, tile, t + 1);
    }
    me.crew();
  }
  cluster_meets();
}

#ifdef KEEP
#include "attention_backward.cuh"
#endif
