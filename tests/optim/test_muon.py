"""Muon: a polynomial on the singular values, layer by layer, with the factor of weights (in, out)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from needlex.optim.muon import COEFFICIENTS, orthogonalize, orthogonalize_stack, scale_by_muon
from needlex.sharding import MeshConfig, build_mesh

SHAPES = [(8, 8), (4, 16), (16, 4), (1, 5)]
one = jax.jit(orthogonalize)
stacked = jax.jit(orthogonalize_stack)


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def polynomial(matrix, steps: int = 5) -> np.ndarray:
    """U p(p(...p(S / |S|))) V^T in float64: what the iteration does to the singular values."""
    u, s, v = np.linalg.svd(np.asarray(matrix, np.float64), full_matrices=False)
    a, b, c = COEFFICIENTS
    s = s / np.linalg.norm(s)
    for _ in range(steps):
        s = a * s + b * s**3 + c * s**5
    return (u * s) @ v


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), shape=st.sampled_from(SHAPES), size=st.sampled_from([1e-3, 1.0, 1e6]))
def test_iteration_is_its_polynomial_on_the_singular_values(seed, shape, size):
    matrix = size * normal(seed, *shape)
    np.testing.assert_allclose(one(matrix), polynomial(matrix), atol=2e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_end_near_one(shape):
    """Whatever they were, within a factor of five of each other."""
    u, s, v = np.linalg.svd(normal(0, *shape), full_matrices=False)
    matrix = (u * np.linspace(1.0, 0.2, len(s))) @ v
    singular = np.linalg.svd(one(jnp.asarray(matrix, jnp.float32)), compute_uv=False)
    assert singular.min() > 0.65
    assert singular.max() < 1.25


@pytest.mark.parametrize("shape", SHAPES)
def test_zero_stays_zero(shape):
    np.testing.assert_array_equal(one(jnp.zeros(shape)), np.zeros(shape))


def test_bfloat16_is_orthogonalised_in_float32():
    half = normal(1, 4, 16).astype(jnp.bfloat16)
    assert one(half).dtype == jnp.float32
    np.testing.assert_array_equal(one(half), one(half.astype(jnp.float32)))


@pytest.mark.parametrize("shape", [(3, 8, 16), (3, 16, 8), (2, 2, 4, 6)])
def test_a_stack_is_orthogonalised_layer_by_layer(shape):
    stack = normal(2, *shape) * jnp.asarray([1e-2, 1.0, 1e3][: shape[0]]).reshape(-1, *[1] * (len(shape) - 1))
    layers = [one(m) for m in stack.reshape(-1, *shape[-2:])]
    np.testing.assert_allclose(stacked(stack), np.stack(layers).reshape(shape), atol=1e-6)


def test_a_stack_moves_as_its_layers_do_alone():
    """Three updates of [layer, in, out] and of every [in, out] by itself."""
    muon = scale_by_muon()
    gradients = [normal(seed, 3, 8, 16) for seed in range(3)]

    @jax.jit
    def run(gradients):
        state, found = muon.init(gradients[0]), []
        for g in gradients:
            update, state = muon.update(g, state)
            found.append(update)
        return found

    together = np.stack(run(gradients))
    alone = np.stack([np.stack(run([g[layer] for g in gradients])) for layer in range(3)], axis=1)
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_nesterov_momentum_is_that_of_the_definition():
    muon, gradients = scale_by_muon(momentum=0.8), [normal(s, 8, 16) for s in range(4)]
    state: Any = muon.init(gradients[0])
    m = np.zeros((8, 16))
    for g in gradients:
        update, state = muon.update(g, state)
        m = 0.8 * m + np.asarray(g)
        np.testing.assert_allclose(state.momentum, m, rtol=1e-5, atol=1e-6)
        # The factor is that of weights (in, out): 8 in, 16 out.
        np.testing.assert_allclose(np.asarray(update), 2**0.5 * polynomial(g + 0.8 * m), atol=3e-3)


@pytest.mark.parametrize(("shape", "factor"), [((8, 16), 2**0.5), ((16, 8), 1.0), ((2, 4, 36), 3.0)])
def test_factor_is_the_root_of_outputs_over_inputs(shape, factor):
    gradient, muon = normal(3, *shape), scale_by_muon()
    update, _ = muon.update(gradient, muon.init(gradient))
    np.testing.assert_allclose(np.asarray(update), factor * stacked(1.95 * gradient), rtol=1e-4, atol=1e-5)


def test_first_direction_and_late_direction_are_those_of_optax():
    """In between they differ: optax corrects the bias of the momentum, which shifts its weight."""
    numbers = optax.contrib.MuonDimensionNumbers(reduction_axis=1, output_axis=2)
    theirs = optax.contrib.muon(1.0, beta=0.5, muon_weight_dimension_numbers=lambda p: {"w": numbers})
    ours = scale_by_muon(momentum=0.5)
    gradients = jnp.stack([normal(seed, 2, 8, 16) for seed in range(30)])

    def run(optimizer):
        def body(state, g):
            update, state = optimizer.update({"w": g}, state, {"w": g})
            return state, update["w"]

        state = optimizer.init({"w": gradients[0]})
        return np.asarray(jax.jit(lambda s: jax.lax.scan(body, s, gradients)[1])(state))

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        want = -run(theirs)
    got = run(ours)
    for u in (0, 27, 28, 29):
        np.testing.assert_allclose(got[u], want[u], atol=1e-4)


def test_rows_sharded_over_devices_are_gathered_first():
    """Inside shard_map each device would orthogonalise its own rows: another direction altogether."""
    mesh, gradient = build_mesh(MeshConfig(8)), normal(4, 2, 16, 8)
    spec = PartitionSpec(None, "data")
    placed = jax.device_put(gradient, NamedSharding(mesh, spec))
    whole = np.asarray(stacked(gradient))
    np.testing.assert_allclose(stacked(placed), whole, atol=2e-6)
    inside = jax.jit(jax.shard_map(orthogonalize_stack, mesh=mesh, in_specs=spec, out_specs=spec))
    assert np.abs(np.asarray(inside(placed)) - whole).max() > 0.3
