// A model folder as the page reads it: the same two files as in Python, trusted no more than there.

const FORMAT = 1;
const MOST_BYTES = 256 * 2 ** 20;
const MOST_JSON = 2 ** 20;
const TOKENS = { maze: 4, "directed-maze": 5, sudoku: 10 };

/** What a person is told when a model cannot be used. */
export class ModelError extends Error {}

/** Fetches and checks the model in a folder beside the page. */
export async function loadModel(folder) {
  const config = await bytes(`${folder}/config.json`, folder, MOST_JSON);
  const weights = await bytes(`${folder}/model.safetensors`, folder, MOST_BYTES);
  return readModel(folder.split("/").pop(), config, weights);
}

async function bytes(address, folder, most) {
  let answer;
  try {
    answer = await fetch(address);
  } catch {
    throw new ModelError(`The model ${nameOf(folder)} could not be fetched; check the connection and reload.`);
  }
  if (!answer.ok) throw new ModelError(`The model ${nameOf(folder)} is not here; get its folder again.`);
  const data = await answer.arrayBuffer();
  if (data.byteLength > most) throw new ModelError(`The model ${nameOf(folder)} is too large for this page.`);
  return data;
}

const nameOf = (folder) => `“${folder.split("/").pop().slice(0, 64)}”`;

/** The model in two files' bytes, or a ModelError. */
export async function readModel(name, configBytes, weightBytes) {
  const broken = (what) => new ModelError(`The model ${nameOf(name)} ${what}; get its folder again.`);
  let config;
  try {
    config = JSON.parse(new TextDecoder().decode(configBytes));
  } catch {
    throw broken("has a config.json that is not valid JSON");
  }
  if (config?.format !== FORMAT) throw broken(`is not of format ${FORMAT}`);
  checkConfig(config, broken);
  if (crypto.subtle) {
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", weightBytes));
    const hex = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    if (hex !== config.weights_sha256) throw broken("is damaged or not the one that its config.json names");
  }
  const weights = readTensors(weightBytes, broken);
  const shapes = allShapes(config);
  for (const [name, shape] of Object.entries(shapes)) {
    const found = weights[name];
    if (!found || String(found.shape) !== String(shape)) throw broken("does not fit its config.json");
    if (!found.numbers.every(Number.isFinite)) throw broken("holds values that are not finite");
  }
  const { step, layout } = config.automaton;
  return {
    name: config.name,
    puzzle: config.puzzle,
    step,
    layout,
    rate: config.fire_rate,
    pace: config.pace,
    size: config.size,
    placed: config.size !== null && step.perception === "attention",
    perceived: step.perception === "kernels" ? step.channels * step.heads : step.channels,
    weights: Object.fromEntries(Object.keys(shapes).map((name) => [name, weights[name].numbers])),
  };
}

function checkConfig(config, broken) {
  const step = config.automaton?.step ?? {}, layout = config.automaton?.layout ?? {};
  const size = config.size === undefined ? [] : config.size;
  const count = (n, most = 8192) => Number.isInteger(n) && n >= 1 && n <= most;
  const places = (n, most) => Number.isInteger(n) && n >= 0 && n <= most;
  const real = (n, most) => Number.isFinite(n) && n >= 0 && n <= most;
  const good =
    Object.hasOwn(TOKENS, config.puzzle) &&
    layout.tokens === TOKENS[config.puzzle] &&
    [step.channels, step.heads, step.hidden, layout.read, layout.write].every((n) => count(n)) &&
    ["kernels", "attention"].includes(step.perception) &&
    ["wrap", "zero", "token"].includes(step.padding) &&
    ["distance", "cosine"].includes(layout.head) &&
    places(step.frozen, step.channels) &&
    places(step.padding_token, layout.tokens - 1) &&
    places(layout.write_first, step.channels - layout.write) &&
    layout.write <= layout.read && layout.read <= step.channels &&
    (step.padding !== "token" || layout.read === step.channels) &&
    places(step.first_unit, step.channels - 1) &&
    (step.unit === null || (count(step.unit) && (step.channels - step.first_unit) % step.unit === 0)) &&
    (step.perception === "kernels" || step.channels % step.heads === 0) &&
    real(config.fire_rate, 1) && config.fire_rate > 0 &&
    real(layout.spread, 100) &&
    (size === null || (size.length === 2 && size.every((side) => count(side, 2003)))) &&
    (config.puzzle !== "sudoku" || size === null || String(size) === "9,9") &&
    places(config.pace?.base, 1e6) && real(config.pace.per_cell, 100);
  if (!good) throw broken("describes an automaton that cannot exist");
  if ((step.update ?? "mlp") !== "mlp" || step.channels % 4) {
    throw new ModelError(`This page cannot run the model ${nameOf(config.name)}: it knows rules with one hidden layer only.`);
  }
}

function allShapes({ automaton: { step, layout }, size }) {
  const { channels: c, heads, hidden } = step, kernels = step.perception === "kernels";
  const perceived = kernels ? c * heads : c;
  const perceive = kernels
    ? { "perceive.kernels": [heads, 9] }
    : { "perceive.attention": [...(size ?? []), heads, 9], "perceive.value": [heads, c / heads, c] };
  return {
    ...perceive,
    "update.w_in": [perceived, hidden],
    "update.b_in": [hidden],
    "update.w_out": [c, hidden],
    "update.b_out": [c],
    "layout.tokens": [layout.tokens, layout.read],
  };
}

/** The float32 arrays of a safetensors file: a header in JSON, then raw numbers. */
function readTensors(data, broken) {
  const refused = broken("is not a safetensors file");
  try {
    const length = Number(new DataView(data).getBigUint64(0, true)), first = 8 + length;
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 8, length)));
    const arrays = {};
    for (const [name, entry] of Object.entries(header)) {
      if (name === "__metadata__") continue;
      const [from, to] = entry.data_offsets, count = entry.shape.reduce((a, b) => a * b, 1);
      if (entry.dtype !== "F32" || to - from !== 4 * count || !(from >= 0)) throw refused;
      arrays[name] = { shape: entry.shape, numbers: new Float32Array(data.slice(first + from, first + to)) };
      if (arrays[name].numbers.length !== count) throw refused;
    }
    return arrays;
  } catch {
    throw refused;
  }
}
