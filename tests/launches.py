"""What tests of kernels share that take many steps in a launch: a case, its rollouts, and what it learns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import oracle
from cellwise.automaton import rollout
from cellwise.automaton.rule import FIXED
from cellwise.kernels.dispatch import Noise
from rules import keys_of, on_device

RATE = 0.7
FIRST, STEPS, LEARNED = (5, 9, 0, 6), (3, 0, 2, 1), 3
NOISE = Noise(when=0.6, where=0.5, size=0.2, until=7)
MIXED = (1.0, 0.0, 0.6, 0.3)


class Case:
    """A rule, boards, weights and the first state that the oracle gives them."""

    channel = 0
    """The first of those that are judged."""

    def __init__(self, automaton, boards, weights):
        self.automaton, self.spec, self.boards, self.weights = automaton, automaton.step, boards, weights
        begin = oracle.start(
            self.spec, automaton.layout, weights["layout.tokens"], boards.tokens, boards.given, boards.keys
        )
        self.state = np.float32(begin)

    def rolled(self, path, rate=RATE, noise=NOISE, boards=slice(None)):
        many = len(self.state)
        return np.asarray(
            rolled(
                on_device(self.weights),
                jnp.asarray(self.state[boards]),
                jnp.asarray(self.boards.given[boards]),
                keys_of(self.boards)[boards],
                jnp.array(FIRST[:many], jnp.int32)[boards],
                jnp.array(STEPS[:many], jnp.int32)[boards],
                spec=self.spec,
                path=path,
                rate=rate,
                noise=noise,
            )
        )

    def learned(self, path, judged="all"):
        """The errors, the last state, and the gradients of a number made of both."""
        rng = np.random.default_rng(3)
        width = self.automaton.layout.write
        trained = {name: array for name, array in self.weights.items() if name not in FIXED}
        fixed = {name: array for name, array in self.weights.items() if name in FIXED}
        return learned(
            on_device(trained),
            jnp.asarray(self.state),
            on_device(fixed),
            jnp.asarray(self.boards.given),
            keys_of(self.boards),
            jnp.array(FIRST[: len(self.state)], jnp.int32),
            jnp.asarray(np.float32(rng.standard_normal((*self.state.shape[:3], width)))),
            jnp.asarray(np.float32(rng.standard_normal(self.state.shape))),
            spec=self.spec,
            path=path,
            channel=self.channel,
            judged=judged,
        )


def on_cpu():
    """Where rounding to bf16 and back stays; for a GPU XLA leaves it out, to be more exact than was asked."""
    return jax.default_device(jax.devices("cpu")[0])


@functools.partial(jax.jit, static_argnames=("spec", "path", "rate", "noise"))
def rolled(weights, state, given, keys, first, steps, *, spec, path, rate, noise):
    plan = path.plan(spec, given)
    return rollout.rollout(spec, weights, state, plan, keys, first, steps, path=path, rate=rate, noise=noise)


@functools.partial(jax.jit, static_argnames=("spec", "path", "channel", "judged"))
def learned(trained, state, fixed, given, keys, first, target, probe, *, spec, path, channel, judged):
    def judge(trained, state):
        how = {"path": path, "rate": RATE, "noise": NOISE, "channel": channel, "judged": judged}
        plan = path.plan(spec, given)
        errors, end = rollout.learn(spec, trained | fixed, state, plan, keys, first, LEARNED, target, **how)
        order = jnp.arange(1, len(errors) + 1, dtype=jnp.float32)
        return target.size * jnp.sum(errors * order) + jnp.sum(end * probe), (errors, end)

    (_, seen), gradients = jax.value_and_grad(judge, argnums=(0, 1), has_aux=True)(trained, state)
    return *seen, *gradients
