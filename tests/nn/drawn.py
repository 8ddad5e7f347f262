"""Modules whose every leaf is drawn, so that no norm scale, gate or bias hides at its start value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from needlex.types import Key

Module = TypeVar("Module", bound=eqx.Module)


def drawn(make: Callable[[Key], Module], seed: int = 0, scale: float = 0.4) -> Module:
    """The module that `make` builds, with leaves from normal(0, `scale`)."""
    rng = np.random.default_rng(seed)
    skeleton = eqx.filter_eval_shape(make, jr.key(0))
    return jax.tree.map(
        lambda leaf: jnp.asarray(scale * rng.standard_normal(leaf.shape), jnp.float32), skeleton
    )


def normal(seed: int, *shape: int) -> jax.Array:
    """A float32 array from the standard normal distribution."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)
