// A frame as a picture, on any canvas: the page's own, a small one, one for a film.

import { conflicts } from "../puzzles/sudoku.js";
import { END, WALL } from "../puzzles/maze.js";
import { THEMES, css, mixed, shade } from "./palette.js";

/** Draws a frame with `scale` pixels to a cell; a `cursor` is the cell the keyboard is at. */
export function draw(canvas, puzzle, board, frame, { scale, theme, view = "answer", cursor = -1, brush = null }) {
  const colours = THEMES[theme], { width, height } = board;
  const size = [width * scale, height * scale];
  if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
  const context = canvas.getContext("2d");
  const paint = puzzle === "sudoku" ? drawSudoku : drawMaze;
  paint(context, board, frame, scale, colours, view, cursor);
  if (cursor >= 0) drawCursor(context, cursor % width, Math.floor(cursor / width), scale, colours);
  if (brush) drawBrush(context, brush, scale, colours);
}

function drawMaze(context, { inputs, width, height }, frame, scale, colours, view) {
  const small = scratch(width, height), pixels = small.pixels.data;
  for (let cell = 0; cell < inputs.length; cell++) {
    const [red, green, blue] = colourOf(cell, inputs, frame, colours, view);
    pixels[4 * cell] = red;
    pixels[4 * cell + 1] = green;
    pixels[4 * cell + 2] = blue;
    pixels[4 * cell + 3] = 255;
  }
  small.context.putImageData(small.pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small.canvas, 0, 0, width * scale, height * scale);
  for (let cell = 0; cell < inputs.length; cell++) {
    if (inputs[cell] < END) continue;
    const x = ((cell % width) + 0.5) * scale, y = (Math.floor(cell / width) + 0.5) * scale;
    context.fillStyle = css(colours.tokens[inputs[cell]]);
    context.strokeStyle = colours.ring;
    context.lineWidth = Math.max(1.5, scale / 6);
    context.beginPath();
    context.arc(x, y, Math.max(0.62, width / 120) * scale, 0, 2 * Math.PI); // To be found in a large maze, too.
    context.fill();
    context.stroke();
  }
}

function colourOf(cell, inputs, frame, colours, view) {
  if (inputs[cell] === WALL) return colours.tokens[WALL];
  if (view !== "answer" && frame.shown) return shade(view, frame.shown[cell]);
  if (inputs[cell] >= END) return colours.tokens[0];
  // Even a cell that knows nothing is nearer to some token than 0.35.
  const sure = Math.max(0, Math.min(1, (frame.sure[cell] - 0.35) / 0.6 || 0));
  return mixed(colours.unsure, colours.tokens[frame.grid[cell]], sure);
}

let scratchpad = null;
function scratch(width, height) {
  if (scratchpad?.canvas.width !== width || scratchpad.canvas.height !== height) {
    const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d");
    scratchpad = { canvas, context, pixels: context.createImageData(width, height) };
  }
  return scratchpad;
}

function drawSudoku(context, { inputs }, frame, scale, colours, view, cursor) {
  // A clue clashes with clues only: it is not its fault what a cell that is still thinking says.
  const wrong = conflicts(inputs), doubtful = conflicts(frame.grid.map((digit, cell) => inputs[cell] || digit));
  const small = scale >= 30;
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, 9 * scale, 9 * scale);
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let cell = 0; cell < 81; cell++) {
    const x = (cell % 9) * scale, y = Math.floor(cell / 9) * scale;
    if (view !== "answer" && frame.shown) {
      context.fillStyle = css(shade(view, frame.shown[cell]), 0.85);
      context.fillRect(x, y, scale, scale);
    } else if (cell === cursor) {
      context.fillStyle = colours.chosen;
      context.fillRect(x, y, scale, scale);
    }
    const digit = inputs[cell] || frame.grid[cell];
    if (!digit) continue;
    const clashes = inputs[cell] ? wrong[cell] : doubtful[cell];
    const sure = inputs[cell] ? 1 : Math.max(0, Math.min(1, frame.sure[cell] || 0));
    context.globalAlpha = 0.25 + 0.75 * sure ** 2;
    context.fillStyle = clashes ? colours.clash : inputs[cell] ? colours.clue : css(colours.found);
    context.font = `${inputs[cell] ? 700 : 450} ${0.58 * scale}px system-ui, "Noto Sans", sans-serif`;
    context.fillText(digit, x + scale / 2, y + 0.53 * scale);
    // Colour alone must not say that a digit clashes.
    if (clashes) context.fillRect(x + 0.28 * scale, y + 0.84 * scale, 0.44 * scale, Math.max(1, 0.045 * scale));
    context.globalAlpha = 1;
    if (small && !inputs[cell] && sure < 0.9 && frame.second?.[cell]) {
      context.fillStyle = css(colours.aside, 0.8);
      context.font = `${0.22 * scale}px system-ui, "Noto Sans", sans-serif`;
      context.fillText(frame.second[cell], x + 0.85 * scale, y + 0.18 * scale);
    }
  }
  for (let line = 0; line <= 9; line++) {
    const thick = line % 3 === 0 ? Math.max(1.5, scale / 22) : Math.max(1, scale / 60);
    const at = Math.min(Math.max(line * scale, thick / 2), 9 * scale - thick / 2);
    context.strokeStyle = line % 3 === 0 ? colours.rule : colours.thin;
    context.lineWidth = thick;
    context.beginPath();
    context.moveTo(at, 0);
    context.lineTo(at, 9 * scale);
    context.moveTo(0, at);
    context.lineTo(9 * scale, at);
    context.stroke();
  }
}

function drawCursor(context, x, y, scale, colours) {
  const wide = Math.max(2, Math.min(5, scale / 9));
  for (const [colour, width] of [[colours.ring, wide + 2], [colours.cursor, wide]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(x * scale, y * scale, scale, scale);
  }
}

function drawBrush(context, { x, y, radius }, scale, colours) {
  context.strokeStyle = colours.cursor;
  context.lineWidth = Math.max(1.5, scale / 8);
  context.setLineDash([6, 5]);
  context.beginPath();
  context.arc(x * scale, y * scale, (radius + 0.5) * scale, 0, 2 * Math.PI);
  context.stroke();
  context.setLineDash([]);
}

/** The numbers of one cell as bars, zero in the middle; the largest fills the height. */
export function drawInside(canvas, numbers, theme) {
  const { positive, negative, thin } = THEMES[theme], density = devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * density;
  canvas.height = canvas.clientHeight * density;
  const context = canvas.getContext("2d"), { width, height } = canvas, step = width / (numbers?.length || 16);
  const most = numbers?.reduce((most, number) => Math.max(most, Math.abs(number)), 0.25);
  context.fillStyle = thin;
  context.fillRect(0, height / 2 - density / 2, width, density);
  numbers?.forEach((number, i) => {
    const tall = (0.92 * number * height) / (2 * most);
    context.fillStyle = number < 0 ? negative : positive;
    context.fillRect(i * step + step * 0.12, height / 2 - Math.max(0, tall), step * 0.76, Math.abs(tall));
  });
}
