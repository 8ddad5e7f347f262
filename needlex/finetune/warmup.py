"""The phase on plain text before the tool calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import equinox as eqx

from needlex.checkpoint.weights import WEIGHTS, read_weights, save_weights
from needlex.data.sources import DataError
from needlex.data.text import fixed_batches, read_passages, text_batches, text_rows
from needlex.data.tokenizer import Tokenizer
from needlex.finetune.config import WarmupConfig
from needlex.train.config import TrainConfig
from needlex.train.loop import Start, train
from needlex.train.setup import Prepared

FOLDER = "warmup"
"""The phase's own run, inside the run directory."""


def warm_up(
    config: WarmupConfig,
    settings: TrainConfig,
    tokenizer: Tokenizer,
    start: Start,
    say: Callable[[str], None],
) -> Start:
    """`start` after `config.steps` updates on text; at once if a resumed run has been through it.

    **Raises:** `DataError` naming a text file that cannot be used; `SystemExit` with status 0 when a signal stopped the
    phase, which is saved and continued by `--resume`.
    """
    folder = Path(settings.run_dir) / FOLDER
    if settings.resume and (folder / WEIGHTS).is_file():
        say(f"warm-up on text: done before, read from {folder}")
        return start._replace(params=read_weights(folder / WEIGHTS, start.params))
    passages = [p for path in config.text for p in read_passages(path)]
    rows = text_rows(passages, tokenizer, settings.data.max_encoder, settings.data.max_decoder)
    if len(rows) < 2:
        raise DataError(
            f"warmup.text {list(config.text)}: {len(rows)} usable passages; one to train on and one to validate on are needed"
        )
    held = max(1, len(rows) // 50)
    size = settings.data.batch_size
    phase = dataclasses.replace(
        settings, run_dir=str(folder), steps=config.steps, epochs=None, eval_every=config.steps,
        loss=dataclasses.replace(settings.loss, contrastive_weight=0.0),
        optim=dataclasses.replace(settings.optim, accumulate=1),
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    say(
        f"warm-up on text: {len(rows) - held} passages, {held} to validate on, {config.steps} updates of {size}"
    )
    data = Prepared(
        text_batches(rows[:-held], size, settings.seed), fixed_batches(rows[-held:], size), [], tokenizer, config.steps, size,
        tokenizer.vocab_size,
    )  # fmt: skip
    result = train(phase, data, None, say, start)
    if not result.summary["finished"]:
        raise SystemExit(0)
    save_weights(eqx.filter(result.state.params, eqx.is_array), folder / WEIGHTS)
    return start._replace(params=result.state.params)
