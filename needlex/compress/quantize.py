"""Which linear maps are stored in four bits."""

from __future__ import annotations

import re
from typing import Any

import jax

from needlex.compress.nf4 import NF4Linear
from needlex.nn.linear import Linear
from needlex.tree import path_name

QUANTIZED = r"^(encoder|decoder)\."
"""Linear maps of the two stacks; embedding, norms, gates and heads stay as they are."""


def quantize_maps(model: Any) -> Any:
    """The model with the linear maps of its stacks in NF4.

    **Raises:** `ValueError` if one is quantised already.
    """

    def one(path, x):
        name = path_name(path)
        if isinstance(x, NF4Linear):
            raise ValueError(f"{name} is quantised already; start from a base in floating point")
        return NF4Linear.of(x) if isinstance(x, Linear) and re.search(QUANTIZED, name) else x

    return jax.tree_util.tree_map_with_path(one, model, is_leaf=lambda x: isinstance(x, Linear | NF4Linear))
