"""A complete fine-tuning run as one value."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Literal

from needlex.adapt.config import LoraConfig
from needlex.checkpoint.config import CheckpointConfig
from needlex.data.config import DataConfig
from needlex.losses.config import LossConfig
from needlex.optim.config import OptimConfig
from needlex.sharding import MeshConfig
from needlex.track import TrackConfig
from needlex.train.config import check_run

Method = Literal["lora", "qlora", "full", "head"]


@dataclass(frozen=True)
class ReplayConfig:
    """Rows of before that are mixed in, so that what the model could do is not lost."""

    share: float = 0.0
    """Share of the rows; 0.1 is nine new ones for each old one."""
    train: tuple[str, ...] = ()
    """Sources of the old rows; none: those that the checkpoint was trained on."""

    def __post_init__(self):
        if not 0 <= self.share < 1:
            raise ValueError(f"replay.share is {self.share}; it must be in [0, 1)")
        if self.train and not self.share:
            raise ValueError("replay.train is set but replay.share is 0; set the share of old rows, say 0.1")


@dataclass(frozen=True)
class WarmupConfig:
    """A phase on plain text before the tool calls: the second half of a line is to be continued from its first."""

    text: tuple[str, ...] = ()
    """Text files (.txt, .txt.gz), one passage a line; none: no such phase."""
    steps: int = 100
    """Updates of the phase."""

    def __post_init__(self):
        if self.steps < 1:
            raise ValueError(
                f"warmup.steps is {self.steps}; it must be at least 1 (leave warmup.text out for no warm-up)"
            )


@dataclass(frozen=True)
class FinetuneConfig:
    """What `python -m needlex.finetune` does. Parts are described where they belong."""

    checkpoint: str = ""
    """The base: a run directory, one step of it, or a Needle v1 .pkl. It is only read."""
    run_dir: str = "runs/finetune"
    """Where everything of the run goes; `--checkpoint` of the other commands takes it."""
    method: Method = "lora"
    """`lora`: adapters on a frozen base; `qlora`: on a base in four bits; `full`: all weights; `head`: the embedding alone,
    which is also the output layer."""
    tokenizer: str | None = None
    """SentencePiece model for a checkpoint without one."""
    steps: int | None = None
    """Updates to make; exclusive with `epochs`."""
    epochs: int | None = None
    """Passes over the new rows; 1 if neither is given."""
    seed: int = 42
    """Seed of adapters, dropout and data order."""
    resume: bool = False
    """Continue the run in `run_dir` from its newest readable checkpoint."""
    overwrite: bool = False
    """Delete the run in `run_dir` first."""
    precision: str = "float32"
    """Precision policy: its storage dtype is that of the frozen base."""
    max_samples: int | None = None
    """Most new rows."""
    eval_every: int | None = None
    """Updates between validations; once an epoch if not given."""
    patience: int | None = 3
    """Validations in a row without a lower loss after which the run ends; None never ends it early."""
    eval_rows: int = 100
    """Validation rows that are answered at each validation, for the call F1; 0 for none."""
    old_rows: int = 100
    """Rows of what the base was trained on that are answered before and after, if it was on embedded data; 0 for none."""
    log_every: int = 10
    """Updates between lines of metrics.jsonl and TensorBoard points."""
    devices: int | None = None
    """Emulate this many devices on the CPU."""
    json: bool = False
    """Print a summary as one JSON object on the last line."""
    lora: LoraConfig = field(default_factory=LoraConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    warmup: WarmupConfig = field(default_factory=WarmupConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    save: CheckpointConfig = field(default_factory=CheckpointConfig)
    """Checkpoints to resume from."""
    track: TrackConfig = field(default_factory=TrackConfig)

    def __post_init__(self):
        check_run(self)
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience is {self.patience}; it must be at least 1, or None")
        for name in ("eval_rows", "old_rows"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        if self.warmup.text and self.method in ("lora", "qlora", "head"):
            raise ValueError(
                f"warmup.text is for method full, which trains all weights; method is {self.method}"
            )

    def with_free_gradients(self) -> FinetuneConfig:
        """Head-only training needs fast moves at the start: gradients are neither clamped nor clipped."""
        if self.method != "head":
            return self
        return dataclasses.replace(self, optim=dataclasses.replace(self.optim, clamp=None, clip=None))
