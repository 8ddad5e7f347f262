"""The Python value that a JSON value stands for under a type hint."""

from __future__ import annotations

import functools
import json
import math
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from needlex.hints.read import (
    EMPTY,
    FORMATS,
    KNOWN,
    LISTS,
    MAPS,
    SCALARS,
    UNIONS,
    Slot,
    at,
    is_record,
    keywords_of,
    options_of,
    shown,
    slots_of,
    unsupported,
    unwrapped,
    whole,
)
from needlex.schema import SchemaError


def value_of(hint: Any, value: Any, where: str) -> Any:
    """What a JSON value means under a hint: an Enum's member, a dataclass's instance, a date, a tuple, ...

    **Raises:** `SchemaError` that begins with `where` and says why the value does not fit.
    """
    hint, extras = unwrapped(hint)
    _check_bounds(keywords_of(extras, where), value, where)
    return _value(hint, value, where)


def slots_values(slots: Sequence[Slot], arguments: Any, where: str) -> dict[str, Any]:
    """The Python values of JSON arguments; an argument that may be None and has no default becomes None.

    **Raises:** `SchemaError` for arguments that are unknown, missing or do not fit.
    """
    if not isinstance(arguments, Mapping):
        raise SchemaError(f"{whole(where)}: needs an object of arguments by name, not {shown(arguments)}")
    names = [s.name for s in slots]
    if unknown := [k for k in arguments if k not in names]:
        raise SchemaError(f"{whole(where)}: unknown {unknown}; known: {names}")
    if missing := [s.name for s in slots if s.required and s.name not in arguments]:
        raise SchemaError(f"{whole(where)}: {missing} missing")
    out = {}
    for slot in slots:
        if slot.name in arguments:
            out[slot.name] = value_of(slot.hint, arguments[slot.name], at(where, slot.name))
        elif slot.default is EMPTY:
            out[slot.name] = None
    return out


def _value(hint: Any, value: Any, where: str) -> Any:
    if hint is Any or hint is object or hint is EMPTY:
        return value
    if isinstance(hint, type) and hint in SCALARS:
        return _scalar(hint, value, where)
    if isinstance(hint, type) and hint in FORMATS:
        name, read = FORMATS[hint]
        try:
            return read(_scalar(str, value, where))
        except ValueError as e:
            if isinstance(e, SchemaError):
                raise
            raise SchemaError(f"{whole(where)}: {value!r} is no {name}: {e}") from None
    if (options := options_of(hint, where)) is not None:
        for plain, member in options:
            if plain == value and isinstance(plain, bool) == isinstance(value, bool):
                return member
        raise SchemaError(f"{whole(where)}: {shown(value)} is none of {[v for v, _ in options]}")
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in UNIONS:
        return _branch(args, value, where)
    if origin in LISTS:
        if not isinstance(value, (list, tuple)):
            raise SchemaError(f"{whole(where)}: needs a list, not {shown(value)}")
        fixed = origin is tuple and hint is not tuple and args[-1:] != (...,)
        if fixed and len(args) != len(value):
            raise SchemaError(f"{whole(where)}: needs {len(args)} items, not {len(value)}")
        kinds = args if fixed else (args[:1] or (Any,)) * len(value)
        made = [value_of(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True))]
        try:
            return LISTS[origin](made)
        except TypeError as e:
            raise SchemaError(f"{whole(where)}: makes no set: {e}") from None
    if origin in MAPS:
        if not isinstance(value, Mapping):
            raise SchemaError(f"{whole(where)}: needs an object, not {shown(value)}")
        return {k: value_of(args[1] if args else Any, v, at(where, k)) for k, v in value.items()}
    if hasattr(hint, "__value__"):
        return value_of(hint.__value__, value, where)
    if not is_record(hint):
        raise unsupported(hint, where, KNOWN)
    if hasattr(hint, "model_json_schema"):
        return _pydantic_value(hint, value, where)
    made = slots_values(slots_of(hint, where), value, where)
    try:
        return hint(**made)
    except (ValueError, TypeError) as e:
        raise SchemaError(f"{whole(where)}: {hint.__name__} refuses it: {e}") from e


def _scalar(kind: type, value: Any, where: str) -> Any:
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    if kind in (int, float) and isinstance(value, (int, float)) and not isinstance(value, bool):
        # JSON has one kind of number.
        if kind is float and abs(value) < 2**1000:
            return float(value)
        if kind is int and math.isfinite(value) and value == int(value):
            return int(value)
    raise SchemaError(f"{whole(where)}: needs a value of type {SCALARS[kind]}, not {shown(value)}")


def _branch(args: Sequence[Any], value: Any, where: str) -> Any:
    """The first member of a union that fits; a number that one of them names exactly stays what it is."""
    if type(value) in (int, float):
        args = sorted(args, key=lambda a: unwrapped(a)[0] is not type(value))
    reasons = []
    for arg in args:
        try:
            return value_of(arg, value, where)
        except SchemaError as e:
            reasons.append(str(e).removeprefix(f"{whole(where)}: "))
    raise SchemaError(f"{whole(where)}: fits no member of the union: {'; '.join(reasons)}")


def _check_bounds(keywords: Mapping[str, Any], value: Any, where: str) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    for key, bound in keywords.items():
        right = True
        if number and ("imum" in key or key == "multipleOf"):
            right = {
                "minimum": value >= bound, "exclusiveMinimum": value > bound, "maximum": value <= bound,
                "exclusiveMaximum": value < bound, "multipleOf": key != "multipleOf" or value % bound == 0,
            }[key]  # fmt: skip
        elif "Length" in key and isinstance(value, (str, list, tuple)):
            right = len(value) >= bound if key == "minLength" else len(value) <= bound
        elif key == "pattern" and isinstance(value, str):
            right = re.search(bound, value) is not None
        if not right:
            raise SchemaError(f"{whole(where)}: {shown(value)} is against {key} {bound!r}")


def _pydantic_value(model: Any, value: Any, where: str) -> Any:
    try:
        return model.model_validate_json(json.dumps(value))
    except (ValueError, TypeError) as e:
        errors = e.errors() if hasattr(e, "errors") else []  # type: ignore[attr-defined]
        said = []
        for error in errors:
            place = functools.reduce(at, map(str, error["loc"]), where)
            said.append(f"{whole(place)}: {error['msg']}")
        raise SchemaError("; ".join(said) or f"{whole(where)}: {e}") from e
