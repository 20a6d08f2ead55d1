// The scene on the page and the loop that keeps it going: what is asked of the worker, what is drawn.

import { Mind } from "./engine/mind.js";
import { loadModel } from "./engine/model.js";
import { END, GOAL, WALL, ends, hasLoops, isOpen } from "./puzzles/maze.js";
import { makeMaze } from "./puzzles/maze_make.js";
import { complaint, makeSudoku } from "./puzzles/sudoku.js";
import { toAddress } from "./share.js";
import { draw } from "./view/draw.js";

/** Steps a second, by the place of the slider. */
export const SPEEDS = [1, 2, 5, 10, 20, 30, 60, 120, 250, Infinity];
const BUDGET = 22; // Milliseconds to think between two pictures, so that 30 a second can be drawn.

export class App extends EventTarget {
  constructor(canvas) {
    super();
    Object.assign(this, { canvas, mind: new Mind(), models: new Map() });
    Object.assign(this, { seed: 0, trials: 1, speed: 5, view: "answer", focus: null, cursor: -1, brush: null, probe: -1 });
    Object.assign(this, { playing: false, visible: true, busy: 0, edits: new Map(), wiped: new Set(), device: "auto" });
    this.settings = { rate: 0.8, adaptive: false, noise: 0 };
    this.theme = "light";
  }

  /** Fetches a model the first time it is asked for. */
  async fetched(name) {
    if (!this.models.has(name)) this.models.set(name, await loadModel(`models/${name}`));
    return this.models.get(name);
  }

  /** Takes up a model; the board stays if it fits. */
  async use(name) {
    const model = await this.fetched(name), other = model.puzzle !== this.model?.puzzle;
    this.model = model;
    this.settings.rate = model.rate;
    this.running = await this.mind.ask("use", { model, device: this.device });
    if (other) this.board = this.made = null;
    this.tell("model");
  }

  /** Computes elsewhere: "auto", "gpu" or "cpu". The thought starts again. */
  async computeOn(device) {
    this.device = device;
    this.running = await this.mind.ask("use", { model: this.model, device });
    await this.begin();
    return this.running;
  }

  /** A maze by its size, kind and number. */
  async newMaze(size, kind, number) {
    await this.take(makeMaze(size, kind, number), { size, kind, number });
  }

  /** A Sudoku of a grade, or an empty grid. */
  async newSudoku(grade, number) {
    const inputs = grade === "empty" ? new Uint8Array(81) : makeSudoku(grade, number);
    await this.take({ inputs, height: 9, width: 9 });
  }

  /** Takes a board and starts to think about it. */
  async take(board, made = null) {
    this.board = board;
    this.made = made;
    if (this.model.puzzle === "directed-maze") {
      const [start, goal] = ends(board.inputs);
      if (!board.inputs.includes(GOAL)) board.inputs[goal] = GOAL;
      board.inputs[start] = Math.min(board.inputs[start], GOAL);
    } else if (this.model.puzzle === "maze") board.inputs.forEach((token, cell) => token > END && (board.inputs[cell] = END));
    this.cursor = this.probe = -1;
    await this.begin();
  }

  /** Starts the thought anew. */
  async begin() {
    this.edits.clear();
    this.wiped.clear();
    this.focus = null;
    this.solvedAt = null;
    this.judge();
    await this.mind.ask("begin", { board: this.board, seed: this.seed, trials: this.model.puzzle === "sudoku" ? this.trials : 1 });
    this.due = 0;
    await this.look();
    this.tell("scene");
  }

  /** What the rules say of the board itself. */
  judge() {
    this.solvedAt = null;
    if (this.model.puzzle === "sudoku") this.fault = complaint(this.board.inputs);
    else {
      this.fault = isOpen(this.board) ? null : "No way leads from end to end; open a wall.";
      this.loops = !this.fault && hasLoops(this.board);
    }
  }

  /** Changes a token; the cells learn of it with the next picture. */
  put(cell, token) {
    if (this.board.inputs[cell] === token) return;
    this.board.inputs[cell] = token;
    this.edits.set(cell, token);
    this.made = null;
    this.frame.solved = false; // As far as is known.
    this.changed = true;
  }

  /** Wipes the cells around a place. */
  wipe(x, y, radius) {
    const { width, height, inputs } = this.board;
    this.frame.solved = false;
    for (let cy = Math.max(0, Math.floor(y - radius)); cy <= Math.min(height - 1, y + radius); cy++) {
      for (let cx = Math.max(0, Math.floor(x - radius)); cx <= Math.min(width - 1, x + radius); cx++) {
        const cell = cy * width + cx, near = Math.hypot(cx + 0.5 - x, cy + 0.5 - y) <= radius + 0.5;
        if (near && (this.model.puzzle === "sudoku" || inputs[cell] < WALL)) this.wiped.add(cell);
      }
    }
  }

