"""Rotary: angles that stay right far out, the half-split pairing, and that only distances count."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.nn.rotary import rotary_angles, rotate
from tests.nn.drawn import normal


def exact_angles(positions, channels: int, base: float = 10000.0) -> np.ndarray:
    return np.outer(positions, base ** (-np.arange(0, channels, 2) / channels))


def exact_rotation(x, positions, base: float = 10000.0) -> np.ndarray:
    """Pair (i, i + half) as a complex number times exp(i angle), float64."""
    x = np.asarray(x, np.float64)
    half = x.shape[-1] // 2
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * exact_angles(positions, x.shape[-1], base))
    return np.concatenate([turned.real, turned.imag], -1)


@pytest.mark.parametrize("start", [0, 500, 1000, 8000])
def test_angles_are_right_far_out(start):
    positions = np.arange(start, start + 50)
    cos, sin = rotary_angles(jnp.asarray(positions), 64)
    assert cos.dtype == sin.dtype == jnp.float32
    exact = exact_angles(positions, 64)
    # float32 spacing at the angle itself; in bfloat16 the same angle is wrong by radians.
    limit = 1e-6 + (start + 50) * 2.0**-22
    np.testing.assert_allclose(cos, np.cos(exact), atol=limit)
    np.testing.assert_allclose(sin, np.sin(exact), atol=limit)
    if start >= 1000:
        assert np.abs(exact.astype(ml_dtypes.bfloat16).astype(np.float64) - exact).max() > 1


def test_bfloat16_compute_rotates_by_float32_angles():
    positions = np.arange(990, 1010)
    x = normal(0, 20, 64).astype(jnp.bfloat16)
    y = rotate(x, rotary_angles(jnp.asarray(positions), 64))
    assert y.dtype == jnp.bfloat16
    exact = exact_rotation(x.astype(jnp.float32), positions)
    assert np.abs(np.asarray(y, np.float64) - exact).max() < 2.0**-8 * np.abs(exact).max()


@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_pairs_are_half_a_head_apart(base):
    x, positions = normal(1, 7, 8), np.arange(7)
    y = np.asarray(rotate(x, rotary_angles(jnp.asarray(positions), 8, base)))
    np.testing.assert_allclose(y, exact_rotation(x, positions, base), atol=3e-6)


def test_adjacent_pairing_is_another_model_unless_channels_are_permuted():
    q, k, positions = normal(1, 7, 8), normal(2, 7, 8), np.arange(7)
    angles = rotary_angles(jnp.asarray(positions), 8)

    def adjacent(x):
        """Channel 2i turns with channel 2i + 1."""
        x = np.asarray(x, np.float64)
        turned = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * exact_angles(positions, 8))
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)

    ours = np.asarray(rotate(q, angles)) @ np.asarray(rotate(k, angles)).T
    assert np.abs(ours - adjacent(q) @ adjacent(k).T).max() > 0.1
    order = np.arange(8).reshape(2, 4).T.ravel()  # 0 4 1 5 2 6 3 7
    np.testing.assert_allclose(ours, adjacent(q[:, order]) @ adjacent(k[:, order]).T, atol=1e-5)


def test_every_head_turns_alike():
    x, angles = normal(3, 5, 2, 3, 8), rotary_angles(jnp.arange(5), 8)
    together = rotate(x, angles)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_array_equal(together[:, i, j], rotate(x[:, i, j], angles))


@settings(max_examples=40, deadline=None)
@given(shift=st.integers(0, 2000), a=st.integers(0, 60), b=st.integers(0, 60))
def test_only_the_distance_of_positions_counts(shift, a, b):
    q, k = normal(4, 1, 16), normal(5, 1, 16)

    def score(at, to):
        return jnp.vdot(
            rotate(q, rotary_angles(jnp.array([at]), 16)), rotate(k, rotary_angles(jnp.array([to]), 16))
        )

    np.testing.assert_allclose(score(a + shift, b + shift), score(a, b), atol=1e-5 + shift * 2.0**-20)


def test_lengths_of_pairs_are_kept():
    x = normal(6, 9, 8)
    y = rotate(x, rotary_angles(jnp.arange(9) * 37, 8))
    np.testing.assert_array_equal(y[0], x[0])  # position 0 is not turned
    lengths = [np.hypot(z[:, :4], z[:, 4:]) for z in (np.asarray(x), np.asarray(y))]
    np.testing.assert_allclose(*lengths, rtol=1e-5)
