// Moving pictures as GIF: one palette, frames that hold only what differs from the one before.

const MOST_COLOURS = 255; // The last number stands for “as before”.

/** A GIF of frames (ImageData of one size), each shown `pause` hundredths of a second, the last one longer. */
export function gif(frames, pause, lastPause) {
  const { width, height } = frames[0], out = [];
  const colours = palette(frames), clear = MOST_COLOURS;
  const word = (number) => out.push(number & 255, number >> 8);
  out.push(...bytes("GIF89a"));
  word(width);
  word(height);
  out.push(0xf7, 0, 0);
  for (let i = 0; i < 256; i++) out.push(...(colours.list[i] ?? [0, 0, 0]));
  out.push(0x21, 0xff, 11, ...bytes("NETSCAPE2.0"), 3, 1, 0, 0, 0); // For ever.
  let before = null;
  frames.forEach((frame, number) => {
    const now = colours.indices(frame);
    const shown = before ? now.map((index, i) => (index === before[i] ? clear : index)) : now;
    out.push(0x21, 0xf9, 4, before ? 5 : 4);
    word(number === frames.length - 1 ? lastPause : pause);
    out.push(clear, 0, 0x2c, 0, 0, 0, 0);
    word(width);
    word(height);
    out.push(0, 8);
    const packed = compress(shown);
    for (let i = 0; i < packed.length; i += 255) {
      const block = packed.slice(i, i + 255);
      out.push(block.length);
      for (const byte of block) out.push(byte);
    }
    out.push(0);
    before = now;
  });
  out.push(0x3b);
  return new Blob([Uint8Array.from(out)], { type: "image/gif" });
}

const bytes = (text) => Array.from(text, (letter) => letter.charCodeAt(0));

/** The most frequent colours, five bits a channel, and each pixel as the number of the nearest. */
function palette(frames) {
  const counts = new Uint32Array(32768), sums = new Float64Array(3 * 32768);
  const key = (data, i) => ((data[i] >> 3) << 10) | ((data[i + 1] >> 3) << 5) | (data[i + 2] >> 3);
  for (const { data } of frames) {
    for (let i = 0; i < data.length; i += 4) {
      const k = key(data, i);
      counts[k]++;
      for (let c = 0; c < 3; c++) sums[3 * k + c] += data[i + c];
    }
  }
  const used = [...counts.keys()].filter((k) => counts[k]).sort((a, b) => counts[b] - counts[a]);
  const list = used.slice(0, MOST_COLOURS).map((k) => [0, 1, 2].map((c) => Math.round(sums[3 * k + c] / counts[k])));
  const nearest = new Int16Array(32768).fill(-1);
  used.slice(0, MOST_COLOURS).forEach((k, i) => (nearest[k] = i));
  for (const k of used.slice(MOST_COLOURS)) {
    const [r, g, b] = [0, 1, 2].map((c) => sums[3 * k + c] / counts[k]);
    const gaps = list.map(([x, y, z]) => (x - r) ** 2 + (y - g) ** 2 + (z - b) ** 2);
    nearest[k] = gaps.indexOf(Math.min(...gaps));
  }
  const indices = ({ data }) => Uint8Array.from({ length: data.length / 4 }, (_, i) => nearest[key(data, 4 * i)]);
  return { list, indices };
}

/** GIF's kind of Lempel-Ziv-Welch with codes of nine to twelve bits. */
function compress(pixels) {
  const CLEAR = 256, END = 257, out = [];
  let width = 9, next = 258, table = new Map(), held = 0, count = 0;
  const emit = (code) => {
    held |= code << count;
    for (count += width; count >= 8; count -= 8, held >>>= 8) out.push(held & 255);
  };
  emit(CLEAR);
  let prefix = pixels[0];
  for (let i = 1; i < pixels.length; i++) {
    const key = (prefix << 8) | pixels[i], code = table.get(key);
    if (code !== undefined) {
      prefix = code;
      continue;
    }
    emit(prefix);
    if (next < 4096) {
      if (next === 1 << width && width < 12) width++;
      table.set(key, next++);
    } else {
      emit(CLEAR);
      [width, next, table] = [9, 258, new Map()];
    }
    prefix = pixels[i];
  }
  emit(prefix);
  emit(END);
  if (count) out.push(held & 255);
  return Uint8Array.from(out);
}
