"""The optimizer as built: groups, rates, dtypes of the state, zero gradients in float16, leaves of zeros."""

from __future__ import annotations

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from needlex.optim.build import build_optimizer
from needlex.optim.config import OptimConfig
from needlex.optim.groups import labels
from needlex.optim.schedule import make_schedule
from needlex.precision import Policy
from needlex.sharding import MeshConfig, build_mesh, replicated
from tests.train.small import tiny_model

NAMES = ("muon", "adamw", "adafactor")
TOTAL = 10


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def small_params(dtype: str = "float32") -> dict:
    """A leaf of every kind; the scales start at zero, as in the model."""
    tree = {
        "embedding": {"weight": normal(0, 6, 4)},
        "encoder": {
            "query": {"weight": normal(1, 2, 8, 16)},
            "norm": {"scale": jnp.zeros((2, 8))},
            "gate": jnp.zeros(2),
        },
        "contrastive": {"hidden": {"bias": jnp.zeros(4)}, "log_temperature": jnp.zeros(())},
        "confidence": {"out": {"weight": normal(2, 4, 1), "bias": jnp.zeros(1)}},
    }
    return jax.tree.map(lambda x: x.astype(dtype), tree)


def gradients(params, seed: int = 7):
    """Random gradients, far from zero so that no epsilon shows."""
    flat, tree = jax.tree.flatten(params)
    rng = np.random.default_rng(seed)
    found = [
        jnp.asarray(np.sign(x := rng.standard_normal(p.shape)) * (0.5 + np.abs(x)), p.dtype) for p in flat
    ]
    return jax.tree.unflatten(tree, found)


def built(policy: Policy = Policy(), total: int = TOTAL, **fields):  # noqa: B008
    given: dict[str, Any] = {"warmup_ratio": 0.3, "decay_ratio": 0.3, "final_ratio": 0.1} | fields
    config = OptimConfig(**given)
    schedule = make_schedule(config, total)
    return build_optimizer(config, schedule, policy), schedule


def first_update(optimizer, params, grads):
    """The first update and the state after it."""

    @jax.jit
    def run(params, grads):
        return optimizer.update(grads, optimizer.init(params), params, step=jnp.zeros((), jnp.int32))

    return run(params, grads)


@cache
def walker(name: str, policy: Policy = Policy(), **fields):  # noqa: B008
    """Function of the updates made before: ten updates with the same gradient, on a leading axis."""
    optimizer, _ = built(policy, name=name, lr=0.01, muon_lr=0.05, muon_weight_decay=0.0, **fields)
    params = small_params()
    grads = gradients(params)

    @jax.jit
    def run(before):
        def body(carry, step):
            params, state = carry
            update, state = optimizer.update(grads, state, params, step=step)
            return (optax.apply_updates(params, update), state), update

        return jax.lax.scan(body, (params, optimizer.init(params)), before + jnp.arange(TOTAL))[1]

    return run


@cache
def walk(name: str, before: int = 0, policy: Policy = Policy(), **fields) -> dict[str, np.ndarray]:  # noqa: B008
    """The ten updates by leaf."""
    return by_path(jax.tree.map(np.asarray, walker(name, policy, **fields)(jnp.array(before))))


def by_path(tree) -> dict:
    names = [jax.tree_util.keystr(p, simple=True, separator=".") for p, _ in jax.tree.leaves_with_path(tree)]
    return dict(zip(names, jax.tree.leaves(tree), strict=True))


# --- groups


def model_params(**changes):
    """Parameters of the tiny model."""
    return eqx.filter(tiny_model(**changes), eqx.is_array)


@pytest.mark.parametrize("changes", [{}, {"feedforward": True}, {"confidence": False}], ids=str)
def test_every_leaf_of_the_model_is_in_its_group(changes):
    params = model_params(**changes)
    found = by_path(labels(params))
    assert list(found) == list(by_path(params))
    for name in found:
        if name.startswith("confidence."):
            group = "frozen"
        elif name == "embedding.weight" or name.endswith(".bias"):
            group = "rest"
        elif name.endswith(".weight"):
            group = "matrix"
        else:
            group = "scale"
        assert found[name] == group, name
    assert ("frozen" in found.values()) == ("confidence" not in changes)


def test_a_leaf_without_a_group_is_named():
    params = small_params()
    params["encoder"]["speed"] = jnp.zeros(3)
    with pytest.raises(
        ValueError, match=r"optimizer groups: no rule decides leaf 'encoder\.speed' of shape \(3,\)"
    ):
        build_optimizer(OptimConfig(), make_schedule(OptimConfig(), 5), Policy()).init(params)


def test_only_stacked_matrices_have_momentum_of_muon_and_only_the_rest_moments_of_adam():
    params = model_params()
    optimizer, _ = built()
    state = jax.eval_shape(optimizer.init, params).inner_states
    group = by_path(labels(params))
    momentum = by_path(state["matrix"].inner_state[0].momentum)
    assert sorted(momentum) == sorted(n for n in group if group[n] == "matrix")
    assert "embedding.weight" not in momentum
    assert all(x.ndim == 3 for n, x in momentum.items() if n.startswith(("encoder", "decoder")))
    for label in ("scale", "rest"):
        assert sorted(by_path(state[label].inner_state[0].nu)) == sorted(
            n for n in group if group[n] == label
        )
    assert not jax.tree.leaves(state["frozen"])


