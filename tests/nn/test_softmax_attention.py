"""The attention core: its written-out backward pass is the derivative of its forward pass."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.nn.softmax_attention import attention_core
from tests.nn.drawn import normal

K, R, T, S, C = 2, 3, 5, 6, 4


def plain(q, k, v, mask):
    """The expression itself, for automatic differentiation; rows with nothing to read are zeroed by hand."""
    scores = jnp.einsum("krtc,ksc->krts", q, k) / C**0.5
    exps = jnp.where(mask[None, None], jnp.exp(jnp.where(mask[None, None], scores, 0.0)), 0.0)
    total = exps.sum(-1, keepdims=True)
    return jnp.einsum("krts,ksc->krtc", exps / jnp.where(total > 0, total, 1.0), v)


@jax.jit
def both(q, k, v, mask, weight):
    """Values and gradients of a weighted sum of the outputs, for the core and for the plain expression."""
    return [
        jax.value_and_grad(lambda *a, f=f: jnp.sum(weight * f(*a, mask)), argnums=(0, 1, 2))(q, k, v)
        for f in (attention_core, plain)
    ]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    share=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    size=st.sampled_from([0.1, 1.0, 2.0]),
)
def test_value_and_gradients_are_those_of_the_plain_expression(seed, share, size):
    mask = jnp.asarray(np.random.default_rng(seed).random((T, S)) < share)
    q, k = (size * normal(seed + i, *shape) for i, shape in enumerate([(K, R, T, C), (K, S, C)]))
    got, want = both(q, k, normal(seed + 2, K, S, C), mask, normal(seed + 3, K, R, T, C))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert np.abs(a - b).max() <= 1e-5 * (1 + np.abs(b).max())


@pytest.mark.parametrize("size", [1e4, 1e18])
def test_huge_scores_stay_finite(size):
    q, k, v = size * normal(0, K, R, T, C), normal(1, K, S, C), normal(2, K, S, C)
    mask = jnp.ones((T, S), bool).at[1].set(False)
    value, grads = jax.value_and_grad(lambda *a: jnp.sum(attention_core(*a, mask)), argnums=(0, 1, 2))(
        q, k, v
    )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((value, grads)))


def test_batches_and_dtypes():
    q, k, v = normal(0, 3, K, R, T, C), normal(1, 3, K, S, C), normal(2, 3, K, S, C)
    masks = jnp.asarray(np.random.default_rng(0).random((3, T, S)) < 0.6)

    def run(q, k, v, mask):
        def total(*arrays):
            return jnp.sum(attention_core(*arrays, mask).astype(jnp.float32) ** 2)

        return jax.value_and_grad(total, (0, 1, 2))(q, k, v)

    together = jax.vmap(run)(q, k, v, masks)
    for i in range(3):
        alone = run(q[i], k[i], v[i], masks[i])
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-4, atol=1e-5)
    half = jnp.bfloat16
    low, exact = (
        run(q[0].astype(half), k[0].astype(half), v[0].astype(half), masks[0]),
        run(q[0], k[0], v[0], masks[0]),
    )
    for a, b in zip(low[1], exact[1], strict=True):
        assert a.dtype == half
        assert np.abs(a.astype(jnp.float32) - b).max() < 0.03 * np.abs(b).max()
