"""From queries and tools to answer texts, in batches of few shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from needlex.data.encode import TooLong, encode_query
from needlex.data.render import RenderConfig
from needlex.data.tokenizer import Tokenizer
from needlex.decode.engine import generate
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Tool

LENGTHS = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Encoder lengths that are compiled; longer ones go up to the next multiple of 1024."""


class Prediction(NamedTuple):
    """Answer to one query."""

    text: str
    """The answer as the model wrote it (empty with an error)."""
    error: str | None = None
    """`too_long: ...` when query and tools exceed the encoder budget, `unfinished: ...` when the answer has no end."""
    log_probability: float = 0.0
    """Log-probability of the answer, nats."""


def padded_length(n: int) -> int:
    """Compiled encoder length for `n` tokens."""
    return next((size for size in LENGTHS if size >= n), -(-n // 1024) * 1024)


def predict(
    model: Seq2Seq, tokenizer: Tokenizer, requests: Sequence[tuple[str, Sequence[Tool]]], render: RenderConfig,
    max_encoder: int, max_decoder: int, batch_size: int = 32,
) -> list[Prediction]:  # fmt: skip
    """Greedy answers to (query, tools) pairs, in their order.

    Rows are decoded sorted by length in batches of `batch_size`; what a row gets does not depend on its neighbours.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
    results: list[Prediction | None] = [None] * len(requests)
    coded: list[tuple[int, np.ndarray]] = []
    for i, (query, tools) in enumerate(requests):
        try:
            coded.append((i, encode_query(query, tools, tokenizer, render, max_encoder)))
        except TooLong as e:
            results[i] = Prediction("", f"too_long: {e}")
    coded.sort(key=lambda item: len(item[1]))
    for first in range(0, len(coded), batch_size):
        chosen = coded[first : first + batch_size]
        rows = batch_size if len(coded) >= batch_size else len(coded)
        encoder = np.zeros((rows, padded_length(len(chosen[-1][1]))), np.int32)
        for row, (_, ids) in enumerate(chosen):
            encoder[row, : len(ids)] = ids
        answer = generate(model, jnp.asarray(encoder), max_decoder - 1)
        tokens, finished, scores = (np.asarray(x) for x in answer)
        for row, (i, _) in enumerate(chosen):
            error = None if finished[row] else f"unfinished: no end within {max_decoder - 1} tokens"
            results[i] = Prediction(tokenizer.decode(tokens[row]), error, float(scores[row]))
    return [r for r in results if r is not None]
