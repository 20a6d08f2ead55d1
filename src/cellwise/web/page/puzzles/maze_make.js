// Mazes made to order. A perfect maze of a size and a number is the very one of puzzles/maze_generator.py.

import { EMPTY, END, WALL, distances } from "./maze.js";

export const SIZES = { least: 9, most: 201 };
export const KINDS = ["perfect", "braided", "open"];

const TREE = 0n, ENDPOINTS = 1n, LOOP_ORDERS = 4n; // What a random number is for.
const WORD = (1n << 64n) - 1n;
const ORDERS = permutations([0, 1, 2, 3]); // Up, left, right, down; the opposite of d is 3 - d.

function permutations(items) {
  if (items.length < 2) return [items];
  return items.flatMap((item) => permutations(items.filter((other) => other !== item)).map((rest) => [item, ...rest]));
}

/** The unsolved maze of a nominal size: as many cells a side and two more for its ring of walls. */
export function makeMaze(size, kind, seed) {
  if (kind === "open") return makeOpen(size, seed);
  const side = (size + 1) / 2, width = size + 2;
  const board = { inputs: new Uint8Array(width * width).fill(WALL), height: width, width };
  const [start, goal] = twoSmallest(draws(seed, side, ENDPOINTS));
  carve(board, side, draws(seed, side, TREE).map(order), start);
  if (kind === "braided") openDeadEnds(board, side, seed, [start, goal]);
  for (const end of [start, goal]) board.inputs[roomCell(end, side)] = END;
  return board;
}

const roomCell = (room, side) => (2 * Math.floor(room / side) + 1) * (2 * side + 1) + 2 * (room % side) + 1;
const order = (draw) => ORDERS[Number(((draw >> 32n) * 24n) >> 32n)];

/** The depth-first search that makes a spanning tree of rooms, each trying its neighbours in its order. */
function carve({ inputs, width }, side, orders, root) {
  const seen = new Uint8Array(side * side), trail = [root];
  seen[root] = 1;
  inputs[roomCell(root, side)] = EMPTY;
  while (trail.length) {
    const room = trail[trail.length - 1];
    const way = orders[room].find((d) => neighbour(room, d, side) >= 0 && !seen[neighbour(room, d, side)]);
    if (way === undefined) {
      trail.pop();
      continue;
    }
    const next = neighbour(room, way, side);
    seen[next] = 1;
    inputs[roomCell(next, side)] = EMPTY;
    inputs[roomCell(room, side) + [-width, -1, 1, width][way]] = EMPTY;
    trail.push(next);
  }
}

function neighbour(room, way, side) {
  const x = room % side;
  if (way === 0) return room - side;
  if (way === 1) return x ? room - 1 : -1;
  if (way === 2) return x < side - 1 ? room + 1 : -1;
  return room + side < side * side ? room + side : -1;
}

/** A second door in every dead end but the ends. */
function openDeadEnds({ inputs, width }, side, seed, kept) {
  const steps = [-width, -1, 1, width], orders = draws(seed, side, LOOP_ORDERS);
  for (let room = 0; room < side * side; room++) {
    const cell = roomCell(room, side);
    const doors = steps.filter((step) => inputs[cell + step] !== WALL).length;
    if (doors !== 1 || kept.includes(room)) continue;
    const way = order(orders[room]).find(
      (d) => inputs[cell + steps[d]] === WALL && neighbour(room, d, side) >= 0 && !kept.includes(neighbour(room, d, side))
    );
    if (way !== undefined) inputs[cell + steps[way]] = EMPTY;
  }
}

/** A field with scattered walls and two ends far from each other. */
function makeOpen(size, seed) {
  const width = size + 2, random = draws(seed, width, TREE);
  const inputs = Uint8Array.from(random, (draw, cell) => {
    const y = Math.floor(cell / width), x = cell % width;
    const edge = !x || !y || x === width - 1 || y === width - 1;
    return edge || Number(draw >> 40n) < 0.28 * 2 ** 24 ? WALL : EMPTY;
  });
  const board = { inputs, height: width, width };
  // The largest region that a few random cells belong to.
  const tries = [...random.keys()].filter((cell) => inputs[cell] === EMPTY).sort((a, b) => (random[a] < random[b] ? -1 : 1));
  const regions = tries.slice(0, 12).map((cell) => distances(board, cell));
  const sizes = regions.map((region) => region.reduce((sum, steps) => sum + (steps >= 0 ? 1 : 0), 0));
  const region = regions[sizes.indexOf(Math.max(...sizes))];
  const far = region.indexOf(Math.max(...region)), back = distances(board, far);
  for (const end of [far, back.indexOf(Math.max(...back))]) inputs[end] = END;
  return board;
}

function twoSmallest(numbers) {
  return [...numbers.keys()].sort((a, b) => (numbers[a] < numbers[b] ? -1 : 1)).slice(0, 2);
}

/** One uniform 64-bit number for each room: a hash of every coordinate. */
function draws(seed, side, purpose) {
  let key = BigInt(seed);
  for (const coordinate of [BigInt(side), purpose, 0n]) key = (mix(key) + coordinate) & WORD;
  key = mix(key);
  return Array.from({ length: side * side }, (_, room) => mix((key + BigInt(room) * 0x9e3779b97f4a7c15n) & WORD));
}

/** The finaliser of SplitMix64. */
function mix(x) {
  x = (x + 0x9e3779b97f4a7c15n) & WORD;
  x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & WORD;
  x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & WORD;
  return x ^ (x >> 31n);
}
