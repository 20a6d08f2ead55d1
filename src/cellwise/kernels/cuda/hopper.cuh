// What only Hopper has: products of a warpgroup, copies in the background, barriers that count bytes.
//
// A factor in shared memory is a panel: rows of 64 bf16 numbers along the inner dimension, 128 bytes each, with the
// eight 16-byte pieces of row r at places piece ^ (r % 8), so that no two rows meet in a bank. Panels begin at
// multiples of 1,024 bytes.

#pragma once

#include "bits.cuh"

typedef unsigned long long u64;
typedef unsigned short u16;

constexpr int PANEL_WIDTH = 64;
constexpr int ROW_BYTES = 128;

// Where 16-byte piece `piece` of a row is, in bytes from the beginning of the panel.
__device__ __forceinline__ u32 piece_at(u32 row, u32 piece) { return row * ROW_BYTES + ((piece ^ (row & 7u)) << 4); }

// Two numbers rounded to bf16, the first in the low half.
__device__ __forceinline__ u32 rounded(float low, float high) {
#ifdef EMULATED
  return emulated_rounded(low, high);
#else
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#endif
}

// Square roots and inverses to the last bit or so. The exact ones have branches, across which nothing is overlapped.
__device__ __forceinline__ float root(float x) {
#ifdef EMULATED
  return std::sqrt(x);
#else
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}
__device__ __forceinline__ float inverse(float x) {
#ifdef EMULATED
  return 1.0f / x;
#else
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// The same number, of which the compiler does not know that: what is made of it is made again, not kept.
__device__ __forceinline__ int anew(int x) {
#ifndef EMULATED
  asm volatile("" : "+r"(x));
#endif
  return x;
}

// Brings 128 bytes to L2.
__device__ __forceinline__ void bring(const void* at) {
#ifndef EMULATED
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

__device__ __forceinline__ float low_of(u32 both) { return __uint_as_float(both << 16); }
__device__ __forceinline__ float high_of(u32 both) { return __uint_as_float(both & 0xFFFF0000u); }

// A panel, or 16 columns of one from `address` on, as the tensor cores want it told: 1,024 bytes from eight rows to
// the next eight, pieces exchanged within 128 bytes.
__device__ __forceinline__ u64 panel_at(u32 address) {
  return (u64(1) << 62) | (u64(1024 >> 4) << 32) | (u64(1) << 16) | ((address >> 4) & 0x3FFFu);
}

#ifndef EMULATED

__device__ __forceinline__ u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }

// Keeps the compiler from moving anything that concerns these registers past this point.
template <int N>
__device__ __forceinline__ void hold(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i])::"memory");
}

// Before products that are added to sums, and again after every branch among them; then waiting for the sums.
template <int N>
__device__ __forceinline__ void products_begin(float (&sums)[N]) {
  hold(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
template <int N>
__device__ __forceinline__ void products_wait(float (&sums)[N]) {
  asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
  hold(sums);
}

// Registers go from the warpgroup that copies to those that compute.
template <int COUNT>
__device__ __forceinline__ void registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// Makes ordinary writes to shared memory visible to products.
__device__ __forceinline__ void before_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void some_threads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void counter_begin(u64* counter, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(counter)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void counters_begun() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// At the same counter of block `rank` of the cluster.
__device__ __forceinline__ void counter_arrive(u64* counter, u32 rank) {
  asm volatile(
      "{\n\t.reg .b32 there;\n\t"
      "mapa.shared::cluster.u32 there, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}" ::"r"(shared_address(counter)), "r"(rank)
      : "memory");
}
__device__ __forceinline__ void counter_expect(u64* counter, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(counter)), "r"(bytes)
               : "memory");
}

// Waits until the phase of this parity is over.
__device__ __forceinline__ void counter_wait(u64* counter, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred over;\n"
      "again:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n\t"
      "@over bra done;\n\t"
      "bra again;\n"
      "done:\n\t}" ::"r"(shared_address(counter)), "r"(parity)
      : "memory");
}

// To the same place of the blocks of a cluster whose bits are set; each block's own counter counts the bytes.
__device__ __forceinline__ void copy_in_background(void* to, const void* from, u32 bytes, u64* counter, u16 blocks) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(counter)), "h"(blocks)
      : "memory");
}

// All threads of all blocks of a cluster.
__device__ __forceinline__ void cluster_meets() {
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// d += a · bᵀ for 64 rows of a, whose 16 columns are in shared memory or in registers, and the rows of b.
template <int ROWS>
struct Product;

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)

#define SUMS_64 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
template <>
struct Product<64> {
  static __device__ __forceinline__ void add(float (&d)[32], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SUMS_64 "}, %32, %33, 1, 1, 1, 0, 0;"
                 : D16(0), D16(16)
                 : "l"(a), "l"(b));
  }
  static __device__ __forceinline__ void add(float (&d)[32], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SUMS_64
                 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
                 : D16(0), D16(16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
};

#define SUMS_128 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
template <>
struct Product<128> {
  static __device__ __forceinline__ void add(float (&d)[64], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" SUMS_128 "}, %64, %65, 1, 1, 1, 0, 0;"
                 : D16(0), D16(16), D16(32), D16(48)
                 : "l"(a), "l"(b));
  }
  static __device__ __forceinline__ void add(float (&d)[64], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" SUMS_128
                 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
                 : D16(0), D16(16), D16(32), D16(48)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
};

#define SUMS_256 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
  "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
  "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
template <>
struct Product<256> {
  static __device__ __forceinline__ void add(float (&d)[128], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" SUMS_256 "}, %128, %129, 1, 1, 1, 0, 0;"
                 : D16(0), D16(16), D16(32), D16(48), D16(64), D16(80), D16(96), D16(112)
                 : "l"(a), "l"(b));
  }
  static __device__ __forceinline__ void add(float (&d)[128], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" SUMS_256
                 "}, {%128,%129,%130,%131}, %132, 1, 1, 1, 0;"
                 : D16(0), D16(16), D16(32), D16(48), D16(64), D16(80), D16(96), D16(112)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
};

#endif
