"""Shared by the grammar's tests: a small tokenizer, writers that obey a matcher, and random schemas with values."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
import numpy as np
from hypothesis import strategies as st

from needlex.data.generate import GenerateConfig, generate
from needlex.data.render import render_answer, render_tools
from needlex.data.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from needlex.decode.grammar import Grammar
from needlex.decode.schema_forms import standard
from needlex.schema import Example, Tool, load_json


@cache
def rows(count: int = 400) -> list[Example]:
    return generate(GenerateConfig(rows=count))


@cache
def tokenizer(size: int = 700) -> Tokenizer:
    texts = [t for e in rows() for t in (e.query, render_tools(e.tools), render_answer(e.calls)[0])]
    return train_tokenizer(texts, TokenizerConfig(vocab_size=size))


def tool(parameters: dict[str, Any], required: tuple[str, ...] = (), name: str = "act") -> Tool:
    schema = {"type": "object", "properties": parameters, "required": list(required)}
    return Tool.from_json({"name": name, "parameters": schema})


STYLES = ("random", "longest", "never_close", "quote", "nest", "digits")


def scores(style: str, rng: np.random.Generator, pieces: tuple[bytes, ...]) -> np.ndarray:
    noise = rng.normal(size=len(pieces))
    like = {
        "random": lambda p: 0.0,
        "longest": len,
        "never_close": lambda p: -20.0 * any(c in p for c in b'"]}') - 20.0 * (not p),
        "quote": lambda p: 9.0 * (b'"' in p),
        "nest": lambda p: 9.0 * any(c in p for c in b"[{,"),
        "digits": lambda p: 9.0 * p.isdigit() + 5.0 * (b"." in p or b"-" in p),
    }[style]
    return 3 * noise + np.array([float(like(p)) for p in pieces])


def write(
    grammar: Grammar, budget: int, style: str, seed: int, use_forced: bool = True
) -> tuple[str, list[int]]:
    """What comes out when only the mask stands between such a model and nonsense."""
    rng, pieces = np.random.default_rng(seed), grammar.vocabulary.pieces
    matcher, out = grammar.matcher(budget), []
    weights = scores(style, rng, pieces)
    while not matcher.finished:
        forced = matcher.forced() if use_forced else []
        for token in forced:
            matcher.consume(token)
        out += forced
        if forced:
            continue
        mask = matcher.mask()
        assert mask.any()
        logits = np.where(mask, weights + rng.normal(size=len(pieces)), -np.inf)
        token = int(logits.argmax())
        matcher.consume(token)
        out.append(token)
    assert len(out) <= budget
    assert out[-1] == 1 and all(t > 5 for t in out[:-1])
    return b"".join(pieces[t] for t in out).decode(), out


def check(
    text: str, tools: tuple[Tool, ...], definitions: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The answer, after an independent validator has seen it."""
    answer = load_json(text, "the answer")
    by_name = {t.name: t for t in tools}
    for call in answer:
        assert list(call) == ["name", "arguments"]
        chosen = by_name[call["name"]]
        assert set(call["arguments"]) <= set(chosen.parameter_names)
        schema = standard(chosen.to_json()["parameters"])
        if definitions:
            schema["$defs"] = definitions
        jsonschema.Draft202012Validator(
            schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
        ).validate(call["arguments"])
    assert json.loads(text, object_pairs_hook=_no_repeats) is not None
    return answer


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({k for k, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NAMES = st.one_of(
    st.sampled_from(["a", "ab", "a b", 'q"x', "ü", "日本", "type", "A", "\\", "名"]), TEXT.filter(str.strip)
)
PATTERNS = [("^a+$", "aa"), ("b|c", "xbx"), (r"^\d{2}-[A-F]*$", "12-AF"), ("é$", "né"), (r"^[^x]{2,}$", 'y"')]
FORMATS = [("date", "2024-02-29"), ("time", "10:00:00Z"), ("ipv4", "10.0.0.1"), ("email", "a.b@c.de")]
FORMATS += [("uuid", "0123abcd-0123-0123-0123-0123456789ab"), ("date-time", "2023-12-31T23:59:59Z")]
FLOATS = st.floats(-1e200, 1e200, allow_nan=False, allow_subnormal=False).filter(lambda x: str(x) != "-0.0")
INTEGERS = st.integers(-(10**19), 10**19)
SCALARS = st.one_of(TEXT, INTEGERS, FLOATS, st.booleans(), st.none())
ANYTHING = st.recursive(
    SCALARS, lambda v: st.one_of(st.lists(v, max_size=2), st.dictionaries(TEXT, v, max_size=2)), max_leaves=4
)

Kind = tuple[dict[str, Any], st.SearchStrategy[Any]]
"""A schema, and values that match it."""


@st.composite
def kinds(draw: st.DrawFn, depth: int = 2) -> Kind:
    names = [
        "string", "length", "pattern", "format", "integer", "range", "multiple", "number", "bounded", "boolean",
        "null", "enum", "const", "types", "any", "alias",
    ]  # fmt: skip
    if depth:
        names += ["array", "array", "tuple", "object", "object", "map", "anyOf", "oneOf", "allOf"]
    what = draw(st.sampled_from(names))
    inner = kinds(depth - 1) if depth else None
    if what == "string":
        return {"type": "string", "description": "any text"}, TEXT
    if what == "length":
        low = draw(st.integers(0, 4))
        high = draw(st.integers(low, 6))
        return {"type": "string", "minLength": low, "maxLength": high}, st.text(
            st.characters(codec="utf-8"), min_size=low, max_size=high
        )
    if what == "pattern":
        pattern, value = draw(st.sampled_from(PATTERNS))
        return {"type": "string", "pattern": pattern}, st.just(value)
    if what == "format":
        name, value = draw(st.sampled_from(FORMATS))
        return {"type": "string", "format": name}, st.just(value)
    if what == "integer":
        return {"type": "integer"}, INTEGERS
    if what == "range":
        low = draw(st.integers(-2000, 2000))
        high = draw(st.integers(low, low + 3000))
        schema = draw(
            st.sampled_from(
                [
                    {"minimum": low, "maximum": high},
                    {"exclusiveMinimum": low - 1, "exclusiveMaximum": high + 1},
                ]
            )
        )
        return {"type": "integer", **schema}, st.integers(low, high)
    if what == "multiple":
        by = draw(st.integers(1, 30))
        return {"type": "integer", "multipleOf": by, "minimum": 0}, st.integers(0, 99).map(lambda n: n * by)
    if what == "number":
        return {"type": "number"}, st.one_of(FLOATS, INTEGERS)
    if what == "bounded":
        low = draw(st.integers(-500, 500)) / 100
        high = low + draw(st.integers(1, 3000)) / 100
        ends = draw(st.sampled_from([("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")]))
        middle = st.floats(0.01, 0.99).map(lambda f: round(low + f * (high - low), 4) + 0.0)
        inside = middle.filter(lambda x: low < x < high and "e" not in repr(x))
        return {"type": "number", ends[0]: low, ends[1]: high}, inside
    if what == "boolean":
        return {"type": "boolean"}, st.booleans()
    if what == "null":
        return {"type": "null"}, st.none()
    if what == "enum":
        values = draw(st.lists(ANYTHING, min_size=1, max_size=4))
        return {"enum": values}, st.sampled_from(values)
    if what == "const":
        value = draw(ANYTHING)
        return {"const": value}, st.just(value)
    if what == "types":
        return {"type": ["string", "integer", "null"], "minimum": 3, "maxLength": 2}, st.one_of(
            st.just("ab"), st.integers(3, 99), st.none()
        )
    if what == "any":
        return {}, ANYTHING
    if what == "alias":
        return draw(
            st.sampled_from(
                [({"type": "float"}, FLOATS), ({"type": "str"}, TEXT), ({"type": "any"}, ANYTHING)]
            )
        )
    assert inner is not None
    schema, values = draw(inner)
    if what == "array":
        low = draw(st.integers(0, 2))
        high = draw(st.integers(low, 3))
        sizes = draw(
            st.sampled_from([{"minItems": low, "maxItems": high}, {"minItems": low}, {"maxItems": high}])
        )
        counts = {"min_size": sizes.get("minItems", 0), "max_size": sizes.get("maxItems", 3)}
        return {"type": draw(st.sampled_from(["array", "list"])), "items": schema, **sizes}, st.lists(
            values, **counts
        )
    if what == "tuple":
        other, others = draw(inner)
        sizes = {"minItems": 2, "maxItems": 2}
        return {"type": "array", "prefixItems": [schema, other], **sizes}, st.tuples(values, others).map(list)
    if what == "map":
        return {"type": "object", "additionalProperties": schema}, st.dictionaries(TEXT, values, max_size=3)
    if what == "object":
        fields = {draw(NAMES): (schema, values)}
        for name in draw(st.lists(NAMES, max_size=2)):
            fields[name] = draw(inner)
        needed = draw(st.lists(st.sampled_from(sorted(fields)), unique=True))
        made = st.fixed_dictionaries(
            {n: fields[n][1] for n in needed},
            optional={n: f[1] for n, f in fields.items() if n not in needed},
        )
        return {
            "type": draw(st.sampled_from(["object", "dict"])),
            "properties": {n: f[0] for n, f in fields.items()},
            "required": needed,
            "additionalProperties": False,
        }, made
    if what == "anyOf":
        other, others = draw(inner)
        return {"anyOf": [schema, other]}, st.one_of(values, others)
    if what == "oneOf":
        return {"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}]}, st.one_of(
            INTEGERS, st.just("ab")
        )
    return {"allOf": [schema, {"description": "the same"}]}, values


@st.composite
def toolsets(draw: st.DrawFn) -> tuple[tuple[Tool, ...], list[dict[str, Any]]]:
    """Tools, and calls of them that are valid."""
    tools, calls = [], []
    for name in draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)):
        fields = {n: draw(kinds()) for n in draw(st.lists(NAMES, max_size=3, unique=True))}
        needed = tuple(n for n in fields if draw(st.booleans()))
        tools.append(tool({n: f[0] for n, f in fields.items()}, needed, name))
        kept = [n for n in fields if n in needed or draw(st.booleans())]
        calls.append({"name": name, "arguments": {n: draw(fields[n][1]) for n in kept}})
    return tuple(tools), draw(st.lists(st.sampled_from(calls), max_size=3))
