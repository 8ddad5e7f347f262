"""Kinds of pools: what a slot of a template may say, and the value a caller would want for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from needlex.data.embedded.held_out import value_held_out


class Pool:
    """A source of values for a slot."""

    open = False
    """Whether any text may stand here, so that values can be held out; not numbers, dates, closed lists."""
    spoken = False
    """Whether the value is (part of) the text of the query, letter by letter."""
    loose = False
    """Whether a listener can only guess where the value ends."""

    def draw(self, random: Random, held_out: bool) -> tuple[str, Any]:
        """The text for the query and the JSON value for the answer.

        `held_out` asks for a value that training never sees; pools that are not open ignore it. A value
        that is a mapping gives several arguments at once.
        """
        raise NotImplementedError


class Words(Pool):
    """An open slot over a list; the value is the text itself.

    Half of the draws fill one of the `patterns`, where there are any, by `fill`; what comes of it is held out
    by the finished text.
    """

    open = spoken = True

    def __init__(
        self,
        entries: Sequence[str],
        loose: bool = False,
        patterns: Sequence[str] = (),
        fill: Callable[[Random, str], str] | None = None,
    ):
        entries = tuple(dict.fromkeys(entries))
        self.loose, self.patterns, self.fill = loose, tuple(patterns), fill
        self.trained = tuple(e for e in entries if not value_held_out(e))
        self.unseen = tuple(e for e in entries if value_held_out(e))
        if len(self.trained) < 3 or len(self.unseen) < 3:
            raise ValueError(f"pool {entries[:3]}... is too small to hold a fifth of it out; add entries")

    def draw(self, random: Random, held_out: bool) -> tuple[str, str]:
        if self.patterns and self.fill and random.random() < 0.5:
            while value_held_out(value := self.fill(random, pick(random, self.patterns))) != held_out:
                pass
        else:
            value = pick(random, self.unseen if held_out else self.trained)
        return value, value


class Made(Pool):
    """An open slot whose texts are made by a function; held out by the finished text."""

    open = spoken = True

    def __init__(self, make: Callable[[Random], str], loose: bool = False):
        self.make, self.loose = make, loose

    def draw(self, random: Random, held_out: bool) -> tuple[str, str]:
        while True:
            value = self.make(random)
            if value_held_out(value) == held_out:
                return value, value


class Several(Pool):
    """A list of two or more values of another pool, as `a, b and c`."""

    open = spoken = True

    def __init__(self, pool: Pool, most: int):
        self.pool, self.most = pool, most

    def draw(self, random: Random, held_out: bool) -> tuple[str, list[str]]:
        values: list[str] = []
        wanted = random.randint(2, self.most)
        while len(values) < wanted:
            value = self.pool.draw(random, held_out)[1]
            if value not in values:
                values.append(value)
        return f"{', '.join(values[:-1])} and {values[-1]}", values


class Verbatim(Pool):
    """Times, dates and codes: spoken, but of a known form, so that nothing is held out."""

    spoken = True

    def __init__(self, make: Callable[[Random], str], before: Callable[[str], str] = lambda value: ""):
        self.make, self.before = make, before

    def draw(self, random: Random, held_out: bool) -> tuple[str, str]:
        value = self.make(random)
        return self.before(value) + value, value


class Number(Pool):
    """A whole number `low..high` in steps.

    Half of the draws take one of `favourites`, where there are any; the share `spelled` is written out in
    words.
    """

    def __init__(
        self, low: int, high: int, step: int = 1, spelled: float = 0.0, favourites: Sequence[int] = ()
    ):
        self.range, self.spelled, self.favourites = range(low, high + 1, step), spelled, favourites

    def draw(self, random: Random, held_out: bool) -> tuple[str, int]:
        likely = self.favourites and random.random() < 0.5
        value = pick(random, self.favourites if likely else self.range)
        return (spell(value) if random.random() < self.spelled else str(value)), value


class Decimal(Pool):
    """A number from `low` to below `high`: an integer in the share `whole`, else with `digits` decimals."""

    def __init__(self, low: int, high: int, digits: int, whole: float):
        self.low, self.high, self.digits, self.whole = low, high, digits, whole

    def draw(self, random: Random, held_out: bool) -> tuple[str, float | int]:
        value: float | int
        if random.random() < self.whole:
            value = random.randint(self.low, self.high)
        else:
            scale = 10**self.digits
            # No trailing zero: 848.40 would be read as 848.4.
            units = random.randint(self.low * scale, self.high * scale - 1)
            value = (units // 10 * 10 + random.randint(1, 9)) / scale
        return str(value), value


class Closed(Pool):
    """A closed list: texts and the canonical value of each."""

    def __init__(self, values: Mapping[str, Any]):
        self.items = tuple(values.items())

    def draw(self, random: Random, held_out: bool) -> tuple[str, Any]:
        return pick(random, self.items)


_AN = re.compile(r"\b([Aa]) (?=(?:[aei]\w|o(?!ne)\w|um|8|11\b|18\b|hd\b))")


def an(text: str) -> str:
    """`a apple` becomes `an apple`."""
    return _AN.sub(r"\1n ", text)


def pick(random: Random, entries: Sequence[Any]) -> Any:
    """One of the entries; `Random.choice` without its overhead."""
    return entries[int(random.random() * len(entries))]


_UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def spell(number: int) -> str:
    """An integer 0..99 in words; anything else in digits."""
    if not 0 <= number < 100:
        return str(number)
    if number < 20:
        return _UNITS[number]
    return _TENS[number // 10] + (f" {_UNITS[number % 10]}" if number % 10 else "")
