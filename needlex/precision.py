"""Precision policies: which dtype holds what, and the proof that the epsilons survive in it.

Five dtypes, kept apart because mixing them is how fine-tuning dies: float16 parameters with AdamW's 1e-8 are
0/0 on the first update (1e-8 rounds to 0 in float16), bfloat16 masters lose every update below 1/256 of the weight.
The idea of casting at named boundaries follows google-deepmind/jmp.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

_FLOATS = ("float32", "bfloat16", "float16")


def check_epsilon(field: str, epsilon: float, dtype: str) -> None:
    """Refuse an epsilon that is not a normal number of `dtype`.

    Subnormal numbers count as zero: accelerators, and XLA on CPU, may flush them.

    **Raises:** `ValueError` naming the field, the dtype and the smallest epsilon it holds.
    """
    smallest = float(jnp.finfo(dtype).tiny)
    if not epsilon > 0 or epsilon < smallest or not np.isfinite(epsilon):
        raise ValueError(
            f"{field} is {epsilon:g}, which underflows in {dtype} (smallest normal number {smallest:.3g}): a zero gradient "
            f"would become 0/0 = NaN; keep that dtype float32 or raise {field} to at least {smallest:.3g}"
        )


@dataclass(frozen=True)
class Policy:
    """Dtypes (by name) of one run. Build it from a name with `named`."""

    name: str = "float32"
    storage: str = "float32"
    """Parameters on disk, in checkpoints and exports."""
    param: str = "float32"
    """Master parameters that the optimizer updates."""
    compute: str = "float32"
    """Activations and the copies of the parameters that meet them."""
    optimizer: str = "float32"
    """Every float leaf of the optimizer state."""
    reduce: str = "float32"
    """Norms, softmax, losses and sums over devices."""
    norm_epsilon: float = 1e-6
    """Added to the mean square in ZCRMSNorm, held in `reduce`."""
    optimizer_epsilon: float = 1e-8
    """Added to the root of Adam's second moment, held in `optimizer`."""

    def __post_init__(self):
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in ("storage", "param", "compute", "optimizer", "reduce") and value not in _FLOATS:
                raise ValueError(f"precision.{f.name} is {value!r}; choose one of {', '.join(_FLOATS)}")
        if self.param != "float32":
            raise ValueError(
                f"precision.param is {self.param}: masters of 16 bits lose small updates (1 - 1000 x 0.001 stays 1 in "
                "bfloat16); keep float32 and set precision.compute or precision.storage instead"
            )
        if self.reduce != "float32":
            raise ValueError(
                f"precision.reduce is {self.reduce}: norms, softmax and losses need float32; set precision.compute instead"
            )
        check_epsilon("precision.norm_epsilon", self.norm_epsilon, self.reduce)
        check_epsilon("precision.optimizer_epsilon", self.optimizer_epsilon, self.optimizer)

    def to_compute(self, tree: Any) -> Any:
        """Float leaves in the compute dtype."""
        return cast_floats(tree, self.compute)

    def to_param(self, tree: Any) -> Any:
        """Float leaves in the master dtype."""
        return cast_floats(tree, self.param)

    def to_storage(self, tree: Any) -> Any:
        """Float leaves in the storage dtype."""
        return cast_floats(tree, self.storage)

    def to_optimizer(self, tree: Any) -> Any:
        """Float leaves in the optimizer dtype."""
        return cast_floats(tree, self.optimizer)


POLICIES = {
    "float32": Policy(),
    "bfloat16": Policy("bfloat16", compute="bfloat16"),
    "float16-storage": Policy("float16-storage", storage="float16"),
    "bfloat16-storage": Policy("bfloat16-storage", storage="bfloat16"),
    "bfloat16-both": Policy("bfloat16-both", storage="bfloat16", compute="bfloat16"),
}


def named(name: str) -> Policy:
    """The policy called `name`.

    **Raises:** `ValueError` listing the names.
    """
    if name not in POLICIES:
        raise ValueError(f"precision {name!r} is unknown; choose one of {', '.join(POLICIES)}")
    return POLICIES[name]


def cast_floats(tree: Any, dtype: str) -> Any:
    """Every floating-point array of `tree` in `dtype`; all else untouched."""
    target = jnp.dtype(dtype)

    def cast(x):
        if eqx.is_inexact_array(x) or (isinstance(x, np.ndarray) and jnp.issubdtype(x.dtype, jnp.inexact)):
            return x if x.dtype == target else x.astype(target)
        return x

    return jax.tree.map(cast, tree)
