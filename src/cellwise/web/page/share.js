// The whole scene in the address, and back; whatever a person may have done to it in between.

import { WALL, END, GOAL, ends } from "./puzzles/maze.js";
import { KINDS, SIZES, makeMaze } from "./puzzles/maze_make.js";
import { PuzzleError, parseSudoku } from "./puzzles/sudoku.js";

const VIEWS = /^(answer|confidence|activity|dormant|channel \d{1,4})$/;
const SETTINGS = { rate: [0.05, 1], noise: [0, 1], speed: [0, 9] };

/** What the address says after its #, for a scene. */
export function toAddress(scene) {
  const { model, board, made, seed, trials, settings, view, speed } = scene;
  const words = new URLSearchParams({ model: model.name });
  if (model.puzzle === "sudoku") words.set("clues", [...board.inputs].join("").replaceAll("0", "."));
  else if (made) words.set("maze", `${made.size}.${made.kind}.${made.number}`);
  else {
    words.set("cells", `${board.width}x${board.height}.${packed(board.inputs)}`);
    words.set("ends", ends(board.inputs).map((cell) => `${cell}${board.inputs[cell] === GOAL ? "g" : ""}`).join("."));
  }
  words.set("seed", seed);
  if (trials > 1) words.set("trials", trials);
  if (settings.rate !== model.rate) words.set("rate", settings.rate);
  if (settings.noise) words.set("noise", settings.noise);
  if (settings.adaptive) words.set("adaptive", 1);
  if (view !== "answer") words.set("view", view);
  words.set("speed", speed);
  return words.toString();
}

/** A part of a scene from an address, or a PuzzleError; `models` are the names that there are. */
export function fromAddress(address, models) {
  const words = new URLSearchParams(address), scene = { settings: {} };
  const refuse = (what) => new PuzzleError(`This link ${what}, so the page shows a new puzzle; ask for the link again.`);
  if (!address) return null;
  if (words.has("model")) {
    scene.model = words.get("model");
    if (!models.includes(scene.model)) throw refuse(`names the model “${scene.model.slice(0, 40)}”, which is not here`);
  }
  if (words.has("maze")) {
    const [size, kind, number] = words.get("maze").split(".");
    const made = { size: Number(size), kind, number: whole(number) };
    const good = made.size % 2 === 1 && made.size >= SIZES.least && made.size <= SIZES.most;
    if (!good || !KINDS.includes(kind) || made.number === null) throw refuse("describes a maze that cannot be made");
    scene.made = made;
    scene.board = makeMaze(made.size, kind, made.number);
  } else if (words.has("cells")) scene.board = drawnMaze(words, refuse);
  else if (words.has("clues")) {
    try {
      scene.board = { inputs: parseSudoku(words.get("clues")), height: 9, width: 9 };
    } catch {
      throw refuse("holds no Sudoku of 81 cells");
    }
  }
  for (const [name, [least, most]] of Object.entries(SETTINGS)) {
    if (!words.has(name)) continue;
    const number = Number(words.get(name) || NaN);
    if (!(number >= least && number <= most)) throw refuse(`asks for a ${name} of “${words.get(name).slice(0, 20)}”`);
    if (name === "speed") scene.speed = Math.round(number);
    else scene.settings[name] = number;
  }
  if (words.has("adaptive")) scene.settings.adaptive = words.get("adaptive") === "1";
  if (words.has("seed") && (scene.seed = whole(words.get("seed"))) === null) throw refuse("holds a seed that is no number");
  if (words.has("trials")) {
    scene.trials = Number(words.get("trials"));
    if (![1, 2, 4, 8].includes(scene.trials)) throw refuse("asks for a number of trials other than 1, 2, 4 or 8");
  }
  if (words.has("view")) {
    scene.view = words.get("view");
    if (!VIEWS.test(scene.view)) throw refuse("asks for a view that there is not");
  }
  return scene;
}

function drawnMaze(words, refuse) {
  const broken = refuse("holds a maze that is cut off or changed");
  const [, w, h, bits] = /^(\d{1,3})x(\d{1,3})\.([\w-]*)$/.exec(words.get("cells")) ?? [];
  const width = Number(w), height = Number(h);
  if (!(width >= 5 && height >= 5 && width % 2 && height % 2 && width <= 203 && height <= 203)) throw broken;
  const inputs = unpacked(bits, width * height);
  if (!inputs) throw broken;
  const marks = (words.get("ends") ?? "").split(".");
  const places = marks.map((mark) => parseInt(mark, 10));
  const good = marks.every((mark) => /^\d{1,5}g?$/.test(mark)) && places.every((cell) => cell < inputs.length);
  if (marks.length !== 2 || !good || places[0] === places[1]) throw broken;
  places.forEach((cell, i) => (inputs[cell] = marks[i].endsWith("g") ? GOAL : END));
  return { inputs, width, height };
}

function whole(text) {
  return /^\d{1,10}$/.test(text ?? "") && Number(text) < 2 ** 32 ? Number(text) : null;
}

/** Walls as bits, eight to a byte, in the alphabet of addresses. */
function packed(inputs) {
  const bytes = new Uint8Array(Math.ceil(inputs.length / 8));
  inputs.forEach((token, cell) => token === WALL && (bytes[cell >> 3] |= 1 << (cell & 7)));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function unpacked(text, count) {
  let bytes;
  try {
    bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    return null;
  }
  if (bytes.length !== Math.ceil(count / 8)) return null;
  return Uint8Array.from({ length: count }, (_, cell) => (bytes.charCodeAt(cell >> 3) & (1 << (cell & 7)) ? WALL : 0));
}
