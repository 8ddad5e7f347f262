"""Adapters in the training step: nothing moves but them, all of them by the second update, finite at every rate and dtype."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from needlex.adapt.config import LoraConfig
from needlex.finetune.base import begin
from needlex.finetune.config import FinetuneConfig
from needlex.losses.config import LossConfig
from needlex.optim.build import build_optimizer
from needlex.optim.config import OptimConfig
from needlex.optim.schedule import make_schedule
from needlex.precision import named
from needlex.sharding import MeshConfig, build_mesh, put_batch, replicated
from needlex.train.step import Gradients, init_state, make_update
from needlex.tree import leaf_paths
from tests.train.small import make_batch, tiny_model

LORA = LoraConfig(rank=2, alpha=4.0)
LOSS = LossConfig(contrastive_weight=0.0)


@cache
def parts(method: str, precision: str, optimizer: str = "adamw", lr: float = 1e-2, devices: int = 1):
    config = FinetuneConfig(method=method, precision=precision, lora=LORA)  # pyright: ignore[reportArgumentType]
    policy, mesh = named(precision), build_mesh(MeshConfig(devices))
    start = begin(tiny_model(), config, policy, False)
    optim = OptimConfig(name=optimizer, lr=lr, muon_lr=lr, warmup_ratio=0.0)  # pyright: ignore[reportArgumentType]
    built = build_optimizer(optim, make_schedule(optim, 200), policy)
    gradients = Gradients(start.static, LOSS, policy, mesh, False, 1)
    return start, gradients, make_update(built, 1.0, mesh), built, mesh


def train(method: str, precision: str, steps: int, **kwargs):
    start, gradients, update, optimizer, mesh = parts(method, precision, **kwargs)
    frozen = None if start.frozen is None else jax.device_put(start.frozen, replicated(mesh))
    state = init_state(start.params, optimizer, 0, mesh)
    seen = [jax.tree.map(np.asarray, start.params)]
    for step in range(steps):
        batch = put_batch(make_batch(step % 4, pairs=False), mesh)
        grads, terms = gradients(batch, state.params, state.key, state.step, frozen)
        state, info = update(grads, terms.loss, state)
        assert bool(info.applied), f"step {step}: {np.asarray(info.finite)}"
        if step < 2:
            seen.append(jax.tree.map(np.asarray, state.params))
    return start, state, seen


@pytest.mark.parametrize(
    ("method", "precision"),
    [
        ("lora", "float16-storage"),
        ("qlora", "bfloat16-both"),
        *(
            pytest.param(*c, marks=pytest.mark.slow)
            for c in (
                ("lora", "float32"),
                ("qlora", "float32"),
                ("lora", "bfloat16-both"),
                ("qlora", "float16-storage"),
            )
        ),
    ],
)
def test_b_moves_first_and_by_the_second_update_every_leaf_has(method, precision):
    """N1, N4: zero B gives A a gradient of exactly zero at first, which must neither be NaN nor last."""
    start, _, (zero, one, two) = train(method, precision, 2)
    names = leaf_paths(start.params)
    for name, a, b, c in zip(names, *(jax.tree.leaves(t) for t in (zero, one, two)), strict=True):
        assert (a == b).all() == name.endswith("lora_a"), name
        assert (b != c).any(), name


@pytest.mark.parametrize("lr", [1e-2])
@pytest.mark.parametrize("precision", ["float16-storage"])
def test_50_updates_stay_finite(precision, lr):
    _, state, _ = train("lora", precision, 50, lr=lr)
    leaves = jax.tree.leaves((state.params, state.optimizer))
    assert all(jnp.isfinite(x).all() for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact))
    assert int(state.skipped) == 0


@pytest.mark.slow
@pytest.mark.parametrize("lr", [1e-5, 1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("precision", ["float16-storage", "bfloat16-storage", "bfloat16-both"])
@pytest.mark.parametrize("method", ["lora", "qlora"])
def test_200_updates_stay_finite(method, precision, lr):
    _, state, _ = train(method, precision, 200, lr=lr)
    leaves = jax.tree.leaves((state.params, state.optimizer))
    assert all(jnp.isfinite(x).all() for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact))
    assert int(state.skipped) == 0


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "adafactor"])
def test_state_is_float32_whatever_the_base_is_stored_in(optimizer):
    """N3."""
    start, _, _, built, _ = parts("lora", "float16-storage", optimizer)
    state = jax.eval_shape(built.init, start.params)
    floats = {x.dtype for x in jax.tree.leaves(state) if jnp.issubdtype(x.dtype, jnp.inexact)}
    assert floats == {jnp.dtype("float32")}


@pytest.mark.slow
def test_8_devices_train_the_adapters_of_1():
    _, one, _ = train("qlora", "float32", 2)
    _, many, _ = train("qlora", "float32", 2, devices=8)
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(many.params), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-6)


def test_head_only_trains_the_embedding_alone():
    start, state, _ = train("head", "float16-storage", 2)
    assert leaf_paths(start.params) == ["embedding.weight"]
    assert {x.dtype for x in jax.tree.leaves(start.frozen)} == {jnp.dtype("float16")}
    assert (np.asarray(state.params.embedding.weight) != np.asarray(start.params.embedding.weight)).any()


def test_no_step_holds_a_merged_or_converted_copy_of_the_base():
    """Temporaries of a LoRA step on a deep 16-bit base are smaller than the base in float32."""
    model = tiny_model(d_model=128, encoder_layers=24, decoder_layers=1)
    config = FinetuneConfig(method="lora", precision="float16-storage", lora=LORA)
    policy, mesh = named("float16-storage"), build_mesh(MeshConfig())
    start = begin(model, config, policy, False)
    gradients = Gradients(start.static, LOSS, policy, mesh, False, 1)
    batch = put_batch(make_batch(0, (2,), pairs=False), mesh)
    lowered = gradients.tokens.lower(batch, start.params, jr.key(0), jnp.zeros((), jnp.int32), start.frozen)
    memory = lowered.compile().memory_analysis()
    base = sum(x.size * 4 for x in jax.tree.leaves(start.frozen.encoder))
    assert memory.temp_size_in_bytes < base / 2
