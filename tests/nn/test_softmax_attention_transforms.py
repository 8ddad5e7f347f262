"""The written-out backward pass of the attention core in every shape, mask and transformation that uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from needlex.nn.softmax_attention import attention_core

SHAPES = [(1, 1, 1, 1, 2), (1, 4, 5, 5, 4), (2, 2, 3, 7, 8), (3, 1, 6, 2, 4)]
"""Key-value heads, query heads each, queries, keys, channels."""


def plain(q, k, v, mask):
    """softmax(q k^T / sqrt(c)) v, head by head; rows that may read nothing are zeros."""
    queries = q.reshape(-1, *q.shape[2:])  # head j reads key-value head j // group
    k, v = (jnp.repeat(x, q.shape[1], axis=0) for x in (k, v))
    scores = jnp.einsum("htc,hsc->hts", queries, k) / q.shape[-1] ** 0.5
    scores = jnp.where(mask[None], scores, -1e30)
    weights = jnp.where(mask[None], jax.nn.softmax(scores, axis=-1), 0.0)
    return jnp.einsum("hts,hsc->htc", weights, v).reshape(q.shape)


def draw(shape, seed: int = 0, size: float = 1.0):
    """q, k, v and a weight for the outputs."""
    kv, group, t, s, c = shape
    rng = np.random.default_rng(seed)
    shapes = [(kv, group, t, c), (kv, s, c), (kv, s, c), (kv, group, t, c)]
    return [jnp.asarray(size * rng.standard_normal(x), jnp.float32) for x in shapes]


def masks(t: int, s: int) -> dict[str, np.ndarray]:
    """Who reads whom."""
    rng = np.random.default_rng(1)
    some = rng.random((t, s)) < 0.5
    lonely = some.copy()
    lonely[0] = False
    unread = some.copy()
    unread[:, -1] = False
    causal = np.tril(np.ones((t, s), bool))
    return {
        "all": np.ones((t, s), bool), "causal": causal, "some": some, "first query reads nothing": lonely,
        "last key is not read": unread, "none": np.zeros((t, s), bool),
    }  # fmt: skip


def value_and_gradients(f: Callable) -> Callable[..., Any]:
    return lambda q, k, v, w, mask: jax.value_and_grad(
        lambda *x: jnp.sum(w.astype(jnp.float32) * f(*x, mask).astype(jnp.float32)), argnums=(0, 1, 2)
    )(q, k, v)


def close(got, want, rtol: float) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
        assert np.abs(a - b).max() <= rtol * max(1.0, np.abs(b).max())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_of_every_mask(shape):
    arrays, named = draw(shape), masks(shape[2], shape[3])
    ours, theirs = (jax.jit(value_and_gradients(f)) for f in (attention_core, plain))
    outputs: Callable[..., Any] = jax.jit(attention_core)
    for name, array in named.items():
        mask = jnp.asarray(array)
        close(outputs(*arrays[:3], mask), plain(*arrays[:3], mask), 1e-6)
        got = ours(*arrays, mask)
        close(got, theirs(*arrays, mask), 2e-6)
        dq, dk, dv = (np.asarray(g) for g in got[1])
        lonely, unread = ~array.any(1), ~array.any(0)
        assert not dq[:, :, lonely].any(), name
        assert not dk[:, unread].any(), name
        assert not dv[:, unread].any(), name


def test_gradients_agree_with_finite_differences():
    q, k, v, _ = draw(SHAPES[2])
    mask = jnp.asarray(masks(3, 7)["some"])
    check_grads(
        lambda *x: attention_core(*map(jnp.asarray, x), mask),
        (q, k, v),
        order=1,
        modes=["rev"],
        atol=2e-3,
        rtol=2e-3,
        eps=1e-2,
    )


def test_bfloat16():
    q, k, v, w = draw(SHAPES[2])
    half = [x.astype(jnp.bfloat16) for x in (q, k, v, w)]
    mask = jnp.asarray(masks(3, 7)["first query reads nothing"])
    got = value_and_gradients(attention_core)(*half, mask)
    assert {g.dtype for g in got[1]} == {jnp.dtype("bfloat16")}
    close(got, value_and_gradients(plain)(q, k, v, w, mask), 0.03)


@pytest.mark.parametrize("one_mask", [True, False])
def test_under_vmap(one_mask):
    """Rows of a batch with a mask each, or with one for all."""
    rows = [draw(SHAPES[2], seed) for seed in range(3)]
    batch = [jnp.stack(x) for x in zip(*rows, strict=True)]
    many = [jnp.asarray(masks(3, 7)[name]) for name in ("all", "some", "none")]
    axes = (0, 0, 0, 0, None if one_mask else 0)
    run = jax.jit(jax.vmap(value_and_gradients(attention_core), in_axes=axes))
    got = run(*batch, many[1] if one_mask else jnp.stack(many))
    for i, row in enumerate(rows):
        want = value_and_gradients(plain)(*row, many[1] if one_mask else many[i])
        close(jax.tree.map(lambda x, i=i: x[i], got), want, 2e-6)


@pytest.mark.parametrize("remat", [False, True])
def test_under_scan_and_checkpoint(remat):
    """A stack of layers as the model has it: each reads what the last one wrote."""
    q, _, _, w = draw(SHAPES[2])
    layers = [draw(SHAPES[2], seed)[1:3] for seed in range(3)]
    stacked = [jnp.stack(x) for x in zip(*layers, strict=True)]
    mask = jnp.asarray(masks(3, 7)["first query reads nothing"])

    def scanned(f):
        def body(x, layer):
            return x + f(x, *layer, mask), None

        def run(q, layers):
            return jnp.sum(w * jax.lax.scan(jax.checkpoint(body) if remat else body, q, layers)[0])

        return run

    def looped(q, layers):
        for i in range(3):
            q = q + plain(q, layers[0][i], layers[1][i], mask)
        return jnp.sum(w * q)

    got = jax.jit(jax.value_and_grad(scanned(attention_core), argnums=(0, 1)))(q, stacked)
    close(got, jax.jit(jax.value_and_grad(looped, argnums=(0, 1)))(q, stacked), 5e-6)
