"""CLIP loss: the definition, pairs of the same tool, rows without a pair."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.losses.contrastive import clip_logits, clip_loss

P, M = 5, 4
loss_of = jax.jit(clip_loss)
loss_and_gradients = jax.jit(jax.value_and_grad(clip_loss, argnums=(0, 1, 3)))


def units(seed: int, rows: int = P) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, M))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def oracle(query, tool, identity, log_temperature) -> float:
    """Pair by pair: the candidates are its own partner and the partners of pairs that call another tool."""
    scale = math.exp(min(max(log_temperature, -math.log(100)), math.log(100)))
    real = [i for i in range(len(identity)) if identity[i]]
    losses = []
    for i in real:
        others = [j for j in real if identity[j] != identity[i]]
        for one, many in ((query[i], tool), (tool[i], query)):
            scores = [float(one @ many[j]) / scale for j in [i, *others]]
            losses.append(math.log(sum(math.exp(s - scores[0]) for s in scores)))
    return sum(losses) / len(losses) if losses else 0.0


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    identity=st.lists(st.integers(0, 3), min_size=P, max_size=P),
    log_temperature=st.sampled_from([-9.0, -1.3, 0.0, 2.0]),
)
def test_loss_is_that_of_the_definition(seed, identity, log_temperature):
    query, tool = units(seed), units(seed + 1)
    ids, temperature = np.array(identity, np.int32), np.float32(log_temperature)
    want = oracle(query.astype(float), tool.astype(float), identity, log_temperature)
    value, grads = loss_and_gradients(query, tool, ids, temperature)
    assert float(value) == pytest.approx(want, rel=1e-4, abs=1e-5)
    assert all(np.isfinite(g).all() for g in grads)
    for grad in grads[:2]:
        assert not np.asarray(grad)[ids == 0].any()


def test_by_hand():
    """Two orthogonal pairs that agree: log(1 + exp(-1)) each way; of one tool they have no negative left."""
    pair = jnp.eye(2)
    apart = clip_loss(pair, pair, jnp.array([1, 2]), jnp.zeros(()))
    assert float(apart) == pytest.approx(math.log(1 + math.exp(-1)), rel=1e-6)
    assert float(clip_loss(pair, pair, jnp.array([3, 3]), jnp.zeros(()))) == 0
    sharp = clip_loss(pair, pair, jnp.array([1, 2]), jnp.array(-1000.0))  # clipped to 1 / 100
    assert float(sharp) == pytest.approx(math.log1p(math.exp(-100)), abs=1e-7)
    np.testing.assert_allclose(clip_logits(pair, pair, jnp.array(-1000.0)), 100 * np.eye(2), rtol=1e-5)


def test_pairs_of_the_same_tool_are_not_negatives_of_each_other():
    """What the second pair says is nothing to the first one."""
    query, tool = units(0), units(1)
    _, grads = loss_and_gradients(query, tool, np.array([1, 1, 2, 0, 0], np.int32), np.float32(0))
    # d loss / d query_0 lies in the span of the tools it meets: its own and tool 2, not tool 1.
    own, other, same = tool[0], tool[2], tool[1]
    basis = np.stack([own, other], 1)
    inside = basis @ np.linalg.lstsq(basis, grads[0][0], rcond=None)[0]
    np.testing.assert_allclose(inside, grads[0][0], atol=1e-6)
    outside = same - basis @ np.linalg.lstsq(basis, same, rcond=None)[0]
    assert np.linalg.norm(outside) > 0.1  # tool 1 would have shown


def test_a_duplicate_of_a_pair_is_no_false_negative():
    """The same pair twice: as two tools, each would be a negative that scores as high as the positive."""
    query, tool = units(2), units(3)
    query[3], tool[3] = query[0], tool[0]
    twice = float(loss_of(query, tool, np.array([1, 2, 0, 1, 0], np.int32), np.float32(0)))
    assert twice == pytest.approx(oracle(query, tool, [1, 2, 0, 1, 0], 0.0), rel=1e-5)
    as_strangers = float(loss_of(query, tool, np.array([1, 2, 0, 3, 0], np.int32), np.float32(0)))
    assert as_strangers > twice + 0.2


@pytest.mark.parametrize("poison", [7.0, np.inf, np.nan], ids=str)
def test_rows_without_a_pair_are_seen_by_nobody(poison):
    query, tool, ids = units(4), units(5), np.array([1, 0, 2, 0, 3], np.int32)
    bad_query, bad_tool = (np.where(ids[:, None] == 0, np.float32(poison), x) for x in (query, tool))
    got = loss_and_gradients(bad_query, bad_tool, ids, np.float32(-1))
    want = loss_and_gradients(query, tool, ids, np.float32(-1))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(a, b)
    fewer = oracle(query[ids != 0], tool[ids != 0], [1, 2, 3], -1.0)
    assert float(got[0]) == pytest.approx(fewer, rel=1e-5)


def test_no_pair_at_all_has_loss_zero_and_gradients_zero():
    value, grads = loss_and_gradients(units(0), units(1), np.zeros(P, np.int32), np.float32(0))
    assert float(value) == 0
    assert all(not np.asarray(g).any() for g in grads)
