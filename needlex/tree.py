"""Leaf paths, and the one engine of ordered rules over leaves.

Optimizer groups, frozen parts, quantisation, adapters and sharding all ask the same question: which leaves?
Rules are tried in order, the first that matches a leaf decides, every leaf must be decided and every rule must match.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax


class Rule(NamedTuple):
    """`pattern` is a regular expression searched in the leaf path, `value` what a match gives."""

    pattern: str
    value: Any
    optional: bool = False
    """Whether it is fine that no leaf matches (a part that some configurations lack)."""


def path_name(path: Sequence[Any]) -> str:
    """Dotted name of a key path: `encoder.layers.attention.query.weight`."""
    return jax.tree_util.keystr(tuple(path), simple=True, separator=".")


def leaf_paths(tree: Any) -> list[str]:
    """Dotted names of the array leaves, in the order of `jax.tree.leaves(eqx.filter(tree, eqx.is_array))`."""
    arrays = eqx.filter(tree, eqx.is_array)
    return [path_name(p) for p, _ in jax.tree_util.tree_leaves_with_path(arrays)]


def put_leaves(model: Any, values: Mapping[str, Any]) -> Any:
    """The model with `values` in place of the leaves at their paths."""
    return jax.tree_util.tree_map_with_path(lambda path, x: values.get(path_name(path), x), model)


def leaves_at(model: Any, paths: Collection[str]) -> dict[str, Any]:
    """The array leaves at these paths."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(model, eqx.is_array))
    return {name: x for p, x in leaves if (name := path_name(p)) in paths}


def apply_rules(rules: Sequence[Rule], tree: Any, what: str) -> Any:
    """Tree of the same structure with the value of the first matching rule at each leaf (None leaves stay None).

    **Raises:** `ValueError` naming the leaf that no rule decides, or the rule that decides no leaf: because it
    matches none, or because rules before it match all of its leaves.
    """
    matched: set[int] = set()
    used: set[int] = set()

    def decide(path, leaf):
        name = path_name(path)
        hits = [i for i, rule in enumerate(rules) if re.search(rule.pattern, name)]
        if not hits:
            raise ValueError(
                f"{what}: no rule decides leaf {name!r} of shape {getattr(leaf, 'shape', None)}; add a rule for it"
            )
        matched.update(hits)
        used.add(hits[0])
        return rules[hits[0]].value

    result = jax.tree_util.tree_map_with_path(decide, tree)
    unused = [i for i, r in enumerate(rules) if i not in used and not r.optional]
    if idle := [rules[i].pattern for i in unused if i not in matched]:
        raise ValueError(f"{what}: rules {idle} match no leaf; the leaves are {leaf_paths(tree)}")
    if unused:
        raise ValueError(
            f"{what}: rules {[rules[i].pattern for i in unused]} decide nothing: rules before them match all of their "
            "leaves; put the narrower rule first, or mark the wider one optional"
        )
    return result
