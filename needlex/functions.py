"""Tools from Python: a function's signature and docstring as a `Tool`, and JSON arguments as a call of it.

Pydantic models, dataclasses and TypedDicts are tools too: their fields are the parameters, a call makes an instance.
What hints become is in `needlex.hints`.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import inspect
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from needlex.hints.read import EMPTY, Slot, docstring, is_record, own_docstring, resolved
from needlex.hints.schemas import schema_of, slots_schema
from needlex.hints.values import slots_values, value_of
from needlex.schema import SchemaError, Tool, parse_tools


def as_tools(raw: Any) -> tuple[Tool, ...]:
    """Tools from a list of anything that `tool_of` takes, from a single one, or from JSON text.

    **Raises:** `SchemaError` when there is none, one is malformed, or two different ones have the same name.
    """
    if isinstance(raw, str) or raw is None:
        return parse_tools(raw)
    many = isinstance(raw, Sequence) and not isinstance(raw, bytes)
    return parse_tools([tool_of(source) for source in (raw if many else [raw])])


def tool_of(source: Any) -> Tool:
    """The tool that a Python object describes.

    `source` is a function (async too), a bound method, a `functools.partial` (what it binds is no parameter), an object
    with `__call__`, a class, or a definition that `Tool.from_json` takes. The description is the first paragraph
    of the docstring; parameters are described by its sections (Google, NumPy, reST) or by `Annotated[X, "text"]`. A parameter
    is required if it has no default and cannot be None. Without a hint any value will do, or one of the default's type
    if that is text, a number or a boolean.

    **Raises:** `SchemaError` naming function, parameter and hint for what has no JSON form.
    """
    if isinstance(source, Tool):
        return source
    if not callable(source):
        return Tool.from_json(source)
    name = _name(source)
    if isinstance(source, type) and issubclass(source, (enum.Enum, type)):
        raise SchemaError(f"class {name!r} is a kind of value and no tool; use it as the hint of a parameter")
    if is_record(source):
        schema = schema_of(source, f"class {name!r}, field ")
        text = schema.pop("description", "")
        if "properties" not in schema and schema.get("additionalProperties") is not False:
            if schema.get("type") != "object" or schema.get("additionalProperties"):
                raise SchemaError(f"class {name!r}: only a class with named fields can be a tool")
            schema["properties"] = {}
    else:
        text, about = docstring(_documentation(source))
        slots = [slot for slot, _ in _parameters(source, name)]
        schema = slots_schema(slots, about, f"function {name!r}, parameter ")
    return Tool.from_json({"name": name, "description": text, "parameters": schema})


def invoke(source: Any, arguments: Mapping[str, Any]) -> Any:
    """Call what `tool_of` described with JSON arguments, turned into what its hints say (Enums, dataclasses, dates, ...).

    An async function is run to its end with `asyncio.run`; where an event loop is running already its coroutine
    is returned, to be awaited. A class gives an instance. What the function itself raises is not touched.

    **Raises:** `SchemaError` naming the function and the argument's path when arguments are unknown, missing or do not fit.
    """
    if isinstance(source, Tool) or not callable(source):
        raise SchemaError(
            f"{type(source).__name__} is no function: a definition cannot be called, only what made it"
        )
    name = _name(source)
    if is_record(source):
        return value_of(source, arguments, f"class {name!r}, argument ")
    parameters = _parameters(source, name)
    slots = [slot for slot, _ in parameters]
    values = slots_values(slots, arguments, f"function {name!r}, argument ")
    for slot, p in parameters:
        if _is_field(p.default) and slot.default is not EMPTY:
            values.setdefault(slot.name, slot.default)
    by_place = [slot for slot, p in parameters if p.kind == p.POSITIONAL_ONLY]
    positional = [values.pop(slot.name, slot.default) for slot in by_place]
    result = source(*positional, **values)
    if inspect.iscoroutine(result):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(result)
    return result


def _name(source: Any) -> str:
    name = getattr(source, "__name__", None)
    if name is None:
        return _name(source.func) if isinstance(source, functools.partial) else type(source).__name__
    if name == "<lambda>":
        raise SchemaError("a lambda has no name that a model could call; write a function with def")
    return name


_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)


def _target(source: Any) -> Any:
    """The function that holds hints and docstring."""
    while isinstance(source, functools.partial):
        source = source.func
    if isinstance(source, type):
        made = (inspect.unwrap(m) for m in (source.__init__, source.__new__))  # type: ignore[misc]
        return next((m for m in made if isinstance(m, types.FunctionType)), source)
    source = inspect.unwrap(source)
    if not isinstance(source, _FUNCTIONS):
        source = inspect.unwrap(type(source).__call__)
    return getattr(source, "__func__", source)


def _documentation(source: Any) -> str | None:
    while isinstance(source, functools.partial):
        source = source.func
    if isinstance(source, types.MethodType):
        return inspect.getdoc(source)  # perhaps that of the method it overrides
    if isinstance(source, type):
        init = source.__init__  # type: ignore[misc]
        return own_docstring(source) or (init.__doc__ if isinstance(init, types.FunctionType) else None)
    own = _target(source).__doc__
    return own or (None if isinstance(inspect.unwrap(source), _FUNCTIONS) else own_docstring(type(source)))


def _parameters(source: Any, name: str) -> list[tuple[Slot, inspect.Parameter]]:
    """The arguments that a caller may give, each with its place in the signature."""
    try:
        signature = inspect.signature(source)
    except (ValueError, TypeError, NameError) as e:
        raise SchemaError(
            f"function {name!r}: its signature cannot be read ({e}); wrap it in a function"
        ) from None
    target = _target(source)
    bound = source.keywords if isinstance(source, functools.partial) else {}
    asked = [p for p in signature.parameters.values() if p.name not in bound]
    for i, p in enumerate(asked):
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise SchemaError(
                f"function {name!r}, parameter {p}: arguments must have names; write them out one by one"
            )
        owner = getattr(target, "__qualname__", "").rpartition(".")[0]
        method = owner and not owner.endswith("<locals>") and target is inspect.unwrap(source)
        if i == 0 and p.name in ("self", "cls") and p.annotation is EMPTY and method:
            raise SchemaError(
                f"function {name!r}, parameter {p.name}: the method has no object; give {owner}(...).{name}"
            )
    raw = {p.name: p.annotation for p in asked if p.annotation is not EMPTY}
    names = dict(getattr(target, "__globals__", {}))
    if isinstance(source, type):  # a NamedTuple's method knows no names of its module
        names |= vars(sys.modules.get(source.__module__, types))
    hints = resolved(raw, names, f"function {name!r}, parameter ")
    out = []
    for p in asked:
        hint, default = hints.get(p.name, EMPTY), p.default
        if _is_field(default):
            hint = Annotated[Any if hint is EMPTY else hint, default]
            default = EMPTY if default.is_required() else default.get_default(call_default_factory=True)
        if hint is EMPTY and type(p.default) in (str, int, float, bool):
            hint = type(p.default)
        out.append((Slot(p.name, hint, default), p))
    return out


def _is_field(default: Any) -> bool:
    """Whether a default is what pydantic's `Field(...)` gives: it holds bounds, a description and the real default."""
    return hasattr(default, "is_required") and hasattr(default, "get_default")
