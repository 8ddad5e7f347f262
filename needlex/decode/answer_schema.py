"""The machine of all answers to a set of tools: the text that `render_answer` would write, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from needlex.data.render import AnswerWriter
from needlex.decode import numbers
from needlex.decode.characters import Ranges, character
from needlex.decode.machine import INFINITE, Program, byte_set
from needlex.decode.numbers import Bound
from needlex.decode.patterns import FORMATS, PatternError, string
from needlex.decode.schema_forms import TYPES, Plain, Where, alternatives, fits_type, same, standard
from needlex.schema import SchemaError, Tool

MAX_DEPTH = 8
"""Arrays and objects inside one another where the schema admits any value."""
MAX_COUNT = 4096
"""Largest minLength, maxLength, minItems and maxItems that are counted."""
_WIDTHS = {"int32": 31, "int64": 63}


class AnswerMachine:
    """Builds the program; `start` is where an answer begins, `open` whether keys are free anywhere."""

    def __init__(self, tools: Sequence[Tool], max_calls: int | None):
        if max_calls is not None and max_calls < 1:
            raise ValueError(f"max_calls is {max_calls}; at least one call must be allowed")
        self.program = p = Program()
        self.open = False
        self._characters: dict[Ranges, int] = {}
        self._plains: dict[str, int] = {}
        self._any: dict[int, int] = {}
        self._string = string(p, (), 0, None, self._character)
        call = p.split([self._call(tool) for tool in tools])
        self.start = p.literal(b"[", self._items(call, 0, max_calls))

    def _character(self, ranges: Ranges) -> int:
        if ranges not in self._characters:
            self._characters[ranges] = character(self.program, ranges)
        return self._characters[ranges]

    def _call(self, tool: Tool) -> int:
        p = self.program
        document = standard(tool.to_json()["parameters"])
        for parameter in tool.parameters:  # definitions that travel inside a parameter
            for key in ("$defs", "definitions"):
                if isinstance(parameter.schema.get(key), Mapping):
                    inner, known = standard({key: parameter.schema[key]})[key], document.get(key, {})
                    for name in inner.keys() & known.keys():
                        if not same(inner[name], known[name]):
                            raise SchemaError(
                                f"tool {tool.name!r}, parameters/{parameter.name}: {key!r} has another meaning of {name!r} than "
                                "the parameters before; give one of the two another name"
                            )
                    document = {**document, key: {**inner, **known}}
        where = Where(tool.name, document)
        arguments = self._object({k: document[k] for k in ("properties", "required")}, where, closed=True)
        if p.cost[arguments] >= INFINITE:
            raise SchemaError(f"tool {tool.name!r}: no arguments can satisfy its schema")
        head = b'{"name":' + _key(tool.name, where) + b',"arguments":'
        return p.literal(head, p.call(arguments, p.literal(b"}", p.DONE)))

    def _items(self, item: int, least: int, most: int | None, head: Sequence[int] = ()) -> int:
        """After `[`: items separated by commas, and the closing bracket."""
        p = self.program
        if most is not None and least > most:
            return p.DEAD
        end = p.literal(b"]", p.DONE)
        fixed = len(head)

        def one(i: int) -> int:
            return head[i] if i < fixed else item

        if most is None:
            base = max(least, fixed, 1)
            after = p.loop(lambda again: [end, p.literal(b",", p.call(item, again))])
        else:
            base, after = most, end
        for i in range(base - 1, -1, -1):  # `after` stands behind item i
            before = p.call(one(i), after)
            if i == 0:
                return p.split([before, end] if least == 0 else [before])
            after = p.split([p.literal(b",", before), *([end] if i >= least else [])])
        return end

    def value(self, schema: Any, where: Where) -> int:
        """A subroutine for the values of a schema; `DEAD` if there is none."""
        if schema is True or schema == {}:
            return self._anything(MAX_DEPTH)
        return self.program.split([self._plain(plain, at) for plain, at in alternatives(schema, where)])

    def _needed(self, schema: Any, where: Where) -> int:
        place = self.value(schema, where)
        if self.program.cost[place] >= INFINITE:
            raise SchemaError(
                f"tool {where.tool!r}, parameters{where.path}: no value can satisfy this schema"
            )
        return place

    def _plain(self, plain: Plain, where: Where) -> int:
        key = json.dumps([plain, where.refs], sort_keys=True, default=str)
        if '"$ref"' in key:  # what it leads to is known in its own tool only
            key += json.dumps(where.tool)
        known = self._plains.get(key)
        if known is None:
            known = self._plains[key] = self._built(plain, where)
        return known

    def _built(self, plain: Plain, where: Where) -> int:
        p = self.program
        kinds = plain.get("type", TYPES)
        if "enum" in plain:
            rest = {k: v for k, v in plain.items() if k != "enum"}
            allowed = None if rest.keys() <= {"type"} else self._plain(rest, where)
            texts = []
            for value in plain["enum"]:
                text = _written(value, where)
                if fits_type(value, kinds) and (allowed is None or p.accepts(allowed, text)):
                    texts.append(text)
            if not texts:
                raise where.error(
                    "enum", f"has no value that the rest of the schema admits (type {'/'.join(kinds)})"
                )
            return p.split([p.literal(t, p.DONE) for t in dict.fromkeys(texts)])
        if set(kinds) == set(TYPES) and plain.keys() <= {"type"}:
            return self._anything(MAX_DEPTH)
        places = []
        for kind in kinds:
            if kind == "integer" and "number" in kinds:
                continue
            if kind == "string":
                places.append(self._text(plain, where))
            elif kind in ("integer", "number"):
                places.append(self._number(kind, plain, where))
            elif kind == "boolean":
                places += [p.literal(b"true", p.DONE), p.literal(b"false", p.DONE)]
            elif kind == "null":
                places.append(p.literal(b"null", p.DONE))
            elif kind == "array":
                places.append(self._array(plain, where))
            else:
                places.append(self._object(plain, where))
        return p.split(places)

    def _text(self, plain: Plain, where: Where) -> int:
        patterns = list(plain.get("pattern", ()))
        for name in plain.get("format", ()):
            if name in FORMATS:
                patterns.append(FORMATS[name])
            else:
                raise where.error("format", f"{name!r} is not supported; known: {', '.join(sorted(FORMATS))}")
        least, most = int(plain.get("minLength", 0)), plain.get("maxLength")
        if max(least, most or 0) > MAX_COUNT:
            raise where.error("maxLength", f"beyond {MAX_COUNT} cannot be counted; lower or remove it")
        if not patterns and not least and most is None:
            return self._string
        try:
            return string(self.program, patterns, least, None if most is None else int(most), self._character)
        except PatternError as e:
            keyword = "pattern" if patterns else "maxLength"
            raise where.error(keyword, f"cannot be enforced: {e}") from None

    def _number(self, kind: str, plain: Plain, where: Where) -> int:
        low = high = None
        for name in plain.get("format", ()):
            if name in _WIDTHS and kind == "integer":
                width = Decimal(2 ** _WIDTHS[name])
                low, high = Bound(-width), Bound(width - 1)
            elif name not in ("float", "double") and plain.get("type") == (kind,):
                raise where.error("format", f"{name!r} is not supported for numbers")
        for key, included in (("minimum", True), ("exclusiveMinimum", False)):
            if key in plain:
                bound = Bound(_decimal(plain[key]), included)
                if low is None or (bound.value, not included) > (low.value, not low.included):
                    low = bound
        for key, included in (("maximum", True), ("exclusiveMaximum", False)):
            if key in plain:
                bound = Bound(_decimal(plain[key]), included)
                if high is None or (bound.value, included) < (high.value, high.included):
                    high = bound
        multiple = plain.get("multipleOf")
        if multiple is None and kind == "number":
            return numbers.number(self.program, low, high)
        multiple = 1 if multiple is None else multiple
        if multiple != int(multiple) or not 1 <= multiple <= numbers.MAX_MULTIPLE:
            raise where.error(
                "multipleOf", f"{multiple} is not a whole number from 1 to {numbers.MAX_MULTIPLE}; remove it"
            )
        return numbers.integer(self.program, low, high, int(multiple))

    def _array(self, plain: Plain, where: Where) -> int:
        p = self.program
        least, most = int(plain.get("minItems", 0)), plain.get("maxItems")
        if max(least, most or 0) > MAX_COUNT:
            raise where.error("maxItems", f"beyond {MAX_COUNT} cannot be counted; lower or remove it")
        if plain.get("uniqueItems") and (most is None or most > 1):
            raise where.error(
                "uniqueItems", "cannot be enforced; remove it, or use one boolean for each choice"
            )
        if plain.get("items") == {} or "items" not in plain:
            item = self._anything(MAX_DEPTH - 1)
        else:
            item = self.value(plain["items"], where.at("items"))
        head = [
            self.value(s, where.at(f"prefixItems/{i}")) for i, s in enumerate(plain.get("prefixItems", ()))
        ]
        if item == p.DEAD:
            most = min(len(head), len(head) if most is None else most)
        return p.literal(b"[", self._items(item, least, None if most is None else int(most), head))

    def _object(self, plain: Plain, where: Where, closed: bool = False) -> int:
        """Declared keys in sorted order; free ones only in an object that declares none."""
        p = self.program
        properties: dict[str, Any] = dict(plain.get("properties", {}))
        required = set(plain.get("required", ()))
        others = plain.get("additionalProperties", not closed)
        for name in sorted(required - set(properties)):
            properties[name] = others
        if not properties and others is not False:
            return self._map(self.value(others, where.at("additionalProperties")))
        after = first = p.literal(b"}", p.DONE)
        for name in sorted(properties, reverse=True):
            at = where.at(name)
            if name not in required and properties[name] is False:
                continue
            value = self._needed(properties[name], at)
            member = p.literal(_key(name, at) + b":", p.call(value, after))
            following = p.byte(byte_set(44, 44), member)
            first = p.split([member] if name in required else [member, first])
            after = p.split([following] if name in required else [following, after])
        return p.literal(b"{", first)

    def _map(self, value: int) -> int:
        p = self.program
        self.open = True
        behind_quote = p.second[self._string]
        end = p.literal(b"}", p.DONE)

        def member(again: int) -> int:
            return p.literal(b'"', p.call(behind_quote, p.literal(b":", p.call(value, again)), mark=True))

        after = p.loop(lambda again: [end, p.literal(b",", member(again))])
        return p.literal(b"{", p.split([end, member(after)]))

    def _anything(self, depth: int) -> int:
        known = self._any.get(depth)
        if known is None:
            p = self.program
            if depth == 0:
                number = numbers.number(p, None, None)
                words = [p.literal(w, p.DONE) for w in (b"true", b"false", b"null")]
                known = p.split([self._string, number, *words])
            else:
                inner = self._anything(depth - 1)
                array = p.literal(b"[", self._items(inner, 0, None))
                known = p.split([self._anything(0), array, self._map(inner)])
            self._any[depth] = known
        return known


def _key(name: str, where: Where) -> bytes:
    try:
        return json.dumps(name, ensure_ascii=False).encode()
    except UnicodeEncodeError as e:
        raise SchemaError(
            f"tool {where.tool!r}: the name {name!r} is not valid Unicode: {e.reason}"
        ) from None


def _decimal(value: int | float) -> Decimal:
    return Decimal(repr(value))


def _written(value: Any, where: Where) -> bytes:
    writer = AnswerWriter()
    try:
        writer.value(value)
        return writer.text.encode()
    except (TypeError, UnicodeEncodeError) as e:
        raise where.error("enum", f"has a value that no answer can hold: {e}") from None
