"""What a Python type hint says: its members, its bounds, the arguments that a class takes. No JSON is made here."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import inspect
import math
import types
import typing
import uuid
from collections import abc
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required, Union

from docstring_parser import ParseError, parse

from needlex.schema import SchemaError

EMPTY = inspect.Parameter.empty
"""No hint, no default."""
UNIONS = (Union, types.UnionType)
SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
FORMATS: dict[Any, tuple[str, Any]] = {
    datetime.datetime: ("date-time", datetime.datetime.fromisoformat),
    datetime.date: ("date", datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.fromisoformat),
    uuid.UUID: ("uuid", uuid.UUID),
}
LISTS: dict[Any, Any] = dict.fromkeys(
    (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list
)
LISTS |= {tuple: tuple, set: set, abc.Set: set, abc.MutableSet: set, frozenset: frozenset}
MAPS = (dict, abc.Mapping, abc.MutableMapping)


_BOUNDS = {
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf",
    "min_length": "minLength", "max_length": "maxLength", "pattern": "pattern",
    "description": "description", "documentation": "description",
}  # fmt: skip


KNOWN = (
    "use str, int, float, bool, None, Any, Literal, an Enum, a union, list, tuple, set, dict[str, ...], a dataclass, "
    "TypedDict or pydantic model, date, datetime, time or UUID"
)
"""What to write instead of a hint that is not supported."""


class Slot(NamedTuple):
    """One argument: of a function, of a class, or a key of a TypedDict."""

    name: str
    hint: Any
    default: Any = EMPTY

    @property
    def required(self) -> bool:
        return self.default is EMPTY and not _admits_none(self.hint)


def docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring, and what its sections say of each parameter (Google, NumPy, reST)."""
    text = inspect.cleandoc(text or "")
    try:
        parsed = parse(text)
    except ParseError:  # a section that looks like one of a style and is none
        return " ".join(text.split("\n\n")[0].split()), {}
    about = {
        name.strip().lstrip("*"): " ".join(p.description.split())
        for p in parsed.params
        for name in p.arg_name.split(",")
        if p.description
    }
    return " ".join((parsed.description or "").split("\n\n")[0].split()), about


def is_record(source: Any) -> bool:
    """Whether `source` is a pydantic model, a dataclass or a TypedDict (the class)."""
    return isinstance(source, type) and (
        dataclasses.is_dataclass(source) or hasattr(source, "model_json_schema") or _is_typed_dict(source)
    )


