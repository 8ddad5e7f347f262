"""Precision policies: what is refused and why, and what is cast."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.random as jr
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlex.precision import POLICIES, Policy, cast_floats, check_epsilon, named

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"optimizer": "float16"}, r"precision\.optimizer_epsilon is 1e-08, which underflows in float16"),
        ({"optimizer": "float16", "optimizer_epsilon": 1e-7}, "underflows in float16"),  # subnormal there
        ({"optimizer_epsilon": 1e-39}, "underflows in float32"),
        ({"optimizer_epsilon": 0.0}, r"precision\.optimizer_epsilon is 0"),
        ({"norm_epsilon": -1.0}, r"precision\.norm_epsilon is -1"),
        ({"norm_epsilon": float("nan")}, r"precision\.norm_epsilon is nan"),
        ({"optimizer_epsilon": float("inf")}, r"precision\.optimizer_epsilon is inf"),
        (
            {"param": "bfloat16"},
            r"precision\.param is bfloat16: .* lose small updates .* set precision\.compute",
        ),
        ({"param": "float16"}, r"precision\.param is float16"),
        ({"reduce": "bfloat16"}, r"precision\.reduce is bfloat16: .* set precision\.compute"),
        (
            {"compute": "float64"},
            r"precision\.compute is 'float64'; choose one of float32, bfloat16, float16",
        ),
        ({"storage": "int8"}, r"precision\.storage is 'int8'"),
    ],
)
def test_policies_that_would_lose_numbers_are_refused(fields, why):
    with pytest.raises(ValueError, match=why):
        Policy(**fields)


def test_a_float16_optimizer_is_possible_with_an_epsilon_that_it_holds():
    assert Policy(optimizer="float16", optimizer_epsilon=1e-4).optimizer == "float16"
    assert Policy(optimizer="bfloat16").optimizer_epsilon == 1e-8  # its exponents are those of float32


@given(st.floats(1e-45, 1.0), st.sampled_from(list(NUMPY)))
def test_an_epsilon_passes_iff_it_is_a_normal_number_of_its_dtype(epsilon, dtype):
    smallest = float(ml_dtypes.finfo(NUMPY[dtype]).smallest_normal)
    if epsilon >= smallest:
        check_epsilon("x", epsilon, dtype)
        assert float(NUMPY[dtype](epsilon)) > 0
    else:
        with pytest.raises(ValueError, match=rf"x is .* underflows in {dtype} .* at least {smallest:.3g}"):
            check_epsilon("x", epsilon, dtype)


def test_what_the_refusals_prevent():
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.float16(0) / (np.float16(0) + np.float16(1e-8)))  # Adam at a zero gradient
    weight, update = (np.array(x, ml_dtypes.bfloat16) for x in (1.0, 1e-3))
    for _ in range(1000):
        weight = np.subtract(weight, update)
    assert weight == 1  # a bfloat16 master


def test_named_policies():
    for name, policy in POLICIES.items():
        assert named(name) == policy
        assert policy.name == name
    with pytest.raises(ValueError, match="precision 'half' is unknown; choose one of float32, bfloat16"):
        named("half")


@pytest.mark.parametrize("to", ["to_compute", "to_param", "to_storage", "to_optimizer"])
def test_only_floats_are_cast_and_each_boundary_has_its_dtype(to):
    policy = Policy(storage="float16", compute="bfloat16", optimizer="bfloat16")
    expected = {
        "to_compute": "bfloat16",
        "to_param": "float32",
        "to_storage": "float16",
        "to_optimizer": "bfloat16",
    }
    tree = {
        "wide": jnp.ones(2), "half": jnp.ones(2, jnp.float16), "host": np.ones(2), "ids": jnp.arange(2),
        "flag": jnp.array(True), "key": jr.key(0), "none": None, "name": "x", "number": 0.1,
        "count": np.arange(2),
    }  # fmt: skip
    got = getattr(policy, to)(tree)
    for name in ("wide", "half", "host"):
        assert got[name].dtype == jnp.dtype(expected[to])
    for name in ("ids", "flag", "key", "none", "name", "number", "count"):
        assert got[name] is tree[name]


def test_a_cast_to_the_same_dtype_keeps_the_array():
    tree = {"a": jnp.ones(2)}
    assert cast_floats(tree, "float32")["a"] is tree["a"]


def test_casts_are_differentiated_through_to_float32_masters():
    policy = named("bfloat16")
    grad = jax.grad(lambda w: jnp.sum(policy.to_compute(w)["w"] ** 2).astype(jnp.float32))(
        {"w": jnp.full(3, 1.5)}
    )
    assert grad["w"].dtype == jnp.float32
    np.testing.assert_array_equal(grad["w"], np.full(3, 3.0))
