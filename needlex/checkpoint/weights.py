"""Weights alone, as one safetensors file: leaf paths and arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from safetensors import SafetensorError
from safetensors.flax import load_file, save_file

from needlex.checkpoint.store import CheckpointError, flatten, unflatten

WEIGHTS = "model.safetensors"
"""Name of the file in a run directory; it goes before the checkpoints there."""


def save_weights(params: Any, path: str | Path) -> None:
    """Write the array leaves in their own dtypes; the file appears only when complete.

    **Raises:** `CheckpointError` for values that are not finite.
    """
    path = Path(path)
    arrays = flatten(params)
    for name, x in arrays.items():
        if not bool(jnp.isfinite(x).all()):
            raise CheckpointError(f"leaf {name} holds values that are not finite; nothing is written")
    part = path.with_name(path.name + ".partial")
    save_file({k: jnp.asarray(x) for k, x in arrays.items()}, part)
    os.replace(part, path)


def read_weights(path: str | Path, like: Any) -> Any:
    """The arrays of the file, in structure, shapes and dtypes of `like`.

    **Raises:** `CheckpointError` naming the leaf that is missing, left over or of another shape, or the damage.
    """
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as e:
        raise CheckpointError(f"{path} cannot be read ({type(e).__name__}: {e})") from None
    wanted = flatten(like)
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or extra:
        raise CheckpointError(
            f"{path} does not fit its configuration: it lacks {missing[:3]} and has unknown {extra[:3]}"
        )
    for name, x in wanted.items():
        if found[name].shape != x.shape:
            raise CheckpointError(
                f"{path}, leaf {name}: saved {list(found[name].shape)}, its configuration makes {list(x.shape)}"
            )
    return unflatten({k: jax.numpy.asarray(found[k], x.dtype) for k, x in wanted.items()}, like)
