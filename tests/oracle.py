"""The automaton written a second time, in float64 and plain loops, to test the package against.

Nothing of the package is used here: the random bits are made of Python integers, the step goes cell by cell
and every formula is spelled out. Slow and obvious is the point.
"""

import functools
import math

import numpy as np

MASK = 0xFFFFFFFF
GOLDEN = 0x9E3779B9
START, FIRE, NOISE_WHEN, NOISE_WHERE, NOISE = 1, 2, 3, 4, 5
NEIGHBOURS = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 0), (0, 1), (1, -1), (1, 0), (1, 1)]


def mix(word):
    word ^= word >> 16
    word = word * 0x7FEB352D & MASK
    word ^= word >> 15
    word = word * 0x846CA68B & MASK
    return word ^ word >> 16


def fold(key, word):
    return mix(mix(key + GOLDEN & MASK) ^ word)


def trajectory(seed, board, trial):
    return fold(fold(fold(seed & MASK, seed >> 32 & MASK), board), trial)


def at_step(key, purpose, step):
    return fold(fold(key, purpose), step)


def at_cell(key, cell):
    return mix(key + cell * GOLDEN & MASK)


def chance(word, rate):
    return word >> 8 < round(float(np.float32(rate)) * 2**24)


def normal(word, channel):
    bits = mix(word + channel // 2 * GOLDEN & MASK)
    radius = math.sqrt(-2 * math.log(((bits >> 16) + 0.5) / 2**16))
    angle = 2 * math.pi * (bits & 0xFFFF) / 2**16
    return radius * (math.sin(angle) if channel % 2 else math.cos(angle))


def fires(key, step, cell, rate):
    return chance(at_cell(at_step(key, FIRE, step), cell), rate)


@functools.cache
def fire_mask(keys, step, size, rate):
    h, w = size
    return np.array([[[fires(k, step, y * w + x, rate) for x in range(w)] for y in range(h)] for k in keys])


@functools.cache
def kick(keys, step, size, channels, noise):
    """The noise after a step for every cell and channel."""
    h, w = size
    out = np.zeros((len(keys), h, w, channels))
    for b, key in enumerate(keys):
        if not chance(at_step(key, NOISE_WHEN, step), noise.when):
            continue
        if noise.until is not None and step >= noise.until:
            continue
        for cell in range(h * w):
            if chance(at_cell(at_step(key, NOISE_WHERE, step), cell), noise.where):
                word = at_cell(at_step(key, NOISE, step), cell)
                out[b, cell // w, cell % w] = [noise.size * normal(word, c) for c in range(channels)]
    return out


def start(spec, layout, tokens, inputs, given, keys):
    b, h, w = inputs.shape
    state = np.zeros((b, h, w, spec.channels))
    for i, key in enumerate(keys):
        for cell in range(h * w):
            word, y, x = at_cell(at_step(key, START, 0), cell), cell // w, cell % w
            state[i, y, x] = [layout.spread * normal(word, c) for c in range(spec.channels)]
            if given[i, y, x]:
                state[i, y, x, : layout.read] = tokens[inputs[i, y, x]]
            state[i, y, x] = normalise(spec, state[i, y, x])
    return state


def normalise(spec, cell):
    cell = cell.copy()
    if spec.unit is not None:
        for first in range(spec.first_unit, spec.channels, spec.unit):
            v = cell[first : first + spec.unit]
            square = (v * v).sum()
            cell[first : first + spec.unit] = v / (
                np.sqrt(square + 1e-6) if spec.eps_inside else np.sqrt(square) + 1e-6
            )
    return cell


def perceive(spec, weights, state, y, x):
    """What one cell perceives; `state` is one board."""
    h, w, c = state.shape
    around = []
    for dy, dx in NEIGHBOURS:
        inside = 0 <= y + dy < h and 0 <= x + dx < w
        if inside or spec.padding == "wrap":
            around.append(state[(y + dy) % h, (x + dx) % w])
        elif spec.padding == "token":
            around.append(weights["layout.tokens"][spec.padding_token])
        else:
            around.append(np.zeros(c))
    if spec.perception == "sobel":
        (nw, n, ne, we, here, ea, sw, s, se) = around
        right = (ne + 2 * ea + se - nw - 2 * we - sw) / 8
        return np.concatenate([here, right, (sw + 2 * s + se - nw - 2 * n - ne) / 8])
    heads = []
    for m in range(spec.heads):
        if spec.perception == "kernels":
            heads.append(sum(weights["perceive.kernels"][m, n] * around[n] for n in range(9)))
        else:
            a = weights["perceive.attention"]
            a = a[m] if a.ndim == 2 else a[y, x, m]
            heads.append(sum(a[n] * (weights["perceive.value"][m] @ around[n]) for n in range(9)))
    return np.concatenate(heads)


def update(spec, weights, z):
    if spec.update == "bare":
        return weights["update.w_out"] @ np.maximum(weights["update.w_in"].T @ z, 0)
    hidden = weights["update.w_in"].T @ z + weights["update.b_in"]
    if spec.update == "swiglu":
        gate = weights["update.w_gate"].T @ z + weights["update.b_gate"]
        hidden = gate / (1 + np.exp(-gate)) * hidden
    else:
        hidden = np.maximum(hidden, 0)
    return weights["update.w_out"] @ hidden + weights["update.b_out"]


def step(spec, weights, state, given, fire):
    """The state `[b, h, w, c]` after one step."""
    out = np.zeros_like(state)
    b, h, w, c = state.shape
    for i in range(b):
        for y in range(h):
            for x in range(w):
                cell = state[i, y, x]
                change = np.zeros(c)
                if fire[i, y, x]:
                    change = update(spec, weights, perceive(spec, weights, state[i], y, x))
                if given[i, y, x]:
                    change[: spec.frozen] = 0
                if spec.unit is not None and spec.tangent:
                    for first in range(spec.first_unit, c, spec.unit):
                        unit = slice(first, first + spec.unit)
                        change[unit] = change[unit] - (change[unit] @ cell[unit]) * cell[unit]
                out[i, y, x] = normalise(spec, cell + change)
    return out


def rollout(spec, weights, state, given, keys, first, steps, rate, noise=None):
    """The states after each of the steps `first … first + steps - 1`; `keys` is a tuple."""
    size, states = state.shape[1:3], []
    for i in range(first, first + steps):
        state = step(spec, weights, state, given, fire_mask(keys, i, size, rate))
        if noise is not None:
            free = ~(given[..., None] & (np.arange(spec.channels) < spec.frozen))
            state = state + free * kick(keys, i, size, spec.channels, noise)
        states.append(state)
    return states


def float64(arrays):
    return {name: np.asarray(array, np.float64) for name, array in arrays.items()}
