"""Sampling, log-probabilities of calls, and rows that leave the batch."""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlex.data.render import render_answer
from needlex.decode import loop
from needlex.decode.engine import Engine
from needlex.decode.grammar import compile_grammar
from needlex.decode.loop import Free, Sampling, generate
from needlex.decode.predict import call_log_probabilities
from needlex.schema import Call
from tests.data.rows import tokenizer
from tests.decode.answers import check
from tests.decode.test_constrained import TOOLS
from tests.decode.test_engine import BUDGET, batch, engine, free, inputs
from tests.decode.test_predict import model as wide_model


def probabilities(logits: np.ndarray, temperature: float, top_p: float) -> np.ndarray:
    """Oracle: temperature, then the fewest most likely tokens that reach top_p, renormalised."""
    scaled = logits.astype(np.float64) / temperature
    p = np.exp(scaled - scaled.max())
    p /= p.sum()
    order, kept, total = np.argsort(-p), np.zeros_like(p), 0.0
    for token in order:
        kept[token] = p[token]
        total += p[token]
        if total >= top_p:
            break
    return kept / kept.sum()


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (2.0, 0.6), (1.0, 0.3)])
def test_first_tokens_are_drawn_with_the_stated_probabilities(temperature, top_p):
    logits = np.random.default_rng(0).normal(0, 1.5, 24).astype(np.float32)
    wanted = probabilities(logits, temperature, top_p)
    draws = 6000
    masks = np.full((draws, 1), -1, np.int32)
    last = jnp.broadcast_to(logits[None], (draws, len(wanted)))
    chosen, _ = loop._draw(
        last, masks, jax.random.key(0), np.arange(draws), np.zeros(draws, np.int32), temperature, top_p
    )
    found = np.bincount(chosen, minlength=len(wanted)) / draws
    assert (wanted > 0).sum() > 1
    assert not found[wanted == 0].any()
    np.testing.assert_allclose(found, wanted, atol=5 * np.sqrt(0.25 / draws))


def test_the_same_seed_is_the_same_answer_whatever_the_batch():
    rows, tested = inputs(3, 11, 5, 7), engine("attention only")

    def drawn(numbers: list[int], seed: int) -> list[list[int]]:
        chosen = batch([rows[i] for i in numbers], 16)
        found = generate(
            tested, chosen, [Free() for _ in numbers], BUDGET, Sampling(1.5, 0.95, seed), numbers
        )
        return [a.tokens for a in found]

    whole = drawn([0, 1, 2, 3], 3)
    assert drawn([2], 3) + drawn([0], 3) == [whole[2], whole[0]]
    assert drawn([3, 2, 1, 0], 3)[::-1] == whole
    assert drawn([0, 1, 2, 3], 4) != whole
    # A temperature near zero is the most likely token.
    cold = generate(tested, batch(rows), [Free() for _ in rows], BUDGET, Sampling(1e-4))
    assert [a.tokens for a in cold] == [a.tokens for a in free(tested, batch(rows), BUDGET)]


@given(st.integers(0, 10_000), st.sampled_from([0.3, 1.0, 5.0]), st.sampled_from([0.2, 0.9, 1.0]))
def test_drawn_answers_are_valid_too(seed, temperature, top_p):
    guides = [compile_grammar(TOOLS, tokenizer()).matcher(41) for _ in range(3)]
    encoder = np.random.default_rng(seed).integers(6, 200, (3, 12)).astype(np.int32)
    for answer in generate(wide_engine(), encoder, guides, 40, Sampling(temperature, top_p, seed)):
        assert answer.finished and len(answer.tokens) <= 40
        check(tokenizer().decode(answer.tokens), TOOLS)


_WIDE: list[Engine] = []


def wide_engine() -> Engine:
    if not _WIDE:
        _WIDE.append(Engine(wide_model(5, 1)))
    return _WIDE[0]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ((-0.1, 1.0), "temperature is -0.1"),
        ((float("inf"), 1.0), "temperature is inf"),
        ((1.0, 0.0), "top_p is 0"),
        ((1.0, 1.1), "top_p is 1.1"),
    ],
)
def test_sampling_that_makes_no_sense_is_refused(values, field):
    with pytest.raises(ValueError, match=field):
        Sampling(*values)


def test_a_batch_shrinks_with_its_rows(monkeypatch):
    """Rows that ended are computed no more: later steps are of fewer rows, and nothing changes."""
    rows, tested = inputs(3, 11, 5, 7, 2, 9, 4, 8, 6, 10, 12, 13), engine("attention only")
    sizes: list[int] = []
    advance = loop._advance

    def counted(weights, cache, last, tokens, *rest):
        sizes.append(tokens.shape[0])
        return advance(weights, cache, last, tokens, *rest)

    monkeypatch.setattr(loop, "_advance", counted)
    together = free(tested, batch(rows), 40)
    lengths = sorted(len(a.tokens) for a in together)
    assert lengths[0] < lengths[-1]
    assert sizes[0] == 32 and sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == loop.bucket(sum(n == lengths[-1] for n in lengths), loop.ROWS) < 32
    for row, answer in zip(rows, together, strict=True):
        (alone,) = free(tested, batch([row], 13), 40)
        assert alone.tokens == answer.tokens
        np.testing.assert_allclose(alone.scores, answer.scores, rtol=1e-3, atol=1e-5)


CALLS = st.lists(
    st.builds(
        Call, st.sampled_from(["ring", "dim", "schön"]),
        st.dictionaries(st.sampled_from(["to", "lamp"]), st.text(max_size=8) | st.integers(-99, 99), max_size=2),
    ), max_size=4,
)  # fmt: skip


@given(CALLS, st.randoms(use_true_random=False))
def test_the_parts_of_calls_are_those_of_their_characters(calls, random):
    """Token borders anywhere: with one byte a token each call gets its own bytes, and no token counts twice."""
    text = render_answer(calls)[0]
    raw = text.encode()
    single = call_log_probabilities(text, [raw[i : i + 1] for i in range(len(raw))], [1.0] * len(raw))
    assert single == tuple(len(render_answer([c])[0].encode()) - 2 for c in calls)
    cuts = sorted({0, len(raw), *(random.randrange(len(raw)) for _ in range(6))})
    pieces = [raw[a:b] for a, b in pairwise(cuts)]
    found = call_log_probabilities(text, pieces, [1.0] * len(pieces))
    assert len(found) == len(calls) and sum(found) <= len(pieces)


def test_a_broken_answer_keeps_the_calls_before_it():
    text = '[{"name":"ring","arguments":{}},{"name":'
    assert call_log_probabilities(text, [text[:31].encode(), text[31:].encode()], [-2.0, -3.0]) == (-2.0,)
    assert call_log_probabilities("no list", [b"no list"], [-1.0]) == ()
