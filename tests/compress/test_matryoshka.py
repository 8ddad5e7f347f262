"""Nested feed-forward widths: who trains which slice, and that a masked model is the sliced one."""

from __future__ import annotations

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from needlex.compress.matryoshka import width_masks, widths
from needlex.model.config import ModelConfig
from needlex.nn.feedforward import FeedForward
from tests.golden.vectors import GOLDEN, needs_golden


def test_rows_are_shared_out_widest_first_and_the_rest_is_full():
    assert widths(96, (4, 2)) == [96, 48, 24]
    masks = np.asarray(width_masks(8, 96, (2, 4)))
    assert masks.sum(axis=1).tolist() == [96, 96, 48, 48, 24, 24, 96, 96]
    assert (np.diff(masks, axis=1) <= 0).all()  # always the first units


def test_a_masked_layer_is_the_sliced_layer():
    layer = FeedForward(8, 12, "swiglu", std=0.5, out_std=0.5, key=jr.key(0))
    x = jr.normal(jr.key(1), (5, 8))
    gate, up = x @ layer.gate.weight[:, :6], x @ layer.up.weight[:, :6]
    expected = (gate * (1 / (1 + jnp.exp(-gate))) * up) @ layer.down.weight[:6]
    np.testing.assert_allclose(layer(x, width_masks(2, 12, (2,))[1]), expected, rtol=1e-5, atol=1e-6)


def test_impossible_factors_name_the_field():
    with pytest.raises(ValueError, match=r"model\.mat_factors"):
        ModelConfig(feedforward=True, d_ff=64, mat_factors=(1,))
    with pytest.raises(ValueError, match=r"--model\.feedforward"):
        ModelConfig(mat_factors=(2,))


@needs_golden
def test_row_masks_of_the_original():
    case = np.load(GOLDEN / "case3_ffn.npz")
    np.testing.assert_array_equal(width_masks(3, 96, (2,)), case["batch_ffn_mask"])
