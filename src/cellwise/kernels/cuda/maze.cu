// Many steps of a rule with shared kernels in one launch, forward and backward.
//
// A board belongs to one cluster of CLUSTER blocks from the first step to the last. Its free cells are rows, in
// tiles of TILE rows that the blocks take by turns; frozen cells are a table that nothing writes. One step:
//
//     z       what the rows of a tile perceive of their neighbours, by all threads, to shared memory
//     hidden  relu(z · w_in + b_in): every warp computes HIDDEN / HIDDEN_SPLIT of it for 16 rows, on tensor
//             cores, with its share of the weights in registers, and multiplies it by its share of w_out
//     change  the sum of the warps' products, masked by who fires, added to the row's state
//
// and then a barrier of the cluster. The neighbours of the next tile are on their way while a tile is computed,
// or else a multiprocessor, on which one block fits, would wait for them most of the time. States live in global memory (that is: in L2) and are read past L1.
// The random bits are those of `bits.py`.
//
// Sizes come as definitions: CHANNELS, HEADS, HIDDEN, ROW_TILES, HIDDEN_SPLIT, CLUSTER, PASSES (1: factors
// rounded to TF32; 3: as good as float32), FIRE_BELOW; with NOISE also NOISE_WHEN_BELOW, NOISE_WHERE_BELOW,
// NOISE_SIZE, NOISE_UNTIL; with KEEP every state, what was perceived and the hidden layer are kept.

#include "bits.cuh"

#ifdef EMULATED
#define IN_CLUSTERS
#else
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
extern __shared__ __align__(16) float shared_memory[];
#endif

constexpr int C = CHANNELS, Z = CHANNELS * HEADS, H = HIDDEN;
constexpr int TILE = 16 * ROW_TILES, THREADS = 32 * ROW_TILES * HIDDEN_SPLIT;
constexpr int SHARE = H / HIDDEN_SPLIT;  // Hidden numbers of a warp.
constexpr int ZS = Z + 4, CS = C + 4;    // Strides in shared memory, free of bank conflicts.
constexpr int PS = C + 8, DS = Z + 8;
constexpr int QUADS = C / 4, PAIRS = C / 2;

static_assert(C % 8 == 0 && Z % 8 == 0 && SHARE % 8 == 0 && HEADS % 2 == 0, "sizes do not fit the tiles");

// ---- tensor cores -----------------------------------------------------------------------------------------

struct Split {
  u32 high, low;
};

// A float as the sum of two that TF32 holds. Volatile, so that it is not moved out of loops into registers.
__device__ __forceinline__ Split split(float x) {
  Split s;
#ifdef EMULATED
  s.high = bits_of(x) & 0xFFFFE000u;
#else
  asm volatile("and.b32 %0, %1, 0xFFFFE000;" : "=r"(s.high) : "r"(__float_as_uint(x)));
#endif
  s.low = __float_as_uint(x - __uint_as_float(s.high));
  return s;
}

__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#ifdef EMULATED
  emulated_mma(d, a, b);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// One factor of a product, as the tensor cores want it.
template <int N>
struct Factor {
  u32 high[N], low[N];

  __device__ __forceinline__ explicit Factor(const float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
#if PASSES == 1
      high[i] = __float_as_uint(x[i]) + 0x1000u;  // Rounded, because the tensor cores cut off.
#else
      Split s = split(x[i]);
      high[i] = s.high;
      low[i] = s.low;
#endif
    }
  }
};

// d += a · b, for 16 × 8 and 8 × 8 numbers.
__device__ __forceinline__ void product(float (&d)[4], const Factor<4>& a, const float (&weights)[2]) {
  Factor<2> b(weights);
#if PASSES == 3
  mma(d, a.low, b.high);
  mma(d, a.high, b.low);
#endif
  mma(d, a.high, b.high);
}

// Hidden numbers 2t and 2t + 1 of a warp's result stand where columns t and t + 4 of a factor are wanted, so the
// rows of the other factor are taken in that order.
__device__ __forceinline__ Factor<4> as_factor(const float (&d)[4]) {
  const float x[4] = {d[0], d[2], d[1], d[3]};
  return Factor<4>(x);
}

