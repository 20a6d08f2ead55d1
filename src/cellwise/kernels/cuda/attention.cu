// Many steps of a rule with fixed attention, an MLP and units of length one, in one launch, forward and backward.
//
// A block has a few boards from the first step to the last, so blocks never wait for each other. The cells of its
// boards are rows, TILE of them at a time; the weights are too many to stay on the chip, so one warp streams them
// from L2, STAGE numbers at a time, through a ring in shared memory, while GROUPS warpgroups compute. One step:
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
// Sizes come as definitions: HEIGHT, WIDTH, CHANNELS, HEADS, HIDDEN, FROZEN, STAGES, FIRE_BELOW; with NOISE also
// NOISE_WHEN_BELOW, NOISE_WHERE_BELOW, NOISE_SIZE, NOISE_UNTIL; with KEEP everything that learning needs is kept,
// and if errors are judged at every step, ANSWER_FIRST and ANSWERS are the units that hold the answer.

#include "hopper.cuh"

#ifndef EMULATED
extern __shared__ __align__(16) float shared_memory[];
#endif

constexpr int C = CHANNELS, H = HIDDEN, CELLS = HEIGHT * WIDTH;
constexpr int UNIT = 32, UNITS = C / UNIT, FROZEN_UNITS = FROZEN / UNIT;
constexpr int AT_ONCE = UNITS < 4 ? UNITS : 4, BACK_AT_ONCE = 2;  // Units of a row that are read together.
constexpr float EPS = 1e-6f;

constexpr int GROUPS = 2, GROUP_ROWS = 64, TILE = GROUPS * GROUP_ROWS;
constexpr int MANY_REGISTERS = 240, FEW_REGISTERS = 24;
constexpr int CREW = 128 * GROUPS, THREADS = CREW + 128;

constexpr int CHUNK = 128, CHUNKS = H / CHUNK;
constexpr int PANELS = C / PANEL_WIDTH;                // Of what a row perceives.
constexpr int PANEL_BYTES = 64 * ROW_BYTES;            // Of 64 rows.
constexpr int STAGE = CHUNK * (C < 128 ? C : 128);     // Numbers.
constexpr int STAGE_BYTES = 2 * STAGE;
constexpr int MLP_STAGES = CHUNK * C / STAGE;          // Of one product, for one chunk.
constexpr int ROUND_STAGES = 2 * CHUNKS * MLP_STAGES;  // Of the MLP.
constexpr int VALUE_STAGES = C * C > STAGE ? C * C / STAGE : 1;
constexpr int PIECES = C / 8;

static_assert(C == 64 || C == 128 || C == 256, "the tiles are made for 64, 128 or 256 channels");
static_assert(H % CHUNK == 0 && FROZEN % UNIT == 0 && C / HEADS % 8 == 0, "sizes do not fit the tiles");

// ---- shared memory ----------------------------------------------------------------------------------------

struct Shared {
  char* rows;    // [GROUPS][PANELS] panels of 64 rows: the first factor of a product
  char* stages;  // [STAGES]
  u64 *full, *empty;

  __device__ __forceinline__ Shared() {
    char* begin = reinterpret_cast<char*>(shared_memory);
    begin += (1024u - shared_address(begin)) & 1023u;
    rows = begin;
    stages = rows + GROUPS * PANELS * PANEL_BYTES;
    full = reinterpret_cast<u64*>(stages + STAGES * STAGE_BYTES);
    empty = full + STAGES;
  }
};

// A place in the ring of stages.
struct Turn {
  u32 slot = 0, parity = 0;

  __device__ __forceinline__ void next() {
    if (++slot == STAGES) {
      slot = 0;
      parity ^= 1u;
    }
  }
};

// The weights of a few products, one stage after another, all of it by one thread.
struct Producer {
  const Shared& shared;
  const char* weights;
  Turn turn;

