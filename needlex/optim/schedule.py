"""Warm-up, hold, decay (WSD): the share of the peak rate that update u of N uses."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from needlex.optim.config import OptimConfig


class Schedule(NamedTuple):
    """Linear rise over `warmup` updates, 1, then a cosine over the last `decay` updates down to `final`.

    Updates count from 1, so no update is wasted on a rate of 0 and update `total` uses exactly `final`.
    """

    total: int
    warmup: int
    decay: int
    final: float

    def __call__(self, update: Int[Array, ""]) -> Float[Array, ""]:
        """Share of the peak rate, in [0, 1], for `update` in 1 to `total` (and `final` ever after)."""
        u = jnp.asarray(update, jnp.float32)
        rise = jnp.minimum(u / max(self.warmup, 1), 1.0) if self.warmup else jnp.ones_like(u)
        passed = jnp.clip((u - (self.total - self.decay)) / max(self.decay, 1), 0.0, 1.0)
        fall = self.final + (1 - self.final) * 0.5 * (1 + jnp.cos(math.pi * passed))
        return rise * (fall if self.decay else jnp.ones_like(u))


def make_schedule(config: OptimConfig, total: int) -> Schedule:
    """Schedule of a run of `total` updates.

    **Raises:** `ValueError` if there is no update.
    """
    if total < 1:
        raise ValueError(f"a run of {total} updates has no schedule; check steps, epochs and the data")
    decay = max(1, int(total * config.decay_ratio)) if config.decay_ratio else 0
    return Schedule(total, int(total * config.warmup_ratio), decay, config.final_ratio)
