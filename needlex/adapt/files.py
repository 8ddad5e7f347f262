"""Adapters on disk: `adapter.safetensors` with the arrays, `adapter.json` with what they are and on what they belong."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from needlex.adapt.config import LoraConfig
from needlex.adapt.lora import (
    LoraLinear,
    chosen,
    linear_maps,
    replace_maps,
    saved_leaves,
)
from needlex.compress.quantize import quantize_maps
from needlex.config import ConfigError, from_dict, to_dict
from needlex.tree import leaves_at, path_name, put_leaves

ARRAYS, NOTES = "adapter.safetensors", "adapter.json"
FORMAT = 1


class AdapterError(ValueError):
    """An adapter that cannot be read, or that belongs on another base."""


class Adapter(NamedTuple):
    """Adapters without their base."""

    arrays: Mapping[str, np.ndarray]
    """`PATH.lora_a` and `PATH.lora_b`, and leaves of `modules_to_save` by their own paths; float32."""
    lora: LoraConfig
    quantized: bool
    """Whether the base was in four bits when they were trained."""
    base: str
    """Where the base was."""
    base_hash: str


def fingerprint_arrays(model: Any) -> str:
    """SHA-256 over names, shapes and float32 values of all arrays: equal for a base whatever it is stored in."""
    digest = hashlib.sha256()
    arrays = eqx.filter(model, eqx.is_array)
    for path, x in jax.tree_util.tree_leaves_with_path(arrays):
        values = np.ascontiguousarray(np.asarray(x, np.float32))
        digest.update(f"{path_name(path)}{values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def adapter_of(model: Any, lora: LoraConfig, quantized: bool, base: str, base_hash: str) -> Adapter:
    """The adapters of a model that has some."""
    arrays = {}
    for path, x in linear_maps(model).items():
        if isinstance(x, LoraLinear):
            arrays |= {f"{path}.lora_a": np.asarray(x.lora_a), f"{path}.lora_b": np.asarray(x.lora_b)}
    saved = leaves_at(model, saved_leaves(model, lora))
    arrays |= {path: np.asarray(x, np.float32) for path, x in saved.items()}
    return Adapter(arrays, lora, quantized, base, base_hash)


def _adapted(names: Iterable[str]) -> list[str]:
    return sorted({n.rpartition(".")[0] for n in names if n.endswith((".lora_a", ".lora_b"))})


def _saved(names: Iterable[str]) -> list[str]:
    return sorted(n for n in names if not n.endswith((".lora_a", ".lora_b")))


def save_adapter(adapter: Adapter, folder: str | Path) -> None:
    """Write both files; each appears only when complete.

    **Raises:** `AdapterError` for values that are not finite.
    """
    folder = Path(folder)
    if bad := [name for name, x in adapter.arrays.items() if not np.isfinite(x).all()]:
        raise AdapterError(f"{bad[0]} holds values that are not finite; nothing is written")
    folder.mkdir(parents=True, exist_ok=True)
    notes = {
        "format": FORMAT, "rank": adapter.lora.rank, "alpha": adapter.lora.alpha, "scale": adapter.lora.scale,
        "lora": to_dict(adapter.lora), "paths": _adapted(adapter.arrays), "saved": _saved(adapter.arrays),
        "quantized": "nf4" if adapter.quantized else None, "base": adapter.base, "base_hash": adapter.base_hash,
    }  # fmt: skip
    arrays = {k: np.ascontiguousarray(v) for k, v in adapter.arrays.items()}
    save_file(arrays, folder / (ARRAYS + ".partial"), {"base_hash": adapter.base_hash})
    os.replace(folder / (ARRAYS + ".partial"), folder / ARRAYS)
    part = folder / (NOTES + ".partial")
    part.write_text(json.dumps(notes, indent=2) + "\n", encoding="utf-8")
    os.replace(part, folder / NOTES)


def read_adapter(folder: str | Path) -> Adapter:
    """The adapter in a folder.

    **Raises:** `AdapterError` naming the file and what is wrong with it.
    """
    folder = Path(folder)
    try:
        notes = json.loads((folder / NOTES).read_text(encoding="utf-8"))
        arrays = load_file(folder / ARRAYS)
        if notes["format"] != FORMAT:
            raise AdapterError(
                f"{folder / NOTES} is of format {notes['format']}, this version reads {FORMAT}"
            )
        lora = from_dict(LoraConfig, notes["lora"])
        # A tree of the file is from before or after the other one if they disagree.
        for found, told in ((_adapted(arrays), notes["paths"]), (_saved(arrays), notes["saved"])):
            if found != told:
                raise AdapterError(f"{folder / ARRAYS} has {found[:3]}, {NOTES} speaks of {told[:3]}")
        return Adapter(arrays, lora, notes["quantized"] == "nf4", notes["base"], notes["base_hash"])
    except FileNotFoundError:
        missing = next((n for n in (NOTES, ARRAYS) if not (folder / n).is_file()), "a file")
        raise AdapterError(f"no adapter in {folder}: {missing} is missing") from None
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ConfigError) as e:
        raise AdapterError(f"the adapter in {folder} is damaged ({type(e).__name__}: {e})") from None


def put_on(adapter: Adapter, base: Any) -> Any:
    """The base with these adapters; its arrays are shared with whoever else has it.

    **Raises:** `AdapterError` for another base than the one they were trained on, or arrays that do not fit.
    """
    found = fingerprint_arrays(base)
    if found != adapter.base_hash:
        raise AdapterError(
            f"this adapter belongs on another base: it was trained on {adapter.base} with hash {adapter.base_hash[:12]}, the "
            f"given one has {found[:12]}; give the checkpoint that it was trained on"
        )
    if adapter.quantized:
        base = quantize_maps(base)
    paths = chosen(base, adapter.lora)
    if missing := [
        p for p in paths if f"{p}.lora_a" not in adapter.arrays or f"{p}.lora_b" not in adapter.arrays
    ]:
        raise AdapterError(f"the adapter lacks {missing[0]}")
    rank = adapter.lora.rank

    def replace(path: str, x: Any):
        if path not in paths:
            return x
        a, b = adapter.arrays[f"{path}.lora_a"], adapter.arrays[f"{path}.lora_b"]
        *stack, width, out = x.weight.shape
        if a.shape != (*stack, width, rank) or b.shape != (*stack, rank, out):
            raise AdapterError(
                f"the adapter of {path} has shapes {a.shape} and {b.shape}, which do not fit {x.weight.shape}"
            )
        return LoraLinear(x, jax.numpy.asarray(a), jax.numpy.asarray(b), adapter.lora.scale, 0.0)

    model = replace_maps(base, replace)
    values = {}
    for path, leaf in leaves_at(model, saved_leaves(model, adapter.lora)).items():
        value = adapter.arrays.get(path)
        if value is None or value.shape != leaf.shape:
            raise AdapterError(
                f"the adapter's {path} is {'missing' if value is None else value.shape}, the base's is {leaf.shape}"
            )
        values[path] = jax.numpy.asarray(value)
    return put_leaves(model, values)
