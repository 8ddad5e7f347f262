"""Numbers between bounds, as machines over their digits.

Decimal texts are compared with the bounds digit by digit, so the language is exact; how many digits it may have is
bounded, because Python reads neither an integer of 5000 digits nor 1e999.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from needlex.decode.machine import Program, byte_set

INTEGER_DIGITS = 20
FRACTION_DIGITS = 24
MAX_MULTIPLE = 1000
EXACT_DIGITS = 15
"""Decimals of so many digits are distinct as float64."""


@dataclass(frozen=True)
class Bound:
    """One end of an interval."""

    value: Decimal
    included: bool = True


def integer(program: Program, low: Bound | None, high: Bound | None, multiple: int = 1) -> int:
    """A subroutine for integers from `low` to `high` that `multiple` divides, without `-0`."""
    return _signed(program, low, high, 0, multiple)


def number(program: Program, low: Bound | None, high: Bound | None) -> int:
    """A subroutine for finite numbers: decimals, and `1.5e-07` as Python writes it when there is no bound.

    Next to an excluded bound, digits end where two decimals could be read as the same float64.
    """
    if low is None and high is None:
        return program.split([_signed(program, None, None, FRACTION_DIGITS, 1), _scientific(program)])
    digits = FRACTION_DIGITS
    for bound in (low, high):
        if bound is not None and not bound.included:
            digits = min(digits, EXACT_DIGITS - len(_digits(abs(bound.value))[0]))
    return _signed(program, low, high, max(digits, 0), 1)


def _signed(program: Program, low: Bound | None, high: Bound | None, fraction: int, multiple: int) -> int:
    if low is None and high is None and multiple == 1:
        digits = _plain_digits(program, fraction)
        whole = program.split([program.literal(b"0", program.DONE), digits])
        part = _fraction(program, fraction, program.DONE) if fraction else program.DEAD
        zero = program.literal(b"0", part)
        return program.split([whole, zero, program.literal(b"-", program.split([digits, zero]))])
    most = Bound(Decimal(10) ** INTEGER_DIGITS, False)
    zero = Bound(Decimal(0))
    places = []
    if high is None or high.value >= 0:
        places.append(
            _magnitude(program, low if low and low.value > 0 else zero, high or most, fraction, multiple)
        )
        if low and low.value == 0 and not low.included:
            places[-1] = _magnitude(program, low, high or most, fraction, multiple)
    if low is None or low.value < 0:
        least = Bound(Decimal(0), False) if high is None or high.value >= 0 else _minus(high)
        magnitude = _magnitude(program, least, _minus(low) if low else most, fraction, multiple)
        places.append(program.literal(b"-", magnitude))
    return program.split(places)


def _plain_digits(program: Program, fraction: int) -> int:
    digit = byte_set(48, 57)
    end = program.split(
        [program.DONE, _fraction(program, fraction, program.DONE) if fraction else program.DEAD]
    )
    more = end
    for _ in range(INTEGER_DIGITS - 1):
        more = program.split([end, program.byte(digit, more)])
    return program.byte(byte_set(49, 57), more)


def _fraction(program: Program, digits: int, then: int) -> int:
    """A point and one to `digits` digits."""
    digit = byte_set(48, 57)
    more = then
    for _ in range(digits - 1):
        more = program.split([then, program.byte(digit, more)])
    return program.literal(b".", program.byte(digit, more))


def _minus(bound: Bound) -> Bound:
    return Bound(-bound.value, bound.included)


def _digits(value: Decimal) -> tuple[str, str]:
    whole, _, fraction = format(value, "f").partition(".")
    return whole, fraction.rstrip("0")


def _magnitude(program: Program, low: Bound, high: Bound, fraction: int, multiple: int) -> int:
    """Decimals without a sign from `low` to `high`, both >= 0, with at most `fraction` digits after the point."""
    if high.value < low.value:
        return program.DEAD
    low_whole, low_part = _digits(low.value)
    high_whole, high_part = _digits(high.value)
    digit = [program.byte(byte_set(48 + d, 48 + d), program.DONE) for d in range(10)]
    free = {(a, b): program.byte(byte_set(48 + a, 48 + b), program.DONE) for a, b in ((0, 9), (1, 9))}
    point = program.literal(b".", program.DONE)

    def enough(tight_low: bool, tight_high: bool, position: int) -> bool:
        at_low = tight_low and (low_part[position:] or not low.included)
        at_high = tight_high and not high_part[position:] and not high.included
        return not at_low and not at_high

    def out(choices: range, next_node: Any) -> list[tuple[int, Hashable]]:
        targets = [(d, next_node(d)) for d in choices]
        kinds = {t for _, t in targets}
        span = (choices.start, choices.stop - 1)
        if len(kinds) == 1 and span in free:
            return [(free[span], targets[0][1])]
        return [(digit[d], t) for d, t in targets]

    def whole(left: int, tight_low: bool, tight_high: bool, rest: int, first: bool = False) -> Any:
        """Edges where `left` more digits stand before the point; a bound that is tight has as many."""
        low_digit = int(low_whole[-left]) if tight_low else 0
        high_digit = int(high_whole[-left]) if tight_high else 9

        def following(d: int) -> Hashable:
            tight = tight_low and d == low_digit, tight_high and d == high_digit
            return "whole", left - 1, *tight, (rest * 10 + d) % multiple

        return out(range(max(low_digit, first and left > 1), high_digit + 1), following)

    def edges(node: Any) -> tuple[bool, list[Any]]:
        if node == "start":
            lengths = range(len(low_whole), len(high_whole) + 1)
            tight = [(n, n == len(low_whole), n == len(high_whole)) for n in lengths]
            return False, [edge for t in tight for edge in whole(*t, 0, first=True)]
        kind, n, tight_low, tight_high, rest = node
        if kind == "whole":
            if n:
                return False, whole(n, tight_low, tight_high, rest)
            more = [(point, ("part", 0, tight_low, tight_high, 0))] if fraction else []
            return rest == 0 and enough(tight_low, tight_high, 0), more
        ends = n > 0 and enough(tight_low, tight_high, n)
        if n == fraction:
            return ends, []
        low_digit = int(low_part[n]) if n < len(low_part) else 0
        high_digit = int(high_part[n]) if n < len(high_part) else 0

        def after(d: int) -> Hashable:
            return "part", n + 1, tight_low and d == low_digit, tight_high and d == high_digit, 0

        return ends, out(range(low_digit if tight_low else 0, (high_digit if tight_high else 9) + 1), after)

    place = program.graph("start", edges, 200_000, program.DONE)
    assert place is not None
    return place


def _scientific(program: Program) -> int:
    digit = byte_set(48, 57)
    two = program.byte(digit, program.byte(digit, program.DONE))
    positive = program.split([two, program.byte(byte_set(49, 50), two)])  # up to e+299: finite
    negative = program.split([two, program.byte(byte_set(49, 51), two)])
    exponent = program.literal(
        b"e", program.split([program.literal(b"+", positive), program.literal(b"-", negative)])
    )
    mantissa = program.byte(
        byte_set(49, 57), program.split([exponent, _fraction(program, FRACTION_DIGITS, exponent)])
    )
    return program.split([mantissa, program.literal(b"-", mantissa)])