  __device__ __forceinline__ void stream(int first, int count) {
    for (int i = first; i < first + count; i++, turn.next()) {
      counter_wait(shared.empty + turn.slot, turn.parity ^ 1u);
      counter_expect(shared.full + turn.slot, STAGE_BYTES);
      copy_in_background(shared.stages + turn.slot * STAGE_BYTES, weights + size_t(i) * STAGE_BYTES, STAGE_BYTES,
                         shared.full + turn.slot);
    }
  }
};

// A thread's place in the tiles: rows `row(half)`, and columns from 8t of each unit on.
struct Place {
  const Shared& shared;
  int group, lane, warp, g, t;
  Turn turn;

  __device__ __forceinline__ Place(const Shared& shared)
      : shared(shared),
        group(threadIdx.x / 128),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32 % 4),
        g(lane / 4),
        t(lane % 4) {}

  __device__ __forceinline__ int row(int half) const {
    return group * GROUP_ROWS + warp * 16 + g + 8 * half;
  }
  // Panel `panel` of the rows of this warpgroup.
  __device__ __forceinline__ char* panel(int panel) const {
    return shared.rows + (group * PANELS + panel) * PANEL_BYTES;
  }
  __device__ __forceinline__ void warpgroup() const { some_threads(2 + group, 128); }
  __device__ __forceinline__ void crew() const { some_threads(1, CREW); }

  // The next stage, `ahead` stages from here.
  __device__ __forceinline__ Turn ahead(int stages) const {
    Turn then = turn;
    for (int i = 0; i < stages; i++) then.next();
    return then;
  }
  __device__ __forceinline__ u32 stage(const Turn& at) const {
    return shared_address(shared.stages) + at.slot * STAGE_BYTES;
  }
  __device__ __forceinline__ void wait(const Turn& at) const { counter_wait(shared.full + at.slot, at.parity); }
  __device__ __forceinline__ void release(int stages) {
    for (int i = 0; i < stages; i++, turn.next()) {
      if (lane == 0) counter_arrive(shared.empty + turn.slot);
    }
  }
  // Lets stages go by that are for others.
  __device__ __forceinline__ void skip(int stages) {
    for (int i = 0; i < stages; i++) {
      wait(turn);
      release(1);
    }
  }
};

// ---- eight numbers of a row -------------------------------------------------------------------------------

struct Eight {
  float x[8];
};

