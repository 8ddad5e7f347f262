"""Equality of JSON values, and which predicted call answers which expected one.

Two JSON values are equal when they have the same type and content: 1 equals 1.0, true does not equal 1, the
order of keys does not matter, the order of a list does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from needlex.schema import Call


def json_key(value: Any) -> Hashable:
    """Hashable form of a JSON value or a call, equal exactly where the values are.

    **Raises:** `TypeError` when the value is neither.
    """
    if isinstance(value, Call):
        return value.name, json_key(value.arguments)
    if isinstance(value, bool) or value is None:
        return "constant", str(value)
    if isinstance(value, int | float):
        return "number", value
    if isinstance(value, str):
        return "string", value
    if isinstance(value, Mapping):
        return "object", frozenset((k, json_key(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return "list", tuple(json_key(v) for v in value)
    raise TypeError(f"{value!r} ({type(value).__name__}) is no JSON value")


def overlap(a: Iterable[Hashable], b: Iterable[Hashable]) -> int:
    """Size of the intersection of two multisets."""
    return (Counter(a) & Counter(b)).total()


def shared_arguments(expected: Call, predicted: Call) -> int:
    """Number of arguments whose key both calls have."""
    return len(expected.arguments.keys() & predicted.arguments.keys())


def equal_arguments(expected: Call, predicted: Call) -> int:
    """Number of arguments that both calls have with equal values."""
    given = predicted.arguments
    return sum(k in given and json_key(v) == json_key(given[k]) for k, v in expected.arguments.items())


def best_pairs(expected: Sequence[Call], predicted: Sequence[Call]) -> list[tuple[Call, Call]]:
    """Pairs of an expected and a predicted call of the same name; no call stands in two pairs.

    As many pairs as there can be, and among these the ones with the most equal arguments in all, then the
    most shared keys, then the fewest expected arguments. These three sums are therefore unique.
    """
    groups: dict[str, tuple[list[Call], list[Call]]] = defaultdict(lambda: ([], []))
    for side, calls in enumerate((expected, predicted)):
        for call in calls:
            groups[call.name][side].append(call)
    pairs = []
    for wanted, given in groups.values():
        # One integer orders like the three sums: no lower sum can reach `base`.
        base = 1 + sum(len(call.arguments) for call in wanted)
        cost = [
            [len(e.arguments) - (equal_arguments(e, p) * base + shared_arguments(e, p)) * base for p in given]
            for e in wanted
        ]
        pairs += [(wanted[i], given[j]) for i, j in _assign(cost, len(given))]
    return pairs


def _assign(cost: list[list[int]], columns: int) -> list[tuple[int, int]]:
    """min(rows, columns) pairs (row, column) of least total cost, exact for integers.

    Shortest augmenting paths with dual prices (Kuhn 1955, "The Hungarian method for the assignment
    problem"; Edmonds and Karp 1972).
    """
    if len(cost) > columns:
        turned = [[row[j] for row in cost] for j in range(columns)]
        return [(i, j) for j, i in _assign(turned, len(cost))]
    row_price, column_price = [0] * len(cost), [0] * columns
    owner: list[int | None] = [None] * columns
    for start in range(len(cost)):
        # Dijkstra from the new row over reduced costs, until a column without an owner is reached.
        distance = [cost[start][j] - row_price[start] - column_price[j] for j in range(columns)]
        before: list[int | None] = [None] * columns
        left, reached = set(range(columns)), []
        while True:
            end = min(left, key=distance.__getitem__)
            left.remove(end)
            row = owner[end]
            if row is None:
                break
            reached.append((row, end))
            for j in left:
                via = distance[end] + cost[row][j] - row_price[row] - column_price[j]
                if via < distance[j]:
                    distance[j], before[j] = via, end
        row_price[start] += distance[end]
        for row, j in reached:
            row_price[row] += distance[end] - distance[j]
            column_price[j] -= distance[end] - distance[j]
        column: int | None = end
        while column is not None:
            previous = before[column]
            owner[column] = start if previous is None else owner[previous]
            column = previous
    return [(row, j) for j, row in enumerate(owner) if row is not None]
