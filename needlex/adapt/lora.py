"""Low-rank adapters by tree surgery: linear maps are replaced, nothing in `nn` or `model` knows.

A model with adapters has three parts that are never mixed: what is trained (float32: the adapters, and leaves that
`modules_to_save` names), the base (frozen, in whatever dtype it is stored, or quantised) and the structure. The base is
read layer by layer where it is used: no step holds a merged or converted copy of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from needlex.adapt.config import LoraConfig
from needlex.compress.nf4 import NF4Linear
from needlex.nn.linear import Linear, frozen_product
from needlex.nn.stack import dropout
from needlex.tree import Rule, apply_rules, path_name
from needlex.types import Key


class LoraLinear(eqx.Module):
    """y = x W + b + scale (x A) B; W and b get no gradient."""

    base: Linear | NF4Linear
    lora_a: Float[Array, "*l in r"]
    lora_b: Float[Array, "*l r out"]
    scale: float = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*n in"], key: Key | None = None) -> Float[Array, "*n out"]:
        low = dropout(x, self.dropout, key) @ self.lora_a.astype(x.dtype)
        return frozen_product(x, self.base) + self.scale * (low @ self.lora_b.astype(x.dtype))


class Parts(NamedTuple):
    """A model taken apart; `eqx.combine(*parts)` is the model again."""

    trained: Any
    frozen: Any
    static: Any


def is_linear(x: Any) -> bool:
    """Whether `x` is a linear map of any kind, with or without adapter."""
    return isinstance(x, Linear | NF4Linear | LoraLinear)


def linear_maps(model: Any) -> dict[str, Any]:
    """The linear maps of a model by path."""
    found = jax.tree_util.tree_leaves_with_path(model, is_leaf=is_linear)
    return {path_name(p): x for p, x in found if is_linear(x)}


def replace_maps(model: Any, replace: Callable[[str, Any], Any]) -> Any:
    """The model with `replace(path, map)` in place of every linear map."""

    def one(path, x):
        return replace(path_name(path), x) if is_linear(x) else x

    return jax.tree_util.tree_map_with_path(one, model, is_leaf=is_linear)


def chosen(model: Any, config: LoraConfig) -> list[str]:
    """Paths of the linear maps that get adapters.

    **Raises:** `ValueError` for a target that matches or decides nothing, a weight that is all zero, a rank above the
    matrix, or a model that has adapters.
    """
    maps = linear_maps(model)
    if adapted := [p for p, x in maps.items() if isinstance(x, LoraLinear)]:
        raise ValueError(
            f"the model has adapters already (at {adapted[0]}); merge them, or load the base by itself"
        )
    rules = [Rule(t.removeprefix("!"), not t.startswith("!")) for t in config.targets]
    weights = {path: x.weight for path, x in maps.items()}
    decided = apply_rules([*rules, Rule("", False, optional=True)], weights, "lora.targets")
    paths = [path for path, yes in decided.items() if yes]
    for path in paths:
        shape = weights[path].shape
        if config.rank > min(shape[-2:]):
            raise ValueError(
                f"lora.rank {config.rank} is above what {path} can use: its matrix is {shape[-2]} x {shape[-1]}; lower it to "
                f"at most {min(shape[-2:])}, or leave the map out with --lora.targets '!{path}' ..."
            )
        empty = np.asarray(jnp.all(weights[path] == 0, axis=(-2, -1))).ravel()
        if empty.any():
            where = f" (layer {int(np.argmax(empty))})" if empty.size > 1 else ""
            raise ValueError(
                f"the weight of {path}{where} is all zero: the checkpoint is broken or the part was never trained; an adapter "
                "on it would hide that"
            )
    return paths


def add_adapters(model: Any, config: LoraConfig, *, key: Key) -> Any:
    """The model with adapters whose product is exactly zero: A from uniform(+-1 / sqrt(in)), B zero, both float32.

    **Raises:** as `chosen`.
    """
    paths = chosen(model, config)
    keys = dict(zip(paths, jr.split(key, len(paths)), strict=True))

    def replace(path: str, linear: Linear | NF4Linear):
        if path not in keys:
            return linear
        *stack, width, out = linear.weight.shape
        bound = 1 / math.sqrt(width)
        a = jr.uniform(keys[path], (*stack, width, config.rank), jnp.float32, -bound, bound)
        return LoraLinear(linear, a, jnp.zeros((*stack, config.rank, out)), config.scale, config.dropout)

    return replace_maps(model, replace)


def saved_leaves(model: Any, config: LoraConfig) -> list[str]:
    """Paths of the leaves of a model with adapters that `modules_to_save` names.

    **Raises:** `ValueError` for a pattern that matches no leaf outside the adapted and the quantised maps.
    """
    arrays = eqx.filter(model, lambda x: isinstance(x, LoraLinear | NF4Linear) or eqx.is_inexact_array(x),
                        is_leaf=lambda x: isinstance(x, LoraLinear | NF4Linear))  # fmt: skip
    leaves = jax.tree_util.tree_leaves_with_path(
        arrays, is_leaf=lambda x: isinstance(x, LoraLinear | NF4Linear)
    )
    names = [path_name(p) for p, x in leaves if eqx.is_array(x)]
    found: dict[str, None] = {}
    for pattern in config.modules_to_save:
        hits = [n for n in names if re.search(pattern, n)]
        if not hits:
            raise ValueError(
                f"lora.modules_to_save: {pattern!r} matches no leaf beside the adapted maps; there are {names}"
            )
        found |= dict.fromkeys(hits)
    return list(found)


def take_apart(model: Any, saved: Collection[str] = ()) -> Parts:
    """What is trained (adapters and the leaves at the paths `saved`), frozen base and structure of a model with adapters."""

    def ours(path, _):
        return (name := path_name(path)).endswith((".lora_a", ".lora_b")) or name in saved

    trained, rest = eqx.partition(model, jax.tree_util.tree_map_with_path(ours, model))
    frozen, static = eqx.partition(rest, eqx.is_array)
    return Parts(trained, frozen, static)


def merge(model: Any) -> Any:
    """The plain model, float32 at the merged maps: W + scale A B, quantised bases read out."""

    def replace(_: str, x: Any):
        if isinstance(x, Linear):
            return x
        base = x.base if isinstance(x, LoraLinear) else x
        weight = base.weight.astype(jnp.float32)
        if isinstance(x, LoraLinear):
            weight = weight + x.scale * (x.lora_a.astype(jnp.float32) @ x.lora_b.astype(jnp.float32))
        return Linear.of(weight, base.bias)

    return replace_maps(model, replace)
