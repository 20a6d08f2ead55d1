// What only Hopper has, as late as it may happen: sums of products arrive when they are waited for and are NaN until
// then, and so are copies. What a kernel does not wait for, or overwrites too early, shows as a wrong number.

#pragma once

#include <cstdio>

namespace emulator {

inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "The emulated kernel is wrong: %s.\n", what);
  std::abort();
}

inline float of_bf16(uint16_t x) { return __uint_as_float(uint32_t(x) << 16); }

// Number `k` of row `row` of a factor whose descriptor says where it is: rows of 128 bytes in groups of eight, with
// bits 4 to 6 of an address exchanged by bits 7 to 9.
inline float number_at(uint64_t descriptor, int row, int k) {
  must(descriptor >> 62 == 1 && (descriptor >> 49 & 7) == 0, "a factor is not in panels of 128 bytes");
  const uint32_t start = (descriptor & 0x3FFF) << 4, eight_rows = (descriptor >> 32 & 0x3FFF) << 4;
  uint32_t at = start + row / 8 * eight_rows + row % 8 * 128 + 2 * k;
  at ^= (at >> 7 & 7) << 4;
  uint16_t number;
  std::memcpy(&number, current->own->origin + at, 2);
  return of_bf16(number);
}

// sums += a · bᵀ for 64 rows of a; the threads of a warpgroup have sums (and factors) as the tensor cores want them.
inline void multiply(Warpgroup& group, const Product& p) {
  std::vector<float> a(64 * 16), b(16 * p.rows), sums(64 * p.rows);
  for (int row = 0; row < 64; row++) {
    for (int k = 0; k < 16; k++) {
      const int lane = row / 16 * 32 + row % 8 * 4 + k % 8 / 2;
      const uint32_t both = p.factor[lane][row % 16 / 8 + k / 8 * 2];
      a[16 * row + k] = p.from_registers ? of_bf16(uint16_t(k % 2 ? both >> 16 : both)) : number_at(p.a, row, k);
    }
  }
  for (int row = 0; row < p.rows; row++) {
    for (int k = 0; k < 16; k++) b[k * p.rows + row] = number_at(p.b, row, k);
  }
  for (int row = 0; row < 64; row++) {
    for (int k = 0; k < 16; k++) {
      const float x = a[16 * row + k];
      for (int n = 0; n < p.rows; n++) sums[row * p.rows + n] += x * b[k * p.rows + n];
    }
  }
  for (int thread = 0; thread < 128; thread++) {
    std::vector<float>& mine = group.sums[thread].at(p.sums[thread]);
    for (int i = 0; i < p.rows / 2; i++) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + i % 4 / 2 * 8;
      mine[i] += sums[row * p.rows + i / 4 * 8 + thread % 4 * 2 + i % 2];
    }
  }
}

inline Warpgroup& warpgroup() { return current->own->warpgroups[current->thread.x / 128]; }

inline void begin_product(float* sums, int rows, const uint32_t* factor, uint64_t a, uint64_t b) {
  Warpgroup& group = warpgroup();
  const int thread = current->thread.x % 128;
  const size_t number = group.issued[thread]++;
  if (number == group.begun.size()) group.begun.push_back({a, b, factor != nullptr, rows, {}, {}});
  Product& p = group.begun[number];
  must(p.a == a && p.b == b && p.rows == rows, "threads of a warpgroup multiply different things");
  p.sums[thread] = sums;
  if (factor) std::memcpy(p.factor[thread], factor, 16);
  if (group.sums[thread].count(sums)) return;
  must(group.fenced[thread], "sums were not fenced before a product");
  group.sums[thread][sums].assign(sums, sums + rows / 2);
  std::fill_n(sums, rows / 2, NAN);
}

inline void meet_counter(Counter& counter) {
  if (counter.missing || counter.bytes) return;
  counter.missing = counter.arrivals;
  counter.phase++;
}

}  // namespace emulator

inline uint32_t shared_address(const void* at) {
  return uint32_t(static_cast<const char*>(at) - emulator::current->own->origin);
}

