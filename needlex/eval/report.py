"""The figures of an evaluation: as a value, as JSON and as text for a terminal."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

Figure = float | None
"""A share from 0 to 1, or None where there was nothing to divide by."""

BREAKDOWN = {
    "rows": "rows", "parse_rate": "parse", "name_f1": "name F1", "call_f1": "call F1", "exact_match": "exact",
}  # fmt: skip
"""Figures of each entry of a breakdown, and their headings."""


@dataclass(frozen=True)
class Report:
    """Agreement of predictions with expected calls; see `needlex.eval.score` for what is counted.

    All figures are micro averages (sums over all rows, divided once) from 0 to 1. A figure whose denominator
    is 0 is None. P is the predicted calls, E the expected ones; an unparsable prediction holds no call.
    """

    rows: int
    """Rows scored, those with errors included."""
    errors: Mapping[str, int]
    """Rows that the model could not answer at all, by kind; `too_long` is always listed."""
    parse_rate: Figure
    """Share of rows whose prediction is a JSON list of calls."""
    name_precision: Figure
    """Call names in both P and E (multiset) / calls in P."""
    name_recall: Figure
    """Call names in both P and E (multiset) / calls in E."""
    name_f1: Figure
    """2 x names in both / (calls in P + calls in E)."""
    call_precision: Figure
    """Whole calls (name and all arguments equal) in both P and E (multiset) / calls in P."""
    call_recall: Figure
    """Whole calls in both / calls in E."""
    call_f1: Figure
    """2 x whole calls in both / (calls in P + calls in E)."""
    exact_match: Figure
    """Share of rows that parse and whose P equals E as a multiset."""
    exact_order: Figure
    """Share of rows that parse and whose P equals E as a list."""
    argument_accuracy: Figure
    """Of the arguments of expected calls that were paired with a predicted call of the same name: the share
    that the predicted call has with an equal value. Equals value_accuracy x (1 - missing_parameters)."""
    value_accuracy: Figure
    """Of the arguments that both calls of a pair have: the share with equal values."""
    missing_parameters: Figure
    """Of the arguments of paired expected calls: the share whose key the predicted call lacks."""
    hallucinated_parameters: Figure
    """Of the predicted arguments of calls to tools of the row: the share that the tool does not declare."""
    unknown_tools: Figure
    """Of the calls in P: the share whose name is no tool of the row."""
    no_call: Mapping[str, Any]
    """Rows without expected calls: `rows`, `false_call_rate` (share with a predicted call) and `correct`
    (share predicted as the empty list). What is missing to 1 is unparsable."""
    with_calls: Mapping[str, Any]
    """Rows with expected calls: `rows` and `missed_call_rate` (share without a predicted call, be it the
    empty list or unparsable)."""
    breakdown: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """By `tools` (number of tools in the row), `call_type` (none, single, multi) and `source`: for each value
    `rows`, `parse_rate`, `name_f1`, `call_f1`, `exact_match`."""
    counts: Mapping[str, int] = field(repr=False)
    """The sums that the figures are made of."""

    def to_json(self) -> dict[str, Any]:
        """All fields as plain, independent dictionaries, numbers and None."""
        return {f.name: copy.deepcopy(getattr(self, f.name)) for f in fields(self)}

    def table(self, most: int = 12) -> str:
        """Breakdown by number of tools, call type and source: of each the `most` values with most rows."""
        lines: list[list[Any]] = []
        for group, entries in self.breakdown.items():
            shown = set(sorted(entries, key=lambda value: -entries[value]["rows"])[:most])
            lines += [
                [f"{group} {value}", *(entry[column] for column in BREAKDOWN)]
                for value, entry in entries.items()
                if value in shown
            ]
            if len(entries) > len(shown):
                rest = sum(entry["rows"] for value, entry in entries.items() if value not in shown)
                lines.append([f"{group}: {len(entries) - len(shown)} more", rest] + [None] * 4)
        return _align(["", *BREAKDOWN.values()], lines)


def summary(reports: Mapping[str, Report]) -> str:
    """One line for each set: the figures of its report. `-` stands for a figure that does not exist."""
    rows = [
        [
            name, r.rows, sum(r.errors.values()), r.parse_rate, r.name_f1, r.call_f1, r.exact_match,
            r.argument_accuracy, r.value_accuracy, r.missing_parameters, r.hallucinated_parameters,
            r.unknown_tools, r.no_call["false_call_rate"], r.with_calls["missed_call_rate"],
        ]
        for name, r in reports.items()
    ]  # fmt: skip
    heads = ["set", "rows", "errors", "parse", "name F1", "call F1", "exact", "args", "values", "missing"]
    return _align([*heads, "halluc.", "unknown", "false call", "missed"], rows)


def _align(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    cells = [list(heads), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    lines = ("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
