"""Sets of characters, and how they stand in the JSON that answers are written in.

An answer has one spelling for each character: itself in UTF-8, or the escape that `json.dumps(ensure_ascii=False)`
writes. No other escape is admitted: text stays text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from needlex.decode.machine import Program, byte_set

Ranges = tuple[tuple[int, int], ...]
"""Characters as ascending, disjoint ranges of code points, both ends included."""

ANY: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
"""Every character; the surrogates between are none."""
_LENGTHS = ((0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, 0x10FFFF))


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The ranges sorted and joined, without surrogates."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        elif low <= high:
            out.append((low, high))
    return tuple(
        (max(low, a), min(high, b)) for low, high in out for a, b in ANY if max(low, a) <= min(high, b)
    )


def complement(ranges: Ranges) -> Ranges:
    """All other characters."""
    out, start = [], 0
    for low, high in ranges:
        out.append((start, low - 1))
        start = high + 1
    return union([*out, (start, 0x10FFFF)])


def character(program: Program, ranges: Ranges) -> int:
    """A subroutine for one character of `ranges` inside a JSON string."""
    plain, places = 0, []
    for code in range(0x80):
        if any(low <= code <= high for low, high in ranges):
            written = json.dumps(chr(code), ensure_ascii=False)[1:-1].encode()
            if len(written) == 1:
                plain |= 1 << code
            else:
                places.append(written)
    out = [program.byte(plain, program.DONE), *_spelled(program, places)]
    for low, high in ranges:
        for first, last in _LENGTHS:
            if max(low, first) <= min(high, last):
                encoded = chr(max(low, first)).encode(), chr(min(high, last)).encode()
                out += _between(program, *encoded)
    return program.split(out)


def _spelled(program: Program, texts: list[bytes]) -> list[int]:
    # Texts with common beginnings share them, so that a state has few threads.
    if not texts:
        return []
    out = []
    for b in sorted({t[0] for t in texts}):
        rest = [t[1:] for t in texts if t[0] == b]
        ends = [program.DONE] if b"" in rest else []
        out.append(program.byte(1 << b, program.split([*ends, *_spelled(program, [r for r in rest if r])])))
    return out


def _between(program: Program, low: bytes, high: bytes) -> list[int]:
    """UTF-8 sequences of one length from `low` to `high` (within a length, bytes sort as code points do)."""
    if len(low) == 1:
        return [program.byte(byte_set(low[0], high[0]), program.DONE)]
    least, most = b"\x80" * (len(low) - 1), b"\xbf" * (len(low) - 1)
    if low[0] == high[0]:
        return [program.literal(low[:1], program.split(_between(program, low[1:], high[1:])))]
    out, first, last = [], low[0], high[0]
    if low[1:] != least:
        out.append(program.literal(low[:1], program.split(_between(program, low[1:], most))))
        first += 1
    if high[1:] != most:
        out.append(program.literal(high[:1], program.split(_between(program, least, high[1:]))))
        last -= 1
    if first <= last:
        out.append(program.byte(byte_set(first, last), program.split(_between(program, least, most))))
    return out