__device__ __forceinline__ Eight load8(const float* at) {
  const float4 a = *reinterpret_cast<const float4*>(at), b = *reinterpret_cast<const float4*>(at + 4);
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
// Of what no kernel writes, so that it may be read early.
__device__ __forceinline__ Eight constant8(const float* at) {
  const float4* pieces = reinterpret_cast<const float4*>(at);
  const float4 a = __ldg(pieces), b = __ldg(pieces + 1);
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
__device__ __forceinline__ void store8(float* at, const Eight& e) {
  *reinterpret_cast<float4*>(at) = make_float4(e.x[0], e.x[1], e.x[2], e.x[3]);
  *reinterpret_cast<float4*>(at + 4) = make_float4(e.x[4], e.x[5], e.x[6], e.x[7]);
}
__device__ __forceinline__ Eight widened(const uint4& p) {
  return {low_of(p.x), high_of(p.x), low_of(p.y), high_of(p.y), low_of(p.z), high_of(p.z), low_of(p.w), high_of(p.w)};
}
__device__ __forceinline__ uint4 narrowed(const Eight& e) {
  return make_uint4(rounded(e.x[0], e.x[1]), rounded(e.x[2], e.x[3]), rounded(e.x[4], e.x[5]),
                    rounded(e.x[6], e.x[7]));
}

// Numbers q of a piece of unit u in a thread's sums.
template <int N>
__device__ __forceinline__ Eight taken(const float (&sums)[N], int u, int half) {
  Eight e;
#pragma unroll
  for (int q = 0; q < 8; q++) e.x[q] = sums[16 * u + 4 * (q / 2) + q % 2 + 2 * half];
  return e;
}
template <int N>
__device__ __forceinline__ void put(float (&sums)[N], int u, int half, const Eight& e) {
#pragma unroll
  for (int q = 0; q < 8; q++) sums[16 * u + 4 * (q / 2) + q % 2 + 2 * half] = e.x[q];
}

__device__ __forceinline__ float dot(const Eight& a, const Eight& b) {
  float sum = 0;
#pragma unroll
  for (int q = 0; q < 8; q++) sum += a.x[q] * b.x[q];
  return sum;
}
// Over the four threads that have a unit.
__device__ __forceinline__ float over_unit(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// ---- products ---------------------------------------------------------------------------------------------

// Sums as the first factor of the next product: its columns 16k … 16k + 15.
template <int N>
__device__ __forceinline__ void as_factor(u32 (&factor)[N / 8][4], const float (&sums)[N]) {
#pragma unroll
  for (int k = 0; k < N / 8; k++) {
#pragma unroll
    for (int i = 0; i < 4; i++) factor[k][i] = rounded(sums[8 * k + 2 * i], sums[8 * k + 2 * i + 1]);
  }
}

template <int N>
__device__ __forceinline__ void clear(float (&sums)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) sums[i] = 0;
}

// sums += rows · stageᵀ, for the panels of a stage, of which `first` is the first panel of the rows.
template <int ROWS>
__device__ __forceinline__ void add_panels(float (&sums)[ROWS / 2], const Place& me, int first, u32 stage) {
#pragma unroll
  for (int p = 0; p < STAGE / (ROWS * PANEL_WIDTH); p++) {
    if (first + p >= PANELS) break;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      Product<ROWS>::add(sums, panel_at(shared_address(me.panel(first + p)) + 32 * k),
                         panel_at(stage + p * ROWS * ROW_BYTES + 32 * k));
    }
  }
}

// The same with a factor in registers, which has its columns from 64 · `first` on there.
template <int ROWS, int N>
__device__ __forceinline__ void add_factor(float (&sums)[ROWS / 2], const u32 (&factor)[N][4], int first, u32 stage) {
#pragma unroll
  for (int p = 0; p < STAGE / (ROWS * PANEL_WIDTH); p++) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (4 * (first + p) + k >= N) break;
      Product<ROWS>::add(sums, factor[4 * (first + p) + k], panel_at(stage + p * ROWS * ROW_BYTES + 32 * k));
    }
  }
}

// sums += activate(rows · one) · two, through the hidden layer.
template <class Begin, class Activate>
__device__ __forceinline__ void through_mlp(float (&sums)[C / 2], Place& me, Begin begin, Activate activate) {
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    float hidden[CHUNK / 2];
    begin(hidden, chunk);
#pragma unroll
    for (int s = 0; s < MLP_STAGES; s++) {
      const Turn at = me.ahead(s);
      me.wait(at);
      products_begin(hidden);
      add_panels<CHUNK>(hidden, me, s * STAGE / (CHUNK * PANEL_WIDTH), me.stage(at));
    }
    products_wait(hidden);
    me.release(MLP_STAGES);

    u32 factor[CHUNK / 16][4];
    activate(hidden, chunk);
    as_factor(factor, hidden);
#pragma unroll
    for (int s = 0; s < MLP_STAGES; s++) {
      const Turn at = me.ahead(s);
      me.wait(at);
      products_begin(sums);
      add_factor<C>(sums, factor, s * STAGE / (C * PANEL_WIDTH), me.stage(at));
    }
    products_wait(sums);
    me.release(MLP_STAGES);
  }
}

// ---- what rows perceive -----------------------------------------------------------------------------------

struct Boards {
  int first, count, rows;

