"""Cached steps and greedy decoding against full forward passes that keep nothing."""

from __future__ import annotations

import dataclasses
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from needlex.decode.engine import BLOCK, EOS, PROMPT, Engine, start, step
from needlex.decode.loop import Answer, Free, generate
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.precision import named

VOCAB, BUDGET = 24, 14
CONFIGS = {
    "attention only": ModelConfig(
        vocab_size=VOCAB, d_model=16, heads=4, kv_heads=2, encoder_layers=2, decoder_layers=2
    ),
    "feed-forward": ModelConfig(
        vocab_size=VOCAB, d_model=16, heads=2, kv_heads=1, encoder_layers=1, decoder_layers=2,
        feedforward=True, d_ff=24, activation="geglu",
    ),
}  # fmt: skip
KINDS = ["attention only", pytest.param("feed-forward", marks=pytest.mark.slow)]


@cache
def model(kind: str, seed: int = 0) -> Seq2Seq:
    """A model with no weight at its start value, and logits far apart."""
    found = Seq2Seq(dataclasses.replace(CONFIGS[kind], init_std=0.4), key=jr.key(seed))
    arrays, static = eqx.partition(found, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    keys = jr.split(jr.key(seed + 100), len(leaves))
    leaves = [x + 0.3 * jr.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    found = eqx.combine(jax.tree.unflatten(structure, leaves), static)
    # What is read outweighs the last token, or the tied table repeats it; the long vector of the end makes
    # answers end at unequal lengths.
    layers = found.decoder.layers
    return eqx.tree_at(
        lambda m: (
            m.decoder.layers.self_attention.out.weight, m.decoder.layers.cross_attention.out.weight,
            m.embedding.weight,
        ),
        found,
        (
            8 * layers.self_attention.out.weight, 8 * layers.cross_attention.out.weight,
            found.embedding.weight.at[EOS].mul(1.5),
        ),
    )  # fmt: skip


def inputs(*lengths: int, seed: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(6, VOCAB, n).astype(np.int32) for n in lengths]


def batch(rows: list[np.ndarray], length: int | None = None) -> np.ndarray:
    found = np.zeros((len(rows), length or max(map(len, rows))), np.int32)
    for i, row in enumerate(rows):
        found[i, : len(row)] = row
    return found


@cache
def engine(kind: str, seed: int = 0) -> Engine:
    return Engine(model(kind, seed))


def free(engine: Engine, encoder: np.ndarray, budget: int) -> list[Answer]:
    return generate(engine, encoder, [Free() for _ in encoder], budget)


def full_logits(model: Seq2Seq, encoder: np.ndarray, decoder: np.ndarray) -> np.ndarray:
    """Oracle: the whole forward pass of one row without padding."""
    arrays, static = eqx.partition(model, eqx.is_array)
    return np.asarray(_full(arrays, static, jnp.asarray(encoder), jnp.asarray(decoder)))


@partial(jax.jit, static_argnames="static")
def _full(arrays, static, encoder, decoder):
    # A segment of ones: a PAD that a model writes is a token like any other.
    ones = jnp.ones_like(encoder), jnp.ones_like(decoder)
    return eqx.combine(arrays, static)(encoder, decoder, *ones)


def greedy(model: Seq2Seq, encoder: np.ndarray, max_new: int) -> tuple[list[int], bool, float]:
    """Oracle: tokens by argmax of a full pass for each, whether it ended, and the sum of log-probabilities."""
    decoder = np.full(len(PROMPT) + max_new, 7, np.int32)  # what stands behind cannot be seen
    decoder[: len(PROMPT)] = PROMPT
    total = 0.0
    for i in range(max_new + 1):
        row = full_logits(model, encoder, decoder)[len(PROMPT) + i - 1].astype(np.float64)
        token = int(row.argmax())
        if i == max_new and token != EOS:
            break
        total += row[token] - np.log(np.exp(row - row.max()).sum()) - row.max()
        if token == EOS:
            return decoder[len(PROMPT) : len(PROMPT) + i].tolist(), True, total
        decoder[len(PROMPT) + i] = token
    return decoder[len(PROMPT) :].tolist(), False, total


def answers(found: list[Answer]) -> list[tuple[list[int], bool]]:
    return [(a.tokens, a.finished) for a in found]


@pytest.mark.parametrize("kind", KINDS)
def test_cached_equals_full_forward_for_unequal_encoder_lengths(kind):
    """A6: fed one by one, in pieces or at once, every row of a batch gives the logits of its own full pass."""
    rows = inputs(3, 11, 1, 7)
    decoders = np.random.default_rng(0).integers(1, VOCAB, (len(rows), BUDGET)).astype(np.int32)
    wanted = [full_logits(model(kind), e, d) for e, d in zip(rows, decoders, strict=True)]
    assert np.ptp(wanted[0]) > 1
    tested = engine(kind)
    empty = start(tested.params, tested.weights, tested.static, jnp.asarray(batch(rows)), BUDGET)
    advance = jax.jit(partial(step, tested.weights))
    for pieces in ([BUDGET], [1] * BUDGET, [6, 1, 1, 6]):
        at, found, caches = 0, [], empty
        for n in pieces:
            tokens = jnp.asarray(decoders[:, at : at + n])
            logits, caches = advance(caches, tokens, jnp.full(len(rows), at))
            found.append(logits)
            at += n
        np.testing.assert_allclose(np.concatenate(found, axis=1), np.stack(wanted), atol=1e-5, rtol=1e-5)


def test_encoder_keys_in_blocks_are_read_like_the_full_forward_pass():
    """Widths of several blocks, one row with padding in its last block and one whose last block is all padding."""
    rows = inputs(BLOCK + 30, 2 * BLOCK, BLOCK - 3)
    decoders = np.random.default_rng(0).integers(1, VOCAB, (len(rows), BUDGET)).astype(np.int32)
    wanted = [full_logits(model("attention only"), e, d) for e, d in zip(rows, decoders, strict=True)]
    tested = engine("attention only")
    cache = start(tested.params, tested.weights, tested.static, jnp.asarray(batch(rows)), BUDGET)
    assert cache.cross_keys[0].shape[2] == 2
    logits, _ = step(tested.weights, cache, jnp.asarray(decoders), jnp.zeros(len(rows), jnp.int32))
    np.testing.assert_allclose(logits, np.stack(wanted), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_at_different_positions_of_one_step(kind):
    """A6: rows of one batch may stand at any position, and the cache of one is not touched by another's."""
    rows, tested = inputs(3, 11, 1, 7), engine(kind)
    decoders = np.random.default_rng(1).integers(1, VOCAB, (len(rows), BUDGET)).astype(np.int32)
    wanted = [full_logits(model(kind), e, d) for e, d in zip(rows, decoders, strict=True)]
    caches = start(tested.params, tested.weights, tested.static, jnp.asarray(batch(rows)), BUDGET + 2)
    advance, at = jax.jit(partial(step, tested.weights)), np.zeros(len(rows), np.int32)
    rng = np.random.default_rng(2)
    while (at < BUDGET).any():
        counts = np.minimum(rng.integers(0, 4, len(rows)), BUDGET - at)
        tokens = np.full(
            (len(rows), 3), 9, np.int32
        )  # what is behind a row's own tokens is overwritten later
        for i, n in enumerate(counts):
            tokens[i, :n] = decoders[i, at[i] : at[i] + n]
        logits, caches = advance(caches, tokens, at)
        for i, n in enumerate(counts):
            np.testing.assert_allclose(logits[i, :n], wanted[i][at[i] : at[i] + n], atol=1e-5, rtol=1e-5)
        at += counts


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_answers_are_those_of_full_forward_passes(kind):
    rows = inputs(3, 11, 5, 7, 2, 9, 4, 8)
    seed = list(CONFIGS).index(kind)
    wanted = [greedy(model(kind, seed), row, BUDGET) for row in rows]
    lengths = {len(tokens) for tokens, finished, _ in wanted if finished}
    assert len(lengths) > 1 and not all(finished for _, finished, _ in wanted)
    found = free(engine(kind, seed), batch(rows), BUDGET)
    assert answers(found) == [(t, finished) for t, finished, _ in wanted]
    np.testing.assert_allclose([a.log_probability for a in found], [s for *_, s in wanted], rtol=1e-5)
    assert [len(a.scores) for a in found] == [len(t) + finished for t, finished, _ in wanted]


def test_a_row_depends_neither_on_neighbours_nor_on_padding_nor_on_batch_size():
    rows = inputs(3, 11, 5, 7)
    tested = engine("attention only")
    together = free(tested, batch(rows), BUDGET)
    for i, row in enumerate(rows):
        alone = free(tested, batch([row], length=16), BUDGET)
        crowd = free(tested, batch([row, *inputs(*range(2, 11), seed=i)], 16), BUDGET)
        for found in (alone, crowd):
            assert answers(found)[0] == answers(together)[i]
            np.testing.assert_allclose(found[0].scores, together[i].scores, rtol=1e-4, atol=1e-5)


def test_a_smaller_budget_cuts_the_same_answer():
    rows = inputs(3, 11, 5, 7, 2, 9, 4, 8)
    whole = answers(free(engine("attention only"), batch(rows), BUDGET))
    for budget in (1, 4):
        cut = answers(free(engine("attention only"), batch(rows), budget))
        for (tokens, finished), (all_tokens, all_finished) in zip(cut, whole, strict=True):
            assert tokens == all_tokens[:budget]
            assert finished == (all_finished and len(all_tokens) <= budget)


@pytest.mark.slow
def test_two_models_in_one_process_do_not_meet():
    """C5: other weights, other structure, and another static field over the very same weights."""
    base = Seq2Seq(dataclasses.replace(CONFIGS["attention only"], rope_base=10.0), key=jr.key(0))
    arrays, static = eqx.partition(base, eqx.is_array)
    weights = jax.tree.leaves(eqx.filter(model("attention only"), eqx.is_array))
    turned = eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), weights), static)
    models = [model("attention only"), model("attention only", 1), model("feed-forward"), turned]
    rows = inputs(3, 11, 5)
    wanted = [[greedy(m, row, BUDGET)[0] for row in rows] for m in models]
    assert len({str(w) for w in wanted}) == len(models)
    engines = [Engine(m) for m in models]
    for i in (0, 1, 2, 3, 0, 3, 2, 1):
        assert [a.tokens for a in free(engines[i], batch(rows), BUDGET)] == wanted[i]


def test_bfloat16_decodes_like_its_own_forward_pass():
    half = named("bfloat16").to_compute(model("attention only"))
    rows = inputs(3, 11, 5, 7)
    found = free(Engine(half), batch(rows), BUDGET)
    assert sum(len(a.tokens) for a in found) > 3
    for row, answer in zip(rows, found, strict=True):
        logits = full_logits(half, row, np.array([*PROMPT, *answer.tokens], np.int32))[len(PROMPT) - 1 :]
        for j, token in enumerate(answer.tokens):  # near ties may go either way
            assert logits[j].max() - logits[j][token] < 0.05 * np.ptp(logits[j])


def test_no_budget_is_refused():
    with pytest.raises(ValueError, match="max_new is 0"):
        free(engine("attention only"), batch(inputs(3)), 0)
