"""Scores answers given as text against the expected calls of their rows."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from needlex.eval.compare import best_pairs, equal_arguments, json_key, overlap, shared_arguments
from needlex.eval.report import BREAKDOWN, Report
from needlex.schema import Call, Example

MAX_DEPTH = 64
"""Levels of lists and objects in an answer; deeper nesting is counted as unparsable."""

_COUNTS = (
    "rows", "parsed", "exact", "ordered", "expected_calls", "predicted_calls", "equal_names", "equal_calls",
    "paired_arguments", "shared_arguments", "equal_arguments", "known_arguments", "undeclared_arguments",
    "unknown_calls", "no_call_rows", "no_call_false", "no_call_correct", "call_rows", "call_missed",
)  # fmt: skip


def parse_calls(text: str) -> list[Call] | None:
    """The calls that an answer holds, or None when it is not a JSON list of `{"name", "arguments"}` objects.

    Strict: nothing before or after the list (white space apart), exactly the two keys, a non-empty name,
    arguments an object, no key twice in an object, finite numbers, at most `MAX_DEPTH` levels.
    """
    try:
        raw = _DECODER.decode(text)
    except (ValueError, RecursionError):  # ValueError: also integers of more digits than Python converts
        return None
    if not isinstance(raw, list) or not _shallow(raw):
        return None
    calls = []
    for call in raw:
        if not isinstance(call, dict) or call.keys() != {"name", "arguments"}:
            return None
        name, arguments = call["name"], call["arguments"]
        if not isinstance(name, str) or not name or not isinstance(arguments, dict):
            return None
        calls.append(Call(name, arguments))
    return calls


def score(
    examples: Sequence[Example], predictions: Sequence[str], errors: Sequence[str | None] | None = None
) -> Report:
    """Score one predicted answer for each example; the fields of `Report` define the figures.

    **Arguments:** `predictions`: answer texts, unparsable ones included. `errors`: for each row None, or why
    the model gave no answer, as `kind: detail`; such a row counts as unparsable whatever its text says.

    Every row counts. Calls predicted on a row that expects none are false positives of name and call F1;
    calls expected where the prediction does not parse are false negatives. Arguments are compared within
    pairs of an expected and a predicted call of one name in one row (`needlex.eval.compare.best_pairs`).

    **Raises:** `ValueError` when the lengths differ.
    """
    total: Counter[str] = Counter()
    kinds: Counter[str] = Counter(too_long=0)
    groups: dict[str, defaultdict[Any, Counter[str]]] = {
        group: defaultdict(Counter) for group in ("tools", "call_type", "source")
    }
    for example, text, error in align_rows(examples, predictions, errors):
        if error is not None:
            kinds[error.partition(":")[0]] += 1
        row = _count(example, None if error is not None else parse_calls(text))
        total.update(row)
        groups["tools"][len(example.tools)].update(row)
        groups["call_type"][example.call_type].update(row)
        groups["source"][example.source or "unnamed"].update(row)
    breakdown: dict[str, dict[str, dict[str, Any]]] = {}
    for group, found in groups.items():
        figures = {str(value): _figures(counts) for value, counts in sorted(found.items())}
        breakdown[group] = {value: {name: f[name] for name in BREAKDOWN} for value, f in figures.items()}
    counts = {name: total[name] for name in _COUNTS}
    return Report(**_figures(counts), errors=dict(kinds), breakdown=breakdown, counts=counts)


def align_rows(
    examples: Sequence[Example], predictions: Sequence[str], errors: Sequence[str | None] | None
) -> Iterable[tuple[Example, str, str | None]]:
    """Rows of (example, prediction, error). **Raises:** `ValueError` when the lengths differ."""
    errors = [None] * len(examples) if errors is None else errors
    if not len(examples) == len(predictions) == len(errors):
        raise ValueError(
            f"{len(examples)} examples, {len(predictions)} predictions and {len(errors)} errors; "
            "give one prediction (and error) for each example"
        )
    return zip(examples, predictions, errors, strict=True)


def _count(example: Example, predicted: list[Call] | None) -> dict[str, int]:
    """What one row adds to the sums."""
    wanted, given = example.calls, predicted or []
    wanted_keys, given_keys = [json_key(c) for c in wanted], [json_key(c) for c in given]
    exact = predicted is not None and Counter(wanted_keys) == Counter(given_keys)
    pairs = best_pairs(wanted, given)
    declared = {tool.name: tool.parameter_names for tool in example.tools}
    known = [(call.name, key) for call in given if call.name in declared for key in call.arguments]
    row = {
        "rows": 1,
        "parsed": predicted is not None,
        "exact": exact,
        "ordered": exact and wanted_keys == given_keys,
        "expected_calls": len(wanted),
        "predicted_calls": len(given),
        "equal_names": overlap((c.name for c in wanted), (c.name for c in given)),
        "equal_calls": overlap(wanted_keys, given_keys),
        "paired_arguments": sum(len(e.arguments) for e, _ in pairs),
        "shared_arguments": sum(shared_arguments(e, p) for e, p in pairs),
        "equal_arguments": sum(equal_arguments(e, p) for e, p in pairs),
        "known_arguments": len(known),
        "undeclared_arguments": sum(key not in declared[name] for name, key in known),
        "unknown_calls": sum(call.name not in declared for call in given),
        "no_call_rows": not wanted,
        "no_call_false": not wanted and bool(given),
        "no_call_correct": not wanted and exact,
        "call_rows": bool(wanted),
        "call_missed": bool(wanted) and not given,
    }
    return {name: int(value) for name, value in row.items()}


def _figures(c: Mapping[str, int]) -> dict[str, Any]:
    calls = c["expected_calls"] + c["predicted_calls"]
    return {
        "rows": c["rows"],
        "parse_rate": _share(c["parsed"], c["rows"]),
        "name_precision": _share(c["equal_names"], c["predicted_calls"]),
        "name_recall": _share(c["equal_names"], c["expected_calls"]),
        "name_f1": _share(2 * c["equal_names"], calls),
        "call_precision": _share(c["equal_calls"], c["predicted_calls"]),
        "call_recall": _share(c["equal_calls"], c["expected_calls"]),
        "call_f1": _share(2 * c["equal_calls"], calls),
        "exact_match": _share(c["exact"], c["rows"]),
        "exact_order": _share(c["ordered"], c["rows"]),
        "argument_accuracy": _share(c["equal_arguments"], c["paired_arguments"]),
        "value_accuracy": _share(c["equal_arguments"], c["shared_arguments"]),
        "missing_parameters": _share(c["paired_arguments"] - c["shared_arguments"], c["paired_arguments"]),
        "hallucinated_parameters": _share(c["undeclared_arguments"], c["known_arguments"]),
        "unknown_tools": _share(c["unknown_calls"], c["predicted_calls"]),
        "no_call": {
            "rows": c["no_call_rows"],
            "false_call_rate": _share(c["no_call_false"], c["no_call_rows"]),
            "correct": _share(c["no_call_correct"], c["no_call_rows"]),
        },
        "with_calls": {
            "rows": c["call_rows"],
            "missed_call_rate": _share(c["call_missed"], c["call_rows"]),
        },
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no number that JSON can hold")
    return value


# Stricter than `needlex.schema.load_json`: a key that stands twice is two answers, and a decoder at fault.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_finite, parse_float=_finite)


def _shallow(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = (i for outer in level for i in (outer.values() if isinstance(outer, dict) else outer))
        level = [i for i in inner if isinstance(i, list | dict)]
        if not level:
            return True
    return False
