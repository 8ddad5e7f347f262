"""What a run is told about updates that are not finite and about its first loss, and when it stops."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from needlex.precision import Policy
from needlex.sharding import MeshConfig, build_mesh
from needlex.train.guard import Guard, NonFiniteError, check_first_loss
from needlex.train.step import UpdateInfo, init_state, make_update
from needlex.tree import leaf_paths
from tests.train.small import host

PARAMS = {
    "decoder": {"gate": jnp.ones(2), "weight": jnp.ones((2, 3))},
    "encoder": {"gate": jnp.ones(2), "weight": jnp.ones((2, 3))},
    "norm": jnp.ones(3),
}
NAMES = leaf_paths(PARAMS)
MESH = build_mesh(MeshConfig(1))
OPTIMIZER = optax.with_extra_args_support(optax.sgd(0.1))
UPDATE = make_update(OPTIMIZER, 1.0, MESH)


def gradients(*bad: str, value: float = math.nan):
    """Gradients of ones; the leaves `bad` hold one `value`."""
    flat, tree = jax.tree.flatten(jax.tree.map(lambda x: np.ones(x.shape, np.float32), PARAMS))
    for name in bad:
        flat[NAMES.index(name)].flat[-1] = value
    return jax.tree.unflatten(tree, [jnp.asarray(x) for x in flat])


class Run:
    """Updates under a guard, and what it said."""

    def __init__(self, most: int = 10):
        self.said: list[str] = []
        self.guard = Guard(NAMES, most, self.said.append)
        self.state = init_state(PARAMS, OPTIMIZER, 0, MESH)

    def update(self, *bad: str, loss: float = 1.0) -> None:
        self.state, info = UPDATE(gradients(*bad), jnp.asarray(loss), self.state)
        self.guard.check(int(self.state.step), info)


def test_a_good_update_is_not_worth_a_word():
    run = Run()
    run.update()
    assert run.said == []


def test_the_leaf_at_fault_is_named():
    run = Run()
    run.update("encoder.weight")
    assert run.said == [
        "step 1: update skipped, non-finite gradient in encoder.weight (1 skipped so far, 1 in a row)"
    ]
    run.update()
    run.update("decoder.gate", "norm")
    assert run.said[1:] == [
        "step 3: update skipped, non-finite gradient in decoder.gate, norm (2 skipped so far, 1 in a row)"
    ]


def test_of_many_leaves_at_fault_three_are_named_and_the_rest_counted():
    run = Run()
    run.update(*NAMES)
    assert "in decoder.gate, decoder.weight, encoder.gate and 2 more of 5 leaves (1 skipped" in run.said[0]


def test_a_loss_at_fault_is_told_from_a_gradient_at_fault():
    run = Run()
    run.update(loss=math.inf)
    assert "the loss or the gradient norm is not finite though every gradient is" in run.said[0]


def test_ten_in_a_row_stop_the_run_with_a_diagnosis_and_the_parameters_of_before():
    run = Run()
    run.update()
    before = host(run.state.params)
    for _ in range(9):
        run.update("decoder.weight")
    with pytest.raises(NonFiniteError) as error:
        run.update("decoder.weight")
    told = str(error.value)
    assert told.startswith("10 updates in a row were not finite, the last at step 11: ")
    for word in ("decoder.weight", "checkpoint is intact", "optim.lr", "precision", "bad data"):
        assert word in told
    assert len(run.said) == 10
    for a, b in zip(host(run.state.params), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_good_update_starts_the_count_in_a_row_anew():
    run = Run(most=3)
    for _ in range(4):
        run.update("norm")
        run.update("norm")
        run.update()
    assert (int(run.state.skipped), int(run.state.skipped_run)) == (8, 0)
    assert run.said[-1].endswith("(8 skipped so far, 2 in a row)")
    run.update("norm")
    run.update("norm")
    with pytest.raises(NonFiniteError):
        run.update("norm")


def test_a_resumed_run_does_not_report_the_skips_of_before():
    """A new guard, a state that has skipped."""
    run = Run()
    run.update("norm")
    run.guard, run.said = Guard(NAMES, 10, run.said.append), run.said
    run.said.clear()
    run.update()
    assert run.said == []
    run.update("norm")
    assert run.said == ["step 3: update skipped, non-finite gradient in norm (2 skipped so far, 1 in a row)"]


def test_a_resumed_run_goes_on_counting_in_a_row():
    """Stopped after nine of them, it stops at the tenth."""
    info = UpdateInfo(
        jnp.array(jnp.nan),
        jnp.array([False] + 4 * [True]),
        jnp.full(5, True),
        jnp.array(False),
        jnp.array(12),
        jnp.array(10),
    )
    with pytest.raises(
        NonFiniteError, match=r"10 updates in a row .* step 99: non-finite gradient in decoder\.gate"
    ):
        Guard(NAMES, 10, lambda _: None).check(99, info)


def test_the_float16_death_of_the_post_mortem_is_refused_and_forced_through_is_caught():
    """N1: AdamW in float16, a gradient of exactly zero (a fresh LoRA's A): 0 / (0 + 1e-8) with 1e-8 = 0."""
    with pytest.raises(
        ValueError, match=r"precision\.optimizer_epsilon is 1e-08, which underflows in float16"
    ):
        Policy(optimizer="float16")
    half = jax.tree.map(lambda x: x.astype(jnp.float16), PARAMS)
    adamw = optax.adamw(1e-5, eps=1e-8)

    def forced(updates, state, params=None, **_):
        with jax.numpy_dtype_promotion("standard"):
            return adamw.update(updates, state, params)

    optimizer = optax.GradientTransformationExtraArgs(adamw.init, forced)
    update = make_update(optimizer, None, MESH)
    grads = jax.tree.map(lambda x: jnp.ones_like(x), half)
    grads["encoder"]["gate"] = jnp.zeros_like(half["encoder"]["gate"])
    state, said = init_state(half, optimizer, 0, MESH), []
    before = host(state.params)
    state, info = update(grads, jnp.asarray(1.0), state)
    Guard(NAMES, 10, said.append).check(1, info)
    assert (
        "finite gradients became a non-finite update in encoder.gate: the optimizer's arithmetic" in said[0]
    )
    for a, b in zip(host(state.params), before, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("above", "warned"), [(0.0, False), (3.9, False), (4.1, True), (math.nan, True)])
def test_first_loss_is_compared_with_a_uniform_guess(above, warned):
    said: list[str] = []
    check_first_loss(math.log(512) + above, 512, said.append)
    assert "a uniform guess over 512 pieces is ln(V) = 6.238" in said[0]
    assert len(said) == 1 + warned
    if warned:
        assert "the forward pass, not the data, is suspect" in said[1]
