"""Pairs of least cost against all permutations, and what no JSON value is."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.eval.compare import _assign, json_key


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5), st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([3, 10, 10**30]))
def test_assignment_is_the_cheapest_of_all(rows, columns, seed, top):
    rng = np.random.default_rng(seed)
    cost = [
        [int(rng.integers(-9, 10)) * top + int(rng.integers(3)) for _ in range(columns)] for _ in range(rows)
    ]
    pairs = _assign(cost, columns)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs) == min(rows, columns)
    if rows <= columns:
        choices = (enumerate(p) for p in itertools.permutations(range(columns), rows))
    else:
        choices = (zip(p, range(columns), strict=True) for p in itertools.permutations(range(rows), columns))
    assert sum(cost[i][j] for i, j in pairs) == min(sum(cost[i][j] for i, j in c) for c in choices)


def test_a_value_that_json_does_not_have_is_refused():
    with pytest.raises(TypeError, match="bytes"):
        json_key({"x": [b"1"]})
