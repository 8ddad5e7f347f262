"""Strings that match patterns and have a length, as machines over their characters.

A JSON Schema pattern is searched for, not anchored. Where ECMAScript (the letter of JSON Schema) and Python
(what most validators run) differ, only what both match is admitted: `\\d` is an ASCII digit, `\\D` no digit of
any script, `$` the very end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from needlex.decode.characters import ANY, Ranges, character, complement, union
from needlex.decode.machine import Program

try:
    from re import _constants as _c  # type: ignore[attr-defined]
    from re import _parser  # type: ignore[attr-defined]
except ImportError as e:  # the parser of the standard library has no public name
    raise ImportError(f"this Python's re has no parser to reuse: {e}") from None

MAX_STATES = 20_000
MAX_REPEAT = 1000

FORMATS = {
    "date": r"^(?:(?!0000)(?:\d{4})-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-"
    r"(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|LEAP-02-29)$",
    "time": r"^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$",
    "uuid": r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
    "ipv4": r"^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$",
    "email": r"^[A-Za-z0-9_%+-]+(?:\.[A-Za-z0-9_%+-]+)*@[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
    r"(?:\.[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*)+$",
}
_YEAR = r"(?:\d{3}[1-9]|\d\d[1-9]\d|\d[1-9]\d\d|[1-9]\d{3})"
_BY_FOUR = r"(?:0[48]|[2468][048]|[13579][26])"
_LEAP = rf"(?:\d\d{_BY_FOUR}|{_BY_FOUR}00)"
FORMATS["date"] = FORMATS["date"].replace(r"(?!0000)(?:\d{4})", _YEAR).replace("LEAP", _LEAP)
FORMATS["date-time"] = FORMATS["date"][:-1] + "T" + FORMATS["time"][1:]


class PatternError(ValueError):
    """A pattern that cannot be honoured; the message says which part."""


_Step = tuple[str, Any, int]  # (kind, argument, next node); kinds: chars, begin, end, split


class _Nfa:
    """Thompson's construction, backwards; node 0 is the match."""

    def __init__(self, pattern: str):
        try:
            tree = _parser.parse(pattern)
        except (re.error, RecursionError, OverflowError) as e:
            raise PatternError(f"{pattern!r} is no regular expression: {e}") from None
        if tree.state.flags & ~re.UNICODE.value:
            raise PatternError(f"{pattern!r} sets flags")
        self.nodes: list[_Step] = [("match", None, 0)]
        self.start = self._sequence(list(tree), 0)

    def _add(self, kind: str, argument: Any, then: int) -> int:
        if len(self.nodes) > MAX_STATES:
            raise PatternError("the pattern is too large")
        self.nodes.append((kind, argument, then))
        return len(self.nodes) - 1

    def _sequence(self, items: Sequence[Any], then: int) -> int:
        for item in reversed(items):
            then = self._item(item[0], item[1], then)
        return then

    def _item(self, op: Any, argument: Any, then: int) -> int:
        if op is _c.LITERAL:
            return self._add("chars", union([(argument, argument)]), then)
        if op is _c.NOT_LITERAL:
            return self._add("chars", complement(((argument, argument),)), then)
        if op is _c.ANY:
            lines = union([(10, 10), (13, 13), (0x2028, 0x2029)])
            return self._add("chars", complement(lines), then)
        if op is _c.IN:
            return self._add("chars", _class(argument), then)
        if op is _c.AT and argument in (_c.AT_BEGINNING, _c.AT_BEGINNING_STRING):
            return self._add("begin", None, then)
        if op is _c.AT and argument in (_c.AT_END, _c.AT_END_STRING):
            return self._add("end", None, then)
        if op is _c.SUBPATTERN:
            _, added, removed, items = argument
            if added or removed:
                raise PatternError("flags inside the pattern")
            return self._sequence(list(items), then)
        if op is _c.BRANCH:
            return self._add("split", [self._sequence(list(b), then) for b in argument[1]], 0)
        if op in (_c.MAX_REPEAT, _c.MIN_REPEAT):
            low, high, items = argument
            if low > MAX_REPEAT or (high is not _c.MAXREPEAT and high > MAX_REPEAT):
                raise PatternError(f"more than {MAX_REPEAT} repetitions")
            if high is _c.MAXREPEAT:
                loop = self._add("split", [], 0)
                self.nodes[loop] = ("split", [self._sequence(list(items), loop), then], 0)
                then = loop
            else:
                end = then
                for _ in range(high - low):
                    then = self._add("split", [self._sequence(list(items), then), end], 0)
            for _ in range(low):
                then = self._sequence(list(items), then)
            return then
        raise PatternError(f"the construct {str(op).lower()} {argument if op is _c.AT else ''}".strip())

    def closure(self, nodes: Sequence[int], at_start: bool, at_end: bool) -> frozenset[int]:
        seen: set[int] = set()
        todo = list(nodes)
        while todo:
            i = todo.pop()
            if i in seen:
                continue
            seen.add(i)
            kind, argument, then = self.nodes[i]
            if kind == "split":
                todo += argument
            elif (kind == "begin" and at_start) or (kind == "end" and at_end):
                todo.append(then)
        return frozenset(seen)


