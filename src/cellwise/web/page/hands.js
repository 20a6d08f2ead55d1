// What hands do on the board: a mouse, a finger, a pen or the keyboard.

import { END, GOAL, WALL, ends } from "./puzzles/maze.js";

const MOVES = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

export class Hands {
  /** `tool()` is "walls" or "wipe", `radius()` that of the brush in cells, `say` reads a cell out. */
  constructor(app, { tool, radius, say }) {
    Object.assign(this, { app, tool, radius, say, held: null, at: null, drawing: null });
    const { canvas } = app;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => this.up());
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.focus());
    canvas.addEventListener("blur", () => this.app.paint());
  }

  get isMaze() {
    return this.app.model.puzzle !== "sudoku";
  }

  /** Whether a cell may be changed: the outer walls of a maze may not. */
  inside(x, y) {
    const { width, height } = this.app.board, ring = this.isMaze ? 1 : 0;
    return x >= ring && y >= ring && x < width - ring && y < height - ring;
  }

  place(event) {
    const box = this.app.canvas.getBoundingClientRect(), { width, height } = this.app.board;
    return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
  }

  down(event) {
    const { app } = this, [x, y] = this.place(event), cell = this.cell(x, y);
    app.canvas.setPointerCapture(event.pointerId);
    app.keyboard = false;
    if (cell < 0) return;
    app.cursor = cell;
    app.peek(cell);
    this.at = [x, y];
    if (this.tool() === "wipe") this.drawing = "wipe";
    else if (!this.isMaze) return app.paint();
    else if (this.endAt(x, y) >= 0) this.take(this.endAt(x, y));
    else if (this.inside(Math.floor(x), Math.floor(y))) this.drawing = app.board.inputs[cell] === WALL ? 0 : WALL;
    this.drag(x, y);
  }

  move(event) {
    const [x, y] = this.place(event);
    this.hover([x, y]);
    if (this.at === null) return;
    // A quick hand skips cells: the line between two events is drawn as well.
    const [fromX, fromY] = this.at, far = Math.ceil(2 * Math.hypot(x - fromX, y - fromY));
    for (let i = 1; i <= far; i++) this.drag(fromX + ((x - fromX) * i) / far, fromY + ((y - fromY) * i) / far);
    this.at = [x, y];
  }

  up() {
    this.at = this.held = this.drawing = null;
  }

  hover(at) {
    const wipes = this.tool() === "wipe" && at;
    if (at && this.cell(...at) >= 0) this.app.peek(this.cell(...at));
    const before = this.app.brush;
    this.app.brush = wipes ? { x: at[0], y: at[1], radius: this.radius() } : null;
    if (wipes || before) this.app.paint();
  }

  drag(x, y) {
    const { app } = this, column = Math.floor(x), row = Math.floor(y), cell = this.cell(x, y);
    if (this.drawing === "wipe") app.wipe(x, y, this.radius());
    else if (cell < 0 || !this.inside(column, row)) return;
    else if (this.held !== null) this.carry(cell);
    else if (this.drawing !== null && app.board.inputs[cell] < END) app.put(cell, this.drawing);
    app.paint();
  }

  /** Moves the end that is held; what it was carried over is as it was. */
  carry(cell) {
    const { app } = this, end = app.board.inputs[this.held], under = app.board.inputs[cell];
    if (cell === this.held || under >= END) return;
    app.put(this.held, this.under);
    app.put(cell, end);
    [this.held, this.under] = [cell, under];
  }

  /** The end whose mark, which is larger than its cell, lies here; or -1. */
  endAt(x, y) {
    const { width, inputs } = this.app.board, reach = Math.max(0.5, width / 100);
    const near = (end) => Math.max(Math.abs((end % width) + 0.5 - x), Math.abs(Math.floor(end / width) + 0.5 - y)) <= reach;
    return ends(inputs).find(near) ?? -1;
  }

  cell(x, y) {
    const { width, height } = this.app.board;
    const inside = x >= 0 && y >= 0 && x < width && y < height;
    return inside ? Math.floor(y) * width + Math.floor(x) : -1;
  }

  focus() {
    const { app } = this;
    if (app.board && app.cursor < 0) app.cursor = this.isMaze ? app.board.width + 1 : 0;
    app.paint();
  }

  key(event) {
    const { app } = this, { width, height } = app.board;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    app.keyboard = true;
    const x = app.cursor % width, y = Math.floor(app.cursor / width), { key } = event;
    if (key in MOVES) {
      const [dx, dy] = MOVES[key], tx = Math.max(0, Math.min(width - 1, x + dx)), ty = Math.max(0, Math.min(height - 1, y + dy));
      app.cursor = ty * width + tx;
      if (this.held !== null && this.inside(tx, ty)) this.carry(app.cursor);
    } else if (key === "w" || key === "W") app.wipe(x + 0.5, y + 0.5, this.radius());
    else if (this.isMaze) {
      if (key === " " || key === "Enter") this.toggle(x, y);
      else if (key === "e" || key === "E") this.pick();
      else return;
    } else if (/^[1-9]$/.test(key)) app.put(app.cursor, Number(key));
    else if (["Backspace", "Delete", "0", " "].includes(key)) app.put(app.cursor, 0);
    else return;
    event.preventDefault();
    event.stopPropagation();
    app.peek(app.cursor);
    app.paint();
    this.say(app.cursor);
  }

  toggle(x, y) {
    const { app } = this, token = app.board.inputs[app.cursor];
    if (token >= END) this.pick();
    else if (this.inside(x, y)) app.put(app.cursor, token === WALL ? 0 : WALL);
  }

  /** Picks up the end under the cursor, or puts the one that is held down. */
  pick() {
    const { app } = this;
    if (this.held !== null) this.held = null;
    else if (app.board.inputs[app.cursor] >= END) this.take(app.cursor);
  }

  take(cell) {
    [this.held, this.under] = [cell, 0];
  }

  /** A cell in words. */
  describe(cell) {
    const { app } = this, { width, inputs } = app.board, { grid, sure } = app.frame;
    const where = `Row ${Math.floor(cell / width) + 1}, column ${(cell % width) + 1}`;
    const certain = `${Math.round(100 * Math.max(0, sure[cell]))} % sure`;
    if (!this.isMaze) {
      return `${where}: ${inputs[cell] ? `clue ${inputs[cell]}` : `says ${grid[cell] || "nothing"}, ${certain}`}`;
    }
    if (this.held === cell) return `${where}: an end, picked up`;
    const fixed = { [WALL]: "wall", [END]: "an end", [GOAL]: "the goal" }[inputs[cell]];
    return `${where}: ${fixed ?? `free, says ${["empty", "path", "wall", "end", "goal"][grid[cell]]}, ${certain}`}`;
  }
}
