"""Zero-centred root-mean-square norm."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class ZCRMSNorm(eqx.Module):
    """(1 + scale) x / sqrt(mean(x^2) + epsilon), computed in float32, returned in the dtype of x.

    The scale is zero-centred (0 at start), so weight decay pulls towards the identity, not towards zero.
    """

    scale: Float[Array, "d"]
    epsilon: float = eqx.field(static=True)

    def __init__(self, width: int, epsilon: float = 1e-6):
        self.scale = jnp.zeros(width)
        self.epsilon = epsilon

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        y = x.astype(jnp.float32)
        y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + self.epsilon)
        return (jnp.broadcast_to(1 + self.scale.astype(jnp.float32), y.shape) * y).astype(x.dtype)
