"""Weights of the loss terms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LossConfig:
    """loss = weighted cross-entropy + z_weight z-loss + contrastive_weight CLIP loss."""

    w_base: float = 1.0
    """Weight of punctuation and fixed words of the answer."""
    w_name: float = 2.0
    """Weight of tool-name tokens."""
    w_value: float = 4.0
    """Weight of argument-value tokens."""
    w_key: float = 1.5
    """Weight of argument-key tokens."""
    z_weight: float = 1e-4
    """Weight of the mean squared log-partition, which keeps logits from drifting."""
    contrastive_weight: float = 0.1
    """Weight of the CLIP loss between queries and called tools; 0 turns it off."""
    contrastive_every: int = 1
    """The CLIP loss is part of every n-th step (its weight is then multiplied by n)."""

    def __post_init__(self):
        for name in ("w_base", "w_name", "w_value", "w_key", "z_weight", "contrastive_weight"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"loss.{name} is {getattr(self, name)}; it must be 0 or more")
        if self.contrastive_every < 1:
            raise ValueError(f"loss.contrastive_every is {self.contrastive_every}; it must be at least 1")

    @property
    def class_weights(self) -> tuple[float, float, float, float]:
        """Weights in the order of the token classes: base, name, value, key."""
        return self.w_base, self.w_name, self.w_value, self.w_key
