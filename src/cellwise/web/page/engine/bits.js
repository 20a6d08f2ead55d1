// Randomness as a function, bit for bit that of kernels/bits.py: every random bit of a cell is a hash of
// where and when it is used. Words are 32 bits wide and unsigned.

const GOLDEN = 0x9e3779b9;
export const START = 1, FIRE = 2, NOISE_WHEN = 3, NOISE_WHERE = 4, NOISE = 5;

/** A bijection of words in which every input bit flips every output bit half of the time. */
export function mix(word) {
  word ^= word >>> 16;
  word = Math.imul(word, 0x7feb352d);
  word ^= word >>> 15;
  word = Math.imul(word, 0x846ca68b);
  return (word ^ (word >>> 16)) >>> 0;
}

/** A new key from a key and a word; order matters. */
export function fold(key, word) {
  return mix(mix((key + GOLDEN) | 0) ^ word);
}

/** The key of a trajectory; seeds are below 2³². */
export function trajectoryKey(seed, board, trial) {
  return fold(fold(fold(seed, 0), board), trial);
}

/** The key for one purpose at one step. */
export function atStep(key, purpose, step) {
  return fold(fold(key, purpose), step);
}

/** The word of a cell, by its raster index. */
export function atCell(key, cell) {
  return mix((key + Math.imul(cell, GOLDEN)) | 0);
}

/** A word is a yes if its upper 24 bits are below this. */
export function threshold(rate) {
  const exact = Math.fround(rate) * 2 ** 24;
  const floor = Math.floor(exact), rest = exact - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

/** Standard normal numbers, one for each channel of a cell, from the word of the cell. */
export function normals(word, out) {
  for (let pair = 0; 2 * pair < out.length; pair++) {
    const bits = mix((word + Math.imul(pair, GOLDEN)) | 0);
    const high = ((bits >>> 16) + 0.5) * 2 ** -16;
    const turn = Math.fround((bits & 0xffff) * Math.fround(2 * Math.PI * 2 ** -16));
    const radius = Math.fround(Math.sqrt(Math.fround(-2 * Math.fround(Math.log(high)))));
    out[2 * pair] = Math.fround(radius * Math.fround(Math.cos(turn)));
    if (2 * pair + 1 < out.length) out[2 * pair + 1] = Math.fround(radius * Math.fround(Math.sin(turn)));
  }
}
