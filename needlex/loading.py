"""From what is on the disk to a model that answers: `needlex.load(path)`."""

from __future__ import annotations

from pathlib import Path

import equinox as eqx
import jax
import jax.random as jr

from needlex.api import ToolCaller
from needlex.checkpoint.foreign import import_v1, read_v1
from needlex.checkpoint.store import CheckpointError, load_params
from needlex.config import read_config
from needlex.data.render import RenderConfig
from needlex.data.tokenizer import Tokenizer
from needlex.model.seq2seq import Seq2Seq
from needlex.precision import named
from needlex.train.config import TrainConfig


def load(path: str | Path, tokenizer: str | Path | None = None, precision: str | None = None) -> ToolCaller:
    """Load a run directory, one step of it (`RUN/checkpoints/STEP`), or a Needle v1 `.pkl`.

    `tokenizer` names a SentencePiece model to use instead of the one in the run (a `.pkl` has none); `precision` names a policy
    for the computation instead of the run's.

    **Raises:** `FileNotFoundError` or `CheckpointError` naming what was tried, `ForeignError` for a bad pickle.
    """
    path = Path(path)
    given = Tokenizer.load(tokenizer) if tokenizer is not None else None
    if not path.exists():
        raise FileNotFoundError(
            f"no checkpoint at {path}; train one with `python -m needlex.train --run-dir {path}`"
        )
    if path.suffix == ".pkl":
        model, config = import_v1(*read_v1(path))
        model = named(precision or "float32").to_compute(model)
        return ToolCaller(model, config, given, RenderConfig(style="json", descriptions=True))
    step = None
    if path.name.isdigit() and path.parent.name == "checkpoints":
        step, path = int(path.name), path.parent.parent
    source = path / "config.json"
    if not source.is_file():
        raise CheckpointError(
            f"{path} is no run directory: it has no config.json; give the folder of --run-dir, a step of it or a .pkl"
        )
    config = read_config(TrainConfig, source)
    like = eqx.filter_eval_shape(lambda: Seq2Seq(config.model, key=jr.key(0)))
    shapes, static = eqx.partition(like, lambda x: isinstance(x, jax.ShapeDtypeStruct))
    _, params = load_params(path, shapes, step)
    policy = named(precision or config.precision)
    model = eqx.combine(policy.to_compute(params), static)
    data = config.data
    # Rotary positions have no end: rows longer than those trained on are tried, within reason.
    return ToolCaller(
        model, config.model, given or Tokenizer.load(path / "tokenizer.model"), data.render, 4 * data.max_encoder,
        2 * data.max_decoder, config,
    )  # fmt: skip
