"""ZCRMSNorm: the equation in float64, its invariance, and its behaviour at the edges of the dtypes."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.nn.norm import ZCRMSNorm
from tests.nn.drawn import drawn, normal

NORM = drawn(lambda key: ZCRMSNorm(8))


def exact(x, scale) -> np.ndarray:
    x, scale = np.asarray(x, np.float64), np.asarray(scale, np.float64)
    return (1 + scale) * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


@pytest.mark.parametrize("size", [1e-5, 1e-2, 1.0, 1e4])
@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8)])
def test_equation(size, shape):
    x = size * normal(1, *shape)
    np.testing.assert_allclose(NORM(x), exact(x, NORM.scale), rtol=2e-6)


def test_starts_as_unit_root_mean_square():
    y = np.asarray(ZCRMSNorm(8)(3 * normal(1, 5, 8)))
    np.testing.assert_allclose((y**2).mean(-1), 1, rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.integers(-8, 12))
def test_only_the_direction_of_its_input_counts(power):
    x = normal(2, 8)
    # A power of two scales without rounding; what is left is epsilon.
    np.testing.assert_allclose(NORM(x * 2.0**power), NORM(x), rtol=1e-6 * (1 + 4.0**-power))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_computes_in_float32_and_answers_in_the_dtype_of_its_input(dtype):
    x = (300 * normal(3, 4, 8)).astype(dtype)  # the squares overflow float16
    low = eqx.tree_at(lambda n: n.scale, NORM, NORM.scale.astype(dtype))
    y = low(x)
    assert y.dtype == dtype
    wide = ZCRMSNorm(8)
    wide = eqx.tree_at(lambda n: n.scale, wide, low.scale.astype(jnp.float32))
    np.testing.assert_array_equal(y, wide(x.astype(jnp.float32)).astype(dtype))


def test_zero_input_gives_zero_and_finite_gradients():
    value, grads = jax.value_and_grad(lambda x: jnp.sum(NORM(x) ** 2 + NORM(x)))(jnp.zeros((2, 8)))
    assert value == 0
    assert np.isfinite(grads).all()
