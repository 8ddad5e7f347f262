"""Dynamic proof: one and two updates of every kind of leaf, with gradients from none to huge, stay finite."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from needlex.doctor.report import Finding
from needlex.optim.groups import groups
from needlex.tree import path_name

GRADIENTS = (0.0, 1e-8, 1e-5, 1.0, 1e4)
"""Size of every element of the gradient."""
LONGEST = 40
"""Axes are cut to this length: enough for factored statistics, quick for any model."""


def prove_updates(
    params: Any, optimizer: optax.GradientTransformationExtraArgs, rules: tuple[str, ...] = ()
) -> list[Finding]:
    """One finding for each group of leaves and dtype: do parameters and state stay finite in the optimizer's own dtypes?

    `params` are what is trained (arrays or their shapes); they are not changed, and small ones of their kinds are updated.
    """
    small = jax.tree.map(lambda x: jnp.full([min(n, LONGEST) for n in x.shape], 0.1, x.dtype), params)
    kinds = [str(g) for g in jax.tree.leaves(groups(params, rules))]
    names = [path_name(p) for p, _ in jax.tree_util.tree_leaves_with_path(small)]
    kinds = [f"{k}, {x.ndim} axes, {x.dtype}" for k, x in zip(kinds, jax.tree.leaves(small), strict=True)]

    @jax.jit
    def two(gradient):
        grads = jax.tree.map(lambda x: jnp.full(x.shape, gradient, jnp.float32), small)
        state, now, seen = optimizer.init(small), small, []
        for step in range(2):
            updates, state = optimizer.update(grads, state, now, step=jnp.array(step, jnp.int32))
            now = optax.apply_updates(now, updates)
            floats = [x for x in jax.tree.leaves(state) if jnp.issubdtype(x.dtype, jnp.inexact)]
            seen.append(
                (
                    [jnp.isfinite(x).all() for x in jax.tree.leaves(now)],
                    [jnp.isfinite(x).all() for x in floats],
                )
            )
        return seen

    bad: dict[str, list[str]] = {k: [] for k in dict.fromkeys(kinds)}
    state_bad: list[str] = []
    for gradient in GRADIENTS:
        for update, (leaves, state) in enumerate(jax.device_get(two(jnp.array(gradient, jnp.float32))), 1):
            for kind, name, ok in zip(kinds, names, leaves, strict=True):
                if not ok:
                    bad[kind].append(f"{name} after update {update} with gradient {gradient:g}")
            if not np.all(state):
                state_bad.append(f"update {update} with gradient {gradient:g}")
    counts = {k: kinds.count(k) for k in bad}
    findings = [
        Finding("updates", kind, not found,
                f"{counts[kind]} leaves finite for gradients {', '.join(f'{g:g}' for g in GRADIENTS)}" if not found
                else f"not finite: {found[0]}" + (f" and {len(found) - 1} more" if len(found) > 1 else ""),
                {"failures": found})
        for kind, found in bad.items()
    ]  # fmt: skip
    detail = "finite after one and two updates" if not state_bad else f"not finite: {state_bad[0]}"
    return [*findings, Finding("updates", "optimizer state", not state_bad, detail, {"failures": state_bad})]


def prove_dtypes(params: Any, optimizer: optax.GradientTransformationExtraArgs, dtype: str) -> Finding:
    """Every float leaf of the optimizer state is of the policy's dtype, and what is trained is float32."""
    state = jax.eval_shape(optimizer.init, params)
    floats = [
        (path_name(p), x.dtype)
        for p, x in jax.tree_util.tree_leaves_with_path(state)
        if jnp.issubdtype(x.dtype, jnp.inexact)
    ]
    odd = [f"state {n} is {d}" for n, d in floats if d != jnp.dtype(dtype)]
    trained = [(path_name(p), x.dtype) for p, x in jax.tree_util.tree_leaves_with_path(params)]
    odd += [f"{n} is {d}, not float32" for n, d in trained if d != jnp.float32]
    detail = f"state {dtype}, masters float32" if not odd else "; ".join(odd[:3])
    return Finding("updates", "dtypes", not odd, detail, {"odd": odd})
