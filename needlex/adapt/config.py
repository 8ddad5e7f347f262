"""Which weights get adapters, and of what size."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

ATTENTION = r"attention\.(query|key|value|out)$"
"""All four projections of every attention."""


@dataclass(frozen=True)
class LoraConfig:
    """Low-rank adapters (Hu et al. 2021): y = x W + scale (x A) B, with A drawn and B zero at start."""

    rank: int = 8
    """Columns of A and rows of B."""
    alpha: float = 16.0
    """Weight of the adapters: their scale is alpha / rank, or alpha / sqrt(rank) with `rank_stabilized`."""
    rank_stabilized: bool = False
    """Divide alpha by the root of the rank (Kalajdzievski 2023), so that gradients do not shrink at high ranks."""
    dropout: float = 0.0
    """Share of an adapter's inputs that is zeroed in training."""
    targets: tuple[str, ...] = (ATTENTION,)
    """Regular expressions searched in the paths of linear maps (`encoder.layers.attention.query`), tried in order: the first
    that matches decides. One that begins with `!` leaves its maps alone; those that none matches are left alone too."""
    modules_to_save: tuple[str, ...] = ()
    """Regular expressions searched in the paths of all other leaves (`embedding.weight`, `encoder.layers.gate`): these are
    trained themselves, in float32, and saved with the adapter (PEFT's name)."""

    def __post_init__(self):
        if self.rank < 1:
            raise ValueError(f"lora.rank is {self.rank}; it must be at least 1")
        if not (0 < self.alpha < float("inf")):
            raise ValueError(f"lora.alpha is {self.alpha}; it must be positive")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"lora.dropout is {self.dropout}; it must be in [0, 1)")
        if not any(t and not t.startswith("!") for t in self.targets):
            raise ValueError(
                f"lora.targets {list(self.targets)} choose nothing; give a path to adapt, such as {ATTENTION!r}"
            )
        for field, patterns in (("targets", self.targets), ("modules_to_save", self.modules_to_save)):
            for pattern in patterns:
                try:
                    re.compile(pattern.removeprefix("!") if field == "targets" else pattern)
                except re.error as e:
                    raise ValueError(f"lora.{field}: {pattern!r} is no regular expression ({e})") from None

    @property
    def scale(self) -> float:
        """Factor on x A B."""
        return self.alpha / (math.sqrt(self.rank) if self.rank_stabilized else self.rank)
