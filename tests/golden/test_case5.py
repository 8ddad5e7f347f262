"""The original's optimizer in pieces (golden case 5): schedules, Newton-Schulz, norms, groups, and all of them in a row.

Its order is not ours (it orthogonalises first and then adds the momentum), so its trajectory is put together here from our
pieces in its order.
"""

from __future__ import annotations

from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from needlex.checkpoint.foreign import TABLE, import_v1
from needlex.optim.build import scale_by_rate
from needlex.optim.config import OptimConfig
from needlex.optim.groups import labels
from needlex.optim.muon import orthogonalize, orthogonalize_stack
from needlex.optim.schedule import Schedule, make_schedule
from needlex.sharding import MeshConfig, build_mesh
from needlex.train.step import init_state, make_update
from needlex.tree import leaf_paths
from tests.golden.vectors import config_of, difference, load, needs_golden, nest

pytestmark = needs_golden

CASE = "case5_optimizer.npz"
CONFIG = OptimConfig(warmup_ratio=0.1, decay_ratio=0.15)
"""The original's run of 20 updates: warm-up 2, decay 3, final 5%."""


def tree(prefix: str):
    """Parameters or gradients of the case, as parameters of our model."""
    model, _ = import_v1(nest(load(CASE), prefix), config_of(CASE))
    return eqx.filter(model, eqx.is_array)


def shares(schedule: Schedule, first: int, last: int) -> np.ndarray:
    return np.asarray(jax.vmap(schedule)(jnp.arange(first, last + 1)))


def test_rates_of_the_run():
    """Theirs starts at index 0 with a rate of 0; our update u uses their index u, and so the last reaches the end."""
    schedule, case = make_schedule(CONFIG, 20), load(CASE)
    assert schedule == Schedule(20, 2, 3, 0.05)
    assert case["lr/adam"][0] == case["lr/muon"][0] == 0
    np.testing.assert_allclose(CONFIG.lr * shares(schedule, 0, 20), case["lr/adam"], rtol=2e-6)
    np.testing.assert_allclose(CONFIG.muon_lr * shares(schedule, 0, 20), case["lr/muon"], rtol=2e-6)


@pytest.mark.parametrize(("total", "warmup"), [(1000, 50), (7, 1)])
def test_schedules_of_other_runs(total, warmup):
    config = OptimConfig(warmup_ratio=(warmup + 0.5) / total, decay_ratio=0.05)
    schedule = make_schedule(config, total)
    assert schedule.warmup == warmup
    want = load(CASE)[f"lr/unit_{total}_{warmup}_0.05"]
    np.testing.assert_allclose(shares(schedule, 0, total), want, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("shape", ["8x8", "16x4", "4x16"])
def test_newton_schulz(shape):
    case = load(CASE)
    got = jax.jit(orthogonalize)(jnp.asarray(case[f"ns/{shape}/in"]))
    assert difference(got, case[f"ns/{shape}/out"]) < 1e-5


def test_newton_schulz_of_zeros():
    np.testing.assert_array_equal(orthogonalize(jnp.zeros((8, 8))), load(CASE)["ns/zeros8x8/out"])


def test_groups():
    """Our Muon group is theirs, stacked weights of every layer and not the embedding."""
    params = tree("params_0")
    ours = dict(zip(leaf_paths(params), jax.tree.leaves(labels(params)), strict=True))
    theirs = {a for a in (k.removeprefix("params_0/") for k in load(CASE)) if a.endswith("kernel")}
    table = dict(TABLE)
    kernels = {table[a] for a in theirs if not a.startswith(("params", "grads"))}
    assert {name for name, group in ours.items() if group == "matrix"} == kernels
    assert ours["embedding.weight"] == "rest"


@cache
def trajectory():
    """Norms of the raw gradients, and the parameters after each of the five updates."""

    def direction(updates, state, params=None):
        del params
        momentum = jax.tree.map(lambda m, g: 0.95 * m + orthogonalize_stack(g), state, updates)
        return jax.tree.map(lambda m, g: 0.95 * m + orthogonalize_stack(g), momentum, updates), momentum

    schedule = make_schedule(CONFIG, 20)
    rates = [scale_by_rate(peak, schedule) for peak in (CONFIG.muon_lr, CONFIG.lr)]
    muon = optax.chain(
        optax.GradientTransformation(partial(jax.tree.map, jnp.zeros_like), direction),
        optax.add_decayed_weights(0.01),
        rates[0],
    )
    adam = optax.chain(optax.scale_by_adam(0.9, 0.95), rates[1])
    optimizer = optax.partition({"matrix": muon, "scale": adam, "rest": adam}, labels)
    mesh = build_mesh(MeshConfig(1))
    with jax.numpy_dtype_promotion("standard"):
        update = make_update(optimizer, CONFIG.clip, mesh)
        # Their first update is made at the rate of index 0, which none of ours uses.
        state = init_state(tree("params_0"), optimizer, 0, mesh)._replace(step=jnp.array(-1))
        norms, found = [], []
        for i in range(1, 6):
            state, info = update(tree(f"grads_{i}"), jnp.zeros(()), state)
            norms.append(float(info.norm))
            found.append(jax.tree.map(np.asarray, state.params))
    return norms, found


def test_global_norms():
    want = load(CASE)["grad_global_norm"]
    assert (want > 1).any()  # clipped, and not clipped
    assert (want < 1).any()
    np.testing.assert_allclose(trajectory()[0], want, rtol=1e-6)


def test_five_updates_in_the_order_of_the_original():
    start = tree("params_0")
    for i, params in enumerate(trajectory()[1], start=1):
        want = tree(f"params_{i}")
        for name, a, b, first in zip(
            leaf_paths(want), *map(jax.tree.leaves, (params, want, start)), strict=True
        ):
            # Relative to how far the leaf has moved, or the parameters would hide the updates.
            moved = np.abs(b - first).max()
            assert np.abs(a - b).max() <= 1e-3 * moved + 2e-7 * np.abs(b).max(), (i, name)
