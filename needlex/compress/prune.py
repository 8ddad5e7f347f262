"""Block pruning in training: a mask over projection matrices that grows along a cubic ramp, then stays.

Zhu and Gupta 2017 (the ramp). Only projections are scored: norms, gates and the embedding are not prunable, unlike in the
original, which compared them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from needlex.tree import path_name


@dataclass(frozen=True)
class PruneConfig:
    """Pruning in training; off by default."""

    sparsity: float = 0.0
    """Share of the blocks that are zero in the end; 0 does not prune."""
    group_size: int = 32
    """Inputs of one output that live or die together."""
    interval: int = 100
    """Updates between two masks."""
    start: float = 0.33
    """Share of the run at which pruning starts."""
    end: float = 0.67
    """Share of the run at which the mask is locked."""

    def __post_init__(self):
        if not 0 <= self.sparsity < 1:
            raise ValueError(f"prune.sparsity is {self.sparsity}; it must be in [0, 1)")
        if self.group_size < 1 or self.interval < 1:
            raise ValueError(
                f"prune.group_size {self.group_size} and prune.interval {self.interval} must be at least 1"
            )
        if not 0 <= self.start <= self.end <= 1:
            raise ValueError(
                f"prune.start {self.start} and prune.end {self.end} must be shares with start <= end"
            )

    def due(self, step: int, total: int) -> bool:
        """Whether the mask is made anew after update `step` of `total`."""
        first, last = int(total * self.start), int(total * self.end)
        return (
            self.sparsity > 0
            and first <= step <= last
            and ((step - first) % self.interval == 0 or step == last)
        )

    def target(self, step: int, total: int) -> float:
        """Sparsity after update `step`: sparsity (1 - (1 - progress)^3)."""
        first, last = int(total * self.start), int(total * self.end)
        progress = min(max((step - first) / max(last - first, 1), 0.0), 1.0)
        return self.sparsity * (1 - (1 - progress) ** 3)


def prunable(path: str) -> bool:
    """Whether the leaf of that path is a projection of encoder, decoder or retrieval head."""
    return path.endswith(".weight") and path.split(".")[0] in ("encoder", "decoder", "contrastive")


def block_scores(weight: Float[Array, "*l n m"], group_size: int) -> Float[Array, "*l g m"]:
    """Sum of |w| over each block of `group_size` inputs (the last one may be short) and one output."""
    padding = -weight.shape[-2] % group_size
    spread = [(0, 0)] * (weight.ndim - 2) + [(0, padding), (0, 0)]
    padded = jnp.pad(jnp.abs(weight), spread)
    return padded.reshape(*weight.shape[:-2], -1, group_size, weight.shape[-1]).sum(-2)


def block_masks(params: Any, sparsity: Float[Array, ""], group_size: int) -> Any:
    """Tree like `params` with 0/1 masks at projections (None elsewhere): the weakest blocks of all of them together are 0."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    scores = {i: block_scores(x, group_size) for i, (p, x) in enumerate(leaves) if prunable(path_name(p))}
    threshold = jnp.percentile(jnp.concatenate([s.ravel() for s in scores.values()]), 100 * sparsity)

    def mask(i, x):
        if i not in scores:
            return None
        keep = jnp.repeat(scores[i] > threshold, group_size, axis=-2)
        return jnp.take(keep, jnp.arange(x.shape[-2]), axis=-2).astype(x.dtype)

    return jax.tree.unflatten(structure, [mask(i, x) for i, (_, x) in enumerate(leaves)])


def full_masks(params: Any) -> Any:
    """Masks that prune nothing."""
    return jax.tree_util.tree_map_with_path(
        lambda p, x: jnp.ones_like(x) if prunable(path_name(p)) else None, params
    )


def apply_masks(params: Any, masks: Any) -> Any:
    """Parameters with pruned weights at zero."""
    return jax.tree.map(lambda m, x: x if m is None else x * m, masks, params, is_leaf=lambda m: m is None)
