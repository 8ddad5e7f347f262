"""Nested feed-forward widths: rows of a batch train narrower slices of the same weights (Kusupati et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def widths(hidden: int, factors: Sequence[int]) -> list[int]:
    """Full width and `hidden` divided by every factor, widest first."""
    return [hidden, *sorted((hidden // f for f in factors), reverse=True)]


def width_masks(rows: int, hidden: int, factors: Sequence[int]) -> Float[Array, "b f"]:
    """0/1 masks of the units each row may use: rows shared out equally, full width first, what is left over full."""
    sizes = widths(hidden, factors)
    share = rows // len(sizes)
    row_width = np.full(rows, hidden)
    for i, size in enumerate(sizes):
        row_width[i * share : (i + 1) * share] = size
    return jnp.asarray(np.arange(hidden)[None, :] < row_width[:, None], jnp.float32)
