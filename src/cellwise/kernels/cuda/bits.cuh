// The random bits of `bits.py`.

#pragma once

typedef unsigned int u32;

constexpr u32 GOLDEN = 0x9E3779B9u, FIRE = 2u, NOISE_WHEN = 3u, NOISE_WHERE = 4u, NOISE_BITS = 5u;

__device__ __forceinline__ u32 mix(u32 word) {
  word ^= word >> 16;
  word *= 0x7FEB352Du;
  word ^= word >> 15;
  word *= 0x846CA68Bu;
  return word ^ (word >> 16);
}

__device__ __forceinline__ u32 fold(u32 key, u32 word) { return mix(mix(key + GOLDEN) ^ word); }
__device__ __forceinline__ u32 at_step(u32 key, u32 purpose, u32 step) { return fold(fold(key, purpose), step); }
__device__ __forceinline__ u32 at_cell(u32 key, int cell) { return mix(key + u32(cell) * GOLDEN); }
__device__ __forceinline__ bool chance(u32 word, u32 below) { return (word >> 8) < below; }
