// A scene: one board, one or several thoughts about it, and everything it takes to go back in time.

import { isSolved } from "../puzzles/maze.js";
import { isSolution } from "../puzzles/sudoku.js";
import { DEFAULTS, Thought } from "./thought.js";

const MEMORY = 96 * 2 ** 20; // Bytes for moments to go back to.
const FIRST_GAP = 8; // Steps between two of them, until memory is used up.
const CLONES = 3; // Of trials that say the same, the surest so many are kept first.

export class Session {
  constructor(model, stepper, board, seed, trials) {
    Object.assign(this, { model, stepper, seed });
    this.thoughts = Array.from({ length: trials }, (_, trial) => new Thought(model, board, seed, trial));
    this.alive = this.thoughts.map(() => true);
    this.settings = { ...DEFAULTS, rate: model.rate };
    this.steps = this.furthest = 0;
    this.gap = FIRST_GAP;
    this.moments = [];
    this.remember();
    const { base, per_cell: perCell } = model.pace, rounds = Math.ceil(Math.log2(trials)) + 1;
    this.segment = Math.max(1, Math.floor((base + Math.ceil(perCell * board.inputs.length)) / rounds));
  }

  get live() {
    return this.thoughts.filter((_, trial) => this.alive[trial]);
  }

  /** The live trial that is surest of itself. */
  get best() {
    const sure = this.thoughts.map((thought, trial) => (this.alive[trial] ? thought.confidence : -Infinity));
    return sure.indexOf(Math.max(...sure));
  }

  get resting() {
    return this.live.every((thought) => thought.resting);
  }

  /** Takes up to `count` steps within about `budget` milliseconds; `tireless` does not stop at rest. */
  async run(count, budget, settings = this.settings, tireless = false) {
    if (JSON.stringify(settings) !== JSON.stringify(this.settings)) {
      this.settings = { ...settings };
      this.live.forEach((thought) => (thought.quiet = 0));
      this.interfered();
    }
    // Who goes on from before an interference goes another way.
    if (!tireless && this.moments.some((moment) => moment.kept && moment.steps > this.steps)) this.forget();
    const enough = performance.now() + budget;
    for (const end = this.steps + count; this.steps < end && (tireless || !this.resting) && performance.now() < enough; ) {
      const until = (every) => every - (this.steps % every);
      const together = Math.min(end - this.steps, this.stepper.most, until(this.gap), until(this.segment));
      for (const thought of this.live) await thought.advance(this.stepper, together, this.settings);
      this.steps += together;
      this.furthest = Math.max(this.furthest, this.steps);
      if (this.steps % this.segment === 0) this.prune();
      if (this.steps % this.gap === 0) this.remember();
    }
  }

  /** Gives up the less sure half of the trials; see docs/play.md. */
  prune() {
    const live = this.thoughts.map((thought, trial) => ({ thought, trial })).filter(({ trial }) => this.alive[trial]);
    if (live.length < 2) return;
    this.look();
    const ranked = live.map(({ thought, trial }) => {
      const sure = thought.confidence;
      const ahead = live.filter(
        (other) =>
          other.thought.grid.every((token, cell) => token === thought.grid[cell]) &&
          (other.thought.confidence > sure || (other.thought.confidence === sure && other.trial < trial))
      ).length;
      return { trial, worth: ahead < CLONES ? sure : -999 };
    });
    ranked.sort((a, b) => b.worth - a.worth || a.trial - b.trial);
    for (const { trial } of ranked.slice(Math.max(1, live.length >> 1))) this.alive[trial] = false;
  }

  /** Changes tokens of the board under all thoughts. */
  put(changes) {
    this.thoughts.forEach((thought) => thought.put(changes));
    this.interfered();
  }

  /** Wipes cells of all live thoughts. */
  wipe(cells) {
    this.live.forEach((thought) => thought.wipe(cells));
    this.interfered();
  }

