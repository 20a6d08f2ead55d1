"""Whole rollouts of rules with attention: few large products, nothing done twice, the gradient by hand.

Inside, a state is a matrix of channels and of all cells of all boards, in one of two forms:

- `dense`, `[c, n]`, cells numbered by place and then by board: weights stand on the left of every product,
  sums over the channels of a unit run over whole rows, and the neighbours are weighed by one product for each
  channel, which mixes the places of its boards. For GPUs, where nine shifted sums cost more.
- `shifts`, `[n, c]`, cells numbered by board and then by place: the neighbours are weighed as nine shifted
  grids. For CPUs, which multiply faster this way round, and for boards that are too large to mix.

Weights are brought into the form that the loop wants (`arranged`) once for a rollout. The bias of the hidden
layer is one of its columns, for which what a cell perceives ends with a one. With bf16 products, factors and
what the backward pass needs are kept in bfloat16; sums, the state between two steps and all gradients of
weights are float32.
"""

from .form import Call, Form, matrix
from .rollout import boards, refusal, rollout, suitable, trajectory

__all__ = ["Call", "Form", "boards", "matrix", "refusal", "rollout", "suitable", "trajectory"]
