"""The training step: one device or eight, one batch or many, once compiled, and never from a bad gradient."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from jax.sharding import AxisType

from needlex.batch import Batch
from needlex.losses.config import LossConfig
from needlex.optim.build import build_optimizer
from needlex.optim.config import OptimConfig
from needlex.optim.schedule import make_schedule
from needlex.precision import named
from needlex.sharding import MeshConfig, build_mesh, replicated, rows
from needlex.train.step import TrainState, init_state, make_evaluate, make_update
from needlex.tree import leaf_paths
from tests.train.small import Trainer, host, joined, make_batch, stack, trainer

DROPOUT = 0.5
PAIRLESS = LossConfig(contrastive_weight=0.0)
RARE = LossConfig(contrastive_weight=0.5, contrastive_every=3)


def only(batch: Batch, kept: Sequence[int]) -> Batch:
    """The batch with targets in the rows `kept` alone."""
    mask = np.isin(np.arange(len(batch.encoder)), kept)[:, None]
    return batch._replace(decoder_segments=batch.decoder_segments * mask)


def with_identity(batch: Batch, identity: Sequence[int]) -> Batch:
    """The batch with other tools called by its pairs; 0 is no pair."""
    assert batch.pairs is not None
    return batch._replace(pairs=batch.pairs._replace(identity=np.array(identity, np.int32)))


def repeated(batch: Batch, row: int = 0) -> Batch:
    """Every row the same example."""
    return jax.tree.map(lambda x: np.repeat(x[row : row + 1], len(x), axis=0), batch)


def loss_of(tr: Trainer, batch: Batch, step: int = 0, seed: int = 0) -> float:
    """Loss before an update, from the parameters at the start."""
    given = jax.device_put((tr.params, jr.key(seed), np.int32(step)), replicated(tr.mesh))
    _, terms = tr.gradients(tr.put(batch), *given)
    return float(terms.loss)


def assert_close(got, want, rtol: float) -> None:
    """Leaf by leaf, relative to the largest value of the leaf."""
    for name, a, b in zip(leaf_paths(want), host(got), host(want), strict=True):
        gap = np.abs(a - b).max()
        assert gap <= rtol * np.abs(b).max(), (name, gap, np.abs(b).max())


# --- devices


def test_five_steps_on_eight_devices_are_those_on_one():
    found = {}
    for devices in (1, 8):
        tr = trainer(devices)
        state, losses = tr.start(), []
        for i in range(5):
            state, terms, info = tr.step(state, make_batch(i))
            losses.append(
                [float(terms.loss), float(terms.contrastive), float(terms.sums.ce), float(info.norm)]
            )
        found[devices] = state, losses
    np.testing.assert_allclose(found[8][1], found[1][1], rtol=1e-6)
    assert_close(found[8][0].params, found[1][0].params, rtol=1e-6)
    assert_close(found[8][0].optimizer, found[1][0].optimizer, rtol=1e-5)
    assert int(found[8][0].step) == int(found[1][0].step) == 5
    start = trainer(1).params
    for name, before, after in zip(leaf_paths(start), host(start), host(found[1][0].params), strict=True):
        # The confidence head waits for its own training, everything else moves.
        assert (before != after).any() != name.startswith("confidence."), name


def test_rows_are_split_over_the_devices_and_what_comes_back_is_whole():
    tr = trainer(8)
    state, batch = tr.start(), tr.put(make_batch(0))
    for leaf in jax.tree.leaves(batch):
        assert sorted(s.index[0].start for s in leaf.addressable_shards) == list(range(8))
    grads, _ = tr.gradients(batch, state.params, state.key, state.step)
    assert all(x.sharding.is_fully_replicated for x in jax.tree.leaves((grads, state.params)))


def test_mesh_axes_are_automatic_so_that_gather_optax_and_filter_jit_work():
    mesh = build_mesh(MeshConfig(8))
    assert mesh.axis_types == (AxisType.Auto,)
    assert build_mesh(MeshConfig(-1)).size == len(jax.devices()) == 8
    table = jax.device_put(jnp.arange(32.0).reshape(16, 2), rows(mesh))
    ids = jax.device_put(jnp.arange(8)[::-1], rows(mesh))
    np.testing.assert_array_equal(table[ids], np.arange(32.0).reshape(16, 2)[7::-1])
    np.testing.assert_array_equal(eqx.filter_jit(lambda t, i: t[i])(table, ids), table[ids])
    sharded = eqx.filter_shard(table, replicated(mesh))
    optimizer = optax.sgd(0.5, momentum=0.9)
    update, _ = jax.jit(optimizer.update)(table, optimizer.init(sharded), sharded)
    np.testing.assert_array_equal(update, -0.5 * np.arange(32.0).reshape(16, 2))
    with pytest.raises(
        ValueError, match=r"mesh\.data is 9 but jax sees 8 device\(s\); lower it, or .* --devices 9"
    ):
        build_mesh(MeshConfig(9))
    with pytest.raises(ValueError, match=r"mesh\.data is 0"):
        MeshConfig(0)


# --- compilation


@contextmanager
def compilations():
    """Number of programs that XLA is given meanwhile."""
    found = []

    def listen(event: str, duration_secs: float, **kwargs: str | int):
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_the_counter_of_compilations_counts():
    with compilations() as compiled:
        jax.jit(lambda x: x * 3 + 41)(jnp.ones(7)).block_until_ready()
    assert compiled


@pytest.mark.parametrize("devices", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_twenty_steps_compile_what_the_first_compiles(devices):
    tr = trainer(devices)
    batch, pairless = make_batch(0), make_batch(0, pairs=False)
    state, _, _ = tr.step(tr.start(), batch)
    with compilations() as compiled:
        for i in range(19):
            state, _, _ = tr.step(state, pairless if i % 3 else batch)
    assert int(state.step) == 20
    assert compiled == []


def test_every_shape_compiles_once_and_the_update_once_in_all():
    tr = trainer.__wrapped__(1)  # its own jitted functions, unseen by other tests
    state = tr.start()
    for lengths in ([3, 1, 4, 1, 5, 8, 2, 6], [3, 8], [1] * 8, [8, 1]):
        for pairs in (True, False):
            state, _, _ = tr.step(state, make_batch(1, lengths, pairs))
    jitted: list[Any] = [tr.gradients.tokens, tr.gradients.pairs, tr.update]
    assert [f._cache_size() for f in jitted] == [2, 2, 1]


# --- ownership


@pytest.mark.parametrize("devices", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_the_state_is_given_away_and_nothing_else_is(devices):
    tr = trainer(devices)
    before = host(tr.params)
    state = tr.start()
    grads, terms = tr.gradients(tr.put(make_batch(0)), state.params, state.key, state.step)
    after, _ = tr.update(grads, terms.loss, state)
    assert all(x.is_deleted() for x in jax.tree.leaves(state))
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(state.params.embedding.weight)
    assert not any(x.is_deleted() for x in jax.tree.leaves((after, grads, terms, tr.params)))
    assert all((a == b).all() for a, b in zip(host(tr.params), before, strict=True))


def test_no_two_fields_of_a_state_share_a_buffer():
    tr = trainer(1)
    state, _, _ = tr.step(tr.start(), make_batch(0))
    for owned in (tr.start(), state):
        arrays = [x for x in jax.tree.leaves(owned) if x is not owned.key]
        pointers = {x.unsafe_buffer_pointer() for x in arrays}
        assert len(pointers) == len(arrays)
        assert pointers.isdisjoint(x.unsafe_buffer_pointer() for x in jax.tree.leaves(tr.params))


# --- dropout


def test_dropout_gives_every_example_and_every_step_its_own_mask():
    batch, wet, dry = repeated(make_batch(0, pairs=False)), trainer(dropout=DROPOUT), trainer()
    losses = [[loss_of(wet, only(batch, [i]), step) for i in range(8)] for step in (0, 1)]
    assert len(np.unique(losses)) == 16
    assert loss_of(wet, only(batch, [3]), 1) == losses[1][3]  # a step that is made again draws the same
    assert loss_of(wet, only(batch, [3]), 1, seed=1) != losses[1][3]
    same = [loss_of(dry, only(batch, [i])) for i in range(8)]
    np.testing.assert_allclose(same, same[0], rtol=1e-6)


def test_dropout_gives_every_micro_batch_its_own_mask():
    tr = trainer(accumulate=2, dropout=DROPOUT, loss=PAIRLESS)
    part = repeated(make_batch(0, [8, 8], pairs=False))
    nothing = only(part, [])
    losses = [
        loss_of(tr, stack(parts))
        for row in (0, 1)
        for parts in ((only(part, [row]), nothing), (nothing, only(part, [row])))
    ]
    assert len(np.unique(losses)) == 4


def test_dropout_is_the_same_on_one_device_and_on_eight():
    batch = make_batch(0, pairs=False)
    one, eight = (loss_of(trainer(n, dropout=DROPOUT), batch) for n in (1, 8))
    assert eight == pytest.approx(one, rel=1e-6)
    assert one != pytest.approx(loss_of(trainer(), batch), rel=1e-3)


def test_evaluation_is_without_dropout():
    wet, batch = trainer(dropout=DROPOUT), make_batch(0, pairs=False)
    evaluate = make_evaluate(wet.static, LossConfig(), named("float32"), wet.mesh)
    dry = trainer()
    state = dry.start()
    _, terms = dry.gradients(dry.put(batch), state.params, state.key, state.step)
    sums = evaluate(wet.put(batch), wet.params)
    np.testing.assert_allclose(np.array(sums), np.array(terms.sums), rtol=1e-6)


# --- accumulation

LENGTHS = ([8, 8], [1, 0], [0, 0], [2, 5])


@pytest.mark.parametrize("devices", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_gradients_of_micro_batches_are_those_of_one_big_batch(devices):
    """Token counts 16, 1, 0 and 7."""
    parts = [make_batch(i, lengths, pairs=False) for i, lengths in enumerate(LENGTHS)]
    many, one = trainer(devices, accumulate=4, loss=RARE), trainer()
    got, terms = many.gradients(many.put(stack(parts)), many.params, many.start().key, jnp.array(0))
    want, whole = one.gradients(one.put(joined(parts)), one.params, one.start().key, jnp.array(0))
    assert_close(got, want, rtol=1e-5)
    np.testing.assert_allclose(jax.tree.leaves(terms), jax.tree.leaves(whole), rtol=1e-6)
    assert float(terms.sums.count) == 24


def test_loss_of_micro_batches_is_the_mean_over_tokens_not_over_means():
    parts = [
        make_batch(i, lengths, pairs=False) for i, lengths in enumerate(([1, 0], [0, 0], [8, 0], [0, 1]))
    ]
    together, batch, one = trainer(accumulate=4, loss=RARE), joined(parts), trainer()
    means = [loss_of(one, only(batch, [2 * i, 2 * i + 1])) for i in (0, 2, 3)]
    loss = loss_of(together, stack(parts))
    assert loss == pytest.approx(np.average(means, weights=[1, 8, 1]), rel=1e-5)
    assert abs(loss - np.mean(means)) > 0.05


def test_contrastive_loss_of_micro_batches_is_the_mean_over_pairs():
    """Two pairs, one, none and two: each with the negatives of its own micro-batch."""
    many, one = trainer(accumulate=4, loss=RARE), trainer()
    identities = [1, 2, 3, 0, 0, 0, 5, 6]
    parts = [with_identity(make_batch(i, [2, 2]), identities[2 * i : 2 * i + 2]) for i in range(4)]
    values = []
    for i in range(4):
        alone = with_identity(joined(parts), [x * (j // 2 == i) for j, x in enumerate(identities)])
        state = one.start()
        _, terms = one.gradients(one.put(alone), state.params, state.key, state.step)
        values.append(float(terms.contrastive))
    assert values[1] == values[2] == 0  # a pair alone has no negative
    state = many.start()
    _, terms = many.gradients(many.put(stack(parts)), state.params, state.key, state.step)
    assert float(terms.contrastive) == pytest.approx(np.average(values, weights=[2, 1, 0, 2]), rel=1e-5)
    pairless = loss_of(many, stack(parts)._replace(pairs=None))
    # Seen in one step of three, and three times as heavy there.
    assert float(terms.loss) == pytest.approx(pairless + 0.5 * 3 * float(terms.contrastive), rel=1e-5)


def test_without_contrastive_weight_pairs_are_not_looked_at():
    tr = trainer(accumulate=2, dropout=DROPOUT, loss=PAIRLESS)
    with_pairs, without = (stack([make_batch(i, [8, 8], pairs) for i in range(2)]) for pairs in (True, False))
    assert loss_of(tr, with_pairs) == loss_of(tr, without)


def test_four_micro_batches_are_one_update_at_the_rate_of_one_update():
    optim = OptimConfig(name="adamw", lr=0.01, warmup_ratio=0.5)
    many = trainer(accumulate=4, loss=RARE)
    optimizer = build_optimizer(optim, make_schedule(optim, 20), named("float32"))
    tr = many._replace(optimizer=optimizer, update=make_update(optimizer, None, many.mesh))
    batch = stack([make_batch(i, [4, 4], pairs=False) for i in range(4)])
    state = tr.start()
    grads, terms = tr.gradients(tr.put(batch), state.params, state.key, state.step)
    before = np.asarray(tr.params.embedding.weight)
    for update in (1, 2, 3):
        state, _ = tr.update(grads, terms.loss, state)
        assert int(state.step) == update
        # With the same gradient again AdamW moves by the rate itself: so many tenths of the peak, of ten updates of warm-up.
        after = np.asarray(state.params.embedding.weight)
        assert np.abs(after - before).max() == pytest.approx(0.01 * update / 10, rel=2e-3)
        before = after


# --- padding


def test_a_batch_of_padding_changes_nothing():
    tr = trainer()
    state = tr.start()
    batch = make_batch(0, [0] * 8, pairs=False)
    grads, terms = tr.gradients(tr.put(batch), state.params, state.key, state.step)
    assert all(not x.any() for x in host(grads))
    assert all(float(x) == 0 for x in jax.tree.leaves(terms))
    batch = with_identity(make_batch(0, [0] * 8), [0] * 8)
    grads, terms = tr.gradients(tr.put(batch), state.params, state.key, state.step)
    assert all(not x.any() for x in host(grads))
    assert float(terms.loss) == 0


# --- precision


def test_gradients_and_masters_are_float32_under_bfloat16_compute():
    tr = trainer(policy=named("bfloat16"))
    state = jax.eval_shape(lambda: tr.start())
    batch = jax.eval_shape(lambda: make_batch(0))
    grads, terms = jax.eval_shape(
        tr.gradients.tokens, batch._replace(pairs=None), state.params, state.key, state.step, None
    )
    grads, terms = jax.eval_shape(tr.gradients.pairs, batch.pairs, state.params, grads, terms, None)
    new, _ = jax.eval_shape(tr.update, grads, terms.loss, state)
    floats = [x for x in jax.tree.leaves((grads, terms, new)) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert {x.dtype for x in floats} == {jnp.dtype("float32")}


# --- updates that are not finite


def poisoned(tr: Trainer, leaf: str, value: float):
    """Gradients of ones with one number replaced."""
    flat, tree = jax.tree.flatten(jax.tree.map(lambda x: np.ones(x.shape, np.float32), tr.params))
    flat[leaf_paths(tr.params).index(leaf)].flat[0] = value
    return jax.tree.unflatten(tree, flat)


def update_with(tr: Trainer, grads, loss: float, state: TrainState):
    """Update from gradients that are placed as those of a step are, for the program compiled there."""
    grads, loss = jax.device_put((grads, np.float32(loss)), replicated(tr.mesh))
    return tr.update(grads, loss, state)


@pytest.mark.parametrize("leaf", ["embedding.weight", "decoder.layers.cross_gate"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
def test_a_bad_leaf_skips_the_update_and_is_named(leaf, value):
    tr = trainer()
    start, state = tr.start(), tr.start()
    state, info = update_with(tr, poisoned(tr, leaf, value), 1.0, state)
    assert not info.applied
    assert not np.isfinite(info.norm)
    assert [n for n, ok in zip(leaf_paths(tr.params), np.asarray(info.finite), strict=True) if not ok] == [
        leaf
    ]
    for part in ("params", "optimizer", "key"):
        for a, b in zip(host(getattr(state, part)), host(getattr(start, part)), strict=True):
            np.testing.assert_array_equal(a, b)
    assert (int(state.step), int(state.skipped), int(state.skipped_run)) == (1, 1, 1)


@pytest.mark.parametrize("loss", [np.nan, np.inf], ids=str)
def test_a_bad_loss_skips_the_update_though_every_gradient_is_finite(loss):
    tr = trainer()
    start = host(tr.params)
    state, info = update_with(tr, poisoned(tr, "embedding.weight", 1.0), loss, tr.start())
    assert not info.applied
    assert info.finite.all()
    assert all((a == b).all() for a, b in zip(host(state.params), start, strict=True))


def test_after_a_skipped_update_the_next_is_the_second():
    """Moments as if nothing had been, the rate of update 2: the schedule ends where it should."""
    tr, good = trainer(), poisoned(trainer(), "embedding.weight", 1.0)
    bad = poisoned(tr, "embedding.weight", np.nan)
    state, runs = tr.start(), []
    for grads in (bad, bad, good, bad, good):
        state, info = update_with(tr, grads, 1.0, state)
        runs.append((bool(info.applied), int(info.skipped), int(info.skipped_run)))
    assert runs == [(False, 1, 1), (False, 2, 2), (True, 2, 0), (False, 3, 1), (True, 3, 0)]
    want = tr.start()
    for step in (2, 4):
        at = jax.device_put(np.int32(step), replicated(tr.mesh))
        want, _ = update_with(tr, good, 1.0, want._replace(step=at))
    assert int(state.step) == int(want.step) == 5
    for a, b in zip(host((state.params, state.optimizer)), host((want.params, want.optimizer)), strict=True):
        np.testing.assert_array_equal(a, b)


# --- clipping


@pytest.mark.parametrize("clip", [1.0, 30.0, None])
def test_gradients_are_clipped_by_their_global_norm(clip):
    mesh, rng = build_mesh(MeshConfig(1)), np.random.default_rng(0)
    params = {"a": jnp.zeros((3, 4)), "b": jnp.zeros(5), "c": jnp.zeros(())}
    optimizer = optax.with_extra_args_support(optax.sgd(1.0))
    update = make_update(optimizer, clip, mesh)
    for size in (0.0, 1e-3, 0.1, 3.0, 1e4):
        grads = jax.tree.map(lambda x: jnp.asarray(size * rng.standard_normal(x.shape), jnp.float32), params)  # noqa: B023
        flat = np.concatenate([np.ravel(np.asarray(g, np.float64)) for g in jax.tree.leaves(grads)])
        norm = float(np.sqrt(flat @ flat))
        state, info = update(grads, jnp.ones(()), init_state(params, optimizer, 0, mesh))
        assert float(info.norm) == pytest.approx(norm, rel=1e-6)
        scale = 1.0 if clip is None or norm <= clip else clip / norm
        for a, g in zip(host(state.params), host(grads), strict=True):
            np.testing.assert_allclose(a, -scale * g, rtol=1e-5)
