"""Where the definitions of a JSON Schema stand: with the tool, as the standard has it, or with each parameter.

A `$ref` names a place in the whole schema (`#/$defs/X`). A parameter that is taken out of its tool, to be rendered or
renamed, takes the definitions along that it needs, and brings them back when the tool is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

KEYWORDS = ("$defs", "definitions")

Definitions = dict[tuple[str, str], Any]
"""Schemas by keyword (one of KEYWORDS) and name."""


def read(schema: Mapping[str, Any]) -> Definitions:
    """The definitions of one schema; what is no object holds none."""
    groups = [(keyword, schema.get(keyword)) for keyword in KEYWORDS]
    return {(k, str(n)): inner for k, g in groups if isinstance(g, Mapping) for n, inner in g.items()}


def reached(value: Any, definitions: Definitions) -> set[tuple[str, str]]:
    """Which definitions the references in `value` lead to, directly or through others."""
    found: set[tuple[str, str]] = set()
    queue = [value]
    while queue:
        at = queue.pop()
        if isinstance(at, Mapping):
            queue += at.values()
            key = target(at.get("$ref"))
            if key in definitions and key not in found:
                found.add(key)
                queue.append(definitions[key])
        elif isinstance(at, (list, tuple)):
            queue += at
    return found


def target(reference: Any) -> tuple[str, str]:
    """Keyword and name of the definition that a `$ref` leads to or into; two empty texts if to none."""
    parts = reference.split("/") if isinstance(reference, str) else []
    if len(parts) < 3 or parts[0] != "#":
        return "", ""
    return parts[1], parts[2].replace("~1", "/").replace("~0", "~")


def taken_along(schema: Mapping[str, Any], shared: Definitions) -> dict[str, Any]:
    """The schema with those shared definitions beside its own that it refers to."""
    own = read(schema)
    if not own and not shared:
        return _body(schema)
    known = own | shared  # the same name twice: `#` is the whole tool
    return _body(schema) | _written(own | {k: known[k] for k in reached(_body(schema), known)})


def brought_back(schemas: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Undo `taken_along`: the schemas by name, and the definitions that they refer to, in sorted order.

    Where two schemas mean different things by one name, each keeps its own.
    """
    own = {name: read(schema) for name, schema in schemas.items()}
    if not any(own.values()):
        return {name: dict(schema) for name, schema in schemas.items()}, {}
    uses = {name: reached(_body(schema), own[name]) for name, schema in schemas.items()}
    texts: dict[tuple[str, str], set[str]] = {}
    for name, keys in uses.items():
        for key in keys:
            texts.setdefault(key, set()).add(json.dumps(own[name][key], sort_keys=True, default=repr))
    agreed = {key for key, said in texts.items() if len(said) == 1}
    top = {key: own[name][key] for name, keys in uses.items() for key in keys & agreed}
    left = {n: {k: v for k, v in found.items() if k not in uses[n] & agreed} for n, found in own.items()}
    return {n: _body(s) | _written(left[n]) for n, s in schemas.items()}, _written(dict(sorted(top.items())))


def _body(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in schema.items() if k not in KEYWORDS or not isinstance(v, Mapping)}


def _written(definitions: Definitions) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for (keyword, name), schema in definitions.items():
        out.setdefault(keyword, {})[name] = schema
    return out
