"""From a fine-tuning configuration and its base to the training run that carries it out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from needlex.config import ConfigError, difference, read_config
from needlex.data.config import EMBEDDED
from needlex.data.generate import generate
from needlex.data.render import RenderConfig
from needlex.finetune.config import FinetuneConfig
from needlex.loading import Read
from needlex.schema import Example
from needlex.train.config import NOT_HASHED, TrainConfig

SETTINGS = "finetune.json"
"""The fine-tuning configuration in its run directory, beside that of the training run."""
NEVER = 10**9
FREE_ON_RESUME = ("steps", "epochs", "eval_every", "eval_rows", "patience", "log_every", "mesh.data", "data.threads", "data.prefetch",
                  "run_dir", "resume", "overwrite", "json", "devices")  # fmt: skip


def training_config(config: FinetuneConfig, base: Read) -> TrainConfig:
    """The run: rendering is the base's, since another one would make another language of the same tools.

    **Raises:** `ConfigError` for a rendering, a replay or a folder that cannot be.
    """
    if Path(config.run_dir).absolute() == Path(config.checkpoint).absolute():
        raise ConfigError(
            f"run_dir and checkpoint are both {config.checkpoint}; the base is only read: choose another --run-dir"
        )
    before = base.run.data.render if base.run else RenderConfig(style="json", descriptions=True)
    if config.data.render not in (RenderConfig(), before):
        raise ConfigError(
            f"data.render is {config.data.render}, but the base reads tools as {before}; leave data.render out"
        )
    data = dataclasses.replace(config.data, render=before)
    if config.replay.share:
        old = config.replay.train or (base.run.data.train if base.run else ())
        if not old:
            raise ConfigError(
                "replay.share is set, but the base does not say what it was trained on; give replay.train, or "
                "--replay.share 0 for no old rows"
            )
        if twice := sorted(set(old) & set(data.train)):
            raise ConfigError(f"{twice[0]} is in data.train and replayed; leave it out of one of them")
        weights = data.weights or (1.0,) * len(data.train)
        past = base.run.data.weights if base.run and not config.replay.train else ()
        past = past or (1.0,) * len(old)
        share = config.replay.share
        mixed = [w / sum(weights) * (1 - share) for w in weights] + [w / sum(past) * share for w in past]
        embedded = base.run.data.embedded if base.run and EMBEDDED in old else data.embedded
        data = dataclasses.replace(data, train=(*data.train, *old), weights=tuple(mixed), embedded=embedded)
    return TrainConfig(
        run_dir=config.run_dir, steps=config.steps, epochs=config.epochs, seed=config.seed, resume=config.resume,
        overwrite=config.overwrite, precision=config.precision, max_samples=config.max_samples,
        eval_every=config.eval_every or NEVER, log_every=config.log_every, devices=config.devices,
        model=dataclasses.replace(base.config, mat_factors=()) if config.method != "full" else base.config,
        data=data, loss=config.loss, optim=config.optim, mesh=config.mesh, checkpoint=config.save, track=config.track,
    )  # fmt: skip


def once_an_epoch(train: TrainConfig, config: FinetuneConfig, steps: int) -> TrainConfig:
    """Validation once an epoch, if the configuration names no interval; at least five in a run without epochs."""
    if config.eval_every is not None:
        return train
    epochs = config.epochs or (1 if config.steps is None else 5)
    return dataclasses.replace(train, eval_every=max(1, steps // epochs))


def check_resume(config: FinetuneConfig) -> None:
    """**Raises:** `ConfigError` when the run directory was made by another configuration, naming the field."""
    path = Path(config.run_dir) / SETTINGS
    if not config.resume or not path.is_file():
        return
    changed = [
        d for d in difference(read_config(FinetuneConfig, path), config)
        if (name := d.split(":")[0]) not in FREE_ON_RESUME and name.split(".")[0] not in NOT_HASHED
    ]  # fmt: skip
    if changed:
        raise ConfigError(
            f"--resume: {path} was made by another configuration ({'; '.join(changed[:3])}); use the same, or a new --run-dir"
        )


def old_rows(base: Read, count: int) -> list[Example]:
    """Held-out rows of what the base was trained on; none unless that was embedded data."""
    if base.run is None or EMBEDDED not in base.run.data.train or not count:
        return []
    return generate(dataclasses.replace(base.run.data.embedded, held_out_rows=count), "validation")