  // Board `blockIdx.x · each` and the next ones.
  __device__ __forceinline__ Boards(const int* sizes) {
    const int boards = sizes[0], each = sizes[1];
    first = blockIdx.x * each;
    count = boards - first < each ? boards - first : each;
    rows = count * CELLS;
  }
  __device__ __forceinline__ int tiles() const { return (rows + TILE - 1) / TILE; }
  // Whether a warpgroup has no rows in a tile.
  __device__ __forceinline__ bool idle(const Place& me, int tile) const {
    return tile * TILE + me.group * GROUP_ROWS >= rows;
  }
};

// Where the cells of a board are at a slot, in rows.
__device__ __forceinline__ size_t cells_at(int board, int slots, int slot) {
  return (size_t(board) * slots + slot) * CELLS;
}

// The nine neighbours of each row, weighed, to shared memory; `kept`, if any, gets them too.
__device__ __forceinline__ void gather(const Place& me, const Boards& boards, int tile, const float* attention,
                                       const uint4* from, int slots, int slot, uint4* kept, int kept_slots,
                                       int kept_slot) {
  me.warpgroup();  // The last products of the group may still read the rows.
  constexpr int TOGETHER = 128 / PIECES, DEPTH = 2;
  const int tid = threadIdx.x % 128, piece = tid % PIECES, head = 8 * piece / (C / HEADS);
#pragma unroll 1
  for (int first = tid / PIECES; first < GROUP_ROWS; first += DEPTH * TOGETHER) {
    // All is read before anything is written, or else reading would wait.
    uint4 value[DEPTH][9] = {};
    float weight[DEPTH][9] = {};
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
      const int row = tile * TILE + me.group * GROUP_ROWS + first + i * TOGETHER;
      if (row >= boards.rows) continue;
      const int board = boards.first + row / CELLS, cell = row % CELLS, y = cell / WIDTH, x = cell % WIDTH;
      const int rows_of_three[3] = {y == 0 ? HEIGHT - 1 : y - 1, y, y == HEIGHT - 1 ? 0 : y + 1};
      const int columns[3] = {x == 0 ? WIDTH - 1 : x - 1, x, x == WIDTH - 1 ? 0 : x + 1};
      const uint4* begin = from + cells_at(board, slots, slot) * PIECES + piece;
#pragma unroll
      for (int n = 0; n < 9; n++) {
        value[i][n] = begin[(rows_of_three[n / 3] * WIDTH + columns[n % 3]) * PIECES];
        weight[i][n] = __ldg(attention + (cell * 9 + n) * HEADS + head);
      }
    }
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
      const int own = first + i * TOGETHER, row = tile * TILE + me.group * GROUP_ROWS + own;
      Eight sum = {};
#pragma unroll
      for (int n = 0; n < 9; n++) {
        const Eight numbers = widened(value[i][n]);
#pragma unroll
        for (int q = 0; q < 8; q++) sum.x[q] += weight[i][n] * numbers.x[q];
      }
      const uint4 numbers = narrowed(sum);
      if (kept && row < boards.rows) {
        const int board = boards.first + row / CELLS;
        kept[(cells_at(board, kept_slots, kept_slot) + row % CELLS) * PIECES + piece] = numbers;
      }
      *reinterpret_cast<uint4*>(me.panel(piece / 8) + piece_at(own, piece % 8)) = numbers;
    }
  }
  before_products();
  me.warpgroup();
}

// The board and cell of one of this thread's rows.
struct Row {
  int board = 0, cell = 0;
  bool live;

  __device__ __forceinline__ Row(const Place& me, const Boards& boards, int tile, int half) {
    const int row = tile * TILE + me.row(half);
    live = row < boards.rows;
    if (live) {
      board = boards.first + row / CELLS;
      cell = row % CELLS;
    }
  }
};

__device__ __forceinline__ void begin_ring(const Shared& shared) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      counter_begin(shared.full + i, 1);
      counter_begin(shared.empty + i, CREW / 32);
    }
    counters_begun();
  }
  __syncthreads();
}

// ---- forward ----------------------------------------------------------------------------------------------

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

