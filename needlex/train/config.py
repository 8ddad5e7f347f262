"""A complete training run as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from needlex.checkpoint.config import CheckpointConfig
from needlex.compress.prune import PruneConfig
from needlex.data.config import DataConfig
from needlex.data.tokenizer import TokenizerConfig
from needlex.losses.config import LossConfig
from needlex.model.config import ModelConfig
from needlex.optim.config import OptimConfig
from needlex.precision import named
from needlex.sharding import MeshConfig
from needlex.track import TrackConfig

NOT_HASHED = ("run_dir", "resume", "overwrite", "json", "devices", "track", "checkpoint")
"""Fields that do not change what is computed."""


@dataclass(frozen=True)
class TrainConfig:
    """What `python -m needlex.train` does. Parts are described where they belong."""

    run_dir: str = "runs/train"
    """Where everything of the run goes: config, tokenizer, checkpoints, events, metrics."""
    steps: int | None = None
    """Updates to make; exclusive with `epochs`."""
    epochs: int | None = None
    """Passes over the training rows; 1 if neither is given."""
    seed: int = 42
    """Seed of initialisation, dropout and data order."""
    resume: bool = False
    """Continue the run in `run_dir` from its newest readable checkpoint."""
    overwrite: bool = False
    """Delete the run in `run_dir` first."""
    precision: str = "float32"
    """Precision policy: float32, bfloat16, float16-storage, bfloat16-storage or bfloat16-both."""
    max_samples: int | None = None
    """Most training rows."""
    eval_every: int = 1000
    """Updates between validations."""
    log_every: int = 10
    """Updates between lines of metrics.jsonl and TensorBoard points."""
    devices: int | None = None
    """Emulate this many devices on the CPU."""
    json: bool = False
    """Print a summary as one JSON object on the last line."""
    model: ModelConfig = field(default_factory=ModelConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    prune: PruneConfig = field(default_factory=PruneConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    track: TrackConfig = field(default_factory=TrackConfig)

    def __post_init__(self):
        check_run(self)
        if self.mesh.data > 0:
            for name, value in (("batch_size", self.data.batch_size), ("pairs", self.data.pairs_per_batch)):
                if value % self.mesh.data:
                    raise ValueError(
                        f"data.{name} {value} cannot be split over mesh.data {self.mesh.data} devices; make it a multiple"
                    )


def check_run(config: Any) -> None:
    """What every run has: lengths, folder, precision.

    **Raises:** `ValueError` naming the field and the fix.
    """
    if config.steps is not None and config.epochs is not None:
        raise ValueError("steps and epochs are both set; leave one out (--steps None or --epochs None)")
    for name in ("steps", "epochs", "max_samples", "devices", "eval_every", "log_every"):
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    if config.resume and config.overwrite:
        raise ValueError("resume and overwrite are both set; choose one")
    if not config.run_dir:
        raise ValueError("run_dir is empty; give a folder")
    named(config.precision)
