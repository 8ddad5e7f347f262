"""Optimizer configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from needlex.optim.groups import parse_rule


@dataclass(frozen=True)
class OptimConfig:
    """Muon on the projection matrices and AdamW on the rest, under one warm-up, hold, decay schedule."""

    name: Literal["muon", "adamw", "adafactor"] = "muon"
    """`muon`: Muon on matrices, AdamW on the rest; `adamw` and `adafactor`: that one on every leaf."""
    lr: float = 3e-4
    """Peak learning rate of AdamW (or Adafactor)."""
    muon_lr: float = 0.02
    """Peak learning rate of Muon."""
    warmup_ratio: float = 0.05
    """Share of the updates in which the rate rises."""
    decay_ratio: float = 0.05
    """Share of the updates, at the end, in which the rate falls (cosine)."""
    final_ratio: float = 0.05
    """Rate of the last update as a share of the peak."""
    b1: float = 0.9
    b2: float = 0.95
    weight_decay: float = 0.0
    """Decoupled decay of AdamW's (or Adafactor's) leaves."""
    scale_lr_factor: float = 1.0
    """Factor on `lr` for norm scales, gates and the temperature, which start at 0 and otherwise hardly move in a short run."""
    rules: tuple[str, ...] = ()
    """Groups of leaves treated differently, tried in order: `PATTERN: lr=50, decay=off` (a factor on the learning rate, no
    weight decay) or `PATTERN: frozen`; the pattern is a regular expression searched in leaf paths."""
    muon_momentum: float = 0.95
    muon_weight_decay: float = 0.01
    """Decoupled decay of Muon's matrices."""
    muon_steps: int = 5
    """Newton-Schulz iterations."""
    clamp: float | None = None
    """Largest single gradient, before `clip`; None does not clamp."""
    clip: float | None = 1.0
    """Largest global gradient norm; None does not clip."""
    accumulate: int = 1
    """Micro-batches an update; sums of losses and tokens are divided once, so the result is that of one big batch."""
    max_skipped: int = 10
    """Updates in a row that may be skipped as non-finite before the run stops with a diagnosis."""

    def __post_init__(self):
        for name in ("lr", "muon_lr", "scale_lr_factor"):
            if not getattr(self, name) > 0:
                raise ValueError(f"optim.{name} is {getattr(self, name)}; it must be positive")
        for name in ("warmup_ratio", "decay_ratio", "final_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"optim.{name} is {getattr(self, name)}; it is a share in [0, 1]")
        for rule in self.rules:
            parse_rule(rule)
        if self.warmup_ratio + self.decay_ratio > 1:
            raise ValueError(
                f"optim.warmup_ratio {self.warmup_ratio} + optim.decay_ratio {self.decay_ratio} exceed 1: "
                "warm-up and decay would overlap; lower one"
            )
        for name in ("b1", "b2", "muon_momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"optim.{name} is {getattr(self, name)}; it must be in [0, 1)")
        for name in ("clamp", "clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"optim.{name} is {value}; it must be positive, or None for none")
        for name in ("accumulate", "max_skipped", "muon_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"optim.{name} is {getattr(self, name)}; it must be at least 1")
