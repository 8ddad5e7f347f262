"""Very small fine-tunings of the very small run of `tests.train.runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from needlex.adapt.config import LoraConfig
from needlex.checkpoint.config import CheckpointConfig
from needlex.data.config import DataConfig
from needlex.finetune.config import FinetuneConfig
from needlex.losses.config import LossConfig
from needlex.optim.config import OptimConfig
from tests.train.runs import changed, trained, write_rows

TOOLS = [{"name": "open", "parameters": {"door": "string"}}, {"name": "lock"}]
DOORS = ("front", "back", "cellar", "garage")


def new_rows(count: int = 40) -> list[dict[str, Any]]:
    """Rows of tools that the base has not seen."""
    found = []
    for i in range(count):
        door = f"{DOORS[i % 4]} {i}"
        query, answers = [
            (f"open door {door}", [{"name": "open", "arguments": {"door": door}}]),
            (f"lock up {i}", [{"name": "lock", "arguments": {}}]),
        ][i % 2]
        found.append({"query": query, "tools": TOOLS, "answers": answers})
    return found


def small_finetune(folder: Path, name: str = "tuned", **changes: Any) -> FinetuneConfig:
    """A fine-tuning in `folder/name` on `folder/new.jsonl`, written if it is not there. `changes` as in `small_config`."""
    path = folder / "new.jsonl"
    if not path.is_file():
        write_rows(path, new_rows())
    config = FinetuneConfig(
        checkpoint=str(trained()), run_dir=str(folder / name), steps=6, eval_every=3, log_every=1, eval_rows=2, old_rows=0,
        patience=None, lora=LoraConfig(rank=2, alpha=4.0),
        data=DataConfig(
            train=(str(path),), batch_size=4, max_encoder=96, max_decoder=80, packing_window=16, buckets=2, window=2,
            packing=False, prefetch=2, held_out=0.1,
        ),
        loss=LossConfig(contrastive_weight=0.0), optim=OptimConfig(name="adamw", lr=1e-2), save=CheckpointConfig(every=100),
    )  # fmt: skip
    return changed(config, changes)
