"""From queries and tools to answer texts, in batches of few shapes."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from needlex.data.encode import TooLong, encode_query
from needlex.data.render import RenderConfig
from needlex.data.tokenizer import Tokenizer
from needlex.decode.engine import Engine
from needlex.decode.grammar import compile_grammar
from needlex.decode.loop import GREEDY, Answer, Free, Guide, Sampling, decode, generate
from needlex.schema import SchemaError, Tool

LENGTHS = (64, 128, 256, 512, 1024)
"""Encoder lengths that are compiled; longer ones go up to the next multiple of 1024."""
FEW_BATCHES = 16
"""Up to so many batches share one encoder length: compiling for another would cost more than it saves."""


class Prediction(NamedTuple):
    """Answer to one query."""

    text: str
    """The answer as the model wrote it (empty with an error)."""
    error: str | None = None
    """`too_long: ...` when query and tools exceed the encoder budget, `unfinished: ...` when the answer has no end,
    `schema: ...` when a tool's schema cannot be decoded under constraint."""
    log_probability: float = 0.0
    """Log-probability of the whole answer that the model gave by itself, without grammar and temperature, nats."""
    call_log_probabilities: tuple[float, ...] = ()
    """The part of each call; empty when the text is no list."""
    tokens: int = 0
    """Tokens of the answer, its end not counted."""
    forced: int = 0
    """Those that the grammar left no choice about."""


def padded_length(n: int) -> int:
    """Compiled encoder length for `n` tokens."""
    return next((size for size in LENGTHS if size >= n), -(-n // 1024) * 1024)


def predict(
    engine: Engine, tokenizer: Tokenizer, requests: Sequence[tuple[str, Sequence[Tool]]], render: RenderConfig,
    max_encoder: int, max_decoder: int, batch_size: int = 32, constrained: bool = True,
    sampling: Sampling = GREEDY,
) -> list[Prediction]:  # fmt: skip
    """Answers to (query, tools) pairs, in their order; if `constrained` only such as the tools admit.

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
    longest = len(coded[-1][1]) if 0 < len(coded) <= FEW_BATCHES * batch_size else 0
    for first in range(0, len(coded), batch_size):
        chosen = []
        guides: list[Guide] = []  # of one batch: those of all requests would fill the memory
        for i, ids in coded[first : first + batch_size]:
            try:
                guides.append(guide(requests[i][1], tokenizer, max_decoder, constrained))
                chosen.append((i, ids))
            except SchemaError as e:
                results[i] = Prediction("", f"schema: {e}")
        if not chosen:
            continue
        encoder = np.zeros((len(chosen), padded_length(longest or len(chosen[-1][1]))), np.int32)
        for row, (_, ids) in enumerate(chosen):
            encoder[row, : len(ids)] = ids
        answers = generate(engine, encoder, guides, max_decoder - 1, sampling, [i for i, _ in chosen])
        for (i, _), answer in zip(chosen, answers, strict=True):
            results[i] = _prediction(answer, tokenizer, max_decoder - 1)
    return [r for r in results if r is not None]


def stream(
    engine: Engine, tokenizer: Tokenizer, query: str, tools: Sequence[Tool], render: RenderConfig,
    max_encoder: int, max_decoder: int, constrained: bool = True, sampling: Sampling = GREEDY,
) -> Iterator[list[int] | Prediction]:  # fmt: skip
    """The token ids of one answer as they are decided, and at last the prediction.

    **Raises:** `TooLong` when query and tools exceed the encoder budget, `SchemaError` for a tool that cannot be
    decoded under constraint.
    """
    ids = encode_query(query, tools, tokenizer, render, max_encoder)
    encoder = np.zeros((1, padded_length(len(ids))), np.int32)
    encoder[0, : len(ids)] = ids
    guides = [guide(tools, tokenizer, max_decoder, constrained)]
    steps = decode(engine, encoder, guides, max_decoder - 1, sampling)
    while True:
        try:
            yield from (tokens for _, tokens in next(steps))
        except StopIteration as done:
            yield _prediction(done.value[0], tokenizer, max_decoder - 1)
            return


def guide(tools: Sequence[Tool], tokenizer: Tokenizer, max_decoder: int, constrained: bool) -> Guide:
    """What one answer is decoded under."""
    return compile_grammar(tools, tokenizer).matcher(max_decoder) if constrained else Free()


def _prediction(answer: Answer, tokenizer: Tokenizer, budget: int) -> Prediction:
    text = tokenizer.decode(answer.tokens)
    error = None if answer.finished else f"unfinished: no end within {budget} tokens"
    calls = call_log_probabilities(text, [tokenizer.pieces[t] for t in answer.tokens], answer.scores)
    return Prediction(text, error, answer.log_probability, calls, len(answer.tokens), answer.forced)


def call_log_probabilities(
    text: str, pieces: Sequence[bytes], scores: Sequence[float] | np.ndarray
) -> tuple[float, ...]:
    """Sum of `scores` over the tokens of each call in the list `text`.

    A token that reaches from one call into the next belongs to the one that it ends in; commas and brackets between
    calls belong to none.
    """
    spans, at = [], text.find("[") + 1
    scan = json.JSONDecoder().raw_decode
    try:
        while (at := text.index("{", at)) >= 0:
            end = scan(text, at)[1]
            spans.append((at, end))
            at = end
    except (ValueError, RecursionError):  # no further call, or a broken one
        pass
    sums = [0.0] * len(spans)

    def call_at(place: int) -> int | None:
        return next((i for i, (a, b) in enumerate(spans) if a <= place < b), None)

    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # as the text was made of the pieces
    told = [len(decoder.decode(piece)) for piece in pieces]
    end = (
        len(text) - sum(told) - len(decoder.decode(b"", final=True))
    )  # a dummy prefix is no part of the text
    for size, score in zip(told, scores, strict=False):
        begin, end = end, end + size
        call = call_at(max(begin, end - 1))  # a piece without a whole character belongs where that stands
        call = call_at(begin) if call is None else call
        if call is not None:
            sums[call] += float(score)
    return tuple(sums)
