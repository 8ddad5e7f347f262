"""Leaf paths and ordered rules."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlex.tree import Rule, apply_rules, leaf_paths, path_name
from tests.nn.drawn import drawn


class Part(eqx.Module):
    weight: jax.Array
    bias: jax.Array | None
    name: str = eqx.field(static=True)


TREE = {
    "a": Part(jnp.ones(2), None, "x"),
    "b": [Part(jnp.ones(3), jnp.ones(1), "y"), 7],
    "gate": jnp.ones(()),
}
PATHS = ["a.weight", "b.0.weight", "b.0.bias", "gate"]
ARRAYS = eqx.filter(TREE, eqx.is_array)


def test_paths_are_dotted_and_in_the_order_of_the_leaves():
    assert leaf_paths(TREE) == PATHS
    assert leaf_paths(TREE) == [path_name(p) for p, _ in jax.tree_util.tree_leaves_with_path(ARRAYS)]
    assert [leaf.shape for leaf in jax.tree.leaves(ARRAYS)] == [(2,), (3,), (1,), ()]


def test_paths_of_the_model_read_like_attributes():
    from needlex.model.config import ModelConfig
    from needlex.model.seq2seq import Seq2Seq

    config = ModelConfig(vocab_size=9, d_model=8, heads=2, kv_heads=1, encoder_layers=1, decoder_layers=2)
    model = drawn(lambda key: Seq2Seq(config, key=key))
    for path, leaf in zip(leaf_paths(model), jax.tree.leaves(model), strict=True):
        node = model
        for name in path.split("."):
            node = getattr(node, name)
        assert node is leaf


def test_the_first_rule_that_matches_decides():
    rules = [Rule(r"^b\.", 1), Rule("weight$", 2), Rule("", 3)]
    decided = apply_rules(rules, ARRAYS, "labels")
    assert jax.tree.leaves(decided) == [2, 1, 1, 3]
    assert decided["a"].bias is None
    assert decided["b"][1] is None
    # Order counts: the catch-all first takes everything, and says so unless that is admitted.
    with pytest.raises(ValueError, match=r"'weight\$'\] decide nothing.*narrower rule first"):
        apply_rules([rules[2], *rules[:2]], ARRAYS, "labels")
    admitted = [rules[2], *(r._replace(optional=True) for r in rules[:2])]
    assert jax.tree.leaves(apply_rules(admitted, ARRAYS, "labels")) == [3, 3, 3, 3]


def test_a_leaf_that_no_rule_decides_is_named():
    with pytest.raises(
        ValueError, match=r"labels: no rule decides leaf 'b\.0\.bias' of shape \(1,\); add a rule"
    ):
        apply_rules([Rule("weight", 1), Rule("gate", 2)], ARRAYS, "labels")


def test_a_rule_that_matches_nothing_is_named_unless_it_may():
    rules = [Rule("lora", 0), Rule("", 1)]
    with pytest.raises(
        ValueError, match=r"freeze: rules \['lora'\] match no leaf; the leaves are \['a\.weight', "
    ):
        apply_rules(rules, ARRAYS, "freeze")
    assert set(
        jax.tree.leaves(apply_rules([rules[0]._replace(optional=True), rules[1]], ARRAYS, "freeze"))
    ) == {1}


@given(
    st.lists(st.sampled_from(["a", "b", "weight$", "bias$", "gate", "^", "absent"]), min_size=1, max_size=5)
)
def test_rules_decide_like_a_search_from_the_top(patterns):
    import re

    rules = [Rule(pattern, i, optional=True) for i, pattern in enumerate(patterns)]
    expected = [next((i for i, p in enumerate(patterns) if re.search(p, path)), None) for path in PATHS]
    if None in expected:
        with pytest.raises(ValueError, match=rf"'{PATHS[expected.index(None)]}'"):
            apply_rules(rules, ARRAYS, "x")
    else:
        assert jax.tree.leaves(apply_rules(rules, ARRAYS, "x")) == expected
