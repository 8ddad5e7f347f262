"""Which rows were answered wrong, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from needlex.data.render import render_answer
from needlex.eval.compare import best_pairs, json_key
from needlex.eval.metrics import align_rows, parse_calls
from needlex.schema import Call, Example


def failures(
    examples: Sequence[Example],
    predictions: Sequence[str],
    limit: int,
    errors: Sequence[str | None] | None = None,
) -> list[dict[str, Any]]:
    """The first `limit` rows that are no exact match: query, tools (names), expected, predicted, reason.

    `expected` and `predicted` are answer texts. `reason` is the row's error, or begins with `unparsable`,
    `missed_call`, `false_call`, `unknown_tool`, `wrong_tool` or `arguments`.

    **Raises:** `ValueError` when the lengths differ.
    """
    found: list[dict[str, Any]] = []
    for example, text, error in align_rows(examples, predictions, errors):
        if len(found) >= limit:
            break
        reason = error if error is not None else _reason(example, parse_calls(text))
        if reason is not None:
            found.append({
                "query": example.query,
                "tools": [tool.name for tool in example.tools],
                "expected": render_answer(example.calls)[0],
                "predicted": text,
                "reason": reason,
            })  # fmt: skip
    return found


def _reason(example: Example, predicted: list[Call] | None) -> str | None:
    """Why a prediction is no exact match; None when it is one."""
    if predicted is None:
        return "unparsable"
    if Counter(map(json_key, example.calls)) == Counter(map(json_key, predicted)):
        return None
    wanted, given = [c.name for c in example.calls], [c.name for c in predicted]
    if not wanted:
        return f"false_call: {_list(given)}"
    if not given:
        return f"missed_call: {_list(wanted)}"
    unknown = set(given) - {tool.name for tool in example.tools}
    if unknown:
        return f"unknown_tool: {_list(unknown)}"
    if Counter(wanted) != Counter(given):
        return f"wrong_tool: {_list(given)} instead of {_list(wanted)}"
    declared = {tool.name: tool.parameter_names for tool in example.tools}
    pairs = best_pairs(example.calls, predicted)
    return "arguments: " + ", ".join(line for e, p in pairs for line in _differences(e, p, declared[e.name]))


def _differences(expected: Call, predicted: Call, declared: Sequence[str]) -> Iterable[str]:
    wanted, given = expected.arguments, predicted.arguments
    for key in sorted(wanted.keys() | given.keys()):
        where = f"{expected.name}.{key}"
        if key not in given:
            yield f"{where} is missing"
        elif key not in wanted:
            yield f"{where} is not {'expected' if key in declared else 'declared'}"
        elif json_key(wanted[key]) != json_key(given[key]):
            yield f"{where} is {_text(given[key])} instead of {_text(wanted[key])}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
