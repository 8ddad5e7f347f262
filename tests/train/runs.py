"""Very small complete runs: 60 rows of our own, a model of a few thousand weights, a few updates."""

from __future__ import annotations

import dataclasses
import json
import signal
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np

from needlex.checkpoint.config import CheckpointConfig
from needlex.config import to_dict
from needlex.data.config import DataConfig
from needlex.data.tokenizer import TokenizerConfig
from needlex.losses.config import LossConfig
from needlex.model.config import ModelConfig
from needlex.train.__main__ import main
from needlex.train.config import TrainConfig
from needlex.train.loop import EvalHook, Moment, Result, Seen, train
from needlex.train.setup import Prepared, prepare

TOOLS = [
    {"name": "dim", "parameters": {"lamp": "integer", "to": "integer"}},
    {"name": "ring", "parameters": {"at": "string"}},
    {"name": "stop"},
]
PLACES = ("den", "hall", "attic", "porch", "cellar")


def rows(count: int = 60) -> list[dict[str, Any]]:
    """Rows with one call, two calls and none, of unequal length."""
    found = []
    for i in range(count):
        place = PLACES[i % len(PLACES)]
        dim = {"name": "dim", "arguments": {"lamp": i, "to": 10 + i % 7}}
        ring = {"name": "ring", "arguments": {"at": f"{place} {i}"}}
        query, answers = [
            (f"dim lamp {i} to {10 + i % 7}", [dim]),
            (f"ring at {place} {i}", [ring]),
            (f"dim lamp {i} to {10 + i % 7} and ring at {place} {i}", [dim, ring]),
            (f"how is {place} {i}", []),
        ][i % 4]
        found.append({"query": query, "tools": TOOLS[: 2 + i % 2], "answers": answers})
    return found


def write_rows(path: Path, data: Sequence[dict[str, Any]] | None = None) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in (rows() if data is None else data)))
    return str(path)


def small_config(folder: Path, name: str = "run", **changes: Any) -> TrainConfig:
    """A run in `folder/name` on `folder/rows.jsonl`, written if it is not there.

    `changes` are fields by name, those of parts as `data__packing=False`.
    """
    path = folder / "rows.jsonl"
    if not path.is_file():
        write_rows(path)
    config = TrainConfig(
        run_dir=str(folder / name), steps=6, eval_every=3, log_every=1,
        model=ModelConfig(
            d_model=16, heads=2, kv_heads=1, encoder_layers=1, decoder_layers=1, contrastive_dim=8
        ),
        tokenizer=TokenizerConfig(vocab_size=340),
        data=DataConfig(
            train=(str(path),), batch_size=4, max_encoder=96, max_decoder=80, packing_window=16, buckets=2,
            window=2, max_query=40, max_tool=40, prefetch=2,
        ),
        loss=LossConfig(contrastive_every=2),
        checkpoint=CheckpointConfig(every=100),
    )  # fmt: skip
    return changed(config, changes)


def changed(config: Any, changes: Mapping[str, Any]) -> Any:
    """The configuration with fields changed by name, those of parts as `data__packing`."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        part, _, field = key.rpartition("__")
        parts.setdefault(part, {})[field] = value
    top = parts.pop("", {})
    inner = {part: dataclasses.replace(getattr(config, part), **values) for part, values in parts.items()}
    return dataclasses.replace(config, **inner, **top)


def run(config: TrainConfig, on_eval: EvalHook | None = None, say: Any = None) -> Result:
    """Prepare and train, in this process."""
    said: list[str] = []
    config, data = prepare(config, said.append)
    return train(config, data, on_eval, say or said.append)


def stop_at(step: int, number: int = signal.SIGTERM) -> EvalHook:
    """An evaluation hook that sends this process a signal at `step`."""

    def hook(moment: Moment) -> Seen:
        if moment.step == step:
            signal.raise_signal(number)
        return Seen()

    return hook


def interrupted(config: TrainConfig, step: int, number: int = signal.SIGTERM) -> Result:
    """Run until a signal stops it after `step` (at which it validates), then resume it to its end."""
    first = run(config, stop_at(step, number))
    assert (first.summary["steps"], first.summary["finished"]) == (step, False)
    return run(dataclasses.replace(config, resume=True))


def bits(tree: Any) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Dtype, shape and bytes of every array leaf."""

    def raw(x: Any) -> np.ndarray:
        return np.asarray(jr.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x)

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays = {jax.tree_util.keystr(p): raw(x) for p, x in leaves}
    return {k: (str(a.dtype), a.shape, a.tobytes()) for k, a in arrays.items()}


def metrics(config: TrainConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(config.run_dir) / "metrics.jsonl").read_text().splitlines()]


def prepared(config: TrainConfig) -> tuple[TrainConfig, Prepared]:
    return prepare(config, lambda _: None)


@cache
def trained() -> Path:
    """A finished run of six updates, made once a process through the command line's own function."""
    folder = Path(_KEPT.name)
    config = small_config(folder, "trained", data__packing=False)
    path = folder / "trained.json"
    path.write_text(json.dumps(to_dict(config)))
    main(["--config", str(path)])
    return folder / "trained"


_KEPT = tempfile.TemporaryDirectory(prefix="needlex-runs-")  # removed with the process
