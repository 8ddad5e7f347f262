"""Linear map and embedding table. `compress` and `adapt` replace `Linear` by tree surgery."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
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

    def __call__(self, x: Float[Array, "*n in"], key: Key | None = None) -> Float[Array, "*n out"]:
        """`key` is for maps that take this one's place and are random in training."""
        del key
        return _plus_bias(x @ self.weight.astype(x.dtype), self.bias)

    @classmethod
    def of(cls, weight: Float[Array, "*l in out"], bias: Float[Array, "*l out"] | None) -> Linear:
        """The map with these parameters, or a stack of such maps."""
        linear = object.__new__(cls)
        object.__setattr__(linear, "weight", weight)
        object.__setattr__(linear, "bias", bias)
        return linear


@jax.custom_vjp
def frozen_product(x: Float[Array, "*n in"], linear: Any) -> Float[Array, "*n out"]:
    """x W + b in the dtype of x, for a map with `weight` and `bias` that gets no gradient.

    The backward pass reads the weight from its stored form again. Differentiated as usual, a scan over layers would
    keep all of them in the dtype of x, which for a base in 16 or 4 bits is most of a step's memory.
    """
    return _plus_bias(x @ linear.weight.astype(x.dtype), linear.bias)


def _frozen_forward(x, linear):
    return frozen_product(x, linear), linear


def _frozen_backward(linear, grad):
    return grad @ linear.weight.astype(grad.dtype).T, None


frozen_product.defvjp(_frozen_forward, _frozen_backward)


def _plus_bias(y, bias):
    return y if bias is None else y + jnp.broadcast_to(bias.astype(y.dtype), y.shape)


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
