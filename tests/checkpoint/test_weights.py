"""Weights alone: round trip in any dtype, and files that do not fit or are damaged are named."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from needlex.checkpoint.store import CheckpointError
from needlex.checkpoint.weights import read_weights, save_weights
from needlex.precision import cast_floats
from tests.train.small import tiny_model

PARAMS = eqx.filter(tiny_model(), eqx.is_array)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_round_trip(tmp_path, dtype):
    stored = cast_floats(PARAMS, dtype)
    save_weights(stored, tmp_path / "w.safetensors")
    found = read_weights(tmp_path / "w.safetensors", PARAMS)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(stored), strict=True):
        assert a.dtype == jnp.float32
        np.testing.assert_array_equal(a, b.astype(jnp.float32))
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


def test_what_does_not_fit_is_named(tmp_path):
    path = tmp_path / "w.safetensors"
    save_weights(PARAMS, path)
    with pytest.raises(CheckpointError, match=r"lacks \['decoder\.layers\.feedforward"):
        read_weights(path, eqx.filter(tiny_model(feedforward=True), eqx.is_array))
    with pytest.raises(
        CheckpointError, match=r"leaf embedding\.weight: saved \[40, 16\], its configuration makes \[41, 16\]"
    ):
        read_weights(path, eqx.filter(tiny_model(vocab_size=41), eqx.is_array))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_weights(path, PARAMS)


def test_values_that_are_not_finite_are_not_written(tmp_path):
    broken = eqx.tree_at(lambda p: p.embedding.weight, PARAMS, replace_fn=lambda x: x.at[0, 0].set(jnp.inf))
    with pytest.raises(CheckpointError, match=r"leaf embedding\.weight holds values that are not finite"):
        save_weights(broken, tmp_path / "w.safetensors")
    assert not list(tmp_path.iterdir())
