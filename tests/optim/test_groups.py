"""Groups of leaves: rules in order, factors on the rate, decay off, frozen; what decides nothing is refused."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from needlex.optim.build import build_optimizer
from needlex.optim.config import OptimConfig
from needlex.optim.groups import Group, Wish, groups, parse_rule
from needlex.optim.schedule import make_schedule
from needlex.precision import POLICIES
from needlex.tree import leaf_paths
from tests.train.small import tiny_model

PARAMS = eqx.filter(tiny_model(), eqx.is_array)


def by_path(rules=()) -> dict[str, Group]:
    found = jax.tree.leaves(groups(PARAMS, rules))
    return dict(zip(leaf_paths(PARAMS), found, strict=True))


def test_rules_are_tried_in_order_and_keep_the_kind():
    found = by_path(("cross_gate: lr=2", "gate: lr=50, decay=off", "^contrastive: frozen"))
    assert found["decoder.layers.cross_gate"] == Group("scale", 2.0)
    assert found["encoder.layers.gate"] == Group("scale", 50.0, False)
    assert found["contrastive.out.weight"] == Group("frozen")
    assert found["encoder.layers.attention.query.weight"] == Group("matrix")
    assert found["confidence.out.weight"] == Group("frozen")


def updated(optim: OptimConfig) -> dict[str, np.ndarray]:
    """The first update of every leaf for gradients of one."""
    optimizer = build_optimizer(optim, make_schedule(optim, 10), POLICIES["float32"])
    grads = jax.tree.map(jnp.ones_like, PARAMS)

    @jax.jit
    def first(grads, params):
        return optimizer.update(grads, optimizer.init(params), params, step=jnp.zeros((), jnp.int32))[0]

    updates = first(grads, PARAMS)
    return dict(zip(leaf_paths(PARAMS), map(np.asarray, jax.tree.leaves(updates)), strict=True))


@pytest.mark.parametrize("name", ["muon", "adamw", "adafactor"])
def test_factors_decay_and_freezing_act(name):
    rules = (r"gate$: lr=50", "query: lr=0.5", "value: decay=off", "^contrastive: frozen")
    plain = updated(OptimConfig(name=name, weight_decay=0.1, muon_weight_decay=0.1))
    ruled = updated(OptimConfig(name=name, weight_decay=0.1, muon_weight_decay=0.1, rules=rules))
    bare = updated(OptimConfig(name=name, weight_decay=0.0, muon_weight_decay=0.0))
    for path, change in ruled.items():
        if path.startswith("contrastive"):
            assert not change.any() and plain[path].any()
        elif path.endswith("gate"):
            np.testing.assert_allclose(change, 50 * plain[path], rtol=1e-5)
        elif "query" in path:
            np.testing.assert_allclose(change, 0.5 * plain[path], rtol=1e-5, atol=1e-9)
        elif "value" in path:
            np.testing.assert_allclose(change, bare[path], rtol=1e-5, atol=1e-9)
            assert (change != plain[path]).any()
        else:
            np.testing.assert_allclose(change, plain[path], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("gate", r"'gate' must be 'PATTERN: lr=50, decay=off' or 'PATTERN: frozen'"),
        ("gate:", "'' is none of lr=FACTOR"),
        ("gate: rate=5", "'rate=5' is none of"),
        ("gate: lr=0", "'lr=0' is none of"),
        ("gate: lr=x", "'lr=x' is none of"),
        ("gate: decay=no", "'decay=no' is none of"),
        ("gate: frozen, lr=5", "a frozen leaf has no rate"),
        ("(: lr=5", "is no regular expression"),
    ],
)
def test_rules_that_cannot_be_read_are_refused_with_the_field(rule, message):
    with pytest.raises(ValueError, match=r"optim\.rules: .*" + message):
        OptimConfig(rules=(rule,))


def test_patterns_may_hold_colons():
    assert parse_rule(r"(?:gate|scale)$: lr=5") == (r"(?:gate|scale)$", Wish(rate=5.0))


@pytest.mark.parametrize(
    ("rules", "message"),
    [(("gates: lr=5",), "match no leaf"), (("gate: lr=5", "self_gate: lr=2"), "decide nothing")],
)
def test_a_rule_that_decides_nothing_is_refused(rules, message):
    with pytest.raises(ValueError, match=r"optim\.rules: rules .* " + message):
        groups(PARAMS, rules)
