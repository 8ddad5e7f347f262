"""Sentence templates, read with hassil's parser and compiled to functions that draw one random sentence.

The syntax is that of Home Assistant: `(a|b)` alternatives, `[a]` optional, `(a;b)` either order, `<rule>`,
and `{pool}` or `{pool:slot}` for a value. A draw walks closures instead of the parsed tree: microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from hassil.expression import (
    Alternative,
    Expression,
    Group,
    ListReference,
    Permutation,
    RuleReference,
    TextChunk,
)
from hassil.parse_expression import parse_sentence

from needlex.data.embedded.pools import Pool, an, pick

_SPACES = re.compile(r"\s+")
_SPACE_BEFORE = re.compile(r" ([,.?!:])")
_ONE = re.compile(r"\b(1|one) (hour|minute|second)s\b")
_SLOT = re.compile(r"\{([^{}:]+)(?::([^{}]+))?\}")


@dataclass
class Draw:
    """One sentence while it is drawn, and the arguments its values give."""

    random: Random
    held_out: bool = False
    """Whether open slots take the values that training never sees."""
    arguments: dict[str, Any] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    skeleton: list[str] = field(default_factory=list)
    """As `parts`, with `{pool}` in place of each value."""
    slots: list[tuple[int, str, Pool]] = field(default_factory=list)
    """Where in `parts` a value stands, the slot it fills and the pool it is from."""
    spoken: list[str] = field(default_factory=list)
    """Values that stand in the query letter by letter."""
    is_open: bool = False
    """Whether a value comes from an open slot."""
    loose_end: bool = False
    """Whether the last part is free text, whose end a listener can only guess."""

    def text(self) -> str:
        text = _SPACE_BEFORE.sub(r"\1", _SPACES.sub(" ", "".join(self.parts)).strip())
        return an(_ONE.sub(r"\1 \2", text))

    def wording(self) -> str:
        """The sentence without its values: what a template, as opposed to a pool, contributes."""
        return " ".join("".join(self.skeleton).lower().split())


def slots_of(text: str) -> tuple[str, ...]:
    """The slots a template names, in order of appearance."""
    return tuple(slot or pool for pool, slot in _SLOT.findall(text))


Part = Callable[[Draw], None]


def compile_expression(text: str, rules: Mapping[str, str], pools: Mapping[str, Pool]) -> Part:
    """A function that appends one random sentence of the template to a `Draw`.

    **Raises:** `KeyError` for an unknown rule or pool, hassil's `ParseError` for bad syntax.
    """
    return _compile(_parse(text), rules, pools)


@cache
def _parse(text: str) -> Expression:
    return parse_sentence(text).expression if text.strip() else TextChunk(text)


def _compile(node: Expression, rules: Mapping[str, str], pools: Mapping[str, Pool]) -> Part:
    if isinstance(node, TextChunk):
        return _literal(node.original_text)
    if isinstance(node, ListReference):
        return _slot(node.list_name, node.slot_name, pools)
    if isinstance(node, RuleReference):
        return _compile(_parse(rules[node.rule_name]), rules, pools)
    if not isinstance(node, Group):
        raise TypeError(f"unknown template element {type(node).__name__}")
    items = [_compile(item, rules, pools) for item in node.items]
    if len(items) == 1:
        return items[0]
    if isinstance(node, Alternative):
        return _choice(items)
    if isinstance(node, Permutation):
        return _shuffle(items)
    return _sequence(items)


def _literal(text: str) -> Part:
    says_something = bool(text.strip())

    def part(draw: Draw) -> None:
        draw.parts.append(text)
        draw.skeleton.append(text)
        if says_something:
            draw.loose_end = False

    return part


def _slot(pool_name: str, slot: str, pools: Mapping[str, Pool]) -> Part:
    pool = pools[pool_name]
    marker = "{" + pool_name + "}"

    def part(draw: Draw) -> None:
        text, value = pool.draw(draw.random, draw.held_out)
        if isinstance(value, dict):  # one text that gives several arguments
            draw.arguments.update(value)
        else:
            draw.arguments[slot] = value
        if pool.spoken:
            spoken: list[str] = list(value) if isinstance(value, list) else [str(value)]
            draw.spoken.extend(spoken)
            draw.slots.append((len(draw.parts), slot, pool))
        draw.parts.append(text)
        draw.skeleton.append(marker)
        draw.is_open = draw.is_open or pool.open
        draw.loose_end = pool.loose

    return part


def _choice(items: list[Part]) -> Part:
    def part(draw: Draw) -> None:
        pick(draw.random, items)(draw)

    return part


def _sequence(items: list[Part]) -> Part:
    def part(draw: Draw) -> None:
        for item in items:
            item(draw)

    return part


def _shuffle(items: list[Part]) -> Part:
    def part(draw: Draw) -> None:
        for item in draw.random.sample(items, len(items)):
            item(draw)
            draw.parts.append(" ")
            draw.skeleton.append(" ")

    return part


@dataclass(frozen=True)
class Template:
    """One sentence template of a tool."""

    text: str
    combination: str
    """Which arguments it gives, and how; templates of one combination are each other's paraphrases."""
    part: Part
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that the wording itself implies."""
    must: re.Pattern[str] | None = None
    """A wording without a match is drawn again: its answer could not be told from the text."""

    def draw(self, random: Random, held_out: bool = False) -> Draw | None:
        """One sentence, or `None` when no acceptable one came up in a few tries."""
        for _ in range(12):
            draw = Draw(random, held_out, dict(self.fixed))
            self.part(draw)
            if self.must is None or self.must.search("".join(draw.skeleton)):
                return draw
        return None
