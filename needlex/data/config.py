"""What a run reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from needlex.data.augment import AugmentConfig
from needlex.data.generate import GenerateConfig
from needlex.data.render import RenderConfig

EMBEDDED = "embedded"


@dataclass(frozen=True)
class DataConfig:
    """Sources, budgets, augmentation and batching."""

    train: tuple[str, ...] = (EMBEDDED,)
    """Training sources: `embedded`, or paths of .jsonl, .jsonl.gz, .json or .parquet files."""
    validation: tuple[str, ...] = ()
    """Validation sources; none: `embedded` if it is trained on, else the last `held_out` of the training rows."""
    held_out: float = 0.02
    """Share of the training rows that is taken for validation where `validation` names nothing."""
    weights: tuple[float, ...] = ()
    """Share of each training source in the mixture; none: by its number of rows."""
    batch_size: int = 32
    """Rows a step on all devices (packed rows with `packing`); micro-batches of `optim.accumulate` come on top."""
    max_encoder: int = 1024
    """Encoder budget of a row, tokens."""
    max_decoder: int = 512
    """Decoder budget of a row, tokens."""
    max_tools: int | None = None
    """Most tools a row; the called ones stay, the others are drawn anew each epoch."""
    packing: bool = True
    """Put several examples into one row of the full budgets (segment ids keep them apart)."""
    packing_window: int = 1024
    """Examples that are packed together."""
    buckets: int = 3
    """Without packing: number of encoder lengths a batch may be padded to (and one more shape for long answers)."""
    window: int = 16
    """Without packing: batches whose rows are sorted by length together."""
    pairs: int | None = None
    """Query-tool pairs of a contrastive step, each with the others as negatives; `batch_size` if not given."""
    max_query: int = 64
    """Query tokens of a contrastive pair; longer ones make no pair."""
    max_tool: int = 256
    """Tool tokens of a contrastive pair; longer ones make no pair."""
    max_eval_samples: int = 5000
    """Most validation rows."""
    threads: int = 2
    """Threads that encode ahead of the trainer."""
    prefetch: int = 8
    """Batches kept ready."""
    embedded: GenerateConfig = field(default_factory=GenerateConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    render: RenderConfig = field(default_factory=RenderConfig)

    def __post_init__(self):
        for name in ("batch_size", "max_encoder", "max_decoder", "packing_window", "buckets", "window", "max_query",
                     "max_tool", "max_eval_samples", "threads", "prefetch"):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"data.{name} is {getattr(self, name)}; it must be at least 1")
        if self.pairs is not None and self.pairs < 2:
            raise ValueError(
                f"data.pairs is {self.pairs}; a pair needs another one as its negative: at least 2"
            )
        if not self.train:
            raise ValueError("data.train is empty; give 'embedded' or a path")
        if self.weights and len(self.weights) != len(self.train):
            raise ValueError(
                f"data.weights has {len(self.weights)} numbers for {len(self.train)} data.train sources; give one each, or none"
            )
        if any(not w > 0 for w in self.weights):
            raise ValueError(f"data.weights are {self.weights}; every weight must be positive")
        if not 0 < self.held_out < 1:
            raise ValueError(f"data.held_out is {self.held_out}; it must be in (0, 1)")
        if self.max_tools is not None and self.max_tools < 1:
            raise ValueError(f"data.max_tools is {self.max_tools}; it must be at least 1, or None for all")

    @property
    def pairs_per_batch(self) -> int:
        """Pairs of one micro-batch of a contrastive step."""
        return self.batch_size if self.pairs is None else self.pairs
