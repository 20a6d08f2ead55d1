// The page: finds its models, makes the scene that the address asks for, and connects every control.

import { App } from "./app.js";
import { bindControls } from "./controls.js";
import { ModelError } from "./engine/model.js";
import { fromAddress } from "./share.js";

const find = (id) => document.getElementById(id);
let hiding = 0;

/** Shows one sentence for a while. */
function notice(text) {
  find("notice-text").textContent = text;
  find("notice").hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => (find("notice").hidden = true), 12_000);
}

function setTheme(app, theme) {
  app.theme = document.documentElement.dataset.theme = theme;
  find("theme").setAttribute("aria-pressed", theme === "dark");
  app.paint();
}

async function begin() {
  const listed = await fetch("models/index.json").then((answer) => answer.json());
  const app = new App(find("board"));
  globalThis.cellwise = app; // For the curious, and for tests.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(app, dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(app, dark.matches ? "dark" : "light"));
  find("theme").addEventListener("click", () => setTheme(app, app.theme === "dark" ? "light" : "dark"));
  find("notice-close").addEventListener("click", () => (find("notice").hidden = true));
  find("skip").addEventListener("click", (event) => {
    event.preventDefault(); // The address is the scene's.
    find("board").focus();
  });
  find("how-open").addEventListener("click", () => find("how").showModal());
  find("how").addEventListener("click", (event) => event.target === find("how") && find("how").close());
  app.addEventListener("trouble", ({ detail }) => notice(detail));

  const { models } = listed, controls = bindControls(app, models, notice);
  await open(app, models, controls);
  addEventListener("hashchange", () => location.hash.slice(1) !== app.address && open(app, models, controls));
  new ResizeObserver(() => app.paint()).observe(find("frame"));
  new IntersectionObserver(([entry]) => (app.visible = entry.isIntersecting)).observe(find("board"));
  app.ready = true;
  app.loop();
}

/** Opens the scene of the address, or a first one. */
async function open(app, models, controls) {
  let scene = null;
  try {
    scene = fromAddress(location.hash.slice(1), models.map((model) => model.name));
  } catch (problem) {
    notice(problem.message);
  }
  await app.alone(async () => {
    if ((await useFirst(app, models, scene?.model)) !== scene?.model && scene?.model) scene = null;
    app.seed = scene?.seed ?? 0;
    app.trials = scene?.trials ?? 1;
    app.speed = scene?.speed ?? 5;
    app.view = scene?.view ?? "answer";
    Object.assign(app.settings, { noise: 0, adaptive: false }, scene?.settings);
    controls.show();
    const fits = scene?.board && (scene.board.width === 9) === (app.model.puzzle === "sudoku");
    if (fits) await app.take(scene.board, scene.made ?? null);
    else await controls.renew();
  });
  controls.play(!matchMedia("(prefers-reduced-motion: reduce)").matches);
}

/** Takes up the wanted model, or the first that can be used; tells of those that cannot. Returns its name. */
async function useFirst(app, models, wanted) {
  const names = models.map((model) => model.name);
  for (const name of new Set(wanted ? [wanted, ...names] : names)) {
    try {
      await app.use(name);
      return name;
    } catch (problem) {
      if (!(problem instanceof ModelError)) throw problem;
      notice(problem.message);
    }
  }
  throw new Error("There is no model that this page can use; get its folder again");
}

begin().catch((problem) => {
  find("verdict-text").textContent = `This page cannot start: ${problem.message}.`;
  find("verdict").dataset.kind = "stuck";
});
