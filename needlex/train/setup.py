"""From a configuration to data that a loop can run on: corpus, tokenizer, budgets, number of updates."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import grain
import jax
import numpy as np

from needlex.batch import Batch
from needlex.config import difference, read_config, to_dict
from needlex.data.corpus import Corpus, drop_long, load_corpus, tokenizer_texts
from needlex.data.loader import training_batches, validation_batches
from needlex.data.packing import best_fit_decreasing
from needlex.data.tokenizer import Tokenizer, train_tokenizer
from needlex.schema import Example
from needlex.train.config import NOT_HASHED, TrainConfig


class Prepared(NamedTuple):
    """Everything about the data that the loop needs."""

    batches: Callable[[], grain.DatasetIterator[Batch]]
    """Starts the endless training stream (a Grain iterator)."""
    validation: list[Batch]
    validation_rows: list[Example]
    tokenizer: Tokenizer
    steps: int
    rows_per_step: int
    vocab_size: int


def prepare(
    config: TrainConfig,
    say: Callable[[str], None] = print,
    tokenizer: Tokenizer | None = None,
    new: int | None = None,
) -> tuple[TrainConfig, Prepared]:
    """Read the data, train or load the tokenizer (unless one is given), and settle what depends on them: vocabulary and
    number of updates. Of the training sources the first `new` (all if None) make up an epoch; the others are replayed.

    The resolved configuration and the tokenizer are written to the run directory; a resumed run must match what is there.

    **Raises:** `DataError`, `ValueError` with the field or file at fault.
    """
    run_dir = Path(config.run_dir)
    claim_run_dir(config)
    corpus = load_corpus(config.data, config.max_samples, say, new)
    tokenizer = tokenizer or _tokenizer(config, corpus, run_dir, say)
    config = dataclasses.replace(config, model=_with_vocabulary(config, tokenizer))
    sources, lengths = [], []
    for name, rows in corpus.train:
        kept, measured = drop_long(rows, name, tokenizer, config.data, say)
        sources.append(kept)
        lengths.append(measured)
    validation_rows, _ = drop_long(corpus.validation, "validation", tokenizer, config.data, say)
    all_lengths = np.concatenate(lengths)
    rows = len(all_lengths)
    per_step = config.data.batch_size * config.optim.accumulate
    examples_per_step = per_step * (_examples_per_row(all_lengths, config) if config.data.packing else 1.0)
    shares = config.data.weights or tuple(len(s) / rows for s in sources)
    epoch = rows if new is None else sum(map(len, sources[:new])) * sum(shares) / sum(shares[:new])
    steps = config.steps or max(1, round((config.epochs or 1) * epoch / examples_per_step))
    say(
        f"{rows:,} training rows ({', '.join(f'{n}: {len(s):,}' for (n, _), s in zip(corpus.train, sources, strict=True))}), "
        f"{len(validation_rows):,} validation rows; vocabulary {tokenizer.vocab_size}; tokens a row: encoder "
        f"{all_lengths[:, 0].mean():.1f} (longest {all_lengths[:, 0].max()}), decoder {all_lengths[:, 1].mean():.1f} "
        f"(longest {all_lengths[:, 1].max()}); {steps * examples_per_step / epoch:.2f} epochs"
    )
    _write(config, tokenizer, run_dir)
    pairs_every = config.loss.contrastive_every if config.loss.contrastive_weight else 0
    process, processes = jax.process_index(), jax.process_count()

    def batches():
        return training_batches(sources, all_lengths, config.data, tokenizer, config.seed, pairs_every,
                                config.optim.accumulate, process, processes)  # fmt: skip

    validation = validation_batches(validation_rows, config.data, tokenizer, process, processes)
    return config, Prepared(
        batches, validation, validation_rows, tokenizer, steps, per_step, tokenizer.vocab_size
    )


def _tokenizer(config: TrainConfig, corpus: Corpus, run_dir: Path, say: Callable[[str], None]) -> Tokenizer:
    saved = run_dir / "tokenizer.model"
    if config.resume and saved.is_file():
        return Tokenizer.load(saved)
    if config.tokenizer.path is not None:
        return Tokenizer.load(config.tokenizer.path)
    say("training the tokenizer")
    texts = tokenizer_texts(corpus, config.data, config.tokenizer.max_sentences, config.seed)
    return train_tokenizer(texts, config.tokenizer)


def _with_vocabulary(config: TrainConfig, tokenizer: Tokenizer):
    asked = config.model.vocab_size
    if asked is not None and asked != tokenizer.vocab_size:
        raise ValueError(
            f"model.vocab_size is {asked} but the tokenizer has {tokenizer.vocab_size} pieces; leave model.vocab_size out "
            "(tokenizer.vocab_size decides)"
        )
    return dataclasses.replace(config.model, vocab_size=tokenizer.vocab_size)


def _examples_per_row(lengths: np.ndarray, config: TrainConfig) -> float:
    """Examples in a packed row, measured by packing a few windows of rows."""
    budgets, window = (config.data.max_encoder, config.data.max_decoder), config.data.packing_window
    chosen = np.random.default_rng(0).permutation(len(lengths))[: 4 * window]
    parts = [lengths[chosen[i : i + window]] for i in range(0, len(chosen), window)]
    return len(chosen) / sum(len(best_fit_decreasing(part, budgets)) for part in parts)


FREE_ON_RESUME = ("steps", "epochs", "eval_every", "log_every", "mesh.data", "data.threads", "data.prefetch")
"""Fields that a resumed run may change, besides those that are not hashed: how long, how often, on what."""


def claim_run_dir(config: TrainConfig) -> None:
    """Make sure that nothing is overwritten unasked. Nothing is touched yet.

    **Raises:** `ValueError` when the run directory holds a run and neither `resume` nor `overwrite` is set, when
    `overwrite` meets a folder that is no run, or `resume` another configuration, naming the field.
    """
    path = Path(config.run_dir)
    if path.exists() and not path.is_dir():
        raise ValueError(f"run_dir {path} is a file; give a folder")
    if not path.is_dir() or not any(path.iterdir()):
        return
    saved = path / "config.json"
    if config.overwrite:
        if not saved.is_file():
            raise ValueError(
                f"--overwrite: {path} is not empty and no run (it has no config.json), so nothing there is "
                "deleted; choose another --run-dir"
            )
    elif not config.resume:
        raise ValueError(
            f"run_dir {path} is not empty; add --resume to continue the run in it, --overwrite to replace it, or "
            "choose another --run-dir"
        )
    elif saved.is_file():
        before = read_config(TrainConfig, saved)
        free = (*FREE_ON_RESUME, *(["model.vocab_size"] if config.model.vocab_size is None else []))
        changed = [
            d for d in difference(before, config)
            if (name := d.split(":")[0]) not in free and name.split(".")[0] not in NOT_HASHED
        ]  # fmt: skip
        if changed:
            raise ValueError(
                f"--resume: {saved} was made by another configuration ({'; '.join(changed[:3])}); use the same, or a "
                "new --run-dir"
            )


def _write(config: TrainConfig, tokenizer: Tokenizer, run_dir: Path) -> None:
    if config.overwrite and run_dir.is_dir():
        shutil.rmtree(run_dir)  # only now: a run is not given up for one whose data cannot be read
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "config.json").write_text(json.dumps(to_dict(config), indent=2) + "\n")
    tokenizer.save(run_dir / "tokenizer.model")