def resolved(annotations: Mapping[str, Any], names: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Annotations with those that are text evaluated among `names`.

    **Raises:** `SchemaError` for one that does not evaluate.
    """
    out = {}
    for name, annotation in annotations.items():

        def holder() -> None: ...

        holder.__annotations__ = {name: annotation}
        try:
            out |= typing.get_type_hints(holder, dict(names), {}, include_extras=True)
        except (NameError, AttributeError, TypeError, SyntaxError) as e:
            raise SchemaError(
                f"{at(where, name)}: the hint {annotation!r} cannot be read ({e}); import what it names at the top of the "
                "module, not only for type checkers"
            ) from None
    return out


def unwrapped(hint: Any) -> tuple[Any, list[Any]]:
    """The hint without Annotated, NewType, Required and the like, and what Annotated says."""
    extras: list[Any] = []
    while True:
        origin = typing.get_origin(hint)
        if origin is Annotated:
            extras = [*hint.__metadata__, *extras]
            hint = hint.__origin__
        elif origin in (Required, NotRequired, typing.Final, typing.ClassVar):
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, dataclasses.InitVar):
            hint = hint.type
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        else:
            return type(None) if hint is None else hint, extras


def _admits_none(hint: Any) -> bool:
    hint = unwrapped(hint)[0]
    if typing.get_origin(hint) in UNIONS:
        return any(_admits_none(a) for a in typing.get_args(hint))
    return hint is type(None) or (typing.get_origin(hint) is Literal and None in typing.get_args(hint))


def options_of(hint: Any, where: str) -> list[tuple[Any, Any]] | None:
    """JSON values and what they mean, of a Literal or an Enum; None for other hints."""
    if typing.get_origin(hint) is Literal:
        members = list(typing.get_args(hint))
    elif isinstance(hint, enum.EnumMeta):
        members = list(hint)
    else:
        return None
    out = []
    for member in members:
        value = member.value if isinstance(member, enum.Enum) else member
        # `type` and not `isinstance`: a member of IntEnum is no plain number, its value is.
        if type(value) not in SCALARS or (isinstance(value, float) and not math.isfinite(value)):
            raise unsupported(hint, where, f"{value!r} is no JSON value; use text, numbers, booleans or None")
        out.append((value, member))
    if not out:
        raise unsupported(hint, where, "it has no members")
    return out


def keywords_of(extras: Sequence[Any], where: str) -> dict[str, Any]:
    """What Annotated's extras say: text is a description, the rest is read as annotated_types and pydantic name it."""
    found: dict[str, Any] = {}
    for extra in extras:
        if isinstance(extra, str):
            found["description"] = extra
            continue
        inner = getattr(extra, "metadata", None)  # pydantic's Field keeps its bounds there
        for part in (extra, *(inner if isinstance(inner, (list, tuple)) else ())):
            for attribute, keyword in _BOUNDS.items():
                value = getattr(part, attribute, None)
                value = getattr(value, "pattern", value)  # a compiled one
                if value is None or callable(value):
                    continue
                textual = keyword in ("pattern", "description")
                if type(value) not in ((str,) if textual else (int, float)) or value in (math.inf, -math.inf):
                    raise SchemaError(f"{whole(where)}: {attribute}={value!r} has no form in JSON; remove it")
                found[keyword] = value
    return {k: " ".join(v.split()) if k == "description" else v for k, v in found.items()}


def slots_of(record: Any, where: str) -> list[Slot]:
    """Arguments of a dataclass, keys of a TypedDict."""
    try:
        hints = typing.get_type_hints(record, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as e:
        raise SchemaError(
            f"{where}: the hints of {record.__name__} cannot be read ({e}); import what they name at the top of the module"
        ) from None
    if not _is_typed_dict(record):
        parameters = inspect.signature(record).parameters.values()
        for name, extra in getattr(record, "__pydantic_fields__", {}).items():  # a dataclass of pydantic's
            hints[name] = Annotated[hints.get(name, Any), extra]
        return [Slot(p.name, hints.get(p.name, p.annotation), p.default) for p in parameters]
    slots = []
    for name, hint in hints.items():
        # Python does not see Required and NotRequired in hints that are text.
        flags = {typing.get_origin(hint), typing.get_origin(getattr(hint, "__origin__", None))}
        needed = Required in flags or (name in record.__required_keys__ and NotRequired not in flags)
        slots.append(Slot(name, hint, EMPTY if needed else ...))
    return slots


def own_docstring(cls: type) -> str:
    """A class's own docstring: not its parent's, not the signature that dataclass writes where there is none."""
    text = cls.__dict__.get("__doc__")
    return "" if not isinstance(text, str) or text.startswith(f"{cls.__name__}(") else text


def _is_typed_dict(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, dict) and hasattr(hint, "__required_keys__")


def at(where: str, name: str) -> str:
    """The place of a name inside a place; a place that ends with a space waits for its first name."""
    return f"{where}{name}" if where.endswith(" ") else f"{where}.{name}"


def whole(where: str) -> str:
    """The same place where nothing inside it is meant: `function 'f', argument ` is `function 'f'`."""
    return where.rpartition(",")[0] if where.endswith(" ") else where


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def unsupported(hint: Any, where: str, advice: str) -> SchemaError:
    name = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    return SchemaError(f"{whole(where)}: the hint {name} cannot be written as JSON Schema: {advice}")
