"""The rows of a run: read or generated once, checked against the budgets, with a count of all that is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from needlex.data.augment import augment
from needlex.data.config import EMBEDDED, DataConfig
from needlex.data.encode import TooLong, encode_example
from needlex.data.generate import generate
from needlex.data.render import render_answer, render_tools
from needlex.data.sources import DataError, limit_tools, read_rows
from needlex.data.tokenizer import Tokenizer
from needlex.schema import Example


@dataclass(frozen=True)
class Corpus:
    """Training rows by source, and validation rows."""

    train: tuple[tuple[str, tuple[Example, ...]], ...]
    validation: tuple[Example, ...]

    @property
    def rows(self) -> int:
        return sum(len(rows) for _, rows in self.train)


def read_source(name: str, config: DataConfig, split: str, say: Callable[[str], None]) -> list[Example]:
    """Rows of one source; rejected rows are reported through `say`.

    **Raises:** `DataError` when the file cannot be used.
    """
    if name == EMBEDDED:
        return generate(config.embedded, split)
    rows, rejects = read_rows(name)
    if len(rejects):
        say(rejects.summary())
    return rows


def load_corpus(
    config: DataConfig, max_samples: int | None, say: Callable[[str], None] = print, new: int | None = None
) -> Corpus:
    """Everything that the run reads. The first `new` training sources (all if None) are what is to be learned: they alone are
    limited to `max_samples` rows and validated on; the others are replayed.

    **Raises:** `DataError` naming the file and its first bad rows.
    """
    every = [(name, read_source(name, config, "train", say)) for name in config.train]
    train, replayed = every[:new], every[new:] if new is not None else []
    if max_samples is not None:
        total = sum(len(rows) for _, rows in train)
        train = [(name, thin(rows, max(1, max_samples * len(rows) // total))) for name, rows in train]
    names = config.validation or ((EMBEDDED,) if EMBEDDED in config.train[:new] else ())
    validation = [row for name in names for row in read_source(name, config, "validation", say)]
    if not names:
        kept = []
        for name, rows in train:
            held = max(1, round(len(rows) * config.held_out))
            if len(rows) < 2:
                raise DataError(
                    f"{name}: one row cannot be both trained on and validated; give data.validation"
                )
            kept.append((name, rows[:-held]))
            validation += rows[-held:]
        train = kept
        say(
            f"validation: the last {config.held_out:.0%} of the training rows ({len(validation)}), as data.validation is not given"
        )
    rng = np.random.default_rng(0)
    validation = [fit_tools(e, config, rng) for e in thin(validation, config.max_eval_samples)]
    return Corpus(tuple((name, tuple(rows)) for name, rows in [*train, *replayed]), tuple(validation))


def thin(rows: list[Example], limit: int) -> list[Example]:
    """At most `limit` rows, evenly spaced: files are often sorted."""
    return rows if len(rows) <= limit else [rows[i * len(rows) // limit] for i in range(limit)]


def fit_tools(example: Example, config: DataConfig, rng: np.random.Generator) -> Example:
    """The example with at most `max_tools` tools."""
    if config.max_tools is None or len(example.tools) <= config.max_tools:
        return example
    return limit_tools(example, config.max_tools, rng)


def tokenizer_texts(corpus: Corpus, config: DataConfig, limit: int, seed: int) -> Iterator[str]:
    """Queries, tools and answers that the tokenizer is trained on: at most `limit` rows, evenly sampled, augmented."""
    rng = np.random.default_rng(seed)
    step = max(1, -(-corpus.rows // limit))
    for _, rows in corpus.train:
        for example in rows[::step]:
            varied = augment(fit_tools(example, config, rng), config.augment, rng)
            yield varied.query
            yield render_tools(varied.tools, config.render)
            yield render_answer(varied.calls)[0]


def drop_long(
    rows: Sequence[Example], name: str, tokenizer: Tokenizer, config: DataConfig, say: Callable[[str], None]
) -> tuple[list[Example], np.ndarray]:
    """Rows that fit the budgets, and their lengths [n, 2] (encoder, decoder); the others are counted through `say`.

    **Raises:** `DataError` when nothing fits.
    """
    kept: list[Example] = []
    lengths: list[tuple[int, int]] = []
    reasons: Counter[str] = Counter()
    first = ""
    rng = np.random.default_rng(0)
    for number, example in enumerate(rows, 1):
        try:
            coded = encode_example(
                fit_tools(example, config, rng),
                tokenizer,
                config.render,
                config.max_encoder,
                config.max_decoder,
            )
        except TooLong as e:
            reasons[e.reason] += 1
            first = first or f"row {number}: {e}"
            continue
        kept.append(example)
        lengths.append((len(coded.encoder), len(coded.decoder)))
    if reasons:
        counts = ", ".join(f"{n} over the {side} budget" for side, n in reasons.items())
        say(f"{name}: {sum(reasons.values())} of {len(rows)} rows left out, {counts} ({first})")
    if not kept:
        raise DataError(
            f"{name}: none of {len(rows)} rows fits data.max_encoder {config.max_encoder} and data.max_decoder "
            f"{config.max_decoder}; {first or 'there is no row'}"
        )
    return kept, np.array(lengths)
