"""From queries and tools to answer texts, in batches of few shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from needlex.data.encode import TooLong, encode_query
from needlex.data.render import RenderConfig
from needlex.data.tokenizer import Tokenizer
from needlex.decode.constrained import generate_constrained
from needlex.decode.engine import generate
from needlex.decode.grammar import Grammar, compile_grammar
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import SchemaError, Tool

LENGTHS = (64, 128, 256, 512, 1024)
"""Encoder lengths that are compiled; longer ones go up to the next multiple of 1024."""


class Prediction(NamedTuple):
    """Answer to one query."""

    text: str
    """The answer as the model wrote it (empty with an error)."""
    error: str | None = None
    """`too_long: ...` when query and tools exceed the encoder budget, `unfinished: ...` when the answer has no end,
    `schema: ...` when a tool's schema cannot be decoded under constraint."""
    log_probability: float = 0.0
    """Log-probability of the answer, nats."""


def padded_length(n: int) -> int:
    """Compiled encoder length for `n` tokens."""
    return next((size for size in LENGTHS if size >= n), -(-n // 1024) * 1024)


def predict(
    model: Seq2Seq, tokenizer: Tokenizer, requests: Sequence[tuple[str, Sequence[Tool]]], render: RenderConfig,
    max_encoder: int, max_decoder: int, batch_size: int = 32, constrained: bool = True,
) -> list[Prediction]:  # fmt: skip
    """Greedy answers to (query, tools) pairs, in their order; if `constrained` only such as the tools admit.

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
    budget = max_decoder - 1
    for first in range(0, len(coded), batch_size):
        chosen = coded[first : first + batch_size]
        grammars: list[Grammar] = []  # of one batch: those of all requests would fill the memory
        if constrained:
            admitted = []
            for i, ids in chosen:
                try:
                    grammars.append(compile_grammar(requests[i][1], tokenizer))
                    admitted.append((i, ids))
                except SchemaError as e:
                    results[i] = Prediction("", f"schema: {e}")
            chosen = admitted
        if not chosen:
            continue
        rows = batch_size if not constrained and len(coded) >= batch_size else len(chosen)
        encoder = np.zeros((rows, padded_length(len(chosen[-1][1]))), np.int32)
        for row, (_, ids) in enumerate(chosen):
            encoder[row, : len(ids)] = ids
        if not constrained:
            found = generate(model, jnp.asarray(encoder), budget)
            answers = zip(*(np.asarray(x) for x in found), strict=True)
        else:
            matchers = [g.matcher(budget + 1) for g in grammars]
            answers = [a[:3] for a in generate_constrained(model, jnp.asarray(encoder), matchers, budget)]
        for (i, _), (tokens, finished, score) in zip(chosen, answers, strict=False):
            error = None if finished else f"unfinished: no end within {budget} tokens"
            results[i] = Prediction(tokenizer.decode(tokens), error, float(score))
    return [r for r in results if r is not None]