@pytest.mark.parametrize("name", NAMES)
def test_the_confidence_head_stays_whatever_its_gradient(name):
    for leaf, change in walk(name).items():
        assert change.any() != leaf.startswith("confidence."), leaf


# --- rates


@pytest.mark.parametrize("name", NAMES)
def test_update_u_uses_the_rate_of_update_u(name):
    """With one gradient all the time, AdamW and Adafactor move by the rate, Muon in proportion to it."""
    _, schedule = built()
    share = np.array([float(schedule(jnp.array(u))) for u in range(1, TOTAL + 1)])
    assert share.tolist() == pytest.approx([1 / 3, 2 / 3, 1, 1, 1, 1, 1, 0.775, 0.325, 0.1])
    for leaf, change in walk(name).items():
        if leaf.startswith("confidence."):
            continue
        size = np.sqrt(np.mean(change.reshape(TOTAL, -1) ** 2, axis=1))
        np.testing.assert_allclose(size / size[2], share, rtol=3e-4, err_msg=leaf)
        if name != "muon" or leaf != "encoder.query.weight":
            np.testing.assert_allclose(size, 0.01 * share, rtol=3e-4, err_msg=leaf)


@pytest.mark.parametrize("name", NAMES)
def test_the_rate_follows_the_step_it_is_told_and_counts_nothing_itself(name):
    """A fresh state that is told of seven updates, all skipped: the decay, and then the final rate."""
    for leaf, late in walk(name, before=7).items():
        if not leaf.startswith("confidence."):
            size, hold = np.abs(late).reshape(TOTAL, -1).max(1), np.abs(walk(name)[leaf][3]).max()
            np.testing.assert_allclose(size / hold, [0.775, 0.325] + 8 * [0.1], rtol=3e-4, err_msg=leaf)


@pytest.mark.parametrize("name", NAMES)
def test_scale_factor_is_for_norm_scales_gates_and_temperature_only(name):
    one, ten = walk(name), walk(name, scale_lr_factor=10.0)
    for leaf in one:
        scale = leaf.endswith((".scale", "gate", "log_temperature"))
        np.testing.assert_allclose(
            ten[leaf], one[leaf] * (10 if scale else 1), rtol=1e-4 if scale else 0, err_msg=leaf
        )


def test_weight_decay_pulls_each_group_at_its_own_rate():
    params = jax.tree.map(jnp.ones_like, small_params())
    zero = jax.tree.map(jnp.zeros_like, params)
    optimizer, _ = built(lr=0.01, muon_lr=0.1, weight_decay=0.5, muon_weight_decay=0.2, warmup_ratio=0.0)
    update, _ = first_update(optimizer, params, zero)
    for leaf, change in by_path(update).items():
        want = {"encoder.query.weight": -0.1 * 0.2}.get(
            leaf, 0.0 if leaf.startswith("confidence") else -0.01 * 0.5
        )
        np.testing.assert_allclose(change, np.full(change.shape, want), rtol=1e-6, err_msg=leaf)


# --- dtypes


POLICIES = {
    "float32": Policy(),
    "bfloat16 state": Policy(optimizer="bfloat16"),
    "float16 state": Policy(optimizer="float16", optimizer_epsilon=1e-4),
}


@pytest.mark.parametrize(
    ("policy", "dtype"), [*((policy, "float32") for policy in POLICIES), ("float32", "float16")]
)
@pytest.mark.parametrize("name", NAMES)
def test_state_has_the_dtype_of_the_policy_before_and_after_an_update(name, policy, dtype):
    if (name, policy) == ("adafactor", "float16 state"):
        with pytest.raises(ValueError, match=r"Adafactor's epsilon .* is 1e-30, which underflows in float16"):
            built(POLICIES[policy], name=name)
        return
    optimizer, _ = built(POLICIES[policy], name=name)
    params = small_params(dtype)
    params["encoder"]["wide"] = {
        "weight": jnp.zeros((2, 40, 36), dtype)
    }  # wide enough for Adafactor to factor

    def run():
        state = optimizer.init(params)
        return state, optimizer.update(params, state, params, step=jnp.zeros((), jnp.int32))[1]

    before, after = jax.eval_shape(run)
    kinds = {x.dtype for x in jax.tree.leaves((before, after)) if jnp.issubdtype(x.dtype, jnp.floating)}
    assert kinds == {jnp.dtype(POLICIES[policy].optimizer)}
    # The same types to the letter, weak ones too: another would compile the second update again.
    assert not any(x.weak_type for x in jax.tree.leaves((before, after)))
    assert [(x.shape, x.dtype) for x in jax.tree.leaves(before)] == [
        (x.shape, x.dtype) for x in jax.tree.leaves(after)
    ]
    plain = {x.dtype for x in jax.tree.leaves(jax.eval_shape(optax.adamw(1e-3).init, params))}
    assert plain == {jnp.dtype(dtype), jnp.dtype("int32")}  # what optax does by itself


