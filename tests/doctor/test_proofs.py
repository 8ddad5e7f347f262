"""Constants and updates: what the named policies hold, and what would die is red with its name."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

from needlex.adapt.config import LoraConfig
from needlex.doctor.constants import prove
from needlex.doctor.report import Finding, as_json, as_table
from needlex.doctor.updates import prove_dtypes, prove_updates
from needlex.finetune.base import begin
from needlex.finetune.config import FinetuneConfig
from needlex.losses.config import LossConfig
from needlex.model.config import ModelConfig
from needlex.optim.build import build_optimizer
from needlex.optim.config import OptimConfig
from needlex.optim.schedule import make_schedule
from needlex.precision import POLICIES, Policy
from needlex.train.constants import Constant, constants, constants_table
from tests.train.small import tiny_model

NAMES = ("muon", "adamw", "adafactor")


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
@pytest.mark.parametrize("name", NAMES)
def test_every_named_policy_holds_every_constant(policy, name):
    optim = OptimConfig(name=name, clamp=1.0)
    found = constants(ModelConfig(vocab_size=40), optim, LossConfig(), policy, LoraConfig(), True)
    assert len(found) >= 10
    assert all(c.name in constants_table(found) and c.dtype in constants_table(found) for c in found)
    assert all(f.ok for f in prove(found)), as_table(prove(found))


@pytest.mark.parametrize(
    ("constant", "red"),
    [
        (Constant("eps", 1e-8, "float16", "r"), True),
        (Constant("eps", 1e-5, "float16", "r"), True),  # subnormal
        (Constant("eps", 1e-4, "float16", "r"), False),
        (Constant("scale", 1e5, "float16", "r"), True),
        (Constant("eps", 1e-30, "bfloat16", "r"), False),  # its exponents are those of float32
        (Constant("eps", 1e-39, "float32", "r"), True),
        (Constant("eps", float("nan"), "float32", "r"), True),
    ],
)
def test_what_a_dtype_cannot_hold_is_red_and_named(constant, red):
    (found,) = prove([constant])
    assert found.ok != red and found.name == constant.name
    assert ("it becomes" in found.detail) == red


def optimizer(name: str, policy: Policy = POLICIES["float32"], lr: float = 1e-2):
    optim = OptimConfig(name=name, lr=lr, muon_lr=lr)  # pyright: ignore[reportArgumentType]
    return build_optimizer(optim, make_schedule(optim, 100), policy)


@pytest.mark.parametrize("method", ["full", "lora", "head"])
@pytest.mark.parametrize("name", NAMES)
def test_updates_of_every_kind_of_leaf_stay_finite(name, method):
    config = FinetuneConfig(method=method, lora=LoraConfig(rank=2))  # pyright: ignore[reportArgumentType]
    params = begin(tiny_model(), config, POLICIES["float32"], False).params
    found = prove_updates(params, optimizer(name))
    assert all(f.ok for f in found), as_table(found)
    assert prove_dtypes(params, optimizer(name), "float32").ok
    assert len(found) >= {"full": 7, "lora": 2, "head": 2}[method]


def naive_adamw(dtype):
    """AdamW in the dtype of its parameters, as in the post-mortem: 1e-8 is zero in float16."""
    inner = optax.with_extra_args_support(optax.adamw(1e-5, eps=1e-8))

    def update(updates, state, params=None, **_):
        return inner.update(jax.tree.map(lambda u: u.astype(dtype), updates), state, params)

    return optax.GradientTransformationExtraArgs(inner.init, update)


def test_the_float16_death_of_the_post_mortem_is_found():
    """N1: with float16 adapters and a zero gradient the first update is 0/0."""
    config = FinetuneConfig(lora=LoraConfig(rank=2))
    params = begin(tiny_model(), config, POLICIES["float32"], False).params
    half = jax.tree.map(lambda x: x.astype(jnp.float16), params)
    with jax.numpy_dtype_promotion("standard"):
        red = [f for f in prove_updates(half, naive_adamw(jnp.float16)) if not f.ok]
    assert red and "after update 1 with gradient 0" in red[0].detail
    dtypes = prove_dtypes(half, naive_adamw(jnp.float16), "float32")
    assert not dtypes.ok and "is float16" in dtypes.detail
    assert all(f.ok for f in prove_updates(params, optimizer("adamw")))


def test_tables_name_what_is_red():
    found = [Finding("updates", "a", True, "fine"), Finding("updates", "b", False, "broken")]
    lines = as_table(found).splitlines()
    assert (lines[0], lines[1].split(), lines[2].split()) == (
        "updates",
        ["ok", "a", "fine"],
        ["RED", "b", "broken"],
    )
    assert lines[-1] == "1 of 2 checks passed; red: b"
    assert as_json(found)["ok"] is False and as_json(found[:1])["ok"] is True


def test_frozen_leaves_are_left_alone_by_the_proof():
    rules = ("gate: lr=50, decay=off", "norm: frozen")
    optim = dataclasses.replace(OptimConfig(), rules=rules)
    params = eqx.filter(tiny_model(), eqx.is_array)
    built = build_optimizer(optim, make_schedule(optim, 100), POLICIES["float32"])
    kinds = [f.name for f in prove_updates(params, built, rules)]
    assert any(k.startswith("scale x50 no decay") for k in kinds) and any(
        k.startswith("frozen") for k in kinds
    )
