"""The whole model: packed examples, causality, dropout, precision, start values, shape checks."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

import needlex.model.decoder
import needlex.model.encoder
from needlex.model.config import ModelConfig
from needlex.model.heads import ContrastiveHead, mean_pool
from needlex.model.seq2seq import Seq2Seq, count_parameters
from needlex.nn.attention import segment_mask
from needlex.precision import named
from needlex.tree import leaf_paths
from tests.nn.drawn import drawn, normal

CONFIG = ModelConfig(
    vocab_size=19, d_model=16, heads=4, kv_heads=2, encoder_layers=2, decoder_layers=2, feedforward=True,
    d_ff=8, contrastive_dim=5,
)  # fmt: skip
E, T = 10, 8
RNG = np.random.default_rng(0)
SOURCE, TARGET = jnp.asarray(RNG.integers(1, 19, E)), jnp.asarray(RNG.integers(1, 19, T))


def build(**changes: Any) -> Seq2Seq:
    config = dataclasses.replace(CONFIG, **changes)
    return drawn(lambda key: Seq2Seq(config, key=key))


MODEL = build()
RUN: Any = eqx.filter_jit(lambda model, *args, **kwargs: model(*args, **kwargs))


# --- packing


def packing(cuts: list[int], length: int) -> np.ndarray:
    """Segments 1, 2, ... that end at the sorted `cuts`; the rest is padding."""
    segments = np.zeros(length, int)
    for number, (start, stop) in enumerate(zip([0, *cuts], cuts, strict=False), 1):
        segments[start:stop] = number
    return segments


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_an_edit_of_one_packed_example_leaves_the_others_bit_identical(data):
    count = data.draw(st.integers(2, 4))
    encoder_seg, decoder_seg = (
        packing(
            sorted(data.draw(st.lists(st.integers(1, n), min_size=count, max_size=count, unique=True))), n
        )
        for n in (E, T)
    )
    victim = data.draw(st.integers(0, count))  # 0: the padding
    draw = np.random.default_rng(data.draw(st.integers(0, 99)))
    source = np.where(encoder_seg == victim, draw.integers(0, 19, E), SOURCE)
    target = np.where(decoder_seg == victim, draw.integers(0, 19, T), TARGET)
    segments = jnp.asarray(encoder_seg), jnp.asarray(decoder_seg)
    before = RUN(MODEL, SOURCE, TARGET, *segments)
    after = RUN(MODEL, jnp.asarray(source), jnp.asarray(target), *segments)
    others = (decoder_seg != victim) & (decoder_seg != 0)
    np.testing.assert_array_equal(before[others], after[others])


ENCODER_SEG, DECODER_SEG = jnp.array([1, 1, 1, 1, 2, 2, 2, 2, 0, 0]), jnp.array([1, 1, 1, 2, 2, 2, 2, 0])


def run_embedded(model: Seq2Seq, source, target, encoder_seg=ENCODER_SEG, decoder_seg=DECODER_SEG):
    """Logits from embedded inputs."""
    memory = model.encoder(source, segment_mask(encoder_seg, encoder_seg))
    masks = segment_mask(decoder_seg, decoder_seg, causal=True), segment_mask(decoder_seg, encoder_seg)
    return model.embedding.logits(model.decoder(target, memory, *masks))


def test_loss_of_the_second_example_has_no_gradient_at_the_first():
    def second(source, target):
        return jnp.sum(jnp.sin(run_embedded(MODEL, source, target)[3:7]))

    source, target = jax.jit(jax.grad(second, argnums=(0, 1)))(normal(1, E, 16), normal(2, T, 16))
    for grad, inside in ((source, ENCODER_SEG == 2), (target, DECODER_SEG == 2)):
        assert not grad[~inside].any()
        assert (jnp.abs(grad[inside]).sum(-1) > 0).all()


def test_a_packed_example_gives_the_logits_it_gives_alone():
    """Positions run on over the row; only their distances count."""
    packed = RUN(MODEL, SOURCE, TARGET, ENCODER_SEG, DECODER_SEG)
    alone_source = jnp.zeros(E, int).at[:4].set(SOURCE[4:8])
    alone_target = jnp.zeros(T, int).at[:4].set(TARGET[3:7])
    alone = RUN(MODEL, alone_source, alone_target)
    np.testing.assert_allclose(packed[3:7], alone[:4], rtol=1e-4, atol=1e-4)


def test_a_row_of_padding_is_finite_with_finite_gradients():
    none = jnp.zeros(E, int), jnp.zeros(T, int)

    def loss(model):
        return (
            jnp.sum(model(*none, *none) ** 2) + jnp.sum(model.embed(none[0])) + model.confidence_of(none[0])
        )

    value, grads = eqx.filter_jit(eqx.filter_value_and_grad(loss))(MODEL)
    assert jnp.isfinite(value)
    for path, leaf in zip(leaf_paths(grads), jax.tree.leaves(grads), strict=True):
        assert jnp.isfinite(leaf).all(), path


# --- who sees whom


def test_a_decoder_position_sees_the_past_and_the_whole_memory_and_nothing_else():
    ones = jnp.ones(E, int), jnp.ones(T, int)

    def summary(source, target):
        return jnp.sum(jnp.sin(run_embedded(MODEL, source, target, *ones)), axis=1)

    source, target = jax.jit(jax.jacrev(summary, argnums=(0, 1)))(normal(1, E, 16), normal(2, T, 16))
    sees = np.asarray(jnp.abs(target).max(-1) > 0)
    np.testing.assert_array_equal(sees, np.tri(T, dtype=bool))
    assert (jnp.abs(source).max(-1) > 0).all()


def test_order_of_the_encoder_states_is_nothing_to_the_decoder():
    memory, full = normal(1, E, 16), jnp.ones(E, int)
    order = np.random.default_rng(0).permutation(E)
    states = [MODEL.decode(TARGET, m, full) for m in (memory, memory[order])]
    np.testing.assert_allclose(*states, rtol=1e-4, atol=1e-5)


def test_segments_of_ones_are_no_segments():
    ones = jnp.ones(E, int), jnp.ones(T, int)
    np.testing.assert_array_equal(RUN(MODEL, SOURCE, TARGET), RUN(MODEL, SOURCE, TARGET, *ones))


def test_stack_options_change_nothing_but_speed():
    def value_and_grad(model):
        return eqx.filter_jit(eqx.filter_value_and_grad(lambda m: jnp.sum(jnp.sin(m(SOURCE, TARGET)))))(model)

    plain, fast = value_and_grad(MODEL), value_and_grad(build(remat=True, unroll=True))
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(fast), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


# --- dropout


@pytest.fixture(scope="module")
def wet():
    return build(dropout=0.5)


def test_dropout_needs_a_key_and_follows_it(wet):
    np.testing.assert_array_equal(RUN(wet, SOURCE, TARGET), RUN(MODEL, SOURCE, TARGET))
    first, same, other = (RUN(wet, SOURCE, TARGET, key=jr.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other, atol=0.1)


def test_every_example_layer_and_sublayer_draws_its_own_mask(wet, monkeypatch):
    keys: list[tuple] = []

    def spy(x, rate, key):
        assert rate == 0.5
        jax.debug.callback(lambda k: keys.append(tuple(np.asarray(k).ravel())), jr.key_data(key))
        return x

    for module in (needlex.model.encoder, needlex.model.decoder):
        monkeypatch.setattr(module, "dropout", spy)
    rows = jnp.stack([SOURCE] * 3), jnp.stack([TARGET] * 3)
    jax.vmap(lambda s, t, k: wet(s, t, key=k))(*rows, jr.split(jr.key(0), 3))
    jax.effects_barrier()
    assert (
        len(keys) == len(set(keys)) == 3 * (2 * 2 + 2 * 3)
    )  # examples x layers x sub-layers, encoder and decoder


# --- precision


def test_bfloat16_compute_is_close_and_its_logits_are_float32():
    low = named("bfloat16").to_compute(MODEL)
    exact, logits = RUN(MODEL, SOURCE, TARGET), RUN(low, SOURCE, TARGET)
    assert logits.dtype == jnp.float32
    assert 0 < np.abs(logits - exact).max() < 0.05 * np.abs(exact).max()
    assert eqx.filter_eval_shape(low.encode, SOURCE).dtype == jnp.bfloat16
    assert eqx.filter_eval_shape(low.confidence_of, SOURCE).dtype == jnp.float32


@pytest.mark.parametrize("policy", ["float32", "bfloat16"])
def test_no_dtype_is_promoted_by_accident(policy):
    low = named(policy).to_compute(MODEL)

    def everything(model):
        return (
            model(SOURCE, TARGET, key=jr.key(0)).sum()
            + model.embed(SOURCE).sum()
            + model.confidence_of(SOURCE)
        )

    with jax.numpy_dtype_promotion("strict"):
        grads = eqx.filter_eval_shape(eqx.filter_grad(everything), low)
    assert {leaf.dtype for leaf in jax.tree.leaves(grads)} == {jnp.dtype(policy)}


# --- heads


def test_retrieval_embedding_has_unit_length_and_ignores_padding():
    got = MODEL.embed(SOURCE)
    assert abs(float(jnp.linalg.norm(got)) - 1) < 1e-6
    np.testing.assert_allclose(MODEL.embed(jnp.pad(SOURCE, (0, 5))), got, rtol=1e-4, atol=1e-6)


def test_retrieval_head_has_finite_gradients_where_its_output_is_zero():
    head = ContrastiveHead(CONFIG, jr.key(0))
    dead = eqx.tree_at(lambda h: h.out.weight, head, jnp.zeros_like(head.out.weight))
    for case, pooled in ((head, jnp.zeros(16)), (dead, normal(0, 16))):  # zero input, and a zero projection
        assert not case(pooled).any()
        grads = jax.grad(lambda h, x: jnp.sum(h(x)) + jnp.sum(h(x) ** 2), argnums=(0, 1))(case, pooled)
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_mean_pool():
    states, real = normal(0, E, 16), jnp.asarray(RNG.integers(0, 2, E) > 0)
    np.testing.assert_allclose(
        mean_pool(states, real), np.asarray(states)[real].mean(0), rtol=1e-5, atol=1e-6
    )
    dirty = jnp.where(real[:, None], states, jnp.inf)
    np.testing.assert_array_equal(mean_pool(dirty, real), mean_pool(states, real))
    assert not mean_pool(states, jnp.zeros(E, bool)).any()
    assert mean_pool(states.astype(jnp.bfloat16), real).dtype == jnp.float32


def test_confidence_is_a_probability_and_a_model_without_the_head_says_so():
    assert 0 < float(MODEL.confidence_of(SOURCE)) < 1
    with pytest.raises(ValueError, match=r"no confidence head \(model\.confidence is off\)"):
        build(confidence=False).confidence_of(SOURCE)


# --- start


def test_start_values_and_first_loss():
    config = ModelConfig(
        vocab_size=200, d_model=64, heads=4, kv_heads=2, encoder_layers=1, decoder_layers=3, feedforward=True
    )  # fmt: skip
    model = eqx.filter_jit(Seq2Seq)(config, key=jr.key(0))
    small = 0.02 / math.sqrt(2 * 4)
    for path, leaf in zip(leaf_paths(model), jax.tree.leaves(eqx.filter(model, eqx.is_array)), strict=True):
        if not path.endswith("weight") or path == "confidence.out.weight":
            assert not leaf.any(), path  # scales, gates, biases, temperature
        else:
            std = (
                small
                if path.endswith((".out.weight", ".down.weight")) and "contrastive" not in path
                else 0.02
            )
            assert abs(float(leaf.std()) / std - 1) < 0.1, path
    assert float(model.confidence_of(SOURCE)) == 0.5
    first_loss = -jax.nn.log_softmax(model(SOURCE, TARGET)).mean()  # expected over targets drawn at random
    assert abs(float(first_loss) - math.log(200)) < 0.05
    assert not np.allclose(*(layer for layer in model.decoder.layers.self_attention.query.weight[:2]))


def test_size_of_the_real_model():
    for confidence, size in [
        (False, 32_612_005),
        (True, 32_677_798),
    ]:  # 32.6 M as published, and our confidence head
        config = ModelConfig(vocab_size=8192, confidence=confidence)
        skeleton = eqx.filter_eval_shape(lambda key, c=config: Seq2Seq(c, key=key), jr.key(0))
        assert sum(leaf.size for leaf in jax.tree.leaves(skeleton)) == size
    assert count_parameters(MODEL) == sum(leaf.size for leaf in jax.tree.leaves(MODEL))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"heads": 3}, r"model\.d_model 16 / model\.heads 3"),
        ({"heads": 16, "kv_heads": 1}, "even whole number"),
        ({"kv_heads": 3}, r"model\.heads 4 must be a multiple of model\.kv_heads 3"),
        ({"encoder_layers": 0}, r"model\.encoder_layers is 0"),
        ({"dropout": 1.0}, r"model\.dropout is 1\.0"),
        ({"vocab_size": 6}, r"model\.vocab_size is 6"),
        ({"feedforward": False}, r"model\.d_ff is set but model\.feedforward is off"),
    ],
)
def test_configs_that_make_no_model_are_refused(change, why):
    with pytest.raises(ValueError, match=why):
        dataclasses.replace(CONFIG, **change)


def test_a_model_needs_to_know_its_vocabulary():
    with pytest.raises(ValueError, match=r"model\.vocab_size is not set"):
        Seq2Seq(ModelConfig(), key=jr.key(0))


# --- shapes


@pytest.mark.parametrize(
    "call",
    [
        lambda: MODEL(SOURCE[None], TARGET[None]),  # a batch without vmap
        lambda: MODEL(SOURCE, TARGET, ENCODER_SEG[:-1], DECODER_SEG),
        lambda: MODEL.encode(SOURCE.astype(jnp.float32)),
        lambda: MODEL.decode(TARGET, normal(0, E, 16), DECODER_SEG),
        lambda: MODEL.encoder(normal(0, E, 16), jnp.ones((E, E))),  # a mask of floats
        lambda: MODEL.contrastive(normal(0, E, 16)),
    ],
)
def test_wrong_shapes_are_caught(call):
    """Shapes are checked under test (`--jaxtyping-packages`); without it the first of these would pass."""
    with pytest.raises(TypeCheckError):
        call()
