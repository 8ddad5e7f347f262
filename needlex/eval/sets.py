"""Sets of rows to evaluate on: the embedded held-out ones by name, files by path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from needlex.data.augment import restyle_held_out
from needlex.data.generate import GenerateConfig, generate
from needlex.data.sources import FORMATS, DataError, Rejects, limit_tools, read_rows
from needlex.schema import Example

EMBEDDED = ("seen_values", "unseen_values", "unseen_templates", "unseen_names")
"""Held-out rows that need no file: new sentences of known parts, of unseen values, of unseen templates, and
with tool names of a kind that training never uses."""

_SEED = 0  # one seed for all, so that two models are compared on the same rows


@dataclass(frozen=True)
class EvalSet:
    """Rows under a name that is unique in an evaluation."""

    name: str
    examples: Sequence[Example]
    available: int
    """Usable rows before `--max-samples`."""
    rejects: Rejects
    """Rows of the file that cannot be used."""


def load_sets(
    sources: Sequence[str],
    max_samples: int | None = None,
    max_tools: int | None = None,
    embedded: GenerateConfig = GenerateConfig(),  # noqa: B008 frozen
) -> list[EvalSet]:
    """One set for each name in `EMBEDDED` or path of a file; without any, all embedded sets.

    `embedded` says which tools and how many rows the embedded sets have. `max_samples` rows at most are drawn
    from each set, `max_tools` tools at most are left in each row
    (the called ones stay); the same ones every time.

    **Raises:** `DataError` when a file is missing or has no usable row, or a source is named twice.
    """
    sources = sources or EMBEDDED
    repeated = sorted({s for s in sources if sources.count(s) > 1})
    if repeated:
        raise DataError(f"{', '.join(repeated)}: named twice; every set is evaluated once")
    stems = [_stem(source) for source in sources]
    names = [stem if stems.count(stem) == 1 else source for stem, source in zip(stems, sources, strict=True)]
    return [
        _load(name, source, max_samples, max_tools, embedded)
        for name, source in zip(names, sources, strict=True)
    ]


def _load(
    name: str, source: str, max_samples: int | None, max_tools: int | None, embedded: GenerateConfig
) -> EvalSet:
    rng = np.random.default_rng(_SEED)
    if source in EMBEDDED:
        examples = _embedded(source, max_samples, embedded)
        rejects = Rejects(source, len(examples))
    else:
        if not Path(source).is_file():
            raise DataError(
                f"no data file at {source}, and no embedded set of that name ({', '.join(EMBEDDED)})"
            )
        examples, rejects = read_rows(source)
    available = len(examples)
    if max_samples is not None and available > max_samples:
        # Files are often sorted: a draw from all of it, in the order of the file.
        chosen = np.sort(rng.choice(available, max_samples, replace=False))
        examples = [examples[i] for i in chosen]
    if max_tools is not None:
        examples = [limit_tools(e, max_tools, rng) if len(e.tools) > max_tools else e for e in examples]
    return EvalSet(name, examples, available, rejects)


def _embedded(split: str, rows: int | None, config: GenerateConfig) -> list[Example]:
    config = config if rows is None else replace(config, held_out_rows=rows)
    try:
        examples = generate(config, split)
    except RuntimeError as e:  # more rows than there are
        raise DataError(str(e)) from None
    if split != "unseen_names":
        return examples
    rng = np.random.default_rng(_SEED)
    return [restyle_held_out(example, rng) for example in examples]


def _stem(source: str) -> str:
    if source in EMBEDDED:
        return source
    name = Path(source).name
    ending = max((f for f in FORMATS if name.lower().endswith(f)), key=len, default="")
    return name[: len(name) - len(ending)] or source