  /** Looks into a cell from now on. */
  peek(cell) {
    this.peeked = cell !== this.probe;
    this.probe = cell;
  }

  /** Hands what a person did to the worker. */
  async interfere() {
    if (this.changed) this.judge();
    this.changed = false;
    if (this.edits.size) {
      const changes = [...this.edits];
      this.edits.clear();
      await this.mind.ask("put", { changes });
      this.tell("scene");
    }
    if (this.wiped.size) {
      const cells = [...this.wiped];
      this.wiped.clear();
      this.solvedAt = null;
      await this.mind.ask("wipe", { cells });
    }
  }

  /** Goes on for ever: thinks as much as is due, draws, waits for the screen. */
  async loop() {
    for (let last = performance.now(); ; ) {
      const now = await new Promise(requestAnimationFrame);
      const passed = Math.min(0.1, (now - last) / 1000);
      last = now;
      if (this.busy || !this.visible || !this.board) continue;
      try {
        await this.turn(passed);
      } catch (problem) {
        this.tell("stopped");
        this.tell("trouble", `Thinking stopped: ${problem.message}. Choose “Restart” to go on.`);
      }
    }
  }

  async turn(passed) {
    const acted = this.edits.size || this.wiped.size;
    await this.interfere();
    if (this.playing) {
      this.due = Math.min(this.due + passed * SPEEDS[this.speed], SPEEDS[this.speed]);
      const count = SPEEDS[this.speed] === Infinity ? 1e6 : Math.floor(this.due);
      if (count) {
        const before = this.frame.steps, began = performance.now();
        await this.mind.ask("run", { count, budget: BUDGET, settings: this.settings });
        await this.look();
        this.due = Math.max(0, Math.min(this.due - (this.frame.steps - before), 0.2 * SPEEDS[this.speed])) || 0;
        this.pace = { steps: this.frame.steps - before, seconds: (performance.now() - began) / 1000 };
      }
    } else if (acted || this.peeked) await this.look();
    this.paint();
  }

  /** Takes single steps, also while paused. */
  async steps(count) {
    await this.alone(async () => {
      await this.interfere();
      await this.mind.ask("run", { count, budget: Infinity, settings: this.settings });
      await this.look();
    });
  }

  /** Goes to a moment of the thought. */
  async seek(step) {
    await this.alone(async () => {
      await this.interfere();
      await this.mind.ask("seek", { step });
      await this.look();
      this.judge();
      this.tell("frame");
    });
  }

  /** Does something while the loop waits. */
  async alone(action) {
    this.busy++;
    try {
      return await action();
    } finally {
      this.busy--;
    }
  }

  /** Gets a frame and shows it. */
  async look() {
    this.peeked = false;
    this.frame = await this.mind.ask("frame", { focus: this.focus, view: this.view, probe: this.probe });
    if (this.frame.lost) {
      this.tell("trouble", `The GPU was lost (${this.frame.lost}); the cells go on thinking on the CPU.`);
      await this.mind.ask("noticed");
    }
    // What was done while the frame was on its way, the frame knows nothing of.
    if (this.edits.size || this.wiped.size) this.frame.solved = false;
    if (!this.edits.size) this.board.inputs.set(this.frame.inputs);
    if (!this.frame.solved) this.solvedAt = null;
    else this.solvedAt ??= this.frame.steps;
    this.paint();
    this.tell("frame");
  }

  /** Draws the board as large as there is room for, in whole pixels. */
  paint() {
    if (!this.board || this.frame?.grid.length !== this.board.inputs.length) return;
    const { width, height } = this.board, room = this.canvas.parentElement.clientWidth;
    const density = devicePixelRatio || 1, exact = (room * density) / Math.max(width, height);
    // The picture has whole pixels to a cell and is shown a little smaller, so that it fills the room.
    const scale = Math.max(1, Math.ceil(exact));
    this.canvas.style.width = `${(exact * width) / density}px`;
    const focused = document.activeElement === this.canvas;
    const cursor = this.model.puzzle === "sudoku" || (focused && this.keyboard) ? this.cursor : -1;
    draw(this.canvas, this.model.puzzle, this.board, this.frame, {
      scale, cursor, theme: this.theme, view: this.view, brush: this.brush,
    });
  }

  /** The scene as an address. */
  get address() {
    return toAddress(this);
  }

  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
