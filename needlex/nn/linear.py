"""Linear map and embedding table. `compress` and `adapt` will replace `Linear` by tree surgery."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int

from needlex.types import Key


class Linear(eqx.Module):
    """y = x W + b, with W stored (in, out) and used in the dtype of x."""

    weight: Float[Array, "in out"]
    bias: Float[Array, "out"] | None

    def __init__(self, in_features: int, out_features: int, *, std: float, bias: bool = False, key: Key):
        """Weight from normal(0, `std`), bias 0."""
        self.weight = std * jr.normal(key, (in_features, out_features))
        self.bias = jnp.zeros(out_features) if bias else None

    def __call__(self, x: Float[Array, "*n in"]) -> Float[Array, "*n out"]:
        y = x @ self.weight.astype(x.dtype)
        return y if self.bias is None else y + jnp.broadcast_to(self.bias.astype(x.dtype), y.shape)


class Embedding(eqx.Module):
    """Token table, tied: looked up at the inputs (times sqrt d) and transposed for the logits (unscaled)."""

    weight: Float[Array, "v d"]

    def __init__(self, vocab_size: int, width: int, *, std: float, key: Key):
        self.weight = std * jr.normal(key, (vocab_size, width))

    def __call__(self, ids: Int[Array, "t"]) -> Float[Array, "t d"]:
        return self.weight[ids] * jnp.asarray(self.weight.shape[1] ** 0.5, self.weight.dtype)

    def logits(self, x: Float[Array, "t d"]) -> Float[Array, "t v"]:
        """float32 logits of final decoder states."""
        return x.astype(jnp.float32) @ self.weight.astype(jnp.float32).T
