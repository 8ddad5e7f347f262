"""Golden vectors of the original model: where they are, and their parameters as our model.

They lie outside the repository and are never part of it. Where they are missing the tests that read them are
skipped; `tests/model/test_oracle.py` claims the same of the forward pass and its gradients without them.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlex.checkpoint.foreign import import_v1
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import Seq2Seq

GOLDEN = Path(__file__).parents[2] / ".." / "shared" / "golden"

needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden vectors at {GOLDEN}")


@cache
def load(name: str) -> dict[str, np.ndarray]:
    """Every array of one golden file by its name."""
    with np.load(GOLDEN / name) as file:
        return {key: file[key] for key in file.files}


@cache
def config_of(name: str) -> dict[str, Any]:
    """The v1 config that a golden file was made with."""
    manifest = json.loads((GOLDEN / "manifest.json").read_text())
    return next(entry["config"] for entry in manifest["files"] if entry["file"] == name)


def nest(flat: dict[str, np.ndarray], prefix: str) -> dict[str, Any]:
    """The entries `prefix/a/b/c` as a tree."""
    tree: dict[str, Any] = {}
    for name, array in flat.items():
        if name.startswith(f"{prefix}/"):
            *parents, leaf = name.removeprefix(f"{prefix}/").split("/")
            node = tree
            for parent in parents:
                node = node.setdefault(parent, {})
            node[leaf] = array
    return tree


def model_of(name: str, **overrides: Any) -> tuple[Seq2Seq, ModelConfig]:
    """The model of a golden file, through the table of `checkpoint.foreign`."""
    return import_v1(nest(load(name), "params"), config_of(name) | overrides)


def difference(ours: Any, theirs: Any) -> float:
    """Largest absolute difference over the largest absolute value (of the golden array)."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    assert ours.shape == theirs.shape
    gap = np.abs(ours - theirs).max()
    return float(gap / np.abs(theirs).max()) if gap else 0.0
