"""Static proof: every epsilon, scale and constant is a normal, finite number in the dtype that uses it."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from needlex.doctor.report import Finding
from needlex.train.constants import Constant


def prove(found: Sequence[Constant]) -> list[Finding]:
    """One finding for each constant."""
    return [_judge(c) for c in found]


def _judge(c: Constant) -> Finding:
    info = jnp.finfo(c.dtype)
    with np.errstate(over="ignore"):
        held = float(np.asarray(c.value, info.dtype))
    ok = bool(np.isfinite(held)) and abs(held) >= float(info.smallest_normal)
    detail = f"{c.value:.3g} in {c.dtype}: {c.role}"
    if not ok:
        detail += (
            f"; it becomes {held:g} there (smallest normal {float(info.smallest_normal):.3g}, largest {float(info.max):.3g}), "
            "a zero gradient would become 0/0: keep that dtype float32 or change the constant"
        )
    return Finding("constants", c.name, ok, detail, {"value": c.value, "dtype": c.dtype, "held": held})
