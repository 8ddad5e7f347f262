"""Linear maps and the tied embedding."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from needlex.nn.linear import Embedding, Linear
from tests.nn.drawn import drawn, normal

TABLE = drawn(lambda key: Embedding(11, 6, std=1.0, key=key))


@pytest.mark.parametrize("bias", [False, True])
def test_weight_is_in_by_out(bias):
    layer = drawn(lambda key: Linear(3, 5, std=1.0, bias=bias, key=key))
    x = normal(1, 2, 4, 3)
    expected = np.einsum("abi,io->abo", x, layer.weight) + (
        0 if layer.bias is None else np.asarray(layer.bias)
    )
    np.testing.assert_allclose(layer(x), expected, rtol=1e-5, atol=1e-6)
    assert layer(x.astype(jnp.bfloat16)).dtype == jnp.bfloat16  # the input decides the compute dtype


def test_start_values():
    layer = Linear(60, 50, std=0.02, bias=True, key=jr.key(0))
    assert abs(float(layer.weight.std()) - 0.02) < 1e-3
    assert abs(float(layer.weight.mean())) < 1e-3
    assert layer.bias is not None
    assert not layer.bias.any()
    assert Linear(3, 5, std=0.02, key=jr.key(0)).bias is None


def test_embedding_is_scaled_at_the_input_and_not_at_the_output():
    ids = jnp.array([3, 0, 10])
    np.testing.assert_allclose(TABLE(ids), np.asarray(TABLE.weight)[[3, 0, 10]] * 6**0.5, rtol=1e-6)
    x = normal(1, 4, 6)
    np.testing.assert_allclose(
        TABLE.logits(x), np.asarray(x) @ np.asarray(TABLE.weight).T, rtol=1e-5, atol=1e-6
    )


def test_logits_are_float32_whatever_the_compute_dtype():
    low = eqx.tree_at(lambda t: t.weight, TABLE, TABLE.weight.astype(jnp.bfloat16))
    x = normal(1, 4, 6).astype(jnp.bfloat16)
    assert low(jnp.array([1])).dtype == jnp.bfloat16
    logits = low.logits(x)
    assert logits.dtype == jnp.float32
    # Products of two bfloat16 numbers are exact in float32: only the sum rounds.
    exact = np.asarray(x, np.float64) @ np.asarray(low.weight, np.float64).T
    np.testing.assert_allclose(logits, exact, rtol=1e-5, atol=1e-6)


def test_both_uses_of_the_table_train_it():
    ids, x = jnp.array([3, 3, 1]), normal(1, 4, 6)
    inputs = jax.grad(lambda t: jnp.sum(t(ids)))(TABLE).weight
    outputs = jax.grad(lambda t: jnp.sum(t.logits(x)))(TABLE).weight
    both = jax.grad(lambda t: jnp.sum(t(ids)) + jnp.sum(t.logits(x)))(TABLE).weight
    np.testing.assert_allclose(both, inputs + outputs, rtol=1e-6)
    np.testing.assert_allclose(inputs.sum(1), 6 * 6**0.5 * np.eye(11)[[3, 3, 1]].sum(0), rtol=1e-6)
    assert outputs.all()