@pytest.mark.parametrize("name", NAMES)
def test_a_bfloat16_state_trains_like_a_float32_state(name):
    rough = walk(name, policy=POLICIES["bfloat16 state"])
    for leaf, exact in walk(name).items():
        np.testing.assert_allclose(rough[leaf], exact, atol=0.03 * np.abs(exact).max(), err_msg=leaf)


def test_float16_state_with_the_usual_epsilon_is_refused_when_it_is_built():
    with pytest.raises(
        ValueError, match=r"precision\.optimizer_epsilon is 1e-08, which underflows in float16"
    ):
        built(Policy(optimizer="float16"))


def test_zero_gradient_in_float16_is_nan_in_optax_and_zero_here():
    """1e-8 is 0 in float16: 0 / 0. The leaf is that of LoRA's A while B is zero."""
    half = jax.tree.map(jnp.zeros_like, small_params("float16"))
    with jax.numpy_dtype_promotion("standard"):
        plain = optax.adamw(1e-3)
        update, _ = jax.jit(lambda g: plain.update(g, plain.init(g), g))(half["encoder"])
    assert all(jnp.isnan(x).all() for x in jax.tree.leaves(update))
    for name in NAMES:
        update, state = first_update(built(name=name)[0], half, half)
        assert all(not np.asarray(x).any() for x in jax.tree.leaves(update)), name
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(state)), name


def test_small_updates_are_not_lost_by_float32_masters_under_bfloat16_compute():
    """1.0 less 1000 times 1e-3 is 0 here, and stays 1 in bfloat16."""
    rough = jax.lax.fori_loop(
        0, 1000, lambda _, x: x - jnp.asarray(1e-3, x.dtype), jnp.ones((), jnp.bfloat16)
    )
    assert float(rough) == 1.0
    policy = Policy(compute="bfloat16")
    optimizer, _ = built(policy, name="adamw", lr=1e-3, warmup_ratio=0.0, decay_ratio=0.0)
    start = jax.tree.map(jnp.ones_like, small_params())

    @jax.jit
    def run(params):
        def body(_, carry):
            params, state = carry
            update, state = optimizer.update(
                jax.tree.map(jnp.ones_like, params), state, params, step=jnp.zeros((), jnp.int32)
            )
            return optax.apply_updates(params, update), state

        return jax.lax.fori_loop(0, 1000, body, (params, optimizer.init(params)))[0]

    for leaf, value in by_path(run(start)).items():
        if not leaf.startswith("confidence."):
            np.testing.assert_allclose(value, np.zeros(value.shape), atol=1e-3, err_msg=leaf)


# --- Adafactor


def test_adafactor_moves_zeros_by_the_rate():
    """Optax's own scales by the parameter, floored at 1e-3: zeros move by a thousandth of the rate."""
    zero = {
        "encoder": {"b": {"weight": jnp.zeros((40, 36))}, "norm": {"scale": jnp.zeros(8)}},
        "embedding": {"weight": jnp.zeros((6, 4))},
    }
    grads = gradients(zero)
    optimizer, _ = built(name="adafactor", lr=1e-3, warmup_ratio=0.0)
    update, _ = first_update(optimizer, zero, grads)
    for leaf, change in by_path(update).items():
        rms = float(jnp.sqrt(jnp.mean(change**2)))
        assert 0.5e-3 < rms < 1.001e-3, leaf
    with jax.numpy_dtype_promotion("standard"):
        plain = optax.adafactor(1e-3)
        theirs, _ = jax.jit(lambda g, p: plain.update(g, plain.init(p), p))(grads, zero)
    assert all(float(jnp.abs(x).max()) < 3e-6 for x in jax.tree.leaves(theirs))


# --- devices


@pytest.mark.parametrize("name", NAMES)
def test_sharded_gradients_give_the_update_of_whole_ones(name):
    mesh, (optimizer, _) = build_mesh(MeshConfig(8)), built(name=name)
    params = small_params()
    params["encoder"]["query"]["weight"] = normal(1, 2, 16, 8)
    params["embedding"]["weight"] = normal(0, 16, 4)
    update = jax.jit(lambda g, s, p: optimizer.update(g, s, p, step=jnp.zeros((), jnp.int32)))

    def place(x):
        axis = next((i for i, n in enumerate(x.shape) if n % 8 == 0), None)
        spec = PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, "data")
        return jax.device_put(x, NamedSharding(mesh, spec))

    grads = gradients(params)
    whole, _ = update(grads, optimizer.init(params), params)
    grads, params = jax.tree.map(place, grads), jax.device_put(params, replicated(mesh))
    assert sum(not x.sharding.is_fully_replicated for x in jax.tree.leaves(grads)) >= 3
    state = jax.device_put(optimizer.init(params), replicated(mesh))
    found, _ = update(grads, state, params)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * (np.abs(b).max() + 1e-9))
