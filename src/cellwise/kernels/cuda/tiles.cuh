// Tiles of rows and the products that are made of them, for a rule with attention: what `attention.cu` and
// `attention_backward.cuh` are made of.

#pragma once

#include "hopper.cuh"

#ifdef EMULATED
#define IN_CLUSTERS
#else
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
extern __shared__ __align__(1024) float shared_memory[];
#endif

constexpr int C = CHANNELS, H = HIDDEN, CELLS = HEIGHT * WIDTH;
constexpr int UNIT = 32, UNITS = C / UNIT, FROZEN_UNITS = FROZEN / UNIT;
constexpr int AT_ONCE = UNITS, BACK_AT_ONCE = 2;  // Units of a row that are read together.
constexpr float EPS = 1e-6f;

// Either two warpgroups compute in the only block of a multiprocessor, or one in each of two blocks.
static_assert(GROUPS == 1 || GROUPS == 2, "registers are for one or two warpgroups");
constexpr int GROUP_ROWS = 64, TILE = GROUPS * GROUP_ROWS, BLOCKS = 3 - GROUPS;
constexpr int MANY_REGISTERS = GROUPS == 2 ? 240 : 232, FEW_REGISTERS = 24;
constexpr int CREW = 128 * GROUPS, THREADS = CREW + 128;

constexpr int CHUNK = 128, CHUNKS = H / CHUNK;
constexpr int PANELS = C / PANEL_WIDTH;                // Of what a row perceives.
constexpr int PANEL_BYTES = 64 * ROW_BYTES;            // Of 64 rows.
constexpr int STAGE = CHUNK * STAGE_COLUMNS;           // Numbers.
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
    rows = reinterpret_cast<char*>(shared_memory);
#ifdef EMULATED
    rows += (1024u - shared_address(rows)) & 1023u;
#else
    if (shared_address(rows) & 1023u) __trap();
#endif
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

// The weights of a few products, one stage after another, all of it by one thread. The blocks of a cluster stream
// the same weights at the same time: each fetches a part of a stage for all of them.
struct Producer {
  const Shared& shared;
  const char* weights;
  Turn turn;

