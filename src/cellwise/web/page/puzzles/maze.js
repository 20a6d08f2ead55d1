// What a maze is, and whether an answer is one; the rules of puzzles/maze.py and puzzles/maze_path.py.

export const EMPTY = 0, PATH = 1, WALL = 2, END = 3, GOAL = 4;

/** The up to four neighbours of a cell. */
export function* around(cell, height, width) {
  if (cell >= width) yield cell - width;
  if (cell % width) yield cell - 1;
  if ((cell + 1) % width) yield cell + 1;
  if (cell < width * (height - 1)) yield cell + width;
}

/** The cells of the ends, in raster order. */
export function ends(inputs) {
  const found = [];
  for (let cell = 0; cell < inputs.length; cell++) if (inputs[cell] >= END) found.push(cell);
  return found;
}

/** How many steps it is from a cell to every other, -1 where there is no way. */
export function distances({ inputs, height, width }, from) {
  const steps = new Int32Array(inputs.length).fill(-1), queue = [from];
  steps[from] = 0;
  for (const cell of queue) {
    for (const next of around(cell, height, width)) {
      if (steps[next] < 0 && inputs[next] !== WALL) {
        steps[next] = steps[cell] + 1;
        queue.push(next);
      }
    }
  }
  return steps;
}

/** Whether a way leads from one end to the other. */
export function isOpen(board) {
  const [start, goal] = ends(board.inputs);
  return distances(board, start)[goal] >= 0;
}

/** Whether the way is the only one: every free cell that the start reaches makes one tree. */
export function hasLoops(board) {
  const { inputs, height, width } = board, reached = distances(board, ends(inputs)[0]);
  let cells = 0, doors = 0;
  for (let cell = 0; cell < inputs.length; cell++) {
    if (reached[cell] < 0) continue;
    cells++;
    for (const next of around(cell, height, width)) if (next > cell && reached[next] >= 0) doors++;
  }
  return doors >= cells;
}

/** Whether the marked cells are one path between the ends, without spurs, loops or islands. */
export function isSolved({ inputs, height, width }, grid) {
  const route = (cell) => inputs[cell] >= END || grid[cell] === PATH;
  let marked = 0;
  for (let cell = 0; cell < inputs.length; cell++) {
    if (!route(cell)) continue;
    if (inputs[cell] === WALL) return false;
    marked++;
    let beside = 0;
    for (const next of around(cell, height, width)) beside += route(next) ? 1 : 0;
    if (beside !== (inputs[cell] >= END ? 1 : 2)) return false;
  }
  const [start] = ends(inputs), seen = new Set([start]);
  for (const cell of seen) for (const next of around(cell, height, width)) if (route(next)) seen.add(next);
  return seen.size === marked;
}

/** A wall that, once opened, joins the two ends again; -1 if none does. Prefers what keeps rooms and walls apart. */
export function wallToOpen(board) {
  const { inputs, height, width } = board, [start, goal] = ends(inputs);
  const here = distances(board, start), there = distances(board, goal);
  let best = -1, shortest = Infinity;
  for (let cell = 0; cell < inputs.length; cell++) {
    const y = Math.floor(cell / width), x = cell % width;
    if (inputs[cell] !== WALL || y % 2 === x % 2 || !x || !y || x === width - 1 || y === height - 1) continue;
    const near = [...around(cell, height, width)];
    const before = Math.min(...near.filter((c) => here[c] >= 0).map((c) => here[c]));
    const after = Math.min(...near.filter((c) => there[c] >= 0).map((c) => there[c]));
    if (before + after < shortest) [best, shortest] = [cell, before + after];
  }
  return best;
}
