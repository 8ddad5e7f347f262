"""Other values in the same query: whatever an answer copies from the query becomes something unseen.

A value is replaced only where it is certain what stands for what: free text or a whole number, verbatim in
the query as whole words, as often as the answer needs it, and apart from every other value. No new value
is one that the embedded data hold out for evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from needlex.data import words as pools
from needlex.data.embedded.held_out import value_held_out
from needlex.data.words import Draw
from needlex.schema import Call, Example

_Key = tuple[type, Any]
"""A value and its type: 1, 1.0, True and "1" are four values."""


def replace_values(example: Example, draw: Draw) -> Example:
    """The example with most replaceable values changed, alike in the query and in the answer."""
    query, folded = example.query, example.query.lower()
    if not example.calls or len(folded) != len(query):  # a few letters change length; positions must agree
        return example
    uses = _uses(example)
    taken = [str(value).lower() for _, value in uses]
    new: dict[_Key, Any] = {}
    cuts: list[tuple[int, int, str]] = []
    for key, places in _replaceable(query, folded, uses).items():
        if draw.unit() < _KEPT:
            continue
        for _ in range(4):
            value = _new_text(key[1], draw) if key[0] is str else _new_integer(key[1], uses[key], draw)
            text = str(value)
            low = text.lower()
            seen = low in folded or any(low in t or t in low for t in taken)
            if value is not None and not seen and not value_held_out(text):
                new[key] = value
                taken.append(low)
                cuts += [(i, i + len(str(key[1])), text) for i in places]
                break
    if not new:
        return example
    pieces, end = [], 0
    for start, stop, text in sorted(cuts):
        pieces += [query[end:start], text]
        end = stop
    query = "".join(pieces) + query[end:]
    calls = tuple(Call(c.name, {k: _swap(v, new) for k, v in c.arguments.items()}) for c in example.calls)
    return Example(query, example.tools, calls, example.source)


_KEPT = 0.2
"""Share of values that stay in a row whose values are replaced: anchors that tell the others apart."""


def _uses(example: Example) -> dict[_Key, list[Mapping[str, Any]]]:
    """The distinct values of the answer, each with the schema of every place that uses it."""
    schemas = {t.name: {p.name: p.schema for p in t.parameters} for t in example.tools}
    uses: dict[_Key, list[Mapping[str, Any]]] = {}
    for call in example.calls:
        for name, value in call.arguments.items():
            for leaf, schema in _leaves(value, schemas[call.name].get(name)):
                uses.setdefault((type(leaf), leaf), []).append(schema)
    return uses


def _replaceable(
    query: str, folded: str, uses: Mapping[_Key, list[Mapping[str, Any]]]
) -> dict[_Key, list[int]]:
    """The values that may be replaced, with the positions where they stand in the query."""
    places: dict[_Key, list[int]] = {}
    stands: list[tuple[int, int, _Key]] = []
    for key, schemas in uses.items():
        kind, value = key
        text = str(value)
        if not text or kind is bool:
            continue
        found = _occurrences(query, text)
        fits = len(found) in (1, len(schemas)) if kind is str else len(found) == len(schemas) == 1
        if fits and all(_is_free(value, schema) for schema in schemas):
            places[key] = found
        # Wherever a value might stand, in any spelling, no other value may be replaced.
        loose = text.lower().replace("_", " ")
        stands += [(i, i + len(loose), key) for i in _occurrences(folded, loose, bounded=False)]
    for key in list(places):
        size = len(str(key[1]))
        if any(a < i + size and i < b and other != key for i in places[key] for a, b, other in stands):
            del places[key]
    return places


def _leaves(value: Any, schema: Any) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Strings and numbers inside a value, each with the schema that rules it (`{}` where there is none)."""
    schema = schema if isinstance(schema, Mapping) else {}
    if isinstance(value, (Mapping, list, tuple)) and not _FIXING.isdisjoint(schema):
        # References and unions are not followed: whatever is inside stays as it is.
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(inner, schema)
    elif isinstance(value, Mapping):
        properties = schema.get("properties")
        for key, inner in value.items():
            yield from _leaves(inner, properties.get(key) if isinstance(properties, Mapping) else None)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _leaves(inner, schema.get("items"))
    elif isinstance(value, (str, int, float)):
        yield value, schema


