"""The JSON Schema of a Python type hint.

Only keywords that the answer grammar enforces, and everything written out in place, without references: a type that
contains itself has no schema. Pydantic is used where hints bring it along, never imported.
"""

from __future__ import annotations

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
    docstring,
    is_record,
    keywords_of,
    options_of,
    own_docstring,
    slots_of,
    unsupported,
    unwrapped,
    whole,
)
from needlex.schema import SchemaError


def schema_of(hint: Any, where: str, inside: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The JSON Schema of a type hint; `inside` are the types that are being written out.

    **Raises:** `SchemaError` that begins with `where` and names the hint if JSON or the grammar has no form for it.
    """
    hint, extras = unwrapped(hint)
    return _constrained(_schema(hint, where, inside), keywords_of(extras, where), where)


def slots_schema(
    slots: Sequence[Slot], about: Mapping[str, str], where: str, inside: tuple[Any, ...] = ()
) -> dict[str, Any]:
    """The schema of an object with these arguments; `about` describes them where their hints do not."""
    properties = {}
    for slot in slots:
        schema = schema_of(slot.hint, at(where, slot.name), inside)
        described = "description" in keywords_of(unwrapped(slot.hint)[1], where)
        if slot.name in about and not described:
            schema["description"] = about[slot.name]
        properties[slot.name] = schema
    out: dict[str, Any] = {"type": "object", "properties": properties}
    if needed := [s.name for s in slots if s.required]:
        out["required"] = needed
    return out if properties else out | {"additionalProperties": False}


def _schema(hint: Any, where: str, inside: tuple[Any, ...]) -> dict[str, Any]:
    if hint is Any or hint is object or hint is EMPTY:
        return {}
    if isinstance(hint, type) and hint in SCALARS:
        return {"type": SCALARS[hint]}
    if isinstance(hint, type) and hint in FORMATS:
        return {"type": "string", "format": FORMATS[hint][0]}
    if (options := options_of(hint, where)) is not None:
        values = [v for v, _ in options]
        kinds = {SCALARS[type(v)] for v in values}
        return ({"type": kinds.pop()} if len(kinds) == 1 else {}) | {"enum": values}
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in UNIONS:
        branches: list[dict[str, Any]] = []
        for arg in args:
            schema = schema_of(arg, where, inside)
            parts = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
            branches += [p for p in parts if p not in branches]
        return {} if {} in branches else branches[0] if len(branches) == 1 else {"anyOf": branches}
    if origin is tuple and hint is not tuple and args[-1:] != (...,):
        heads = [schema_of(arg, f"{where}[{i}]", inside) for i, arg in enumerate(args)]
        size = {"minItems": len(args), "maxItems": len(args)}
        return {"type": "array", **({"prefixItems": heads} if heads else {}), **size}
    if origin in LISTS:
        items = schema_of(args[0], f"{where}[]", inside) if args else {}
        return {"type": "array", **({"items": items} if items else {})}
    if origin in MAPS:
        if args and unwrapped(args[0])[0] not in (str, Any):
            raise unsupported(hint, where, "the keys of JSON objects are text: use dict[str, ...]")
        values = schema_of(args[1], f"{where}[]", inside) if args else {}
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    aliased = getattr(hint, "__value__", EMPTY)  # of `type X = ...`
    if is_record(hint) or aliased is not EMPTY:
        if hint in inside:
            raise unsupported(
                hint, where, "it contains itself; write the levels that are needed one into another"
            )
        inside = (*inside, hint)
        if aliased is not EMPTY:
            return schema_of(aliased, where, inside)
        if hasattr(hint, "model_json_schema"):
            return _pydantic_schema(hint, where)
        text, about = docstring(own_docstring(hint))
        out = slots_schema(slots_of(hint, where), about, where, inside)
        return ({"description": text} if text else {}) | out
    raise unsupported(hint, where, KNOWN)


def _constrained(schema: dict[str, Any], keywords: dict[str, Any], where: str) -> dict[str, Any]:
    """The schema with bounds in each branch that they can mean."""
    bounds = {k: v for k, v in keywords.items() if k != "description"}
    branches = [dict(s) for s in schema.get("anyOf", [schema])]
    for keyword, value in bounds.items():
        used = False
        for branch in branches:
            name, kind = keyword, branch.get("type")
            if kind == "array" and keyword in ("minLength", "maxLength"):
                name = keyword.replace("Length", "Items")
            elif kind not in (
                ("string",) if "ength" in keyword or keyword == "pattern" else ("integer", "number")
            ):
                continue
            branch[name], used = value, True
        if not used:
            raise SchemaError(f"{whole(where)}: {keyword} means nothing for this type; remove it")
    out = schema | {"anyOf": branches} if "anyOf" in schema else branches[0]
    return out | {k: v for k, v in keywords.items() if k == "description"}


def _pydantic_schema(model: Any, where: str) -> dict[str, Any]:
    try:
        raw = model.model_json_schema()
    except Exception as e:
        raise unsupported(model, where, f"pydantic gives no schema for it: {e}") from e
    schema = _inlined(raw, raw.get("$defs", {}), model, where)
    text, about = docstring(schema.pop("description", None))
    for name, said in about.items():
        if name in schema.get("properties", {}):
            schema["properties"][name].setdefault("description", said)
    return ({"description": text} if text else {}) | schema


def _inlined(node: Any, defs: Mapping[str, Any], model: Any, where: str, inside: tuple[str, ...] = ()) -> Any:
    """Pydantic's schema without references, titles (the names again), `discriminator` (the branches say it) and
    `uniqueItems` (a set takes a value twice)."""
    if not isinstance(node, Mapping):
        return node
    out: dict[str, Any] = {}
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/$defs/")
        if name in inside:
            raise unsupported(
                model, where, f"{name} contains itself; write the levels that are needed one into another"
            )
        out = _inlined(defs[name], defs, model, where, (*inside, name))
    for key, value in node.items():
        if key == "properties":
            out[key] = {k: _inlined(v, defs, model, where, inside) for k, v in value.items()}
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            out[key] = [_inlined(v, defs, model, where, inside) for v in value]
        elif key in ("items", "additionalProperties"):
            out[key] = _inlined(value, defs, model, where, inside)
        elif key not in ("$ref", "$defs", "title", "discriminator", "uniqueItems"):
            out[key] = value
    return out
