// The worker in which thinking happens, so that the page never waits for it. One request at a time.

import { Cpu } from "./cpu.js";
import { Gpu } from "./gpu.js";
import { Session } from "./session.js";

let wasm, stepper, session, model, losing;

const requests = {
  /** Gets ready for a model: on the GPU if it is wanted and there, else on the CPU. */
  async use({ model: given, device }) {
    model = given;
    losing = null;
    wasm ??= await compiled();
    stepper?.free?.();
    stepper = new Cpu(wasm, model);
    if (device === "cpu") return { device: stepper.name, why: null };
    try {
      stepper = await Gpu.make(model, device === "auto", onLost);
    } catch (problem) {
      return { device: stepper.name, why: problem.message };
    }
    return { device: stepper.name, why: null };
  },
  begin({ board, seed, trials }) {
    session = new Session(model, stepper, board, seed, trials);
  },
  /** Thinks on; a GPU that is lost on the way is replaced by the CPU. */
  async run({ count, budget, settings, tireless }) {
    const moment = stepper.most > 1 ? session.thoughts.map((thought) => thought.snapshot()) : null;
    try {
      await session.run(count, budget, settings, tireless);
    } catch (problem) {
      if (!moment) throw problem;
      onLost(problem.message);
      session.thoughts.forEach((thought, i) => thought.restore(moment[i]));
      session.steps = Math.max(...moment.map((one) => one.steps));
    }
  },
  put: ({ changes }) => session.put(changes),
  wipe: ({ cells }) => session.wipe(cells),
  seek: ({ step }) => session.seek(step),
  lose: () => stepper.lose?.(),
  noticed: () => (losing = null),
  frame: ({ focus, view, probe }) => ({ ...session.frame(focus, view, probe), device: stepper.name, lost: losing }),
  /** The state as raw numbers, for tests. */
  state: ({ trial }) => session.thoughts[trial].state.slice(),
};

async function compiled() {
  const code = await (await fetch(new URL("step.wasm", import.meta.url))).arrayBuffer();
  try {
    return await WebAssembly.compile(code);
  } catch {
    throw new Error("this browser knows no WebAssembly with SIMD; update it");
  }
}

function onLost(why) {
  losing = why;
  stepper = new Cpu(wasm, model);
  if (session) session.stepper = stepper;
}

let before = Promise.resolve();
onmessage = ({ data: { id, request, argument } }) => {
  before = before.then(async () => {
    try {
      postMessage({ id, answer: await requests[request](argument ?? {}) });
    } catch (problem) {
      postMessage({ id, problem: problem.message });
    }
  });
};
