// Plays the films of a task page: every frame is a byte for a cell, which numbers a colour of the palette.
const { palette, films } = JSON.parse(document.getElementById("films").textContent);
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
const PAUSE = 90; // Milliseconds a frame is shown,
const REST = 2500; // and the last one.

for (const figure of document.querySelectorAll("figure.film")) {
  const { side, sure, cells } = films[Number(figure.dataset.film)];
  const bytes = Uint8Array.from(atob(cells), (character) => character.charCodeAt(0));
  const canvas = figure.querySelector("canvas");
  const [button, slider, told] = ["button", "input", "output"].map((name) => figure.querySelector(name));
  const pen = canvas.getContext("2d");
  const last = sure.length - 1;
  let timer = 0;

  function show(step) {
    for (let cell = 0; cell < side * side; cell++) {
      pen.fillStyle = palette[bytes[step * side * side + cell]];
      pen.fillRect(cell % side, Math.floor(cell / side), 1, 1);
    }
    slider.value = step;
    told.textContent = `step ${step} of ${last}, ${Math.round(100 * sure[step])} % sure`;
  }

  function stop() {
    clearTimeout(timer);
    timer = 0;
    button.textContent = "Play";
  }

  function play() {
    const step = Number(slider.value);
    timer = setTimeout(() => {
      show(step === last ? 0 : step + 1);
      play();
    }, step === last ? REST : PAUSE);
    button.textContent = "Pause";
  }

  button.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) === last) show(0);
    play();
  });
  slider.addEventListener("input", () => {
    stop();
    show(Number(slider.value));
  });
  show(still ? last : 0);
  if (!still) play();
}
