// Runs CUDA kernels on a CPU, one fibre for each thread, so that their source can be tested without a GPU.
//
// A barrier is a place where a fibre waits until all of its group have come: a warp, a block or a cluster.
// Blocks of a cluster run together, clusters one after another. Fibres take turns in an order that `stride`
// (coprime to their number) decides, so a missing barrier shows as a wrong number.

#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#define EMULATED 1
#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)

struct Dim {
  unsigned x, y, z;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct uint4 {
  uint32_t x, y, z, w;
};
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <class T>
T __ldcg(const T* at) { return *at; }
template <class T>
T __ldg(const T* at) { return *at; }
inline uint32_t bits_of(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
inline uint32_t __float_as_uint(float x) { return bits_of(x); }
inline float __uint_as_float(uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}

namespace emulator {

struct Group {
  int size, arrived = 0;
  long generation = 0;
};

// Products that a warpgroup has begun, and counters that copies arrive at; see hopper.h.
struct Product {
  uint64_t a, b;
  bool from_registers;
  int rows;
  float* sums[128];
  uint32_t factor[128][4];
};
struct Warpgroup {
  Group group{128};
  std::vector<Product> begun;
  std::vector<std::map<float*, std::vector<float>>> sums{128};  // Of each thread, until they are waited for.
  std::vector<size_t> issued = std::vector<size_t>(128);
  std::vector<bool> fenced = std::vector<bool>(128);
};
struct Copy {
  char* to;
  const char* from;
  size_t bytes;
};
struct Counter {
  int arrivals, missing;
  long bytes = 0;
  uint32_t phase = 0;
  std::vector<Copy> copies;
};

// What the threads of a block share. Memory begins 16 bytes after a multiple of 1,024, so that nothing else is
// aligned by accident.
struct Block {
  std::vector<char> room;
  char* origin;
  std::map<int, Group> some;
  std::map<const void*, Counter> counters;
  std::vector<Warpgroup> warpgroups;

  Block(size_t floats, int threads) : room(4 * floats + 2048), warpgroups((threads + 127) / 128) {
    origin = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(room.data()) + 1023) / 1024 * 1024);
    std::fill_n(memory(), floats, NAN);
  }
  float* memory() { return reinterpret_cast<float*>(origin + 16); }
};

struct Fibre {
  ucontext_t context;  // To begin with; from then on jumps, which cost no system call.
  jmp_buf here;
  bool begun = false;
  std::vector<char> stack;
  Dim thread, block;
  Block* own;
  std::vector<std::unique_ptr<Block>>* peers;  // The blocks of the cluster.
  float* shared;
  Group *warp, *cta, *cluster;
  int lane;
  float* exchange;  // [32][10], of the warp
  bool done = false;
  std::vector<Copy> early;  // Copies that this thread has not waited for.
};

inline jmp_buf scheduler;
inline Fibre* current;
inline std::function<void()> body;

inline void pause() {
  if (!_setjmp(current->here)) _longjmp(scheduler, 1);
}

inline void go_on(Fibre* fibre) {
  current = fibre;
  if (_setjmp(scheduler)) return;
  if (fibre->begun) _longjmp(fibre->here, 1);
  fibre->begun = true;
  setcontext(&fibre->context);
}

inline void meet(Group* group) {
  const long before = group->generation;
  if (++group->arrived == group->size) {
    group->arrived = 0;
    group->generation++;
    return;
  }
  while (group->generation == before) pause();
}

inline void begin() {
  body();
  current->done = true;
  pause();
}

inline void launch(int grid, int threads, int cluster, size_t shared_floats, size_t stride, std::function<void()> kernel) {
  body = kernel;
  for (int first = 0; first < grid; first += cluster) {
    std::vector<Fibre> fibres(cluster * threads);
    std::vector<std::unique_ptr<Block>> blocks;
    for (int i = 0; i < cluster; i++) blocks.push_back(std::make_unique<Block>(shared_floats, threads));
    std::vector<Group> warps(cluster * threads / 32, {32}), ctas(cluster, {threads});
    std::vector<std::vector<float>> exchange(warps.size(), std::vector<float>(32 * 10));
    Group all{cluster * threads};
    for (int i = 0; i < cluster * threads; i++) {
      Fibre& f = fibres[i];
      f.stack.resize(128 << 10);
      f.thread = {unsigned(i % threads), 0, 0};
      f.block = {unsigned(first + i / threads), 0, 0};
      f.own = blocks[i / threads].get();
      f.peers = &blocks;
      f.shared = f.own->memory();
      f.warp = &warps[i / 32];
      f.cta = &ctas[i / threads];
      f.cluster = &all;
      f.lane = i % 32;
      f.exchange = exchange[i / 32].data();
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.data();
      f.context.uc_stack.ss_size = f.stack.size();
      f.context.uc_link = nullptr;
      makecontext(&f.context, begin, 0);
    }
    size_t left = fibres.size(), n = left;
    for (size_t turn = 0; left;) {
      for (size_t i = 0; i < n; i++, turn++) {
        Fibre& f = fibres[(i * stride + turn / n) % n];
        if (f.done) continue;
        go_on(&f);
        left -= f.done;
      }
    }
  }
}

// A kernel whose arguments are pointers.
template <class... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(static_cast<A>(arguments[I])...);
}

