"""Layers stacked on a leading axis and run by a scan: one compiled body however deep the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from needlex.types import Key

Layer = TypeVar("Layer", bound=eqx.Module)


def stack_layers(make: Callable[[Key], Layer], count: int, key: Key) -> Layer:
    """`count` layers as one module whose arrays have a leading layer axis."""
    return eqx.filter_vmap(make)(jr.split(key, count))


def run_layers(
    layers: Layer,
    apply: Callable[[Layer, Float[Array, "t d"], Key | None], Float[Array, "t d"]],
    x: Float[Array, "t d"],
    *,
    key: Key | None,
    remat: bool = False,
    unroll: bool = False,
) -> Float[Array, "t d"]:
    """Run x through the stacked `layers`; `remat` recomputes activations in the backward pass to save memory."""
    arrays, static = eqx.partition(layers, eqx.is_array)
    count = jax.tree.leaves(arrays)[0].shape[0]
    keys = None if key is None else jr.split(key, count)

    def body(x, layer_and_key):
        layer, k = layer_and_key
        return apply(eqx.combine(layer, static), x, k), None

    x, _ = jax.lax.scan(
        jax.checkpoint(body) if remat else body, x, (arrays, keys), unroll=count if unroll else 1
    )
    return x


def inner(key: Key | None) -> Key | None:
    """The key for what lies inside a sub-layer whose output is dropped with `key`."""
    return None if key is None else jr.fold_in(key, 1)


def dropout(x: Float[Array, "t d"], rate: float, key: Key | None) -> Float[Array, "t d"]:
    """Zero a share `rate` of x and rescale the rest; nothing without a key (inference)."""
    if key is None or rate == 0:
        return x
    keep = jr.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0)
