"""Rotary position embedding, half-split pairing (channel i turns with channel i + c/2).

RoFormer (Su et al. 2021); the half-split pairing is the one of GPT-NeoX. The adjacent pairing is another model:
weights of one do not work in the other.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def rotary_angles(
    positions: Int[Array, "t"], channels: int, base: float = 10000.0
) -> tuple[Float[Array, "t half"], Float[Array, "t half"]]:
    """Cosines and sines of position times base^(-2i/channels), float32 whatever the compute dtype.

    In bfloat16 the angles near position 1000 would be wrong by radians.
    """
    frequencies = base ** (-jnp.arange(0, channels, 2, dtype=jnp.float32) / channels)
    angles = positions.astype(jnp.float32)[:, None] * frequencies[None, :]
    return jnp.cos(angles), jnp.sin(angles)


def rotate(
    x: Float[Array, "t *heads c"], angles: tuple[Float[Array, "t half"], Float[Array, "t half"]]
) -> Float[Array, "t *heads c"]:
    """Turn the channel pairs of every head by the angle of its position."""
    cos, sin = (a.reshape(a.shape[0], *[1] * (x.ndim - 2), a.shape[1]) for a in angles)
    # (first cos - second sin, second cos + first sin), written as a roll by half: two passes fewer than by halves.
    y = x.astype(jnp.float32)
    turned = y * jnp.concatenate([cos, cos], axis=-1)
    turned += jnp.roll(y, x.shape[-1] // 2, axis=-1) * jnp.concatenate([-sin, sin], axis=-1)
    return turned.astype(x.dtype)