template <class... A>
void run(void (*kernel)(A...), void** arguments, int grid, int threads, int cluster, size_t shared, size_t stride) {
  launch(grid, threads, cluster, shared, stride,
         [=] { call(kernel, arguments, std::index_sequence_for<A...>{}); });
}

}  // namespace emulator

#define threadIdx (emulator::current->thread)
#define blockIdx (emulator::current->block)
#define shared_memory (emulator::current->shared)
inline void __syncthreads() { emulator::meet(emulator::current->cta); }
inline void __syncwarp() { emulator::meet(emulator::current->warp); }
inline void emulated_cluster_barrier() { emulator::meet(emulator::current->cluster); }

// A copy that arrives when it is waited for; until then there is nothing.
inline void emulated_copy_early(void* to, const void* from, size_t bytes) {
  std::memset(to, 0xFF, bytes);
  emulator::current->early.push_back({static_cast<char*>(to), static_cast<const char*>(from), bytes});
}
inline void emulated_copies_wait() {
  for (const emulator::Copy& copy : emulator::current->early) std::memcpy(copy.to, copy.from, copy.bytes);
  emulator::current->early.clear();
}

// mma.m16n8k8 with TF32 factors: 13 bits of each are ignored, sums are single precision.
inline void emulated_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::Fibre* f = emulator::current;
  float* mine = f->exchange + 10 * f->lane;
  for (int i = 0; i < 4; i++) mine[i] = __uint_as_float(a[i] & 0xFFFFE000u);
  for (int i = 0; i < 2; i++) mine[4 + i] = __uint_as_float(b[i] & 0xFFFFE000u);
  __syncwarp();
  const int g = f->lane / 4, t = f->lane % 4;
  for (int i = 0; i < 4; i++) {
    const int row = g + 8 * (i / 2), column = 2 * t + i % 2;
    for (int k = 0; k < 8; k++) {
      const float* of_a = f->exchange + 10 * (4 * (row % 8) + k % 4);
      const float* of_b = f->exchange + 10 * (4 * column + k % 4);
      d[i] += of_a[row / 8 + 2 * (k / 4)] * of_b[4 + k / 4];
    }
  }
  __syncwarp();
}

// The value of the lane whose number differs in these bits.
inline float __shfl_xor_sync(uint32_t, float x, int bits) {
  emulator::Fibre* f = emulator::current;
  f->exchange[10 * f->lane] = x;
  __syncwarp();
  const float other = f->exchange[10 * (f->lane ^ bits)];
  __syncwarp();
  return other;
}

inline void sincospif(float x, float* sine, float* cosine) {
  *sine = std::sin(M_PI * x);
  *cosine = std::cos(M_PI * x);
}

#include "hopper.h"
