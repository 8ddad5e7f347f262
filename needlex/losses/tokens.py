"""Cross-entropy and z-loss over real tokens, as sums, so that any split of a batch adds up to the whole."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int


class TokenSums(NamedTuple):
    """Sums over real target tokens; add them over micro-batches and devices, then divide once by `count`."""

    weighted_ce: Float[Array, ""]
    """Cross-entropy times class weight, nats."""
    ce: Float[Array, ""]
    """Plain cross-entropy, nats; exp(ce / count) is the perplexity."""
    z: Float[Array, ""]
    """Squared log-partition."""
    correct: Float[Array, ""]
    """Tokens whose arg max is the target."""
    count: Float[Array, ""]
    """Real target tokens."""


def token_sums(
    logits: Float[Array, "*b t v"], targets: Int[Array, "*b t"], classes: Int[Array, "*b t"], real: Bool[Array, "*b t"],
    class_weights: tuple[float, ...],
) -> TokenSums:  # fmt: skip
    """Sums over the positions where `real`; what stands elsewhere, inf and NaN too, changes neither value nor gradient."""
    logits = jnp.where(real[..., None], logits.astype(jnp.float32), 0.0)
    log_partition = logsumexp(logits, axis=-1)
    picked = jnp.take_along_axis(logits, jnp.where(real, targets, 0)[..., None], axis=-1)[..., 0]
    ce = jnp.where(real, log_partition - picked, 0.0)
    weights = jnp.asarray(class_weights, jnp.float32)[jnp.where(real, classes, 0)]
    return TokenSums(
        weighted_ce=jnp.sum(ce * weights),
        ce=jnp.sum(ce),
        z=jnp.sum(jnp.where(real, log_partition**2, 0.0)),
        correct=jnp.sum(jnp.where(real, picked >= jnp.max(logits, axis=-1), False), dtype=jnp.float32),
        count=jnp.sum(real, dtype=jnp.float32),
    )
