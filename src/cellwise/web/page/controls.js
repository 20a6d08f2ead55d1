// Every control of the page: what it does to the scene, and how it shows what the scene is.

import { SPEEDS } from "./app.js";
import { Hands } from "./hands.js";
import { wallToOpen } from "./puzzles/maze.js";
import { parseSudoku } from "./puzzles/sudoku.js";
import { film, filmKind, movingPicture, picture, save } from "./record.js";
import { count, showFrame } from "./status.js";

const find = (id) => document.getElementById(id);
const LEAD = {
  maze: "Every square is a small cell that sees only its eight neighbours, and all of them follow one learned rule. Together they find the way through the maze; draw a wall across it or wipe a piece, and they find it again.",
  sudoku: "Every square is a small cell that sees only its eight neighbours, and all of them follow one learned rule. Together they fill in the Sudoku; wipe a piece or change a clue, and they think again.",
};
const HINTS = {
  maze: {
    walls: "Press and drag on the board: over free cells to draw walls, over walls to remove them. Drag a round end to move it.",
    wipe: "Press and drag to wipe what the cells know. Then watch it heal.",
  },
  sudoku: {
    walls: "Choose a cell and press a digit to set a clue, also while the cells think.",
    wipe: "Press and drag to wipe what the cells know. Then watch it heal.",
  },
};

