"""Stacked layers: the scan is the loop, every layer has its own key, and dropout is what it says."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from needlex.nn.linear import Linear
from needlex.nn.stack import dropout, run_layers, stack_layers
from tests.nn.drawn import drawn, normal

LAYERS = drawn(lambda key: stack_layers(lambda k: Linear(4, 4, std=1.0, bias=True, key=k), 3, key))


def apply(layer, x, key):
    return x + jnp.tanh(layer(x))


def loop(layers, x):
    for i in range(3):
        x = apply(jax.tree.map(lambda leaf, i=i: leaf[i], layers), x, None)
    return x


def test_stacked_layers_start_different():
    layers = stack_layers(lambda k: Linear(4, 4, std=1.0, key=k), 3, jr.key(0))
    assert layers.weight.shape == (3, 4, 4)
    assert len(np.unique(np.asarray(layers.weight[:, 0, 0]))) == 3


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("remat", [False, True])
def test_scan_is_the_loop(remat, unroll):
    x, weight = normal(1, 5, 4), normal(2, 5, 4)

    def run(layers, x):
        return jnp.sum(weight * run_layers(layers, apply, x, key=None, remat=remat, unroll=unroll))

    def plain(layers, x):
        return jnp.sum(weight * loop(layers, x))

    got, want = (jax.value_and_grad(f, argnums=(0, 1))(LAYERS, x) for f in (run, plain))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_remat_saves_no_activations_of_a_layer():
    """What the backward pass keeps: with remat only the input of every layer."""
    x = normal(1, 5, 4)

    def kept(remat):
        run = lambda x: run_layers(LAYERS, apply, x, key=None, remat=remat)  # noqa: E731
        _, pull = jax.vjp(run, x)
        return sum(leaf.size for leaf in jax.tree.leaves(pull) if eqx.is_array(leaf))

    assert kept(True) < kept(False)


def masks_of_layers(key):
    """Run 3 layers that only record the dropout mask they drew."""

    def record(layer, x, k):
        return 2 * x + (dropout(jnp.ones_like(x), 0.5, k) > 0).astype(x.dtype)

    bits = np.asarray(run_layers(LAYERS, record, jnp.zeros((50, 4)), key=key)).astype(int)
    return [(bits >> i) & 1 for i in range(3)]


def test_every_layer_and_example_has_its_own_dropout_mask():
    masks = [mask for key in jr.split(jr.key(0)) for mask in masks_of_layers(key)]
    for i, mask in enumerate(masks):
        for other in masks[:i]:
            assert 0.3 < (mask == other).mean() < 0.7
    np.testing.assert_array_equal(masks_of_layers(jr.key(7)), masks_of_layers(jr.key(7)))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_zeroes_its_share_and_keeps_the_mean(rate):
    x = jnp.ones((100, 100))
    y = np.asarray(dropout(x, rate, jr.key(0)))
    assert abs((y == 0).mean() - rate) < 0.02
    np.testing.assert_allclose(y[y != 0], 1 / (1 - rate), rtol=1e-6)
    grad = jax.grad(lambda x: jnp.sum(dropout(x, rate, jr.key(0))))(x)
    np.testing.assert_allclose(grad, y, rtol=1e-6)


def test_no_dropout_without_a_key_or_a_rate():
    x = normal(0, 3, 4)
    np.testing.assert_array_equal(dropout(x, 0.9, None), x)
    np.testing.assert_array_equal(dropout(x, 0.0, jr.key(0)), x)
    assert dropout(x.astype(jnp.bfloat16), 0.5, jr.key(0)).dtype == jnp.bfloat16
