"""The model against the slow numpy forward pass of `oracle`: values, gradients, pinned numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from needlex.checkpoint.foreign import TABLE, import_v1
from needlex.tree import leaf_paths
from tests.model import oracle

SOURCE, SOURCE_SEG = [7, 11, 3, 18, 2, 9, 4, 0, 0], [1, 1, 1, 1, 2, 2, 2, 0, 0]
TARGET, TARGET_SEG = [2, 4, 8, 13, 2, 4, 17, 0], [1, 1, 1, 1, 2, 2, 2, 0]
FULL = ([5, 9, 14, 1, 6, 3, 12, 0, 0], [2, 4, 16, 10, 1, 8, 0, 0])


def close(ours: Any, exact: Any, limit: float = 3e-6) -> None:
    """Largest absolute difference over the largest absolute value."""
    ours, exact = np.asarray(ours, np.float64), np.asarray(exact)
    assert ours.shape == exact.shape
    assert np.abs(ours - exact).max() <= limit * np.abs(exact).max()


@pytest.mark.parametrize(
    ("kv_heads", "ffn"), [(4, None), (2, None), (1, "swiglu"), (2, "geglu"), (4, "drelu")]
)  # 1, 2 and 4 query heads a key-value head
def test_forward(kv_heads, ffn):
    config = oracle.v1_config(num_kv_heads=kv_heads, no_feedforward=ffn is None, activation=ffn or "swiglu")
    tree = oracle.v1_tree(config, oracle.drawn(kv_heads), confidence=True)
    model, _ = import_v1(tree, config)
    run: Any = eqx.filter_jit(lambda *a, **k: model(*(jnp.asarray(x) for x in a), **k))

    real = np.array(TARGET_SEG) != 0  # what padded positions say is nobody's business
    packed = run(SOURCE, TARGET, SOURCE_SEG, TARGET_SEG)
    close(packed[real], oracle.logits(tree, config, SOURCE, TARGET, SOURCE_SEG, TARGET_SEG)[real])
    close(run(*FULL), oracle.logits(tree, config, *FULL))
    if ffn:
        mask = jnp.asarray(np.arange(config["d_ff"]) < 4, jnp.float32)
        close(run(*FULL, width_mask=mask), oracle.logits(tree, config, *FULL, width=4))
    tokens = jnp.asarray(FULL[0])
    close(eqx.filter_jit(model.encode)(tokens), oracle.encode(tree, config, FULL[0]))
    close(eqx.filter_jit(model.embed)(tokens), oracle.retrieval(tree, config, FULL[0]))
    close(eqx.filter_jit(model.confidence_of)(tokens), oracle.confidence(tree, config, FULL[0]))


def test_gradient_of_every_leaf_is_the_slope_of_the_oracle():
    config = oracle.v1_config(no_feedforward=False, num_encoder_layers=1, num_decoder_layers=2)
    tree = oracle.v1_tree(config, oracle.drawn(5), confidence=True)
    rng = np.random.default_rng(0)
    real = np.array(TARGET_SEG) != 0
    weight = rng.standard_normal((real.sum(), config["vocab_size"]))
    towards = rng.standard_normal(config["contrastive_dim"])
    args = SOURCE, TARGET, SOURCE_SEG, TARGET_SEG

    def exact(tree):
        value = (weight * oracle.logits(tree, config, *args)[real]).sum()
        return (
            value
            + towards @ oracle.retrieval(tree, config, FULL[0])
            + oracle.confidence(tree, config, FULL[0])
        )

    def loss(model):
        value = jnp.sum(jnp.asarray(weight, jnp.float32) * model(*map(jnp.asarray, args))[real])
        tokens = jnp.asarray(FULL[0])
        return value + jnp.asarray(towards, jnp.float32) @ model.embed(tokens) + model.confidence_of(tokens)

    grads = eqx.filter_jit(eqx.filter_grad(loss))(import_v1(tree, config)[0])
    ours = dict(zip(leaf_paths(grads), jax.tree.leaves(grads), strict=True))
    assert len(ours) == len(TABLE)
    for theirs, path in TABLE:
        grad = np.asarray(ours[path], np.float64)
        direction = rng.standard_normal(grad.shape)
        slope = (
            exact(moved(tree, theirs, 1e-5 * direction)) - exact(moved(tree, theirs, -1e-5 * direction))
        ) / 2e-5
        size = np.linalg.norm(grad) * np.linalg.norm(direction)
        if theirs == "log_temp":  # no part of these outputs
            assert slope == size == 0
        else:
            assert size > 1e-3, theirs
            assert abs((grad * direction).sum() - slope) < 1e-5 * size, theirs


def moved(tree: oracle.Tree, path: str, by: np.ndarray) -> oracle.Tree:
    name, _, rest = path.partition("/")
    return tree | {name: moved(tree[name], rest, by) if rest else np.float64(tree[name]) + by}


def waves() -> Callable[[tuple[int, ...]], np.ndarray]:
    """Parameters without a random number generator, every leaf with its own phase."""
    leaf = itertools.count()
    return lambda shape: np.reshape(
        0.5 * np.sin(1.7 * np.arange(np.prod(shape, dtype=int)) + next(leaf)), shape
    )


PINNED = [-2.3964278, -1.3706296, 5.4330445, -3.1376908]


def test_pinned_numbers():
    """Computed by the oracle once and written down: it and the model cannot drift together."""
    config = oracle.v1_config(no_feedforward=False, activation="geglu")
    tree = oracle.v1_tree(config, waves())
    exact = oracle.logits(tree, config, SOURCE, TARGET, SOURCE_SEG, TARGET_SEG)
    ours = import_v1(tree, config)[0](*map(jnp.asarray, (SOURCE, TARGET, SOURCE_SEG, TARGET_SEG)))
    for logits in (exact, np.asarray(ours)):
        np.testing.assert_allclose(logits[[0, 3, 4, 6], [1, 18, 5, 0]], PINNED, rtol=1e-5)
