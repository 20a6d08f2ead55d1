// The colours of tokens and of doubt, those of report/palette.py or close to them: people with any colour
// blindness can tell them apart.

export const THEMES = {
  light: {
    tokens: [[255, 255, 255], [0, 80, 170], [43, 47, 56], [213, 94, 0], [0, 158, 115]],
    unsure: [205, 207, 210], wiped: [230, 159, 0], cursor: "#d55e00", ground: "#ffffff", rule: "#2b2f38", thin: "#cfd2d8",
    clue: "#14161a", found: [0, 80, 170], clash: "#c34a00", chosen: "#e5eefa", ring: "#ffffff", aside: [91, 98, 112],
    positive: "#0050aa", negative: "#d55e00",
  },
  dark: {
    tokens: [[20, 23, 30], [86, 180, 233], [88, 94, 108], [255, 157, 87], [240, 228, 66]],
    unsure: [52, 57, 68], wiped: [230, 159, 0], cursor: "#f0e442", ground: "#14171e", rule: "#8a919e", thin: "#343a46",
    clue: "#ffffff", found: [86, 180, 233], clash: "#ff9d57", chosen: "#16293a", ring: "#14171e", aside: [165, 172, 185],
    positive: "#56b4e9", negative: "#ff9d57",
  },
};

const SEQUENCE = [[0, 32, 77], [65, 77, 107], [124, 123, 120], [188, 175, 111], [255, 234, 70]]; // Cividis, about.
const AROUND_ZERO = [[0, 80, 170], [242, 242, 242], [213, 94, 0]];

function along(stops, share) {
  const at = Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  return mixed(stops[i], stops[i + 1], at - i);
}

/** The colour `share` of the way from one to another. */
export function mixed(from, to, share) {
  return from.map((value, i) => value + (to[i] - value) * share);
}

/** The colour of a number in a view other than the answer. */
export function shade(view, number) {
  if (view === "activity") return along(SEQUENCE, Math.sqrt(number));
  if (view === "confidence" || view === "dormant") return along(SEQUENCE, number);
  return along(AROUND_ZERO, 0.5 + number / 3);
}

export const css = ([red, green, blue], alpha = 1) => `rgb(${red | 0} ${green | 0} ${blue | 0} / ${alpha})`;
