"""Adapters: where they go, zero at first, moving by the second step, merged without a difference, never copied."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from needlex.adapt.config import LoraConfig
from needlex.adapt.lora import (
    LoraLinear,
    add_adapters,
    chosen,
    linear_maps,
    merge,
    saved_leaves,
    take_apart,
)
from needlex.compress.quantize import quantize_maps
from needlex.precision import POLICIES, named
from needlex.tree import leaf_paths
from tests.train.small import DECODER, ENCODER, VOCAB, tiny_model

LORA = LoraConfig(rank=2, alpha=4.0)
ATTENTION = [
    f"{part}.{which}"
    for part in (
        "encoder.layers.attention",
        "decoder.layers.self_attention",
        "decoder.layers.cross_attention",
    )
    for which in ("query", "key", "value", "out")
]


def ids(seed: int = 0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.integers(1, VOCAB, ENCODER), jnp.int32), jnp.asarray(
        rng.integers(1, VOCAB, DECODER), jnp.int32
    )


def logits(model, key=None) -> np.ndarray:
    """Logits of one row, jitted: eager scans compile anew for every call."""
    return np.asarray(eqx.filter_jit(lambda m, e, d, k: m(e, d, key=k))(model, *ids(), key))


def moved(model, seed: int = 0):
    """The model with adapters that do something."""
    adapters, frozen, static = take_apart(model)
    drawn = jax.tree.map(lambda x: 0.3 * jr.normal(jr.key(seed), x.shape, x.dtype), adapters)
    return eqx.combine(drawn, frozen, static)


def test_the_default_is_all_projections_of_every_attention():
    assert sorted(chosen(tiny_model(), LORA)) == sorted(ATTENTION)


@pytest.mark.parametrize(
    ("targets", "want"),
    [
        ((r"encoder.*query$",), ["encoder.layers.attention.query"]),
        (
            (r"!decoder", r"\.(query|value)$"),
            ["encoder.layers.attention.query", "encoder.layers.attention.value"],
        ),
        ((r"contrastive\.",), ["contrastive.hidden", "contrastive.out"]),
    ],
)
def test_the_first_rule_that_matches_decides(targets, want):
    assert sorted(chosen(tiny_model(), LoraConfig(rank=1, targets=targets))) == want


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (LoraConfig(rank=2, targets=("queries",)), r"lora\.targets: rules \['queries'\] match no leaf"),
        (LoraConfig(rank=2, targets=("attention", "query$")), r"rules \['query\$'\] decide nothing"),
        (LoraConfig(rank=9), r"lora\.rank 9 is above what .* can use: its matrix is 16 x 8"),
    ],
)
def test_targets_and_ranks_that_cannot_be_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        add_adapters(tiny_model(), config, key=jr.key(0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": 0}, r"lora\.rank is 0"),
        ({"alpha": 0.0}, r"lora\.alpha is 0"),
        ({"alpha": float("nan")}, r"lora\.alpha is nan"),
        ({"dropout": 1.0}, r"lora\.dropout is 1"),
        ({"targets": ("!query",)}, r"lora\.targets .* choose nothing"),
        ({"targets": ("(",)}, r"lora\.targets: '\(' is no regular expression"),
        ({"modules_to_save": ("[",)}, r"lora\.modules_to_save: '\[' is no regular expression"),
    ],
)
def test_impossible_configurations_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        LoraConfig(**fields)


def test_a_weight_that_is_all_zero_is_refused_with_its_layer():
    model = tiny_model(encoder_layers=2)
    broken = eqx.tree_at(
        lambda m: m.encoder.layers.attention.value.weight, model, replace_fn=lambda w: w.at[1].set(0)
    )
    with pytest.raises(
        ValueError, match=r"weight of encoder\.layers\.attention\.value \(layer 1\) is all zero"
    ):
        add_adapters(broken, LORA, key=jr.key(0))


def test_adapters_on_adapters_are_refused():
    with pytest.raises(ValueError, match="the model has adapters already"):
        add_adapters(add_adapters(tiny_model(), LORA, key=jr.key(0)), LORA, key=jr.key(1))


def test_scales():
    assert LoraConfig(rank=16, alpha=32.0).scale == 2
    assert LoraConfig(rank=16, alpha=32.0, rank_stabilized=True).scale == 8


@pytest.mark.parametrize("quantized", [False, True])
def test_at_step_0_every_adapted_map_is_the_base_to_the_bit(quantized):
    base = quantize_maps(tiny_model()) if quantized else tiny_model()
    model = add_adapters(base, LORA, key=jr.key(0))
    x = jr.normal(jr.key(1), (5, 16))
    before = linear_maps(base)
    for path, adapted in linear_maps(model).items():
        if isinstance(adapted, LoraLinear):
            assert not adapted.lora_b.any() and adapted.lora_a.any()
            one, other = (jax.tree.map(lambda a: a[0], m) for m in (adapted, before[path]))
            np.testing.assert_array_equal(one(x), other(x))
    np.testing.assert_allclose(logits(model), logits(base), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("storage", "quantized"),
    [
        ("float16", False),
        pytest.param("float32", True, marks=pytest.mark.slow),
        *(pytest.param(s, False, marks=pytest.mark.slow) for s in ("float32", "bfloat16")),
    ],
)
def test_merged_is_unmerged(storage, quantized):
    base = quantize_maps(tiny_model(encoder_layers=2)) if quantized else tiny_model(encoder_layers=2)
    base = eqx.tree_at(lambda m: m.decoder, base, POLICIES["float32"].to_storage(base.decoder))
    if storage != "float32" and not quantized:
        base = named(f"{storage}-storage").to_storage(base)
        base = eqx.tree_at(lambda m: m.embedding, base, named("float32").to_compute(base.embedding))
    model = moved(add_adapters(base, LORA, key=jr.key(0)))
    want, got = logits(model), logits(merge(model))
    assert np.abs(want - logits(base)).max() > 0.01  # the adapters do something
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert not any(isinstance(x, LoraLinear) for x in linear_maps(merge(model)).values())


def test_taken_apart_holds_adapters_base_and_nothing_twice():
    model = add_adapters(named("float16-storage").to_storage(tiny_model()), LORA, key=jr.key(0))
    adapters, frozen, static = take_apart(model)
    assert {x.dtype for x in jax.tree.leaves(adapters)} == {jnp.dtype("float32")}
    assert {x.dtype for x in jax.tree.leaves(frozen)} == {jnp.dtype("float16")}
    assert len(jax.tree.leaves(adapters)) == 2 * len(ATTENTION)
    assert not [x for x in jax.tree.leaves(static) if eqx.is_array(x)]
    assert eqx.tree_equal(eqx.combine(adapters, frozen, static), model)


def test_dropout_drops_inputs_of_adapters_only_with_a_key():
    config = LoraConfig(rank=2, alpha=4.0, dropout=0.5)
    model = moved(add_adapters(tiny_model(), config, key=jr.key(0)))
    dry = logits(model)
    np.testing.assert_allclose(dry, logits(merge(model)), rtol=1e-4, atol=1e-4)
    wet = [logits(model, jr.key(k)) for k in (0, 0, 1)]
    np.testing.assert_array_equal(wet[0], wet[1])
    assert np.abs(wet[0] - wet[2]).max() > 1e-3 and np.abs(wet[0] - dry).max() > 1e-3


def test_several_adapters_live_on_one_base():
    """Arrays of the base are the same objects, and what one answers does not depend on the other."""
    base = tiny_model()
    one = moved(add_adapters(base, LORA, key=jr.key(0)), 1)
    first = logits(one)
    two = moved(add_adapters(base, LORA, key=jr.key(1)), 2)
    assert one.encoder.layers.attention.query.base.weight is two.encoder.layers.attention.query.base.weight
    np.testing.assert_array_equal(logits(one), first)
    assert np.abs(first - logits(two)).max() > 0.01


def test_modules_to_save_are_trained_in_float32_beside_the_adapters():
    """By any of the patterns, on a base of 16 or four bits; what the adapters cover cannot be named."""
    lora = LoraConfig(rank=2, modules_to_save=("^embedding", "gate$", "^embedding"))
    model = add_adapters(named("float16-storage").to_storage(tiny_model()), lora, key=jr.key(0))
    names = saved_leaves(model, lora)
    gates = [n for n in leaf_paths(model) if n.endswith("gate")]
    assert names == ["embedding.weight", *gates] and gates
    trained, frozen, static = take_apart(model, names)
    assert len(leaf_paths(trained)) == 2 * len(ATTENTION) + len(names)
    assert not set(names) & set(leaf_paths(frozen))
    assert eqx.tree_equal(eqx.combine(trained, frozen, static), model)


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("pattern", ["lora_a", r"query\.(base|weight)", "packed", "nothing"])
def test_a_module_to_save_that_cannot_be_is_refused(pattern, quantized):
    lora = LoraConfig(rank=2, modules_to_save=(pattern,))
    base = quantize_maps(tiny_model()) if quantized else tiny_model()
    with pytest.raises(ValueError, match="matches no leaf beside the adapted maps; there are"):
        saved_leaves(add_adapters(base, lora, key=jr.key(0)), lora)
