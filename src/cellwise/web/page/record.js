// The board as a picture, the thought as a moving one; both are made here and offered as files.

import { gif } from "./gif.js";
import { draw } from "./view/draw.js";

const GIF_FRAMES = 100, GIF_SIDE = 366;
const FILM_FRAMES = 300, FILM_SIDE = 720, FILM_PAUSE = 1000 / 30, FILM_END = 1500;
const FILMS = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/mp4"];

/** A picture of this moment. */
export async function picture(app) {
  const canvas = document.createElement("canvas");
  render(app, canvas, 1200);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** The thought so far as a GIF; `tell` gets the share that is done. */
export async function movingPicture(app, tell) {
  const canvas = document.createElement("canvas"), frames = [];
  canvas.getContext("2d", { willReadFrequently: true });
  await replay(app, GIF_FRAMES, async (share) => {
    render(app, canvas, GIF_SIDE);
    frames.push(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height));
    tell(share);
  });
  return gif(frames, 6, 200);
}

/** The kind of film that this browser can make, or null. */
export function filmKind() {
  return FILMS.find((kind) => globalThis.MediaRecorder?.isTypeSupported(kind)) ?? null;
}

/** The thought so far as a film. */
export async function film(app, tell) {
  const canvas = document.createElement("canvas"), kind = filmKind();
  render(app, canvas, FILM_SIDE);
  const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: kind, videoBitsPerSecond: 4e6 });
  const parts = [], ended = new Promise((resolve) => (recorder.onstop = resolve));
  recorder.ondataavailable = ({ data }) => parts.push(data);
  recorder.start();
  await replay(app, FILM_FRAMES, async (share) => {
    render(app, canvas, FILM_SIDE);
    tell(share);
    await wait(FILM_PAUSE);
  });
  await wait(FILM_END);
  recorder.stop();
  await ended;
  return new Blob(parts, { type: kind.split(";")[0] });
}

/** Offers a file under a name. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function render(app, canvas, side) {
  const scale = Math.max(1, Math.floor(side / app.board.width));
  draw(canvas, app.model.puzzle, app.board, app.frame, { scale, theme: app.theme, view: app.view });
}

/** Thinks the thought again from its beginning to this moment, stopping for about `most` looks. */
async function replay(app, most, look) {
  const here = app.frame.steps, first = app.frame.first, count = Math.min(most, here - first + 1);
  await app.alone(async () => {
    for (let i = 0; i < count; i++) {
      const share = count > 1 ? i / (count - 1) : 1;
      await app.seek(Math.round(first + share * (here - first)));
      await look(share);
    }
  });
}
