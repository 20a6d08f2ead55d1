// What the page says of the thought: the verdict, the counts, the trials in small.

import { draw, drawInside } from "./view/draw.js";

const find = (id) => document.getElementById(id);

/** A whole number with its thousands apart. */
export const count = (number) => Math.round(number).toLocaleString("en");

/** Shows everything that changes with a frame. */
export function showFrame(app, describe) {
  const { frame } = app, sudoku = app.model.puzzle === "sudoku";
  if (!frame) return;
  find("time").min = frame.first;
  find("time").max = Math.max(1, frame.furthest);
  find("time").value = frame.steps;
  find("count").textContent = `${count(frame.steps)} step${frame.steps === 1 ? "" : "s"}`;
  find("updates").textContent = count(frame.updates);
  find("saved").textContent = frame.possible ? `${Math.round(100 * (1 - frame.updates / frame.possible))} %` : "–";
  find("confidence").textContent = `${Math.round(100 * frame.confidence)} %`;
  find("device-text").textContent = frame.device;
  if (app.pace?.steps > 0) find("rate-now").textContent = `${count(app.pace.steps / app.pace.seconds)} steps/s`;
  const { kind, text } = verdict(app);
  if (find("verdict-text").textContent !== text) find("verdict-text").textContent = text;
  find("verdict").dataset.kind = kind;
  find("help-out").hidden = sudoku || !app.fault;
  find("board").setAttribute("aria-label", `${sudoku ? "Sudoku" : "Maze"} of ${app.board.height} by ${app.board.width} cells. ${text}`);
  drawInside(find("inside"), frame.inside, app.theme);
  find("inside-text").textContent = frame.inside ? describe(app.probe) : "Point at a cell to see the numbers in it.";
  showTrials(app);
}

function showTrials(app) {
  const { trials, trial } = app.frame, box = find("trials");
  box.hidden = trials.length < 2;
  if (box.hidden) return;
  while (box.children.length > trials.length) box.lastChild.remove();
  while (box.children.length < trials.length) {
    const button = document.createElement("button"), i = box.children.length;
    button.type = "button";
    button.append(document.createElement("canvas"), document.createElement("span"));
    button.addEventListener("click", async () => {
      app.focus = app.focus === i ? null : i;
      await app.look();
    });
    box.append(button);
  }
  trials.forEach((one, i) => {
    const button = box.children[i], sure = `${Math.round(100 * one.confidence)} %`;
    const about = one.solved ? "✓ verified" : one.alive ? sure : "given up";
    button.lastChild.textContent = about;
    button.setAttribute("aria-label", `Trial ${i + 1}: ${about}`);
    button.setAttribute("aria-pressed", i === trial);
    button.classList.toggle("pruned", !one.alive);
    const frame = { grid: one.grid, sure: new Float32Array(81).fill(1) };
    draw(button.firstChild, "sudoku", app.board, frame, { scale: 16, theme: app.theme });
  });
}

/** What there is to say about the thought: a kind and a sentence. */
function verdict(app) {
  const { frame, model, fault } = app, sudoku = model.puzzle === "sudoku";
  if (fault) return { kind: "stuck", text: fault };
  if (frame.solved) {
    const why = sudoku ? "every row, column and box holds each digit once" : "the marked cells are a path from end to end";
    return { kind: "solved", text: `Verified after ${count(app.solvedAt ?? frame.steps)} steps: ${why}.` };
  }
  if (app.loops && model.puzzle === "maze") {
    return { kind: "stuck", text: "This maze has loops; the cells have only learnt mazes without, and most likely fail." };
  }
  if (frame.resting) {
    return { kind: "stuck", text: "The cells have come to rest on a wrong answer; wipe a piece or think again." };
  }
  if (!app.playing) return { kind: "paused", text: frame.steps ? "Paused." : "Ready to think." };
  return { kind: "thinking", text: "The cells are thinking." };
}
