"""CLIP loss between queries and tools, with pairs of the same tool taken out of the negatives."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax.nn import log_softmax
from jaxtyping import Array, Float, Int

_LIMIT = math.log(100.0)


def clip_logits(
    query: Float[Array, "p m"], tool: Float[Array, "p m"], log_temperature: Float[Array, ""]
) -> Float[Array, "p p"]:
    """Cosine similarities of unit vectors divided by exp(clip(log_temperature, -ln 100, ln 100))."""
    return query @ tool.T / jnp.exp(jnp.clip(log_temperature, -_LIMIT, _LIMIT))


def clip_loss(
    query: Float[Array, "p m"],
    tool: Float[Array, "p m"],
    identity: Int[Array, "p"],
    log_temperature: Float[Array, ""],
) -> Float[Array, ""]:
    """Mean of query-to-tool and tool-to-query cross-entropy (Radford et al. 2021) over the pairs there are.

    Two pairs of equal `identity` call the same tool: each is hidden from the other, or a right answer would count as
    wrong. Rows of identity 0 hold no pair and are seen by nobody. 0 when there is no pair at all.
    """
    real = identity != 0
    # Zeroed before the product: a NaN in a row without a pair would come back in the gradients, even of masked logits.
    query, tool = (jnp.where(real[:, None], x.astype(jnp.float32), 0.0) for x in (query, tool))
    logits = clip_logits(query, tool, log_temperature.astype(jnp.float32))
    diagonal = jnp.eye(identity.shape[0], dtype=bool)
    visible = diagonal | ((identity[:, None] != identity[None, :]) & real[:, None] & real[None, :])
    logits = jnp.where(visible, logits, jnp.finfo(jnp.float32).min)
    # Masked sums, not `jnp.diagonal`: over devices its gathers and scatters become collectives inside conditionals.
    to_tool = -jnp.sum(jnp.where(diagonal, log_softmax(logits, axis=1), 0.0), axis=1)
    to_query = -jnp.sum(jnp.where(diagonal, log_softmax(logits, axis=0), 0.0), axis=0)
    total = jnp.sum(jnp.where(real, (to_tool + to_query) / 2, 0.0))
    return total / jnp.maximum(jnp.sum(real, dtype=jnp.float32), 1.0)
