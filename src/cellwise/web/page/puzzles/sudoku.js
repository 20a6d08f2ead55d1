// What a Sudoku is: its text, its rules, an exact solver and puzzles made to order.

import { atCell, fold } from "../engine/bits.js";

export class PuzzleError extends Error {}

/** How many clues a puzzle of each grade has; digging ends early where every clue is needed. */
export const GRADES = { easy: 42, medium: 34, hard: 28, fewest: 17 };

const PATIENCE = 100_000; // Cells filled before a search is given up, about a second.
const ALL = 0b1111111110; // Bit d stands for digit d.
const HOUSES = [];
for (let i = 0; i < 9; i++) {
  const each = [...Array(9).keys()];
  HOUSES.push(each.map((j) => 9 * i + j), each.map((j) => 9 * j + i));
  const corner = 27 * Math.floor(i / 3) + 3 * (i % 3);
  HOUSES.push(each.map((j) => corner + 9 * Math.floor(j / 3) + (j % 3)));
}
const PEERS = [...Array(81).keys()].map((cell) => {
  const near = HOUSES.filter((house) => house.includes(cell)).flat();
  return [...new Set(near)].filter((other) => other !== cell);
});

/** Reads 81 cells, in a row, as nine lines or as a drawn grid; a PuzzleError says what is wrong. */
export function parseSudoku(text) {
  const cells = [];
  for (const character of text) {
    if ("0._*".includes(character)) cells.push(0);
    else if (character >= "1" && character <= "9") cells.push(Number(character));
    else if (!/[\s|+\-\u2500-\u257f]/.test(character)) {
      throw new PuzzleError(`The Sudoku contains “${character}”; write digits 1-9, and a dot for an empty cell.`);
    }
  }
  if (cells.length !== 81) {
    throw new PuzzleError(`The Sudoku has ${cells.length} cells; write exactly 81, with a dot for each empty one.`);
  }
  return Uint8Array.from(cells);
}

/** What is wrong with a puzzle, as a sentence, or null. */
export function complaint(clues) {
  const clash = conflicts(clues).indexOf(1);
  if (clash >= 0) {
    const place = `row ${Math.floor(clash / 9) + 1}, column ${(clash % 9) + 1}`;
    return `The digit ${clues[clash]} at ${place} stands twice in a row, column or box; change one of the two.`;
  }
  const count = solve(clues, 2)?.length;
  if (count === 0) return "This Sudoku has no solution; check its clues for a typing mistake.";
  return count > 1 ? "This Sudoku has several solutions; add clues until only one is left." : null;
}

/** 1 at every digit that its row, column or box holds more than once. */
export function conflicts(grid) {
  return Uint8Array.from(grid, (digit, cell) => (digit && PEERS[cell].some((peer) => grid[peer] === digit) ? 1 : 0));
}

/** Whether a grid is complete, obeys the rules and keeps every clue. */
export function isSolution(clues, grid) {
  return grid.every((digit, cell) => digit && (!clues[cell] || clues[cell] === digit)) && !conflicts(grid).includes(1);
}

/** Up to `most` solutions, or null if the search is too long; digits are tried in the order of `digits`. */
export function solve(clues, most = 1, digits = [1, 2, 3, 4, 5, 6, 7, 8, 9]) {
  const grid = Uint8Array.from(clues), found = [];
  let tried = 0;
  if (conflicts(grid).includes(1)) return found;
  const free = (cell) => PEERS[cell].reduce((left, peer) => left & ~(1 << grid[peer]), ALL);
  const search = () => {
    if (++tried > PATIENCE) return;
    let best = -1, fewest = 10, ways = 0;
    for (let cell = 0; cell < 81 && fewest > 1; cell++) {
      if (grid[cell]) continue;
      const left = free(cell), count = bitCount(left);
      if (count < fewest) [best, fewest, ways] = [cell, count, left];
    }
    if (best < 0) {
      found.push(grid.slice());
      return;
    }
    for (const digit of digits) {
      if (!(ways & (1 << digit))) continue;
      grid[best] = digit;
      search();
      if (found.length >= most || tried > PATIENCE) return;
    }
    grid[best] = 0;
  };
  search();
  return tried > PATIENCE ? null : found;
}

function bitCount(bits) {
  let count = 0;
  for (; bits; bits &= bits - 1) count++;
  return count;
}

/** A puzzle with one solution, dug out of a full grid until `clues` are left or all are needed. */
export function makeSudoku(grade, seed) {
  const key = fold(seed, GRADES[grade]);
  const shuffled = (count, salt) => {
    const word = (i) => atCell(fold(key, salt), i);
    return [...Array(count).keys()].sort((a, b) => word(a) - word(b));
  };
  const first = new Uint8Array(81);
  shuffled(9, 1).forEach((digit, place) => (first[HOUSES[0][place]] = digit + 1));
  const [puzzle] = solve(first, 1, shuffled(9, 2).map((digit) => digit + 1));
  let left = 81;
  for (const cell of shuffled(81, 3)) {
    if (left <= GRADES[grade]) break;
    const digit = puzzle[cell];
    puzzle[cell] = 0;
    if (solve(puzzle, 2)?.length === 1) left--;
    else puzzle[cell] = digit;
  }
  return puzzle;
}
