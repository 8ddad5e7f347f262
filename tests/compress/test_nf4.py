"""Four-bit weights: levels, zero blocks, packing, error of normal weights, products with one gradient."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlex.compress.nf4 import BLOCK, LEVELS, NF4Linear, quantize
from needlex.compress.quantize import quantize_maps
from needlex.nn.linear import Linear
from needlex.tree import leaf_paths
from tests.train.small import tiny_model


def by_hand(weight: np.ndarray) -> np.ndarray:
    """One matrix through four bits with exact scales, a weight at a time."""
    flat = weight.ravel().astype(np.float64)
    out = np.zeros_like(flat)
    for first in range(0, len(flat), BLOCK):
        block = flat[first : first + BLOCK]
        scale = np.abs(block).max()
        for i, w in enumerate(block):
            out[first + i] = scale * min(LEVELS, key=lambda v, w=w: abs(v - w / scale)) if scale else 0.0
    return out.reshape(weight.shape)


def test_weights_are_the_nearest_levels_and_scales_lose_little():
    weight = jr.normal(jr.key(0), (3, 48, 40)) * jnp.array([0.01, 1.0, 30.0])[:, None, None]
    read = np.asarray(quantize(weight).read())
    for layer in range(3):
        want = by_hand(np.asarray(weight[layer]))
        # Scales in eight bits differ by at most half a unit of their largest deviation from the mean.
        assert np.abs(read[layer] - want).max() <= 0.01 * np.abs(want).max()
    error = np.linalg.norm(read - np.asarray(weight), axis=(1, 2)) / np.linalg.norm(weight, axis=(1, 2))
    assert (error > 0.05).all() and (error < 0.11).all()  # what the paper's levels give for normal weights


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(1, 1), (3, 5), (8, 8), (7, 64), (64, 33)]),
    st.floats(1e-6, 1e6),
)
def test_any_shape_and_size_comes_back_within_half_a_step_of_its_block(seed, shape, size):
    weight = size * np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    read = np.asarray(quantize(jnp.asarray(weight)).read())
    assert read.shape == shape and np.isfinite(read).all()
    widest = max(b - a for a, b in itertools.pairwise(LEVELS))
    assert np.abs(read - weight).max() <= (widest / 2 + 0.02) * np.abs(weight).max()


def test_a_block_of_zeros_stays_zero_and_finite():
    """N13: its scale is 0, and nothing is divided by it."""
    weight = jnp.zeros((4, BLOCK)).at[2].set(jr.normal(jr.key(1), (BLOCK,)))
    read = np.asarray(quantize(weight).read())
    assert np.isfinite(read).all()
    assert not read[[0, 1, 3]].any() and read[2].any()
    assert not np.asarray(quantize(jnp.zeros((2, 3))).read()).any()


def test_a_stack_is_quantised_layer_by_layer_in_half_a_byte_a_weight():
    weight = jr.normal(jr.key(2), (2, 64, 64))
    packed = quantize(weight)
    alone = quantize(weight[1])
    np.testing.assert_array_equal(packed.codes[1], alone.codes)
    np.testing.assert_array_equal(packed.read()[1], alone.read())
    assert packed.codes.shape == (2, 64 * 64 // 2) and packed.codes.dtype == jnp.uint8
    assert sum(x.nbytes for x in jax.tree.leaves(packed)) < 0.54 * weight.size


@pytest.mark.parametrize("bias", [False, True])
def test_a_quantised_map_is_the_map_with_the_read_weight_and_so_is_its_gradient(bias):
    linear = Linear(16, 24, std=0.3, bias=bias, key=jr.key(3))
    frozen = NF4Linear.of(linear)
    plain = Linear.of(frozen.weight, frozen.bias)
    x = jr.normal(jr.key(4), (5, 16))
    np.testing.assert_array_equal(frozen(x), plain(x))
    loss = lambda x, m: jnp.sum(jnp.sin(m(x)))  # noqa: E731
    np.testing.assert_allclose(jax.grad(loss)(x, frozen), jax.grad(loss)(x, plain), rtol=1e-6)


def test_the_backward_pass_of_a_scan_keeps_no_copy_of_the_weights():
    """Else the memory of a four-bit base would be that of a float32 one."""
    layers = NF4Linear.of(Linear.of(jr.normal(jr.key(5), (24, 128, 128)), None))
    x = jnp.ones((2, 128))

    def loss(x, layers):
        return jnp.sum(jax.lax.scan(lambda x, layer: (jnp.tanh(layer(x)), None), x, layers)[0])

    memory = jax.jit(jax.grad(loss)).lower(x, layers).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 24 * 128 * 128 * 4 / 4


def test_only_the_maps_of_the_stacks_are_quantised_and_never_twice():
    model = quantize_maps(tiny_model())
    packed = {p for p in leaf_paths(model) if ".packed." in p}
    assert packed and all(p.startswith(("encoder.", "decoder.")) for p in packed)
    assert not any(p.endswith(".weight") for p in leaf_paths(model) if p.startswith(("encoder.", "decoder.")))
    with pytest.raises(ValueError, match=r"encoder\.layers\.attention\.query is quantised already"):
        quantize_maps(model)
