// The gradient of `attention.cu`.
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

extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTERS steps_backward(
    const int* sizes, const u32* keys, const int* firsts, const unsigned char* given, const float4* attention,
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
        for (int tile = 0; tile < boards.tiles; tile++) {
          if (t < steps) producer.stream(ROUND_STAGES, VALUE_STAGES);
          if (t > 0) producer.stream(0, ROUND_STAGES);
        }
      }
    }
    cluster_meets();
    return;
  }
  registers_up<MANY_REGISTERS>();
  Place me(shared);

  // State t, of which d is the gradient, is what step t - 1 made.
  for (int t = steps; t >= 0; t--) {
    for (int tile = 0; tile < boards.tiles; tile++) {
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
          const float length = root(over_unit(dot(y, y))), scale = inverse(length + EPS);
          const float y_d = over_unit(dot(y, d)), along = length > 0 ? y_d * scale * scale * inverse(length) : 0.0f;
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
  cluster_meets();
}