_FIXING = frozenset(
    (
        "$ref",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "pattern",
        "format",
        "minLength",
        "maxLength",
        "multipleOf",
    )
)
_STRING_TYPES = frozenset(("string", "str"))
_NUMBER_TYPES = frozenset(("integer", "int", "number", "num", "float"))
_FUNCTION = """
a all always an and any at both by daily down each every everyone everything false for from high here in it
last left less low lower max me medium min more my never next no none now off on one open or right start
stop that the there this to today tomorrow tonight true two up us was with yes yesterday you
"""
_FUNCTION_WORDS = frozenset(_FUNCTION.split())
"""Words that carry the meaning of a query wherever they stand: as values they are left alone."""


def _is_free(value: Any, schema: Mapping[str, Any]) -> bool:
    if isinstance(value, (bool, float)) or not _FIXING.isdisjoint(schema):
        return False
    kind = schema.get("type")
    kinds = {kind} if isinstance(kind, str) else set(kind or ())
    if isinstance(value, str):
        return (not kinds or not kinds.isdisjoint(_STRING_TYPES)) and value.lower() not in _FUNCTION_WORDS
    return value >= 0 and (not kinds or not kinds.isdisjoint(_NUMBER_TYPES))


def _occurrences(text: str, part: str, bounded: bool = True) -> list[int]:
    """Where `part` stands in `text`; `bounded`: as whole words, and no piece of a number, time or date."""
    found = []
    at = text.find(part)
    while at >= 0:
        end = at + len(part)
        if not bounded or (_is_border(text, at, -1) and _is_border(text, end - 1, 1)):
            found.append(at)
        at = text.find(part, end if bounded else at + 1)
    return found


def _is_border(text: str, edge: int, step: int) -> bool:
    """Whether a word ends at character `edge` in direction `step`."""
    inner, i = text[edge], edge + step
    if not 0 <= i < len(text):
        return True
    outer = text[i]
    if (inner.isalnum() or inner == "_") and (outer.isalnum() or outer == "_"):
        return False
    beyond = text[i + step] if 0 <= i + step < len(text) else ""
    if inner.isdigit() and outer in ".,:/-" and beyond.isdigit():
        return False
    return not (inner.isdigit() and step < 0 and outer in "-+.")


def _new_text(value: str, draw: Draw) -> str:
    """Words nobody has seen, of about the length and capitals of `value`; often only its digits change."""
    if any(c.isdigit() for c in value) and draw.unit() < 0.7:
        return re.sub(r"\d+", lambda m: _new_digits(m[0], draw), value)
    length = value.count(" ") + 1
    if length > 3 or draw.unit() < 0.3:
        length = 1 + draw.below(3)
    words = [draw.pseudo_word() if draw.unit() < 0.5 else draw.pick(pools.WORDS) for _ in range(length)]
    if draw.unit() < 0.05:
        words.append(str(1 + draw.below(99)))
    capitals = draw.unit()
    if value[:1].isupper() != (capitals < 0.15):  # as the value had it, most often
        words = [w[:1].upper() + w[1:] for w in words]
    return " ".join(words)


def _new_digits(digits: str, draw: Draw) -> str:
    """Other digits that could stand for the same: hours stay hours, minutes minutes, years four digits."""
    if len(digits) == 1:
        return str(1 + draw.below(9))
    if len(digits) == 2 and digits[0] != "0":
        value = int(digits)
        low, high = next((lo, hi) for lo, hi in ((10, 12), (13, 31), (32, 59), (60, 99)) if value <= hi)
        return str(low + draw.below(high - low + 1))
    keep = 2 if len(digits) == 4 and digits[:2] in ("19", "20") else 0
    return digits[:keep] + "".join([str(draw.below(9) + 1) for _ in digits[keep:]])


def _new_integer(value: int, schemas: list[Mapping[str, Any]], draw: Draw) -> int | None:
    """Another integer of as many digits that every schema admits, or `None`."""
    digits = len(str(value))
    low, high = (10 ** (digits - 1) if digits > 1 else 1), 10**digits - 1
    for schema in schemas:
        low = max(
            low, _number(schema.get("minimum"), low), _number(schema.get("exclusiveMinimum"), low - 1) + 1
        )
        high = min(
            high, _number(schema.get("maximum"), high), _number(schema.get("exclusiveMaximum"), high + 1) - 1
        )
    low, high = int(np.ceil(low)), int(np.floor(high))
    return low + draw.below(high - low + 1) if high > low else None


def _number(value: Any, default: int | float) -> int | float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else default


def _swap(value: Any, new: Mapping[_Key, Any]) -> Any:
    if isinstance(value, Mapping):
        return {k: _swap(v, new) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_swap(v, new) for v in value]
    return new.get((type(value), value), value) if isinstance(value, (str, int, float)) else value
