"""Answers to queries: in order, none dropped, each by itself."""

from __future__ import annotations

from functools import cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from needlex.data.encode import encode_query
from needlex.data.render import RenderConfig
from needlex.decode.engine import EOS, Engine
from needlex.decode.loop import Free, generate
from needlex.decode.predict import LENGTHS, padded_length, predict
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Tool
from tests.data.rows import tokenizer
from tests.decode.test_engine import model as random_model

RENDER = RenderConfig()
TOOLS = tuple(Tool.from_json({"name": n}) for n in ("ring", "stop", "get_time"))
REQUESTS = [
    ("hello there", TOOLS[:1]),
    ("play Clair de Lune by Debussy in the kitchen", TOOLS),
    ("set it to 40", TOOLS[1:]),
    ("what time is it", TOOLS[:2]),
    ("turn on the light", TOOLS[:1]),
    ("stop", TOOLS[2:]),
    ("hello " * 60, TOOLS),
]


@cache
def model(seed: int = 5, end: float = 3) -> Seq2Seq:
    """The random model of the engine's tests, with a row for every piece of the tokenizer and `end` times that of EOS."""
    found = random_model("attention only")
    table = np.random.default_rng(seed).normal(0, 0.3, (tokenizer().vocab_size, 16)).astype(np.float32)
    table[EOS] *= end
    return eqx.tree_at(lambda m: m.embedding.weight, found, jnp.asarray(table))


@cache
def engine() -> Engine:
    return Engine(model())


def run(requests=REQUESTS, batch_size: int = 32, max_encoder: int = 100, max_decoder: int = 13):
    return predict(
        engine(), tokenizer(), requests, RENDER, max_encoder, max_decoder, batch_size, constrained=False
    )


@pytest.mark.parametrize("batch_size", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3)), 32])
def test_every_request_is_answered_in_its_place_whatever_the_batch(batch_size):
    found = run(batch_size=batch_size)
    assert len(found) == len(REQUESTS)
    for (query, tools), answer in zip(REQUESTS[:-1], found[:-1], strict=True):
        ids = encode_query(query, tools, tokenizer(), RENDER, 100)
        (wanted,) = generate(engine(), ids[None], [Free()], 12)
        assert answer.text == tokenizer().decode(wanted.tokens)
        assert answer.error == (None if wanted.finished else "unfinished: no end within 12 tokens")
        assert answer.log_probability == pytest.approx(wanted.log_probability, rel=1e-4)
    assert found[-1].text == "" and found[-1].error is not None
    assert found[-1].error.startswith("too_long: the encoder side takes ")
    assert {a.error is None for a in found[:-1]} == {True, False}
    assert len({a.text for a in found}) > 3


def test_nothing_asked_nothing_answered():
    assert run([]) == []
    (only,) = run(REQUESTS[-1:])
    assert only.error is not None and only.error.startswith("too_long")


def test_impossible_numbers_are_refused():
    with pytest.raises(ValueError, match="batch_size is 0"):
        run(batch_size=0)
    with pytest.raises(ValueError, match="max_new is 0"):
        run(max_decoder=1)


def test_lengths_that_are_compiled_are_few():
    sizes = [padded_length(n) for n in range(1, 5000)]
    assert all(size >= n for n, size in enumerate(sizes, 1))
    assert len(set(sizes)) == len(LENGTHS) + 4 and max(sizes) == 5 * 1024
    assert all(size < 2 * n for n, size in enumerate(sizes, 1) if n > 64)