inline uint32_t emulated_rounded(float low, float high) {
  const auto bf16 = [](float x) {
    const uint32_t word = bits_of(x);
    return std::isnan(x) ? 0x7FC0u : (word + 0x7FFFu + (word >> 16 & 1u)) >> 16;
  };
  return bf16(low) | bf16(high) << 16;
}

template <int N>
void products_begin(float (&)[N]) {
  emulator::warpgroup().fenced[emulator::current->thread.x % 128] = true;
}

template <int N>
void products_wait(float (&)[N]) {
  emulator::Warpgroup& group = emulator::warpgroup();
  const int thread = emulator::current->thread.x % 128;
  emulator::meet(&group.group);
  if (!group.begun.empty()) {  // The first of the threads to come on does the work of all.
    for (size_t issued : group.issued) emulator::must(issued == group.begun.size(), "a thread left out a product");
    for (const emulator::Product& p : group.begun) emulator::multiply(group, p);
    group.begun.clear();
  }
  for (auto& [sums, values] : group.sums[thread]) std::copy(values.begin(), values.end(), sums);
  group.sums[thread].clear();
  group.issued[thread] = 0;
  group.fenced[thread] = false;
  emulator::meet(&group.group);
}

template <int COUNT>
void registers_down() {}
template <int COUNT>
void registers_up() {}
inline void before_products() {}

inline void some_threads(int barrier, int threads) {
  emulator::Group& group = emulator::current->own->some.try_emplace(barrier, emulator::Group{threads}).first->second;
  emulator::must(group.size == threads, "a barrier has two sizes");
  emulator::meet(&group);
}

inline void counter_begin(const void* counter, uint32_t arrivals) {
  emulator::current->own->counters[counter] = {int(arrivals), int(arrivals), 0, 0, {}};
}
inline void counters_begun() {}

namespace emulator {

// What is at the same place of another block of the cluster.
inline char* at_block(const void* at, uint32_t rank) {
  return current->peers->at(rank)->origin + (static_cast<const char*>(at) - current->own->origin);
}
inline void arrive(Counter& counter) {
  must(counter.missing > 0, "a counter got too many arrivals");
  counter.missing--;
  meet_counter(counter);
}

}  // namespace emulator

inline void counter_arrive(const void* at, uint32_t rank) {
  emulator::arrive(emulator::current->peers->at(rank)->counters.at(emulator::at_block(at, rank)));
}

inline void counter_expect(const void* at, uint32_t bytes) {
  emulator::Counter& counter = emulator::current->own->counters.at(at);
  counter.bytes += bytes;
  emulator::arrive(counter);
}

inline void counter_wait(const void* at, uint32_t parity) {
  emulator::Counter& counter = emulator::current->own->counters.at(at);
  while ((counter.phase & 1) == parity) {
    for (const emulator::Copy& copy : counter.copies) {
      std::memcpy(copy.to, copy.from, copy.bytes);
      counter.bytes -= long(copy.bytes);
    }
    counter.copies.clear();
    emulator::meet_counter(counter);
    if ((counter.phase & 1) == parity) emulator::pause();
  }
}

inline void copy_in_background(void* to, const void* from, uint32_t bytes, const void* at, uint32_t blocks) {
  emulator::must(reinterpret_cast<uintptr_t>(from) % 16 == 0 && shared_address(to) % 16 == 0 && bytes % 16 == 0,
                 "a copy is not aligned");
  emulator::must(blocks == (1u << emulator::current->peers->size()) - 1, "a copy is not for the blocks of the cluster");
  for (size_t rank = 0; rank < emulator::current->peers->size(); rank++) {
    emulator::Counter& counter = emulator::current->peers->at(rank)->counters.at(emulator::at_block(at, rank));
    char* there = emulator::at_block(to, rank);
    std::memset(there, 0xFF, bytes);
    counter.copies.push_back({there, static_cast<const char*>(from), bytes});
  }
}

inline void cluster_meets() { emulated_cluster_barrier(); }

template <int ROWS>
struct Product {
  static void add(float (&sums)[ROWS / 2], uint64_t a, uint64_t b) {
    emulator::begin_product(sums, ROWS, nullptr, a, b);
  }
  static void add(float (&sums)[ROWS / 2], const uint32_t (&factor)[4], uint64_t b) {
    emulator::begin_product(sums, ROWS, factor, 0, b);
  }
};
