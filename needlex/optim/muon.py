"""Muon: momentum, orthogonalised by Newton-Schulz, on the matrices of every layer of a stack.

Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks". Own implementation because the stacked
case is what others get wrong: scanned weights [layer, in, out] must be orthogonalised layer by layer, and the state here
holds the momentum and nothing else.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Quintic Newton-Schulz coefficients: singular values end between about 0.7 and 1.2."""

NORM_EPSILON = 1e-7
"""Added to the norm that a matrix is divided by, float32."""


def orthogonalize(matrix: Float[Array, "n m"], steps: int = 5) -> Float[Array, "n m"]:
    """Nearest-orthogonal direction of `matrix` by Newton-Schulz, float32; zero stays zero."""
    a, b, c = COEFFICIENTS
    x = matrix.astype(jnp.float32)
    wide = x.shape[0] <= x.shape[1]
    if not wide:  # the Gram matrix of the short side is the cheap one
        x = x.T
    x = x / (jnp.linalg.norm(x) + NORM_EPSILON)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x if wide else x.T


def orthogonalize_stack(x: Float[Array, "*l n m"], steps: int = 5) -> Float[Array, "*l n m"]:
    """`orthogonalize` for every matrix on the last two axes."""
    if x.ndim == 2:
        return orthogonalize(x, steps)
    flat = x.reshape(-1, *x.shape[-2:])
    # A map, not a vmap: two-dimensional products use all cores of a CPU better, and the memory is one layer's.
    return jax.lax.map(lambda m: orthogonalize(m, steps), flat).reshape(x.shape)


class MuonState(NamedTuple):
    momentum: optax.Updates


def scale_by_muon(momentum: float = 0.95, steps: int = 5) -> optax.GradientTransformation:
    """Nesterov momentum m = mu m + g, then the orthogonalised g + mu m, times sqrt(max(1, out / in)).

    For leaves of two or more axes, the last two being (in, out).
    """

    def init(params):
        return MuonState(jax.tree.map(jnp.zeros_like, params))

    def update(updates, state, params=None):
        del params
        new = jax.tree.map(lambda m, g: momentum * m + g, state.momentum, updates)

        def direction(m, g):
            factor = math.sqrt(max(1.0, g.shape[-1] / g.shape[-2]))
            return factor * orthogonalize_stack(g + momentum * m, steps)

        return jax.tree.map(direction, new, updates), MuonState(new)

    return optax.GradientTransformation(init, update)
