"""From what is on the disk to a model that answers: `needlex.load(path)`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.random as jr

from needlex.adapt.files import NOTES, Adapter, AdapterError, put_on, read_adapter
from needlex.adapt.lora import merge
from needlex.api import ToolCaller
from needlex.checkpoint.foreign import import_v1, read_v1
from needlex.checkpoint.store import CheckpointError, load_params
from needlex.checkpoint.weights import WEIGHTS, read_weights
from needlex.config import read_config
from needlex.data.render import RenderConfig
from needlex.data.tokenizer import Tokenizer
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.precision import named
from needlex.train.config import TrainConfig


class Read(NamedTuple):
    """A checkpoint as it was read: nothing is converted for a computation yet."""

    model: Seq2Seq
    """Plain, float32."""
    config: ModelConfig
    tokenizer: Tokenizer | None
    """None for a Needle v1 pickle without one."""
    run: TrainConfig | None
    """Configuration of the run that made it; None for a pickle."""


def read(path: str | Path, tokenizer: str | Path | None = None, base: str | Path | None = None) -> Read:
    """Read a run directory of training or fine-tuning, one step of it (`RUN/checkpoints/STEP`), or a Needle v1 `.pkl`.

    `tokenizer` names a SentencePiece model to use instead of the one in the run; `base` the checkpoint that adapters are put
    on, where it is no longer at the place that they name.

    **Raises:** `FileNotFoundError` or `CheckpointError` naming what was tried, `AdapterError` for adapters that do not
    belong on their base, `ForeignError` for a bad pickle.
    """
    path = Path(path)
    given = Tokenizer.load(tokenizer) if tokenizer is not None else None
    if not path.exists():
        raise FileNotFoundError(
            f"no checkpoint at {path}; train one with `python -m needlex.train --run-dir {path}`"
        )
    if path.suffix == ".pkl":
        model, config = import_v1(*read_v1(path))
        return Read(model, config, given, None)
    step = None
    if path.name.isdigit() and path.parent.name == "checkpoints":
        step, path = int(path.name), path.parent.parent
    source = path / "config.json"
    if not source.is_file():
        raise CheckpointError(
            f"{path} is no run directory: it has no config.json; give the folder of --run-dir, a step of it or a .pkl"
        )
    run = read_config(TrainConfig, source)
    given = given or Tokenizer.load(path / "tokenizer.model")
    like = eqx.filter_eval_shape(lambda: Seq2Seq(run.model, key=jr.key(0)))
    shapes, static = eqx.partition(like, lambda x: isinstance(x, jax.ShapeDtypeStruct))
    if step is None and (path / NOTES).is_file():
        model = merge(put_on(adapter := read_adapter(path), _base(adapter, path, base)))
    elif step is None and (path / WEIGHTS).is_file():
        model = eqx.combine(read_weights(path / WEIGHTS, shapes), static)
    else:
        model = eqx.combine(load_params(path, shapes, step)[1], static)
    return Read(model, run.model, given, run)


def _base(adapter: Adapter, path: Path, base: str | Path | None) -> Seq2Seq:
    try:
        return read(base or adapter.base).model
    except (FileNotFoundError, CheckpointError) as e:
        raise AdapterError(
            f"the adapter in {path} needs its base: {e}; say where it is with `base`"
        ) from None


def load(
    path: str | Path,
    tokenizer: str | Path | None = None,
    precision: str | None = None,
    base: str | Path | None = None,
) -> ToolCaller:
    """As `read`, made ready to answer; `precision` names a policy for the computation instead of the run's.

    **Raises:** what `read` raises.
    """
    found = read(path, tokenizer, base)
    policy = named(precision or (found.run.precision if found.run else "float32"))
    model = policy.to_compute(found.model)
    if found.run is None:
        return ToolCaller(model, found.config, found.tokenizer, RenderConfig(style="json", descriptions=True))
    data = found.run.data
    # Rotary positions have no end: rows longer than those trained on are tried, within reason.
    return ToolCaller(
        model,
        found.config,
        found.tokenizer,
        data.render,
        4 * data.max_encoder,
        2 * data.max_decoder,
        found.run,
    )
