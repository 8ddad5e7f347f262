"""Token sums: what they are, what padding may hold, and that splitting a batch changes nothing."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.losses.config import LossConfig
from needlex.losses.tokens import TokenSums, token_sums

B, T, V = 4, 5, 7
WEIGHTS = (1.0, 2.0, 4.0, 1.5)


@jax.jit
def sums_of(logits, targets, classes, real) -> TokenSums:
    return token_sums(logits, targets, classes, real, WEIGHTS)


@jax.jit
def gradients_of(logits, targets, classes, real):
    """Gradients of weighted cross-entropy and of z with respect to the logits."""

    def total(logits, field):
        return getattr(token_sums(logits, targets, classes, real, WEIGHTS), field)

    return [jax.grad(lambda x, f=f: total(x, f))(logits) for f in ("weighted_ce", "z")]


def case(seed: int, share: float = 0.6, size: float = 3.0):
    rng = np.random.default_rng(seed)
    logits = size * rng.standard_normal((B, T, V))
    targets, classes = rng.integers(0, V, (B, T)), rng.integers(0, 4, (B, T))
    return (
        logits.astype(np.float32),
        targets.astype(np.int32),
        classes.astype(np.int32),
        rng.random((B, T)) < share,
    )


def oracle(logits, targets, classes, real):
    """Position by position in float64: sums in the order of TokenSums, gradients of weighted_ce and of z."""
    sums, grads = np.zeros(5), np.zeros((2, *logits.shape))
    for at in zip(*np.nonzero(real), strict=True):
        row = logits[at].astype(np.float64)
        partition = row.max() + math.log(np.exp(row - row.max()).sum())
        ce, weight = partition - row[targets[at]], WEIGHTS[classes[at]]
        sums += [weight * ce, ce, partition**2, row.argmax() == targets[at], 1]
        p = np.exp(row - partition)
        grads[0][at] = weight * (p - (np.arange(V) == targets[at]))
        grads[1][at] = 2 * partition * p
    return sums, grads


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    share=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    size=st.sampled_from([0.1, 3.0, 1e4]),
)
def test_sums_and_gradients_are_those_of_the_definition(seed, share, size):
    args = case(seed, share, size)
    sums, grads = oracle(*args)
    np.testing.assert_allclose(np.array(sums_of(*args)), sums, rtol=1e-5, atol=1e-5)
    for got, want in zip(gradients_of(*args), grads, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * (1 + np.abs(want).max()))


@pytest.mark.parametrize("poison", [np.inf, -np.inf, np.nan, 3e38], ids=str)
def test_padding_holds_anything_and_changes_neither_sums_nor_gradients(poison):
    logits, targets, classes, real = case(0)
    bad_logits = np.where(real[..., None], logits, np.float32(poison))
    bad_targets = np.where(real, targets, -(10**6)).astype(np.int32)
    bad_classes = np.where(real, classes, 10**6).astype(np.int32)
    for compute in (sums_of, gradients_of):
        want = compute(logits, targets, classes, real)
        got = compute(bad_logits, bad_targets, bad_classes, real)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_array_equal(a, b)
    for grad in gradients_of(bad_logits, bad_targets, bad_classes, real):
        assert not np.asarray(grad)[~real].any()


@pytest.mark.parametrize("poison", [0.0, np.inf, np.nan], ids=str)
def test_a_batch_of_padding_has_loss_zero_and_gradients_zero(poison):
    logits, targets, classes, _ = case(0)
    args = np.full_like(logits, poison), targets, classes, np.zeros((B, T), bool)
    assert not np.array(sums_of(*args)).any()
    for grad in gradients_of(*args):
        np.testing.assert_array_equal(grad, np.zeros_like(logits))


def test_each_class_has_its_weight():
    config = LossConfig(w_base=3.0, w_name=5.0, w_value=7.0, w_key=11.0)
    assert config.class_weights == (3.0, 5.0, 7.0, 11.0)
    logits = jnp.zeros((4, 8))
    for token_class, weight in enumerate(config.class_weights):
        classes = jnp.full(4, token_class)
        sums = token_sums(
            logits, jnp.arange(4), classes, jnp.array([True, True, True, False]), config.class_weights
        )
        assert float(sums.ce) == pytest.approx(3 * math.log(8), rel=1e-6)
        assert float(sums.weighted_ce) == pytest.approx(weight * 3 * math.log(8), rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_sums_of_the_parts_are_the_sums_of_the_whole(seed):
    args = case(seed, share=0.4)
    whole = np.array(sums_of(*args))
    parts = sum(np.array(sums_of(*(x[i] for x in args))) for i in range(B))
    np.testing.assert_allclose(parts, whole, rtol=1e-6, atol=1e-6)


def test_one_token_of_loss_two_and_nine_of_loss_one_have_mean_one_point_one():
    """Not 1.5, the mean of the two means."""

    def logits(loss):
        # Two classes, the target first: log(1 + exp(x)) = loss.
        return jnp.array([0.0, math.log(math.exp(loss) - 1)])

    def part(loss, count):
        rows = jnp.broadcast_to(logits(loss)[None, :], (9, 2))
        zeros = jnp.zeros(9, jnp.int32)
        return token_sums(rows, zeros, zeros, jnp.arange(9) < count, (1.0,))

    one, nine = part(2.0, 1), part(1.0, 9)
    assert float(one.ce / one.count) == pytest.approx(2.0)
    assert float(nine.ce / nine.count) == pytest.approx(1.0)
    assert float((one.ce + nine.ce) / (one.count + nine.count)) == pytest.approx(1.1)


def test_bfloat16_logits_are_summed_in_float32():
    logits, targets, classes, real = case(1, share=1.0)
    sums = sums_of(jnp.asarray(logits, jnp.bfloat16), targets, classes, real)
    assert {x.dtype for x in sums} == {jnp.dtype("float32")}
    rounded = np.asarray(jnp.asarray(logits, jnp.bfloat16).astype(jnp.float32))
    np.testing.assert_allclose(np.array(sums), oracle(rounded, targets, classes, real)[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"w_value": -1.0}, r"loss\.w_value is -1\.0; it must be 0 or more"),
        ({"z_weight": float("nan")}, r"loss\.z_weight is nan"),
        ({"contrastive_weight": -0.1}, r"loss\.contrastive_weight"),
        ({"contrastive_every": 0}, r"loss\.contrastive_every is 0; it must be at least 1"),
    ],
)
def test_weights_that_mean_nothing_are_refused(fields, why):
    with pytest.raises(ValueError, match=why):
        LossConfig(**fields)