/** Connects the controls; returns what else there is to do with them. */
export function bindControls(app, models, notice) {
  const tool = () => document.querySelector("input[name=tool]:checked").value;
  const radius = () => Number(find("brush").value) * (app.model.puzzle === "sudoku" ? 0.25 : Math.max(1, app.board.width / 60));
  const describe = (cell) => hands.describe(cell);
  const say = (cell) => (find("cursor-says").textContent = hands.describe(cell));
  const hands = new Hands(app, { tool, radius, say });
  const puzzle = () => (app.model.puzzle === "sudoku" ? "sudoku" : "maze");
  const number = () => Math.floor(Math.random() * 2 ** 20);
  const on = (id, kind, action) =>
    find(id).addEventListener(kind, async (event) => {
      try {
        await action(event.target);
      } catch (problem) {
        notice(problem.message);
      }
      remember();
    });

  let remembering = 0;
  function remember() {
    clearTimeout(remembering);
    remembering = setTimeout(() => history.replaceState(null, "", `#${app.address}`), 300);
  }

  function play(playing) {
    app.playing = playing;
    app.due = 0;
    document.body.classList.toggle("playing", playing);
    find("play-text").textContent = playing ? "Pause" : "Think";
    showFrame(app, describe);
  }

  const renew = () =>
    app.alone(() =>
      puzzle() === "sudoku"
        ? app.newSudoku(find("grade").value, number())
        : app.newMaze(Number(find("size").value), find("kind").value, number())
    );

  // Thinking
  on("play", "click", () => play(!app.playing));
  on("step", "click", async () => {
    play(false);
    await app.steps(1);
  });
  on("restart", "click", async () => {
    await app.alone(() => app.begin());
    play(true);
  });
  on("time", "input", async ({ value }) => {
    play(false);
    await app.seek(Number(value));
  });
  const keys = { p: "play", ".": "step", r: "restart" };
  addEventListener("keydown", (event) => {
    const typing = event.target.matches("input:not([type=range], [type=radio], [type=checkbox]), select, dialog *");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || find("how").open) return;
    const key = event.key.toLowerCase();
    if (keys[key]) find(keys[key]).click();
    else if (key === "n") find(puzzle() === "sudoku" ? "new-sudoku" : "new-maze").click();
  });

  // Puzzles
  on("size", "input", ({ value }) => (find("size-text").textContent = value));
  on("size", "change", async () => again());
  on("kind", "change", () => again());
  on("new-maze", "click", () => again());
  on("new-sudoku", "click", () => again());
  on("grade", "change", () => again());
  async function again() {
    await renew();
    play(true);
  }
  on("trial-count", "change", async ({ value }) => {
    app.trials = Number(value);
    await app.alone(() => app.begin());
    play(true);
  });
  on("paste", "input", async (field) => {
    if (!field.value.trim() || field.value.replace(/\s/g, "").length < 81) return;
    await app.alone(async () => app.take({ inputs: parseSudoku(field.value), height: 9, width: 9 }));
    field.value = "";
    play(true);
  });
  on("paste", "change", (field) => field.value.trim() && parseSudoku(field.value));
  for (const button of document.querySelectorAll("#puzzles button")) {
    button.addEventListener("click", async () => {
      const model = models.find((one) => (one.puzzle === "sudoku") === (button.dataset.puzzle === "sudoku"));
      await change(model.name).catch((problem) => notice(problem.message));
    });
  }
  on("model", "change", ({ value }) => change(value).finally(show));
  async function change(name) {
    await app.alone(async () => {
      const board = app.board, made = app.made;
      await app.use(name);
      app.view = "answer";
      show();
      if (app.board) await app.take(board, made);
      else await renew();
    });
    play(true);
    remember();
  }
  for (let digit = 1; digit <= 10; digit++) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = digit > 9 ? "⌫" : digit;
    button.setAttribute("aria-label", digit > 9 ? "No clue" : `Clue ${digit}`);
    button.addEventListener("click", () => {
      if (app.cursor >= 0) app.put(app.cursor, digit % 10);
      app.paint();
    });
    find("pad").append(button);
  }

  // Looks and conditions
  const look = async () => {
    app.view = find("view").value === "channel" ? `channel ${find("channel").value}` : find("view").value;
    show();
    await app.look();
  };
  on("view", "change", look);
  on("channel", "input", look);
  on("speed", "input", ({ value }) => ((app.speed = Number(value)), (app.due = 0), show()));
  on("rate", "input", ({ value }) => ((app.settings.rate = Number(value)), show()));
  on("noise", "input", ({ value }) => ((app.settings.noise = Number(value)), show()));
  on("adaptive", "change", ({ checked }) => (app.settings.adaptive = checked));
  on("seed", "change", async (field) => {
    const seed = Number(field.value);
    if (!(Number.isInteger(seed) && seed >= 0 && seed < 2 ** 32)) {
      field.value = app.seed;
      throw new Error("A seed is a whole number from 0 to 4294967295.");
    }
    app.seed = seed;
    await app.alone(() => app.begin());
    play(true);
  });
  on("device", "change", async ({ value }) => {
    const running = await app.alone(() => app.computeOn(value));
    show();
    if (running.why && value === "gpu") notice(`The cells think on the CPU: ${running.why}.`);
  });
  on("measure", "click", async (button) => {
    button.disabled = true;
    try {
      notice(`Measured: ${count(await speed(app))} steps a second with this puzzle on ${app.frame.device}.`);
    } finally {
      button.disabled = false;
    }
  });
  for (const field of document.querySelectorAll("input[name=tool]")) field.addEventListener("change", show);

  // Sharing
  on("link", "click", async () => {
    history.replaceState(null, "", `#${app.address}`);
    try {
      await navigator.clipboard.writeText(location.href);
      notice("The link to this scene is in the clipboard.");
    } catch {
      notice("The address of this page now is the link to this scene; copy it from there.");
    }
  });
  on("png", "click", async () => save(await picture(app), "cellwise.png"));
  on("gif", "click", (button) => making(button, movingPicture, "cellwise.gif"));
  on("film", "click", (button) => making(button, film, `cellwise.${filmKind()?.includes("mp4") ? "mp4" : "webm"}`));
  find("film").hidden = !filmKind();
  async function making(button, make, name) {
    const text = button.textContent, playing = app.playing;
    play(false);
    button.disabled = true;
    try {
      save(await make(app, (share) => (button.textContent = `${Math.round(100 * share)} %`)), name);
    } finally {
      button.textContent = text;
      button.disabled = false;
      play(playing);
    }
  }

  // What the scene is
  find("puzzles").hidden = new Set(models.map((model) => model.puzzle === "sudoku")).size < 2;
  find("model").replaceChildren(...models.map((model) => new Option(model.name, model.name)));
  find("help-out").textContent = "Open one for me";
  find("help-out").addEventListener("click", () => {
    const cell = wallToOpen(app.board);
    if (cell < 0) notice("No single wall would do; remove some by hand.");
    else app.put(cell, 0);
  });

  function show() {
    const kind = puzzle(), [view, channel] = app.view.split(" ");
    document.title = kind === "sudoku" ? "cellwise: Sudoku" : "cellwise: maze";
    find("lead").textContent = LEAD[kind];
    for (const button of document.querySelectorAll("#puzzles button")) {
      button.setAttribute("aria-pressed", button.dataset.puzzle === kind);
    }
    find("maze-box").hidden = kind !== "maze";
    find("sudoku-box").hidden = find("pad-box").hidden = kind !== "sudoku";
    document.querySelector("input[value=walls] + span").textContent = kind === "maze" ? "Walls" : "Clues";
    find("tool-hint").textContent = HINTS[kind][tool()];
    find("brush-row").hidden = tool() !== "wipe";
    find("model").value = app.model.name;
    find("model-row").hidden = models.length < 2;
    find("trial-count").value = app.trials;
    find("view").value = view;
    find("channel-row").hidden = view !== "channel";
    find("channel").max = app.model.step.channels - 1;
    find("channel").value = channel ?? find("channel").value;
    find("channel-text").textContent = find("channel").value;
    find("speed").value = app.speed;
    find("speed-text").textContent = SPEEDS[app.speed] === Infinity ? "max" : `${SPEEDS[app.speed]}/s`;
    find("speed").setAttribute("aria-valuetext", `${SPEEDS[app.speed]} steps a second`);
    find("rate").value = app.settings.rate;
    find("rate-text").textContent = app.settings.rate.toFixed(2);
    find("noise").value = app.settings.noise;
    find("noise-text").textContent = app.settings.noise.toFixed(2);
    find("adaptive").checked = app.settings.adaptive;
    find("seed").value = app.seed;
    if (app.made) {
      find("size").value = find("size-text").textContent = app.made.size;
      find("kind").value = app.made.kind;
    }
    find("device-text").textContent = app.running.device;
    find("device-text").title = app.running.why ?? "";
    find("credit-model").textContent = `the model on show is ${app.model.name}.`;
    app.paint();
  }

  app.addEventListener("frame", () => showFrame(app, describe));
  app.addEventListener("model", show);
  app.addEventListener("stopped", () => play(false));
  app.addEventListener("scene", () => (show(), showFrame(app, describe), remember()));
  return { show, renew, play };
}

/** Steps a second, measured for two seconds from the start of a thought. */
async function speed(app) {
  return app.alone(async () => {
    await app.begin();
    const began = performance.now();
    await app.mind.ask("run", { count: 1e6, budget: 2000, settings: app.settings, tireless: true });
    const seconds = (performance.now() - began) / 1000;
    await app.look();
    return app.frame.steps / seconds;
  });
}
