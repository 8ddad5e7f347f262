"""Adapters on disk: round trip, other bases and damaged files refused, nothing half-written."""

from __future__ import annotations

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from needlex.adapt.config import LoraConfig
from needlex.adapt.files import (
    ARRAYS,
    NOTES,
    AdapterError,
    adapter_of,
    fingerprint_arrays,
    put_on,
    read_adapter,
    save_adapter,
)
from needlex.adapt.lora import add_adapters, merge, saved_leaves
from needlex.compress.quantize import quantize_maps
from needlex.precision import named
from needlex.tree import leaves_at, put_leaves
from tests.adapt.test_lora import logits, moved
from tests.train.small import tiny_model

LORA = LoraConfig(rank=2, alpha=4.0, dropout=0.1)


def saved(folder, quantized=False, seed=0, lora=LORA):
    base = tiny_model(seed)
    model = moved(add_adapters(quantize_maps(base) if quantized else base, lora, key=jr.key(0)))
    model = put_leaves(model, {p: x + 0.1 for p, x in leaves_at(model, saved_leaves(model, lora)).items()})
    save_adapter(adapter_of(model, lora, quantized, "runs/base", fingerprint_arrays(base)), folder)
    return base, model


SAVING = dataclasses.replace(LORA, modules_to_save=("^embedding", "gate$"))


@pytest.mark.parametrize("lora", [LORA, SAVING])
@pytest.mark.parametrize("quantized", [False, True])
def test_what_is_read_computes_what_was_saved(tmp_path, quantized, lora):
    base, model = saved(tmp_path, quantized, lora=lora)
    again = put_on(read_adapter(tmp_path), base)
    np.testing.assert_array_equal(logits(merge(again)), logits(merge(model)))
    notes = json.loads((tmp_path / NOTES).read_text())
    assert (notes["rank"], notes["alpha"], notes["scale"], notes["quantized"]) == (
        2,
        4.0,
        2.0,
        "nf4" if quantized else None,
    )
    assert notes["base_hash"] == fingerprint_arrays(base) and len(notes["paths"]) == 12
    with safe_open(tmp_path / ARRAYS, "numpy") as f:
        assert {str(f.get_tensor(k).dtype) for k in f.keys()} == {"float32"}  # noqa: SIM118
    assert sorted(p.name for p in tmp_path.iterdir()) == [NOTES, ARRAYS]


def test_another_base_is_refused(tmp_path):
    saved(tmp_path)
    with pytest.raises(
        AdapterError, match=r"belongs on another base: it was trained on runs/base with hash [0-9a-f]{12}"
    ):
        put_on(read_adapter(tmp_path), tiny_model(1))


def test_the_hash_is_of_values_and_not_of_their_dtype():
    base = named("float16-storage").to_storage(tiny_model())
    assert (
        fingerprint_arrays(base)
        == fingerprint_arrays(named("float32").to_compute(base))
        != fingerprint_arrays(tiny_model())
    )


def test_values_that_are_not_finite_are_not_written(tmp_path):
    model = add_adapters(tiny_model(), LORA, key=jr.key(0))
    broken = eqx.tree_at(
        lambda m: m.encoder.layers.attention.query.lora_b, model, replace_fn=lambda x: x.at[0].set(jnp.nan)
    )
    with pytest.raises(
        AdapterError, match=r"encoder\.layers\.attention\.query\.lora_b holds values that are not finite"
    ):
        save_adapter(adapter_of(broken, LORA, False, "b", "h"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def damage(folder, what: str) -> None:
    notes = json.loads((folder / NOTES).read_text())
    match what:
        case "cut":
            (folder / ARRAYS).write_bytes((folder / ARRAYS).read_bytes()[:-40])
        case "gone":
            (folder / ARRAYS).unlink()
        case "json":
            (folder / NOTES).write_text("{")
        case "format":
            (folder / NOTES).write_text(json.dumps(notes | {"format": 9}))
        case "field":
            (folder / NOTES).write_text(json.dumps({k: v for k, v in notes.items() if k != "base_hash"}))
        case "paths":
            (folder / NOTES).write_text(json.dumps(notes | {"paths": notes["paths"][1:]}))
        case "saved" | "shape":
            save_file(
                load_file(folder / ARRAYS) | {"embedding.weight": np.zeros(3, np.float32)}, folder / ARRAYS
            )
            if what == "shape":
                notes |= {
                    "saved": ["embedding.weight"],
                    "lora": notes["lora"] | {"modules_to_save": ["^embedding"]},
                }
            (folder / NOTES).write_text(json.dumps(notes))
        case "rank":
            (folder / NOTES).write_text(json.dumps(notes | {"lora": notes["lora"] | {"rank": 3}}))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("cut", "is damaged"),
        ("gone", rf"no adapter in .*: {ARRAYS} is missing"),
        ("json", "is damaged"),
        ("format", "is of format 9, this version reads 1"),
        ("field", r"is damaged \(KeyError: 'base_hash'\)"),
        ("paths", rf"{ARRAYS} has .*, {NOTES} speaks of"),
        ("saved", r"has \['embedding.weight'\], .* speaks of \[\]"),
        ("shape", r"the adapter's embedding\.weight is \(3,\), the base's is"),
        ("rank", r"the adapter of encoder\.layers\.attention\.query has shapes"),
    ],
)
def test_damage_is_named(tmp_path, what, message):
    base, _ = saved(tmp_path)
    damage(tmp_path, what)
    with pytest.raises(AdapterError, match=message):
        put_on(read_adapter(tmp_path), base)


def test_several_adapters_share_the_arrays_of_one_base(tmp_path):
    base, _ = saved(tmp_path / "one")
    saved(tmp_path / "two")
    models = [put_on(read_adapter(tmp_path / name), base) for name in ("one", "two")]
    leaves = [
        [*jax.tree.leaves(m.embedding), m.decoder.layers.self_attention.out.base.weight] for m in models
    ]
    assert all(a is b for a, b in zip(*leaves, strict=True))