// ---- what blocks share ------------------------------------------------------------------------------------

__device__ __forceinline__ void barrier() {
#ifdef EMULATED
  emulated_cluster_barrier();
#else
  if (CLUSTER == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
#endif
}

// Begins to copy 16 bytes or 4 past L1, and waits for all that were begun.
__device__ __forceinline__ void copy_early(float* to, const float* from) {
#ifdef EMULATED
  emulated_copy_early(to, from, 16);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(u32(__cvta_generic_to_shared(to))), "l"(from)
               : "memory");
#endif
}
__device__ __forceinline__ void copy_early(int* to, const int* from) {
#ifdef EMULATED
  emulated_copy_early(to, from, 4);
#else
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(u32(__cvta_generic_to_shared(to))), "l"(from)
               : "memory");
#endif
}
__device__ __forceinline__ void copies_wait() {
#ifdef EMULATED
  emulated_copies_wait();
#else
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

struct Board {
  const int* near;     // [9][rows]: where neighbour n of a row is: in the table, or from `table_rows` on a row
  const float* table;  // [table_rows][C]
  int rows, table_rows;

  // Neighbour n of a row, given the states of the rows.
  __device__ __forceinline__ const float* neighbour(const float* slot, int n, int row) const {
    return found(slot, __ldg(near + n * rows + row));
  }
  __device__ __forceinline__ const float* found(const float* slot, int at) const {
    return at < table_rows ? table + size_t(at) * C : slot + size_t(at - table_rows) * C;
  }
};

__device__ __forceinline__ float4 load4(const float* at) { return __ldcg(reinterpret_cast<const float4*>(at)); }
__device__ __forceinline__ float2 load2(const float* at) { return __ldcg(reinterpret_cast<const float2*>(at)); }
__device__ __forceinline__ void store4(float* at, float4 x) { *reinterpret_cast<float4*>(at) = x; }
__device__ __forceinline__ void store2(float* at, float x, float y) {
  *reinterpret_cast<float2*>(at) = make_float2(x, y);
}

__device__ __forceinline__ void add_times(float4& sum, float k, float4 x) {
  sum.x += k * x.x;
  sum.y += k * x.y;
  sum.z += k * x.z;
  sum.w += k * x.w;
}

// ---- forward ----------------------------------------------------------------------------------------------

// What is kept goes into large products, so idle rows have to be written as well.
#ifdef KEEP
#define SLOT(t) (size_t(t) * rows * C)
#define LAST rows
#else
#define SLOT(t) (size_t((t) & 1) * rows * C)
#define LAST live
#endif

extern "C" __global__ void __launch_bounds__(THREADS) IN_CLUSTERS steps_forward(
    const u32* keys, const int* firsts, const int* counts_of_steps, const int* free_cells, const int* sizes,
    const int* cells_all, const int* near_all, const float* tables, const float* begin, const float* kernels,
    const float* w_in, const float* b_in, const float* w_out, const float* b_out,
    float* slots_all
#ifdef KEEP
    , float* perceived_all, float* hidden_all
#endif
) {
  const int board = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER, tid = threadIdx.x;
  const int rows = sizes[0], table_rows = sizes[1], kept = sizes[2];
  const int steps = counts_of_steps[board], first = firsts[board], live = free_cells[board];
  const u32 key = keys[board];
  const Board at{near_all + size_t(board) * 9 * rows, tables + size_t(board) * table_rows * C, rows, table_rows};
  const int* cells = cells_all + size_t(board) * rows;
  float* slots = slots_all + size_t(board) * kept * rows * C;

  float* shared = shared_memory;
  float* z_tile = shared;               // [TILE][ZS]
  float* parts = shared + TILE * ZS;    // [HIDDEN_SPLIT][TILE][PS]
  float* early = parts + HIDDEN_SPLIT * TILE * PS;  // [2][9][TILE][C]: the neighbours of this tile and the next
  int* early_cells = reinterpret_cast<int*>(early + 2 * 9 * TILE * C);  // [2][TILE]

  for (int i = rank * THREADS + tid; i < rows * QUADS; i += CLUSTER * THREADS) {
    store4(slots + 4 * i, load4(begin + size_t(board) * rows * C + 4 * i));
  }

  const int warp = tid / 32, lane = tid % 32, g = lane / 4, t4 = lane % 4;
  const int row_tile = warp / HIDDEN_SPLIT, part = warp % HIDDEN_SPLIT, hidden0 = part * SHARE;

  // This warp's share of the weights.
  float win[Z / 8][SHARE / 8][2], wout[SHARE / 8][C / 8][2], bias[SHARE / 8][2];
#pragma unroll
  for (int n = 0; n < SHARE / 8; n++) {
    const int column = hidden0 + 8 * n;
#pragma unroll
    for (int k = 0; k < Z / 8; k++) {
      win[k][n][0] = w_in[(8 * k + t4) * H + column + g];
      win[k][n][1] = w_in[(8 * k + t4 + 4) * H + column + g];
    }
#pragma unroll
    for (int c = 0; c < C / 8; c++) {
      wout[n][c][0] = w_out[(8 * c + g) * H + column + 2 * t4];
      wout[n][c][1] = w_out[(8 * c + g) * H + column + 2 * t4 + 1];
    }
    bias[n][0] = b_in[column + 2 * t4];
    bias[n][1] = b_in[column + 2 * t4 + 1];
  }

  // A thread perceives with half of the heads.
  constexpr int HALF = HEADS / 2;
  const int half = tid % 2;
  float kernel[HALF][9];
#pragma unroll
  for (int m = 0; m < HALF; m++) {
#pragma unroll
    for (int n = 0; n < 9; n++) kernel[m][n] = kernels[(half * HALF + m) * 9 + n];
  }

  // Where the neighbours of a tile are, and copying them.
  constexpr int COPIES = (9 * TILE * QUADS + THREADS - 1) / THREADS;
  const auto find = [&](int (&places)[COPIES], int row0) {
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
      const int item = tid + i * THREADS, row = row0 + item / QUADS % TILE, n = item / QUADS / TILE;
      places[i] = n < 9 && row < live ? __ldg(at.near + n * rows + row) : -1;
    }
  };
  const auto copy = [&](const int (&places)[COPIES], const float* slot, int row0, int buffer) {
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
      const int item = tid + i * THREADS;
      if (places[i] < 0) continue;
      copy_early(early + buffer * 9 * TILE * C + 4 * item, at.found(slot, places[i]) + 4 * (item % QUADS));
    }
    if (tid < TILE && row0 + tid < rows) copy_early(early_cells + buffer * TILE + tid, cells + row0 + tid);
  };
  barrier();

  int buffer = 0;
  for (int t = 0; t < steps; t++) {
    const float* before = slots + SLOT(t);
    float* after = slots + SLOT(t + 1);
    const u32 fire_key = at_step(key, FIRE, u32(first + t));
#ifdef NOISE
    const bool kicked = first + t < NOISE_UNTIL && chance(at_step(key, NOISE_WHEN, u32(first + t)), NOISE_WHEN_BELOW);
    const u32 where_key = at_step(key, NOISE_WHERE, u32(first + t));
    const u32 noise_key = at_step(key, NOISE_BITS, u32(first + t));
#endif

    if (rank * TILE < LAST) {
      int places[COPIES];
      find(places, rank * TILE);
      copy(places, before, rank * TILE, buffer);
    }
    for (int row0 = rank * TILE; row0 < LAST; row0 += CLUSTER * TILE, buffer ^= 1) {
      const int next = row0 + CLUSTER * TILE;
      int places[COPIES];
      find(places, next);
      copies_wait();
      __syncthreads();
      if (next < LAST) copy(places, before, next, buffer ^ 1);
      const float* around = early + buffer * 9 * TILE * C;
      const int* cells_here = early_cells + buffer * TILE;

      // What the rows perceive.
      for (int item = tid; item < TILE * QUADS * 2; item += THREADS) {
        const int quad = (item / 2) % QUADS, row = item / 2 / QUADS;
        float4 z[HALF];
        for (int m = 0; m < HALF; m++) z[m] = make_float4(0, 0, 0, 0);
        if (row0 + row < live) {
#pragma unroll
          for (int n = 0; n < 9; n++) {
            const float4 x = *reinterpret_cast<const float4*>(around + (n * TILE + row) * C + 4 * quad);
#pragma unroll
            for (int m = 0; m < HALF; m++) add_times(z[m], kernel[m][n], x);
          }
        }
#pragma unroll
        for (int m = 0; m < HALF; m++) {
          const int column = (half * HALF + m) * C + 4 * quad;
          store4(z_tile + row * ZS + column, z[m]);
#ifdef KEEP
          if (row0 + row < rows) {
            store4(perceived_all + ((size_t(board) * (kept - 1) + t) * rows + row0 + row) * Z + column, z[m]);
          }
#endif
        }
      }
      __syncthreads();

      // Hidden layer and this warp's part of the change.
      const float* zs = z_tile + (16 * row_tile + g) * ZS + t4;
      float hidden[SHARE / 8][4];
#pragma unroll
      for (int n = 0; n < SHARE / 8; n++) {
        hidden[n][0] = hidden[n][2] = bias[n][0];
        hidden[n][1] = hidden[n][3] = bias[n][1];
      }
#pragma unroll
      for (int k = 0; k < Z / 8; k++) {
        const float a[4] = {zs[8 * k], zs[8 * k + 8 * ZS], zs[8 * k + 4], zs[8 * k + 8 * ZS + 4]};
        const Factor<4> factor(a);
#pragma unroll
        for (int n = 0; n < SHARE / 8; n++) product(hidden[n], factor, win[k][n]);
      }
      float change[C / 8][4] = {};
#pragma unroll
      for (int n = 0; n < SHARE / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) hidden[n][i] = fmaxf(hidden[n][i], 0.0f);
#ifdef KEEP
        const int row = row0 + 16 * row_tile + g;
        float* kept_hidden =
            hidden_all + ((size_t(board) * (kept - 1) + t) * rows + row) * H + hidden0 + 8 * n + 2 * t4;
        if (row < rows) store2(kept_hidden, hidden[n][0], hidden[n][1]);
        if (row + 8 < rows) store2(kept_hidden + 8 * H, hidden[n][2], hidden[n][3]);
#endif
        const Factor<4> factor = as_factor(hidden[n]);
#pragma unroll
        for (int c = 0; c < C / 8; c++) product(change[c], factor, wout[n][c]);
      }
      float* mine = parts + (part * TILE + 16 * row_tile + g) * PS + 2 * t4;
#pragma unroll
      for (int c = 0; c < C / 8; c++) {
        store2(mine + 8 * c, change[c][0], change[c][1]);
        store2(mine + 8 * c + 8 * PS, change[c][2], change[c][3]);
      }
      __syncthreads();

      // The new state.
      for (int item = tid; item < TILE * PAIRS; item += THREADS) {
        const int row = row0 + item / PAIRS, channel = 2 * (item % PAIRS);
        if (row >= LAST) continue;
        const float* sums = parts + (item / PAIRS) * PS + channel;
        float x = b_out[channel], y = b_out[channel + 1];
#pragma unroll
        for (int p = 0; p < HIDDEN_SPLIT; p++) {
          x += sums[p * TILE * PS];
          y += sums[p * TILE * PS + 1];
        }
        const int cell = cells_here[item / PAIRS];
        const bool fires = chance(at_cell(fire_key, cell), FIRE_BELOW);
        float2 state;
        if (row < live) {
          state = *reinterpret_cast<const float2*>(around + (4 * TILE + item / PAIRS) * C + channel);
        } else {
          state = load2(before + size_t(row) * C + channel);
        }
        if (fires && row < live) {
          state.x += x;
          state.y += y;
        }
#ifdef NOISE
        if (kicked && row < live && chance(at_cell(where_key, cell), NOISE_WHERE_BELOW)) {
          const u32 word = mix(at_cell(noise_key, cell) + u32(channel / 2) * GOLDEN);
          const float high = (float(word >> 16) + 0.5f) * 0x1p-16f;
          const float turn = float(word & 0xFFFFu) * float(2 * 3.14159265358979323846 * 0x1p-16);
          const float radius = sqrtf(-2.0f * logf(high));
          state.x += NOISE_SIZE * (radius * cosf(turn));
          state.y += NOISE_SIZE * (radius * sinf(turn));
        }
#endif
        store2(after + size_t(row) * C + channel, state.x, state.y);
      }
    }
    barrier();
  }
}

