"""Gated feed-forward: three activations in float64, and widths as masks and as smaller matrices."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from needlex.nn.feedforward import FeedForward
from tests.nn.drawn import drawn, normal

ACTIVATIONS = {
    "swiglu": lambda a, b: a / (1 + np.exp(-a)) * b,
    "geglu": lambda a, b: 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))) * b,
    "drelu": lambda a, b: np.maximum(a, 0) * np.maximum(b, 0),
}


def layer_of(activation) -> FeedForward:
    return drawn(lambda key: FeedForward(6, 10, activation, std=1.0, out_std=1.0, key=key), scale=1.0)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_equation(activation):
    layer, x = layer_of(activation), normal(1, 5, 6)
    gate, up, down = (np.asarray(part.weight, np.float64) for part in (layer.gate, layer.up, layer.down))
    y = np.asarray(x, np.float64)
    np.testing.assert_allclose(
        layer(x), ACTIVATIONS[activation](y @ gate, y @ up) @ down, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("width", [0, 1, 4, 10])
def test_masked_width_is_the_smaller_layer(activation, width):
    layer, x = layer_of(activation), normal(1, 5, 6)
    mask = (jnp.arange(10) < width).astype(jnp.float32)
    weights = (layer.gate.weight[:, :width], layer.up.weight[:, :width], layer.down.weight[:width])
    narrow = eqx.tree_at(lambda m: (m.gate.weight, m.up.weight, m.down.weight), layer, weights)
    np.testing.assert_allclose(layer(x, mask), narrow(x), rtol=1e-5, atol=1e-6)
    grads = jax.grad(lambda m: jnp.sum(m(x, mask) ** 2))(layer)
    for part in (grads.gate.weight.T, grads.up.weight.T, grads.down.weight):
        assert not part[width:].any()
        if width:
            assert part[:width].any()
