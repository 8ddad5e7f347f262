"""The oracle agrees with the model, and every mutation of the forward pass is found where it was made."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import needlex.adapt.lora as lora_room
import needlex.model.seq2seq as model_room
import needlex.nn.attention as attention_room
import needlex.nn.linear as linear_room
import needlex.nn.norm as norm_room
from needlex.adapt.config import LoraConfig
from needlex.data.config import DataConfig
from needlex.doctor.parity import arrays_of, bisect, compare
from needlex.doctor.probe import probe_rows
from needlex.finetune.base import begin
from needlex.finetune.config import FinetuneConfig
from needlex.model.config import ModelConfig
from needlex.precision import named
from needlex.sharding import MeshConfig, build_mesh
from tests.train.small import CONFIG, VOCAB, tiny_model

CHANGES: dict[str, Any] = {"decoder_layers": 2}
LORA = LoraConfig(rank=2, alpha=4.0)
ROWS, TARGETS, _ = probe_rows(None, DataConfig(), VOCAB, None)


def examined(method: str = "full", precision: str = "float32", devices: int = 1, **changes: Any):
    """Findings by name for the tiny model, whose every leaf is drawn."""
    fields = CHANGES | changes
    config = FinetuneConfig(method=method, precision=precision, lora=LORA)  # pyright: ignore[reportArgumentType]
    model, policy = tiny_model(**fields), named(precision)
    shape: ModelConfig = replace(CONFIG, **fields)
    start = begin(model, config, policy, False)
    if method in ("lora", "qlora"):
        drawn = jax.tree.map(lambda x: 0.2 * jr.normal(jr.key(3), x.shape, x.dtype), start.params)
        start = start._replace(params=drawn)
    found = compare(start, model, shape, policy, build_mesh(MeshConfig(devices)), ROWS, TARGETS)
    return {f.name: f for f in found}


@pytest.mark.parametrize(
    ("devices", "feedforward"), [(8, True), pytest.param(1, False, marks=pytest.mark.slow)]
)
def test_float32_is_the_oracle_to_1e_4(devices, feedforward):
    found = examined(devices=devices, feedforward=feedforward, d_ff=24 if feedforward else None)
    assert all(f.ok for f in found.values()), found
    assert found["same weights"].values["logits_relative_l2"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["geglu", "drelu"])
def test_the_other_activations(activation):
    assert all(f.ok for f in examined(feedforward=True, d_ff=24, activation=activation).values())


@pytest.mark.parametrize(
    ("method", "precision"),
    [
        ("qlora", "float16-storage"),
        *(
            pytest.param(*c, marks=pytest.mark.slow)
            for c in (("lora", "float32"), ("lora", "float16-storage"))
        ),
    ],
)
def test_adapters_and_stored_bases_are_the_oracle_on_the_weights_they_hold(method, precision):
    found = examined(method, precision)
    assert found["same weights"].ok and found["same weights"].values["logits_relative_l2"] < 1e-4
    assert found["retrieval head"].ok


def test_bfloat16_is_within_the_rough_tolerance():
    assert examined(precision="bfloat16")["same weights"].ok


def interleaved(x, angles):
    cos, sin = (a.reshape(a.shape[0], *[1] * (x.ndim - 2), a.shape[1]) for a in angles)
    even, odd = x[..., ::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1).reshape(x.shape)


def non_causal(queries, keys, causal=False):
    return (queries[:, None] == keys[None, :]) & (keys[None, :] != 0)


def leaky_softmax(q, k, v, mask):
    """Partly masked rows: what is masked still takes its share of the sum."""
    scores = jnp.einsum("krtc,ksc->krts", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("krts,ksc->krtc", jnp.where(mask[None, None], jax.nn.softmax(scores, axis=-1), 0), v)


MUTATIONS = {
    "interleaved rotary": (
        attention_room,
        "rotate",
        interleaved,
        r"encoder\.layers\[0\], first operation: attention\.query norm",
    ),
    "non-causal mask": (model_room, "segment_mask", non_causal, r"decoder, first operation: causal mask"),
    "leaky softmax": (
        attention_room,
        "attention_core",
        leaky_softmax,
        r"encoder\.layers\[0\], first operation: attention softmax",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("method", ["full", pytest.param("qlora", marks=pytest.mark.slow)])
def test_a_mutation_turns_the_probe_red_and_is_named(name, method, monkeypatch):
    room, attribute, wrong, where = MUTATIONS[name]
    monkeypatch.setattr(room, attribute, wrong)
    found = examined(method)
    assert not found["same weights"].ok
    assert re.search(where, found["bisection"].detail), found["bisection"].detail


def test_without_a_mutation_the_same_probe_is_green():
    found = examined()
    assert all(f.ok for f in found.values()) and "bisection" not in found


def test_a_dropped_norm_scale_is_named(monkeypatch):
    def unscaled(self, x):
        y = x.astype(jnp.float32)
        return (y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + self.epsilon)).astype(x.dtype)

    monkeypatch.setattr(norm_room.ZCRMSNorm, "__call__", unscaled)
    assert "encoder.layers[0], first operation: norm" in examined()["bisection"].detail


def test_a_dropped_bias_is_named(monkeypatch):
    monkeypatch.setattr(linear_room, "_plus_bias", lambda y, bias: y)
    found = examined()
    assert found["same weights"].ok  # the stacks have no bias
    assert not found["retrieval head"].ok
    assert "contrastive, first operation: hidden" in found["retrieval head"].detail


def test_a_dropped_adapter_scale_is_named(monkeypatch):
    def unscaled(self, x, key=None):
        return lora_room.frozen_product(x, self.base) + (x @ self.lora_a) @ self.lora_b

    monkeypatch.setattr(lora_room.LoraLinear, "__call__", unscaled)
    assert "encoder.layers[0], first operation: attention.query (" in examined("lora")["bisection"].detail


def test_a_fault_in_a_late_layer_is_found_there():
    model = tiny_model(**CHANGES)
    where = lambda m: m.decoder.layers.cross_attention.value.weight  # noqa: E731
    damaged = eqx.tree_at(where, model, replace_fn=lambda w: w.at[1].mul(1.1))
    text = bisect(damaged, arrays_of(model), replace(CONFIG, **CHANGES), ROWS, 1e-4)
    assert "decoder.layers[1], first operation: cross_attention.value" in text


def test_rows_hold_two_packed_examples_each():
    assert [sorted(set(r.encoder_segments)) for r in ROWS] == [[0, 1, 2]] * 2
    assert np.array_equal(ROWS[0].decoder_segments != 0, TARGETS[0] != 0)