// ---- backward ---------------------------------------------------------------------------------------------
//
// From the last step to the first, with d the gradient of the state after the step:
//
//     d_change  d of the rows that fired           kept for the gradients of w_out and b_out
//     d_hidden  d_change · w_out where hidden > 0  kept for the gradients of w_in and b_in
//     d_z       d_hidden · w_inᵀ
//     sent[n]   what neighbour n of a row gets: the sum over heads of kernel[m][n] · d_z[m]
//     d         += what the row gets from the rows whose neighbour it is, + the gradient of this state itself
//
// The gradients of the matrices are single large products, made afterwards; those of the 3 × 3 kernels are
// summed here, by threads that serve one neighbour each.

#ifdef KEEP
extern "C" __global__ void __launch_bounds__(THREADS) IN_CLUSTERS steps_backward(
    const u32* keys, const int* firsts, const int* free_cells, const int* sizes, const int* cells_all,
    const int* near_all, const int* back_all, const float* tables, const float* kernels, const float* w_in,
    const float* w_out, const float* slots_all, const float* hidden_all, const float* d_slots_all,
    float* d_change_all, float* d_hidden_all, float* d_kernels, float* d_begin, float* sent_all) {
  const int board = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER, tid = threadIdx.x;
  const int rows = sizes[0], table_rows = sizes[1], kept = sizes[2], steps = kept - 1;
  const int first = firsts[board], live = free_cells[board];
  const u32 key = keys[board];
  const Board at{near_all + size_t(board) * 9 * rows, tables + size_t(board) * table_rows * C, rows, table_rows};
  const int* cells = cells_all + size_t(board) * rows;
  const int* back = back_all + size_t(board) * 9 * rows;
  const float* slots = slots_all + size_t(board) * kept * rows * C;
  const float* d_slots = d_slots_all + size_t(board) * kept * rows * C;
  float* sent = sent_all + size_t(board) * 2 * 9 * rows * C;

  float* shared = shared_memory;
  float* change_tile = shared;                               // [TILE][CS]
  float* parts = change_tile + TILE * CS;                    // [HIDDEN_SPLIT][TILE][DS]
  float* z_tile = parts + HIDDEN_SPLIT * TILE * DS;          // [TILE][DS]
  float* d_rows = z_tile + TILE * DS;                        // [rows of this block][C]

  const int warp = tid / 32, lane = tid % 32, g = lane / 4, t4 = lane % 4;
  const int row_tile = warp / HIDDEN_SPLIT, part = warp % HIDDEN_SPLIT, hidden0 = part * SHARE;

  float wout[C / 8][SHARE / 8][2], win[SHARE / 8][Z / 8][2];
#pragma unroll
  for (int n = 0; n < SHARE / 8; n++) {
    const int column = hidden0 + 8 * n;
#pragma unroll
    for (int c = 0; c < C / 8; c++) {
      wout[c][n][0] = w_out[(8 * c + t4) * H + column + g];
      wout[c][n][1] = w_out[(8 * c + t4 + 4) * H + column + g];
    }
#pragma unroll
    for (int z = 0; z < Z / 8; z++) {
      win[n][z][0] = w_in[(8 * z + g) * H + column + 2 * t4];
      win[n][z][1] = w_in[(8 * z + g) * H + column + 2 * t4 + 1];
    }
  }

  constexpr int CREW = THREADS / 9;
  const int served = tid / CREW;  // The neighbour that this thread serves, if below nine.
  float kernel[HEADS], d_kernel[HEADS] = {};
#pragma unroll
  for (int m = 0; m < HEADS; m++) kernel[m] = served < 9 ? kernels[m * 9 + served] : 0.0f;

  // Row i of this block is row `(i / TILE * CLUSTER + rank) * TILE + i % TILE` of the board.
  const float* d_last = d_slots + size_t(steps) * rows * C;
  for (int row0 = rank * TILE, mine = 0; row0 < LAST; row0 += CLUSTER * TILE, mine += TILE) {
    for (int item = tid; item < TILE * QUADS; item += THREADS) {
      const int row = item / QUADS, quad = item % QUADS;
      float4 d = make_float4(0, 0, 0, 0);
      if (row0 + row < live) d = load4(d_last + size_t(row0 + row) * C + 4 * quad);
      store4(d_rows + (mine + row) * C + 4 * quad, d);
    }
  }
  __syncthreads();

  for (int t = steps - 1; t >= 0; t--) {
    const u32 fire_key = at_step(key, FIRE, u32(first + t));
    float* out = sent + size_t(t & 1) * 9 * rows * C;
    const size_t kept_row0 = (size_t(board) * steps + t) * rows;

    for (int row0 = rank * TILE, mine = 0; row0 < LAST; row0 += CLUSTER * TILE, mine += TILE) {
      for (int item = tid; item < TILE * QUADS; item += THREADS) {
        const int row = item / QUADS, quad = item % QUADS;
        float4 d = make_float4(0, 0, 0, 0);
        if (row0 + row < live && chance(at_cell(fire_key, cells[row0 + row]), FIRE_BELOW)) {
          d = *reinterpret_cast<const float4*>(d_rows + (mine + row) * C + 4 * quad);
        }
        store4(change_tile + row * CS + 4 * quad, d);
        if (row0 + row < rows) store4(d_change_all + (kept_row0 + row0 + row) * C + 4 * quad, d);
      }
      __syncthreads();

      // The hidden layer's gradient, and this warp's part of what was perceived.
      float d_hidden[SHARE / 8][4] = {};
      const float* changes = change_tile + (16 * row_tile + g) * CS + t4;
#pragma unroll
      for (int c = 0; c < C / 8; c++) {
        const float a[4] = {changes[8 * c], changes[8 * c + 8 * CS], changes[8 * c + 4], changes[8 * c + 8 * CS + 4]};
        const Factor<4> factor(a);
#pragma unroll
        for (int n = 0; n < SHARE / 8; n++) product(d_hidden[n], factor, wout[c][n]);
      }
      const int row = row0 + 16 * row_tile + g;
#pragma unroll
      for (int n = 0; n < SHARE / 8; n++) {
        const size_t place = (kept_row0 + row) * H + hidden0 + 8 * n + 2 * t4;
        float2 above = make_float2(0, 0), below = make_float2(0, 0);
        if (row < rows) above = load2(hidden_all + place);
        if (row + 8 < rows) below = load2(hidden_all + place + 8 * H);
        d_hidden[n][0] = above.x > 0 ? d_hidden[n][0] : 0.0f;
        d_hidden[n][1] = above.y > 0 ? d_hidden[n][1] : 0.0f;
        d_hidden[n][2] = below.x > 0 ? d_hidden[n][2] : 0.0f;
        d_hidden[n][3] = below.y > 0 ? d_hidden[n][3] : 0.0f;
        if (row < rows) store2(d_hidden_all + place, d_hidden[n][0], d_hidden[n][1]);
        if (row + 8 < rows) store2(d_hidden_all + place + 8 * H, d_hidden[n][2], d_hidden[n][3]);
      }
      float* part_z = parts + (part * TILE + 16 * row_tile + g) * DS + 2 * t4;
#pragma unroll
      for (int z = 0; z < Z / 8; z++) {
        float d[4] = {};
#pragma unroll
        for (int n = 0; n < SHARE / 8; n++) product(d, as_factor(d_hidden[n]), win[n][z]);
        store2(part_z + 8 * z, d[0], d[1]);
        store2(part_z + 8 * z + 8 * DS, d[2], d[3]);
      }
      __syncthreads();

      for (int item = tid; item < TILE * (Z / 4); item += THREADS) {
        const int at_z = (item / (Z / 4)) * DS + 4 * (item % (Z / 4));
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int p = 0; p < HIDDEN_SPLIT; p++) {
          add_times(sum, 1.0f, *reinterpret_cast<const float4*>(parts + p * TILE * DS + at_z));
        }
        store4(z_tile + at_z, sum);
      }
      __syncthreads();

      if (served < 9) {
        const float* before = slots + size_t(t) * rows * C;
        for (int item = tid % CREW; item < TILE * QUADS; item += CREW) {
          const int own = item / QUADS, quad = item % QUADS;
          if (row0 + own >= live) continue;
          const float4 x = load4(at.neighbour(before, served, row0 + own) + 4 * quad);
          float4 give = make_float4(0, 0, 0, 0);
#pragma unroll
          for (int m = 0; m < HEADS; m++) {
            const float4 d = *reinterpret_cast<const float4*>(z_tile + own * DS + m * C + 4 * quad);
            add_times(give, kernel[m], d);
            d_kernel[m] += d.x * x.x + d.y * x.y + d.z * x.z + d.w * x.w;
          }
          store4(out + (size_t(served) * rows + row0 + own) * C + 4 * quad, give);
        }
      }
    }
    barrier();

    const float* d_state = d_slots + size_t(t) * rows * C;
    for (int row0 = rank * TILE, mine = 0; row0 < LAST; row0 += CLUSTER * TILE, mine += TILE) {
      for (int item = tid; item < TILE * QUADS; item += THREADS) {
        const int row = row0 + item / QUADS, quad = item % QUADS;
        if (row >= live) continue;
        float* place = d_rows + (mine + item / QUADS) * C + 4 * quad;
        float4 d = *reinterpret_cast<const float4*>(place);
        add_times(d, 1.0f, load4(d_state + size_t(row) * C + 4 * quad));
#pragma unroll
        for (int n = 0; n < 9; n++) {
          const int from = __ldg(back + n * rows + row);
          if (from >= 0) add_times(d, 1.0f, load4(out + (size_t(n) * rows + from) * C + 4 * quad));
        }
        store4(place, d);
      }
    }
    __syncthreads();
  }

  for (int row0 = rank * TILE, mine = 0; row0 < LAST; row0 += CLUSTER * TILE, mine += TILE) {
    for (int item = tid; item < TILE * QUADS; item += THREADS) {
      const int row = row0 + item / QUADS, quad = item % QUADS;
      float4 d = make_float4(0, 0, 0, 0);
      if (row < live) d = *reinterpret_cast<const float4*>(d_rows + (mine + item / QUADS) * C + 4 * quad);
      if (row < rows) store4(d_begin + (size_t(board) * rows + row) * C + 4 * quad, d);
    }
  }

  // The threads' sums for the kernels, added up in a fixed order.
  __syncthreads();
  float* sums = parts;
#pragma unroll
  for (int m = 0; m < HEADS; m++) sums[m * THREADS + tid] = d_kernel[m];
  __syncthreads();
  if (tid < HEADS * 9) {
    const int m = tid / 9, n = tid % 9;
    float sum = 0;
    for (int i = 0; i < CREW; i++) sum += sums[m * THREADS + n * CREW + i];
    d_kernels[(size_t(board) * CLUSTER + rank) * HEADS * 9 + tid] = sum;
  }
}
#endif