  /** Reads what the cells say, where steps were taken since. */
  look() {
    for (const thought of this.thoughts) if (thought.stale) thought.read();
  }

  /** What was to come is no longer so; this moment cannot be computed from an earlier one. */
  interfered() {
    this.forget();
    this.moments = this.moments.filter((moment) => moment.steps < this.steps);
    this.remember(true);
  }

  /** Forgets what came after this moment. */
  forget() {
    this.moments = this.moments.filter((moment) => moment.steps <= this.steps);
    this.furthest = this.steps;
  }

  remember(kept = false) {
    const last = this.moments.findLastIndex((moment) => moment.steps <= this.steps);
    if (this.moments[last]?.steps === this.steps) return;
    const thoughts = this.thoughts.map((thought) => thought.snapshot());
    const moment = { steps: this.steps, alive: [...this.alive], settings: this.settings, kept, thoughts };
    this.moments.splice(last + 1, 0, moment);
    const each = this.thoughts.reduce((sum, thought) => sum + thought.state.byteLength, 0);
    if (this.moments.length * each <= MEMORY) return;
    this.gap *= 2;
    const before = this.moments.length;
    this.moments = this.moments.filter((one, i) => !i || one.kept || one.steps % this.gap === 0);
    // Nothing but interference is left: the oldest is forgotten, and there is no way back to it.
    if (this.moments.length === before) this.moments.splice(0, before >> 1);
  }

  /** Goes to a step that has been thought before. */
  async seek(step) {
    const wanted = Math.max(this.moments[0].steps, Math.min(step, this.furthest));
    const moment = this.moments.findLast((one) => one.steps <= wanted);
    if (this.steps > wanted || moment.steps > this.steps) {
      this.steps = moment.steps;
      this.alive = [...moment.alive];
      this.settings = moment.settings;
      this.thoughts.forEach((thought, trial) => thought.restore(moment.thoughts[trial]));
    }
    await this.run(wanted - this.steps, Infinity, this.settings, true);
  }

  /** What there is to see, of trial `focus` and of all trials in small; `inside` are the numbers of cell `probe`. */
  frame(focus, view, probe = -1) {
    this.look();
    const trial = focus ?? this.best, thought = this.thoughts[trial];
    const small = this.thoughts.length > 1;
    return {
      steps: this.steps,
      furthest: this.furthest,
      first: this.moments[0].steps,
      resting: this.resting,
      updates: this.thoughts.reduce((sum, one) => sum + one.updates, 0),
      possible: this.thoughts.reduce((sum, one) => sum + one.steps * one.open, 0),
      trial,
      inputs: thought.inputs.slice(),
      grid: thought.grid.slice(),
      sure: thought.sure.slice(),
      second: thought.second?.slice() ?? null,
      shown: shown(thought, view),
      inside: probe >= 0 ? inside(thought, probe) : null,
      confidence: thought.confidence,
      solved: solves(this.model, thought),
      trials: this.thoughts.map((one, i) => ({
        alive: this.alive[i],
        confidence: one.confidence,
        solved: solves(this.model, one),
        grid: small ? one.grid.slice() : null,
      })),
    };
  }
}

function solves(model, thought) {
  return model.puzzle === "sudoku" ? isSolution(thought.inputs, thought.grid) : isSolved(thought, thought.grid);
}

function inside({ model, state }, cell) {
  return state.slice(cell * model.step.channels, (cell + 1) * model.step.channels);
}

/** The numbers of a view other than the answer, one for each cell. */
function shown(thought, view) {
  if (view === "confidence") return thought.sure.slice();
  if (view === "activity") return thought.activity.slice();
  if (view === "dormant") return Float32Array.from(thought.sure, (sure) => (sure > 0.95 ? 0 : 1));
  if (!view?.startsWith("channel")) return null;
  const { channels } = thought.model.step, channel = Number(view.split(" ")[1]);
  return thought.sure.map((_, cell) => thought.state[cell * channels + channel]);
}
