"""Rows that the doctor's forward passes read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from needlex.data.config import EMBEDDED, DataConfig
from needlex.data.encode import TooLong, encode_example
from needlex.data.generate import generate
from needlex.data.packing import pack_row
from needlex.data.sources import read_rows
from needlex.data.tokenizer import Tokenizer
from needlex.doctor.oracle import Row

COUNT = 4
"""Examples; two in each row, so that masks between packed examples are tried."""


def probe_rows(
    tokenizer: Tokenizer | None, data: DataConfig, vocab_size: int, source: str | None
) -> tuple[list[Row], list[np.ndarray], str]:
    """Two packed rows, their targets, and what they are.

    Examples of `source` (a file, or the embedded data); random tokens without a tokenizer or source.
    """
    examples: list[dict[str, np.ndarray]] = []
    what = "random tokens"
    if tokenizer is not None and source is not None:
        found = (
            generate(dataclasses.replace(data.embedded, held_out_rows=8 * COUNT), "validation")
            if source == EMBEDDED
            else read_rows(source, limit=8 * COUNT)[0]
        )
        for example in found:
            try:
                coded = encode_example(example, tokenizer, data.render, data.max_encoder, data.max_decoder)
            except TooLong:
                continue
            examples.append({k: getattr(coded, k) for k in ("encoder", "decoder", "targets", "classes")})
        what = f"rows of {source}"
    if len(examples) < COUNT:
        examples, what = _random(vocab_size), "random tokens"
    return *_pack(examples[:COUNT]), what


def _random(vocab_size: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    found = []
    for encoder, decoder in ((20, 9), (13, 14), (7, 5), (24, 11)):
        ids = {
            k: rng.integers(6, vocab_size, n)
            for k, n in (("encoder", encoder), ("decoder", decoder), ("targets", decoder))
        }
        found.append({**ids, "classes": np.zeros(decoder, int)})
    return found


def _pack(examples: Sequence[dict[str, np.ndarray]]) -> tuple[list[Row], list[np.ndarray]]:
    pairs = [examples[:2], examples[2:]]
    budget = tuple(
        max(sum(len(e[side]) for e in pair) for pair in pairs) + 3 for side in ("encoder", "decoder")
    )
    packed = [pack_row(pair, (budget[0], budget[1])) for pair in pairs]
    rows = [Row(p["encoder"], p["decoder"], p["encoder_segments"], p["decoder_segments"]) for p in packed]
    return rows, [p["targets"] for p in packed]