  __device__ __forceinline__ void stream(int first, int count) {
    constexpr int PART = STAGE_BYTES / CLUSTER;
    const int mine = blockIdx.x % CLUSTER * PART;
    for (int i = first; i < first + count; i++, turn.next()) {
      counter_wait(shared.empty + turn.slot, turn.parity ^ 1u);
      counter_expect(shared.full + turn.slot, STAGE_BYTES);
      copy_in_background(shared.stages + turn.slot * STAGE_BYTES + mine, weights + size_t(i) * STAGE_BYTES + mine, PART,
                         shared.full + turn.slot, (1u << CLUSTER) - 1u);
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
  __device__ __forceinline__ void warpgroup() const {
    if (group == 0) some_threads<2>(128);
    if (GROUPS == 2 && group == 1) some_threads<3>(128);
  }
  __device__ __forceinline__ void crew() const { some_threads<1>(CREW); }

  // The stage after the one that is due.
  __device__ __forceinline__ Turn following() const {
    Turn then = turn;
    then.next();
    return then;
  }
  __device__ __forceinline__ u32 stage(const Turn& at) const {
    return shared_address(shared.stages) + at.slot * STAGE_BYTES;
  }
  __device__ __forceinline__ void wait(const Turn& at) const { counter_wait(shared.full + at.slot, at.parity); }
  __device__ __forceinline__ void release(int stages) {
    for (int i = 0; i < stages; i++, turn.next()) {
      if (lane < CLUSTER) counter_arrive(shared.empty + turn.slot, lane);
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

// sums += factor · weightsᵀ, the weights of which come in `COUNT` stages, each free for others as soon as it has been
// multiplied. A stage is some panels of ROWS rows, or a part of the rows of one. `add` gets a part of the sums, which
// of the factor's columns are meant, by sixteen, and the address of as many columns of the weights.
template <int ROWS, int COUNT, class Add>
__device__ __forceinline__ void add_stages(float (&sums)[ROWS / 2], Place& me, Add add) {
  constexpr int SOME = STAGE / PANEL_WIDTH < ROWS ? STAGE / PANEL_WIDTH : ROWS, PARTS = ROWS / SOME;
  constexpr int TOGETHER = STAGE / (SOME * PANEL_WIDTH);
#pragma unroll
  for (int s = 0; s < COUNT; s++) {
    const Turn at = s == 0 ? me.turn : me.following();
    me.wait(at);
    products_begin(sums);
#pragma unroll
    for (int p = 0; p < TOGETHER; p++) {
#pragma unroll
      for (int k = 0; k < 4; k++) {
        float(&part)[SOME / 2] = *reinterpret_cast<float(*)[SOME / 2]>(sums + s % PARTS * (SOME / 2));
        add(part, 4 * (s / PARTS * TOGETHER + p) + k, me.stage(at) + p * SOME * ROW_BYTES + 32 * k);
      }
    }
    products_apart();
    if (s > 0) {
      products_wait_but_last();
      me.release(1);
    }
  }
  products_wait(sums);
  me.release(1);
}

// The factor is the rows in shared memory.
template <int ROWS, int COUNT>
__device__ __forceinline__ void add_rows(float (&sums)[ROWS / 2], Place& me) {
  add_stages<ROWS, COUNT>(sums, me, [&](auto& part, int k, u32 weights) {
    if (k >= 4 * PANELS) return;
    constexpr int SOME = 2 * sizeof(part) / sizeof(float);
    Product<SOME>::add(part, panel_at(shared_address(me.panel(k / 4)) + 32 * (k % 4)), panel_at(weights));
  });
}

// The factor is in registers.
template <int ROWS, int COUNT, int N>
__device__ __forceinline__ void add_factor(float (&sums)[ROWS / 2], Place& me, const u32 (&factor)[N][4]) {
  add_stages<ROWS, COUNT>(sums, me, [&](auto& part, int k, u32 weights) {
    if (k >= N) return;
    constexpr int SOME = 2 * sizeof(part) / sizeof(float);
    Product<SOME>::add(part, factor[k], panel_at(weights));
  });
}

// sums += activate(rows · one) · two, through the hidden layer.
template <class Begin, class Activate>
__device__ __forceinline__ void through_mlp(float (&sums)[C / 2], Place& me, Begin begin, Activate activate) {
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    float hidden[CHUNK / 2];
    begin(hidden, chunk);
    add_rows<CHUNK, MLP_STAGES>(hidden, me);
    u32 factor[CHUNK / 16][4];
    activate(hidden, chunk);
    as_factor(factor, hidden);
    add_factor<C, MLP_STAGES>(sums, me, factor);
  }
}

// ---- what rows perceive -----------------------------------------------------------------------------------

struct Boards {
  int first, rows, tiles;

  // Board `blockIdx.x · each` and the next ones.
  __device__ __forceinline__ Boards(const int* sizes) {
    const int each = sizes[1];
    first = blockIdx.x * each;
    rows = at_most(sizes[0] - first, each) * CELLS;
    // As many for each block of a cluster, because weights are streamed for all of them.
    tiles = (at_most(sizes[0] - blockIdx.x / CLUSTER * CLUSTER * each, each) * CELLS + TILE - 1) / TILE;
  }
  static __device__ __forceinline__ int at_most(int some, int most) { return some < 0 ? 0 : some < most ? some : most; }
  // Whether a warpgroup has no rows in a tile.
  __device__ __forceinline__ bool idle(const Place& me, int tile) const {
    return tile * TILE + me.group * GROUP_ROWS >= rows;
  }
};

// Where the cells of a board are at a slot, in rows.
__device__ __forceinline__ size_t cells_at(int board, int slots, int slot) {
  return (size_t(board) * slots + slot) * CELLS;
}

// The nine neighbours of each row, weighed, to shared memory; `kept`, if any, gets them too. `attention` has twelve
// numbers for each cell and head, the last three of which are nothing.
__device__ __forceinline__ void gather(const Place& me, const Boards& boards, int tile, const float4* attention,
                                       const uint4* from, int slots, int slot, uint4* kept, int kept_slots,
                                       int kept_slot) {
  me.warpgroup();  // The last products of the group may still read the rows.
  constexpr int TOGETHER = 128 / PIECES, DEPTH = 4;
  const int tid = threadIdx.x % 128, piece = tid % PIECES, head = 8 * piece / (C / HEADS);
#pragma unroll 1
  for (int first = tid / PIECES; first < GROUP_ROWS; first += DEPTH * TOGETHER) {
    // All is read before anything is written, or else reading would wait.
    uint4 value[DEPTH][9];
    float4 weight[DEPTH][3];
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
      // Rows beyond the last one are that one, to no effect: without branches more is on its way at a time.
      const int wanted = tile * TILE + me.group * GROUP_ROWS + first + i * TOGETHER;
      const int row = wanted < boards.rows ? wanted : boards.rows - 1;
      const int board = boards.first + row / CELLS, cell = row % CELLS, y = cell / WIDTH, x = cell % WIDTH;
      const int rows_of_three[3] = {y == 0 ? HEIGHT - 1 : y - 1, y, y == HEIGHT - 1 ? 0 : y + 1};
      const int columns[3] = {x == 0 ? WIDTH - 1 : x - 1, x, x == WIDTH - 1 ? 0 : x + 1};
      const uint4* begin = from + cells_at(board, slots, slot) * PIECES + piece;
#pragma unroll
      for (int n = 0; n < 9; n++) value[i][n] = begin[(rows_of_three[n / 3] * WIDTH + columns[n % 3]) * PIECES];
#pragma unroll
      for (int n = 0; n < 3; n++) weight[i][n] = __ldg(attention + (cell * HEADS + head) * 3 + n);
    }
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
      const int own = first + i * TOGETHER, row = tile * TILE + me.group * GROUP_ROWS + own;
      Eight sum = {};
#pragma unroll
      for (int n = 0; n < 9; n++) {
        const Eight numbers = widened(value[i][n]);
        const float4 some = weight[i][n / 4];
        const float weighs = n % 4 == 0 ? some.x : n % 4 == 1 ? some.y : n % 4 == 2 ? some.z : some.w;
#pragma unroll
        for (int q = 0; q < 8; q++) sum.x[q] += weighs * numbers.x[q];
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
      counter_begin(shared.empty + i, CLUSTER * CREW / 32);
    }
    counters_begun();
  }
  cluster_meets();
}
