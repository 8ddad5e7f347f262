"""When to save."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckpointConfig:
    """Checkpoints are written in the background while training goes on."""

    every: int = 1000
    """Updates between checkpoints; the last update is always saved."""
    keep: int = 3
    """Newest checkpoints that are kept."""

    def __post_init__(self):
        for name in ("every", "keep"):
            if getattr(self, name) < 1:
                raise ValueError(f"checkpoint.{name} is {getattr(self, name)}; it must be at least 1")
