"""Heads on the mean-pooled encoder: retrieval embedding and confidence."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float

from needlex.model.config import ModelConfig
from needlex.nn.linear import Linear
from needlex.types import Key

LENGTH_FLOOR = 1e-16
"""Least squared length of a retrieval embedding before it is scaled to 1, float32."""


def mean_pool(states: Float[Array, "e d"], real: Bool[Array, "e"]) -> Float[Array, "d"]:
    """Mean of the states at real positions, float32; zeros where there is none."""
    total = jnp.sum(jnp.where(real[:, None], states.astype(jnp.float32), 0), axis=0)
    return total / jnp.maximum(jnp.sum(real, dtype=jnp.float32), 1)


class ContrastiveHead(eqx.Module):
    """Dense(d/4, bias) -> ReLU -> Dense(contrastive_dim) -> unit length, and the temperature of the CLIP loss."""

    hidden: Linear
    out: Linear
    log_temperature: Float[Array, ""]
    """Logits are cosine similarities divided by exp of this, clipped to +-ln 100."""

    def __init__(self, config: ModelConfig, key: Key):
        kh, ko = jr.split(key)
        quarter = max(config.d_model // 4, 1)
        self.hidden = Linear(config.d_model, quarter, std=config.init_std, bias=True, key=kh)
        self.out = Linear(quarter, config.contrastive_dim, std=config.init_std, key=ko)
        self.log_temperature = jnp.zeros(())

    def __call__(self, pooled: Float[Array, "d"]) -> Float[Array, "m"]:
        """Embedding of unit length (the length is floored, so a zero vector stays finite)."""
        x = self.out(jax.nn.relu(self.hidden(pooled))).astype(jnp.float32)
        # Squares are floored inside the root: the gradient of a norm at zero would be NaN.
        return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(x * x), LENGTH_FLOOR))


class ConfidenceHead(eqx.Module):
    """Dense(d/4) -> ReLU -> Dense(1) -> sigmoid: 1 handle here, 0 hand over. 0.5 until it is trained."""

    hidden: Linear
    out: Linear

    def __init__(self, config: ModelConfig, key: Key):
        kh, ko = jr.split(key)
        quarter = max(config.d_model // 4, 1)
        self.hidden = Linear(config.d_model, quarter, std=config.init_std, bias=True, key=kh)
        self.out = Linear(quarter, 1, std=0.0, bias=True, key=ko)

    def __call__(self, pooled: Float[Array, "d"]) -> Float[Array, ""]:
        return jax.nn.sigmoid(self.out(jax.nn.relu(self.hidden(pooled)))[0].astype(jnp.float32))
