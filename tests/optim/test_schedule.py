"""The rate of update u of N: by definition, at the boundaries, and for any run."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.optim.config import OptimConfig
from needlex.optim.schedule import Schedule, make_schedule

MOST = 300


def shares(schedule: Schedule) -> np.ndarray:
    """Share of the peak that every update of the run uses."""
    # Always as many numbers, so that the operations compile once.
    return np.asarray(jax.vmap(schedule)(jnp.arange(1, MOST + 1)))[: schedule.total]


def oracle(total: int, warmup: int, decay: int, final: float) -> list[float]:
    """Update by update."""
    found = []
    for u in range(1, total + 1):
        share = min(u / warmup, 1.0) if warmup else 1.0
        left = total - u
        if left < decay:
            share *= final + (1 - final) * math.cos(math.pi / 2 * (1 - left / decay)) ** 2
        found.append(share)
    return found


@settings(max_examples=60, deadline=None)
@given(
    total=st.integers(1, MOST),
    warmup=st.integers(0, 1000).map(lambda x: x / 1000),
    decay=st.integers(0, 1000).map(lambda x: x / 1000),
    final=st.floats(0, 1, width=32, allow_subnormal=False),
)
def test_every_update_of_any_run(total, warmup, decay, final):
    decay = min(decay, 1 - warmup)
    config = OptimConfig(warmup_ratio=warmup, decay_ratio=decay, final_ratio=final)
    schedule = make_schedule(config, total)
    assert schedule.warmup == int(total * warmup)
    assert schedule.decay == (max(1, int(total * decay)) if decay else 0)
    got = shares(schedule)
    np.testing.assert_allclose(
        got, oracle(total, schedule.warmup, schedule.decay, final), rtol=1e-5, atol=1e-6
    )
    assert (np.diff(got[: schedule.warmup]) > 0).all()
    assert (np.diff(got[schedule.warmup :]) <= 1e-7).all()
    if decay:
        assert got[-1] == np.float32(final)
        assert float(schedule(jnp.array(total + 1))) == np.float32(final)
        assert float(schedule(jnp.array(10 * total))) == np.float32(final)


def test_boundaries():
    schedule = make_schedule(OptimConfig(warmup_ratio=0.2, decay_ratio=0.3, final_ratio=0.1), 20)
    assert schedule == Schedule(total=20, warmup=4, decay=6, final=0.1)
    rate = dict(enumerate(shares(schedule).tolist(), start=1))
    assert rate[1] == 0.25  # no update is made at a rate of 0
    assert rate[3] == 0.75
    assert rate[4] == rate[5] == rate[14] == 1.0  # the last before the decay is whole
    assert rate[15] == pytest.approx(0.1 + 0.9 * math.cos(math.pi / 12) ** 2, rel=1e-6)
    assert rate[17] == pytest.approx(0.55, rel=1e-6)  # half way
    assert rate[20] == np.float32(0.1)


def test_without_warm_up_or_decay():
    assert (shares(make_schedule(OptimConfig(warmup_ratio=0.0, decay_ratio=0.0), 7)) == 1).all()
    short = make_schedule(OptimConfig(warmup_ratio=0.05, decay_ratio=0.05, final_ratio=0.5), 7)
    assert shares(short).tolist() == [1, 1, 1, 1, 1, 1, 0.5]  # a decay asked for has at least one update
    assert shares(make_schedule(OptimConfig(final_ratio=0.25), 1)).tolist() == [0.25]


def test_a_schedule_of_no_updates_is_refused():
    with pytest.raises(
        ValueError, match=r"a run of 0 updates has no schedule; check steps, epochs and the data"
    ):
        make_schedule(OptimConfig(), 0)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"warmup_ratio": 0.6, "decay_ratio": 0.5}, "warm-up and decay would overlap; lower one"),
        ({"warmup_ratio": 1.5}, r"optim\.warmup_ratio is 1\.5; it is a share in \[0, 1\]"),
        ({"final_ratio": -0.1}, r"optim\.final_ratio is -0\.1"),
        ({"lr": 0.0}, r"optim\.lr is 0\.0; it must be positive"),
        ({"muon_lr": float("nan")}, r"optim\.muon_lr is nan"),
        ({"scale_lr_factor": 0.0}, r"optim\.scale_lr_factor"),
        ({"b2": 1.0}, r"optim\.b2 is 1\.0; it must be in \[0, 1\)"),
        ({"clip": 0.0}, r"optim\.clip is 0\.0; it must be positive, or None"),
        ({"accumulate": 0}, r"optim\.accumulate is 0; it must be at least 1"),
        ({"max_skipped": 0}, r"optim\.max_skipped"),
    ],
)
def test_configs_that_cannot_train_are_refused(fields, why):
    with pytest.raises(ValueError, match=why):
        OptimConfig(**fields)