def _class(items: Sequence[Any]) -> Ranges:
    negated, ranges = False, []
    for op, argument in items:
        if op is _c.NEGATE:
            negated = True
        elif op is _c.LITERAL:
            ranges.append((argument, argument))
        elif op is _c.RANGE:
            ranges.append(argument)
        elif op is _c.CATEGORY:
            ranges += _category(argument, negated)
        else:
            raise PatternError(f"the construct {str(op).lower()} in a class")
    return complement(union(ranges)) if negated else union(ranges)


def _category(which: Any, negated: bool) -> Ranges:
    name = str(which).removeprefix("CATEGORY_")
    positive = name.removeprefix("NOT_").lower()
    # What both dialects match: few of a category, and few of its opposite.
    wide = negated != name.startswith("NOT_")
    found = _wide(positive) if wide else _NARROW[positive]
    return complement(found) if name.startswith("NOT_") else found


_NARROW: dict[str, Ranges] = {
    "digit": union([(48, 57)]),
    "word": union([(48, 57), (65, 90), (95, 95), (97, 122)]),
    "space": union([(9, 13), (32, 32), (0xA0, 0xA0), (0x2028, 0x2029)]),
}


@lru_cache
def _wide(name: str) -> Ranges:
    matches = re.compile({"digit": r"\d", "word": r"\w", "space": r"\s"}[name]).match
    text = (c for c in range(sys.maxunicode + 1) if matches(chr(c)))
    return union([*((c, c) for c in text), (0xFEFF, 0xFEFF)] if name == "space" else ((c, c) for c in text))


def string(
    program: Program, patterns: Sequence[str], least: int, most: int | None,
    characters: Callable[[Ranges], int] | None = None,
) -> int:  # fmt: skip
    """A subroutine for a JSON string, quotes included, of `least` to `most` characters that all patterns match.

    **Raises:** `PatternError` for what is no regular language, or too large.
    """
    one = characters or (lambda ranges: character(program, ranges))
    close = program.literal(b'"', program.DONE)
    if not patterns and least == 0 and most is None:
        loop = program.loop(lambda again: [program.call(one(ANY), again), close])
        return program.literal(b'"', loop)
    machines = [_Nfa(p) for p in patterns]
    begins = tuple(m.closure([m.start], True, False) for m in machines)

    def edges(node: Any) -> tuple[bool, list[tuple[int, Hashable]]]:
        sets, count = node
        ends = count >= least and all(
            s is None or 0 in m.closure(list(s), count == 0, True)
            for m, s in zip(machines, sets, strict=True)
        )
        if most is not None and count == most:
            return ends, []
        # The count is also what tells the start, where `^` holds, from all else.
        following = count + 1 if most is not None or count < max(least, 1) else count
        out: dict[Hashable, list[tuple[int, int]]] = {}
        for low, high in _pieces(machines, sets):
            targets = []
            for machine, current in zip(machines, sets, strict=True):
                targets.append(_advance(machine, current, low))
            out.setdefault((tuple(targets), following), []).append((low, high))
        return ends, [(one(union(ranges)), target) for target, ranges in out.items()]

    start = (tuple(None if 0 in b else b for b in begins), 0)
    body = program.graph(start, edges, MAX_STATES, close)
    if body is None:
        raise PatternError(f"more than {MAX_STATES} states (pattern and length together)")
    return program.literal(b'"', body)


def _advance(machine: _Nfa, current: frozenset[int] | None, code: int) -> frozenset[int] | None:
    """The nodes after one character; None once the pattern is found, whatever follows."""
    if current is None:
        return None
    nodes = [machine.start]  # the search may begin at the next character
    for i in current:
        kind, ranges, then = machine.nodes[i]
        if kind == "chars" and any(low <= code <= high for low, high in ranges):
            nodes.append(then)
    after = machine.closure(nodes, False, False)
    return None if 0 in after else after


def _pieces(machines: Sequence[_Nfa], sets: Sequence[frozenset[int] | None]) -> list[tuple[int, int]]:
    """The characters cut into ranges that no machine tells apart."""
    cuts = {0, 0xD800, 0xE000, 0x110000}
    for machine, current in zip(machines, sets, strict=True):
        for i in current or ():
            kind, ranges, _ = machine.nodes[i]
            if kind == "chars":
                for low, high in ranges:
                    cuts |= {low, high + 1}
    ordered = sorted(cuts)
    return [(a, b - 1) for a, b in pairwise(ordered) if a != 0xD800]