extern "C" __global__ void __launch_bounds__(THREADS, 1) steps_forward(
    const int* sizes, const u32* keys, const int* firsts, const int* counts, const unsigned char* given,
    const float* attention, const char* weights, const float* b_in, const float* b_out, const float* begin,
    float* states, uint4* values
#ifdef KEEP
    , uint4* rounded_states, uint4* perceived, uint4* hidden_all, u32* active, uint4* changes
#endif
) {
  const Shared shared;
  const Boards boards(sizes);
  int steps = 0;  // The most of any board.
  for (int i = 0; i < boards.count; i++) {
    if (counts[boards.first + i] > steps) steps = counts[boards.first + i];
  }
  begin_ring(shared);

  if (threadIdx.x >= CREW) {
    registers_down<FEW_REGISTERS>();
    if (threadIdx.x == CREW) {
      Producer producer{shared, weights};
      if (steps > 0) {
        for (int tile = 0; tile < boards.tiles(); tile++) producer.stream(ROUND_STAGES, VALUE_STAGES);
      }
      for (int t = 0; t < steps; t++) {
        for (int tile = 0; tile < boards.tiles(); tile++) {
          producer.stream(0, ROUND_STAGES + (t + 1 < steps ? VALUE_STAGES : 0));
        }
      }
    }
    return;
  }
  registers_up<MANY_REGISTERS>();
  Place me(shared);

  // The values of the states in `sums`, for step t.
  const auto project = [&](float (&sums)[C / 2], int tile, int t) {
    u32 factor[C / 16][4];
    as_factor(factor, sums);
    clear(sums);
#pragma unroll
    for (int s = 0; s < VALUE_STAGES; s++) {
      const Turn at = me.ahead(s);
      me.wait(at);
      products_begin(sums);
      add_factor<C>(sums, factor, s * STAGE / (C * PANEL_WIDTH), me.stage(at));
    }
    products_wait(sums);
    me.release(VALUE_STAGES);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const Row row(me, boards, tile, half);
      if (!row.live) continue;
      uint4* to = values + (cells_at(row.board, VALUE_SLOTS, VALUE_SLOT(t)) + row.cell) * PIECES + me.t;
#pragma unroll
      for (int u = 0; u < UNITS; u++) to[4 * u] = narrowed(taken(sums, u, half));
    }
  };

  for (int tile = 0; tile < boards.tiles(); tile++) {
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
    for (int tile = 0; tile < boards.tiles(); tile++) {
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
        const Row row(me, boards, tile, half);
        const u32 key = keys[row.board], now = u32(firsts[row.board] + t);
        const bool fires = row.live && chance(at_cell(at_step(key, FIRE, now), row.cell), FIRE_BELOW);
        const int fixed = given[row.board * CELLS + row.cell] ? FROZEN_UNITS : 0;
        const bool goes_on = row.live && t < counts[row.board];
#ifdef NOISE
        const bool kicked = goes_on && int(now) < NOISE_UNTIL &&
                            chance(at_step(key, NOISE_WHEN, now), NOISE_WHEN_BELOW) &&
                            chance(at_cell(at_step(key, NOISE_WHERE, now), row.cell), NOISE_WHERE_BELOW);
        const u32 noise = at_cell(at_step(key, NOISE_BITS, now), row.cell);
#endif
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
          const float scale = 1.0f / (sqrtf(over_unit(dot(y, y))) + EPS);
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
        if (kicked) {
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
}

// ---- backward ---------------------------------------------------------------------------------------------
//
// From the last step to the first, with d the gradient of the state after the step, x the state before it,
// e the masked change and y = x + e − (e·x) x:
//
//     d_y       = d / (|y| + ε) − y (y·d) / (|y| (|y| + ε)²)
//     d_change  = d_y − (d_y·x) x where cells fired         kept for the gradients of w_out and b_out
//     d_hidden  = d_change · w_out where hidden > 0         kept for the gradients of w_in and b_in
//     d_z       = d_hidden · w_inᵀ                          kept for the gradient of the attention
//     d_value   = what the row gets of its neighbours' d_z  kept for the gradient of V
//     d         = d_value · V + d_y − (e·x) d_y − (d_y·x) e + the gradient of this state itself
//
// The gradients of all weights are a few large products afterwards.

#ifdef KEEP
extern "C" __global__ void __launch_bounds__(THREADS, 1) steps_backward(
    const int* sizes, const u32* keys, const int* firsts, const unsigned char* given, const float* attention,
    const char* weights, const float* states, const uint4* changes, const u32* active, const float* d_last,
#ifdef ANSWERS
    const float* d_answers,
#endif
    uint4* d_changes, uint4* d_hidden_all, uint4* d_perceived, uint4* d_values, float* d_begin, float* straight) {
  const Shared shared;
  const Boards boards(sizes);
  const int steps = sizes[2], most_tiles = (sizes[1] * CELLS + TILE - 1) / TILE;
  begin_ring(shared);

  if (threadIdx.x >= CREW) {
    registers_down<FEW_REGISTERS>();
    if (threadIdx.x == CREW) {
      Producer producer{shared, weights};
      for (int t = steps; t >= 0; t--) {
        for (int tile = 0; tile < boards.tiles(); tile++) {
          if (t < steps) producer.stream(ROUND_STAGES, VALUE_STAGES);
          if (t > 0) producer.stream(0, ROUND_STAGES);
        }
      }
    }
    return;
  }
  registers_up<MANY_REGISTERS>();
  Place me(shared);

  // State t, of which d is the gradient, is what step t - 1 made.
  for (int t = steps; t >= 0; t--) {
    for (int tile = 0; tile < boards.tiles(); tile++) {
      if (boards.idle(me, tile)) {
        me.skip((t < steps ? VALUE_STAGES : 0) + (t > 0 ? ROUND_STAGES : 0));
        continue;
      }
      float d_all[C / 2];
      clear(d_all);
      if (t < steps) {
        gather(me, boards, tile, attention, d_perceived, steps, t, d_values, steps, t);
#pragma unroll
        for (int s = 0; s < VALUE_STAGES; s++) {
          const Turn at = me.ahead(s);
          me.wait(at);
          products_begin(d_all);
          add_panels<C>(d_all, me, s * STAGE / (C * PANEL_WIDTH), me.stage(at));
        }
        products_wait(d_all);
        me.release(VALUE_STAGES);
        me.warpgroup();  // All have read the rows, which are written next.
      }

#pragma unroll
      for (int half = 0; half < 2; half++) {
        const Row row(me, boards, tile, half);
        const u32 now = u32(firsts[row.board] + t - 1);
        const bool fired = row.live && chance(at_cell(at_step(keys[row.board], FIRE, now), row.cell), FIRE_BELOW);
        const int fixed = given[row.board * CELLS + row.cell] ? FROZEN_UNITS : 0;
        const size_t here = (size_t(row.board) * CELLS + row.cell) * C + 8 * me.t;
        const size_t before = cells_at(row.board, steps, t - 1) + row.cell;
        const size_t x_at = (cells_at(row.board, steps + 1, t - 1) + row.cell) * C + 8 * me.t;
        const float* from = t < steps ? straight : d_last;
        Eight more[BACK_AT_ONCE], x_of[BACK_AT_ONCE];
        uint4 e_of[BACK_AT_ONCE];
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
          if (u % BACK_AT_ONCE == 0) {
#pragma unroll
            for (int i = 0; i < BACK_AT_ONCE; i++) {
              more[i] = x_of[i] = {};
              e_of[i] = {};
              if (row.live) more[i] = load8(from + here + UNIT * (u + i));
              if (row.live && t > 0) {
                x_of[i] = load8(states + x_at + UNIT * (u + i));
                e_of[i] = changes[before * PIECES + 4 * (u + i) + me.t];
              }
            }
          }
          const Eight x = x_of[u % BACK_AT_ONCE], e = widened(e_of[u % BACK_AT_ONCE]);
          Eight d = taken(d_all, u, half);
#pragma unroll
          for (int q = 0; q < 8; q++) d.x[q] = u >= fixed || t == steps ? d.x[q] + more[u % BACK_AT_ONCE].x[q] : 0.0f;
          if (t == 0) {
            if (row.live) store8(d_begin + here + UNIT * u, d);
            continue;
          }
#ifdef ANSWERS
          if (row.live && u >= ANSWER_FIRST && u < ANSWER_FIRST + ANSWERS) {
            const Eight judged = constant8(d_answers + (before * ANSWERS + (u - ANSWER_FIRST)) * UNIT + 8 * me.t);
#pragma unroll
            for (int q = 0; q < 8; q++) d.x[q] += judged.x[q];
          }
#endif
          const float e_x = over_unit(dot(e, x));
          Eight y;
#pragma unroll
          for (int q = 0; q < 8; q++) y.x[q] = x.x[q] + (e.x[q] - e_x * x.x[q]);
          const float length = sqrtf(over_unit(dot(y, y))), scale = 1.0f / (length + EPS);
          const float y_d = over_unit(dot(y, d)), along = length > 0 ? y_d * scale * scale / length : 0.0f;
#pragma unroll
          for (int q = 0; q < 8; q++) d.x[q] = d.x[q] * scale - y.x[q] * along;
          const float d_x = over_unit(dot(d, x));
          Eight rest, change;
          const bool changed = fired && u >= fixed;
#pragma unroll
          for (int q = 0; q < 8; q++) {
            rest.x[q] = d.x[q] - e_x * d.x[q] - d_x * e.x[q];
            change.x[q] = changed ? d.x[q] - d_x * x.x[q] : 0.0f;
          }
          const uint4 numbers = narrowed(change);
          if (row.live) {
            store8(straight + here + UNIT * u, rest);
            d_changes[before * PIECES + 4 * u + me.t] = numbers;
          }
          const int piece = 4 * u + me.t;
          *reinterpret_cast<uint4*>(me.panel(piece / 8) + piece_at(me.row(half) % 64, piece % 8)) = numbers;
        }
      }
      if (t == 0) continue;
      before_products();
      me.warpgroup();

      const u32* bits = active + size_t((blockIdx.x * steps + t - 1) * most_tiles + tile) * (CHUNKS * 2 * CREW) +
                        threadIdx.x;
      clear(d_all);
      through_mlp(
          d_all, me, [&](float (&hidden)[CHUNK / 2], int) { clear(hidden); },
          [&](float (&hidden)[CHUNK / 2], int chunk) {
#pragma unroll
            for (int word = 0; word < 2; word++) {
              const u32 some = bits[(chunk * 2 + word) * CREW];
#pragma unroll
              for (int i = 0; i < 32; i++) {
                hidden[32 * word + i] = some >> i & 1u ? hidden[32 * word + i] : 0.0f;
              }
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
              const Row row(me, boards, tile, half);
              if (!row.live) continue;
              uint4* to =
                  d_hidden_all + (cells_at(row.board, steps, t - 1) + row.cell) * (H / 8) + chunk * (CHUNK / 8);
#pragma unroll
              for (int u = 0; u < CHUNK / UNIT; u++) to[4 * u + me.t] = narrowed(taken(hidden, u, half));
            }
          });
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const Row row(me, boards, tile, half);
        if (!row.live) continue;
        uint4* to = d_perceived + (cells_at(row.board, steps, t - 1) + row.cell) * PIECES + me.t;
#pragma unroll
        for (int u = 0; u < UNITS; u++) to[4 * u] = narrowed(taken(d_all, u, half));
      }
    }
    me.crew();
  }
}
#endif
