"""JSON Schemas brought to plain forms: standard type names, no references, no combinators.

`alternatives` gives the plain schemas whose union a schema is. A keyword that is not known here is refused by name:
a constraint that is dropped in silence would come back as a wrong argument.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from needlex.schema import SchemaError

TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_NAMES = {
    "str": "string", "char": "string", "text": "string",
    "int": "integer", "long": "integer", "short": "integer", "byte": "integer",
    "num": "number", "float": "number", "double": "number", "bool": "boolean", "none": "null",
    "list": "array", "tuple": "array", "arraylist": "array", "set": "array",
    "dict": "object", "hashmap": "object", "map": "object", "any": None, "": None,
}  # fmt: skip
ANNOTATIONS = frozenset(
    {
        "title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "optional",
        "$schema", "$id", "$comment", "$defs", "definitions", "contentEncoding", "contentMediaType",
    }
)  # fmt: skip
_OF_TYPE = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties"),
}
KEYWORDS = frozenset(k for keys in _OF_TYPE.values() for k in keys) | {"type", "enum", "const"}
COMBINATORS = ("$ref", "allOf", "anyOf", "oneOf")
MAX_ALTERNATIVES = 256

Plain = dict[str, Any]
"""A schema of KEYWORDS alone. `type` is a tuple of TYPES if present, `pattern` and `format` are lists."""


class Where:
    """The place of a schema, for messages and references."""

    def __init__(self, tool: str, document: Mapping[str, Any], path: str = "", refs: tuple[str, ...] = ()):
        self.tool, self.document, self.path, self.refs = tool, document, path, refs

    def at(self, part: str) -> Where:
        return Where(self.tool, self.document, f"{self.path}/{part}", self.refs)

    def error(self, keyword: str, reason: str) -> SchemaError:
        return SchemaError(f"tool {self.tool!r}, parameters{self.path}: {keyword!r} {reason}")


def standard(schema: Any) -> Any:
    """The schema in the standard's words: type names of Python and Java (`dict`, `float`, `any`, ...) translated,
    flags that are no JSON Schema removed: `required: true` on a parameter goes to its object, `nullable: true` into its type.

    Unknown type names are left as they are.
    """
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type":
            kinds = [k.lower() if k.lower() in TYPES else _NAMES.get(k.lower(), k) for k in _listed(value)]
            if None not in kinds:
                out[key] = kinds[0] if isinstance(value, str) else kinds
        elif key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            out[key] = {k: standard(_flat(v)) for k, v in value.items()}
        elif key in ("items", "additionalProperties", "not"):
            out[key] = [standard(v) for v in value] if isinstance(value, list) else standard(value)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            out[key] = [standard(v) for v in value]
        elif not (key in ("required", "optional", "nullable") and isinstance(value, bool)):
            out[key] = value
    if schema.get("nullable") is True:  # OpenAPI's spelling of a type list
        if "type" in out:
            out["type"] = [*_listed(out["type"]), "null"]
        if "enum" in out and None not in out["enum"]:
            out["enum"] = [*out["enum"], None]
    flagged = [
        k
        for k, v in (schema.get("properties") or {}).items()
        if isinstance(v, Mapping) and v.get("required") is True
    ] if isinstance(schema.get("properties"), Mapping) else []  # fmt: skip
    if flagged:
        out["required"] = sorted({*out.get("required", []), *flagged})
    return out


def _flat(schema: Any) -> Any:
    return {"type": schema} if isinstance(schema, str) else {} if schema is None else schema


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(v) for v in value]


def alternatives(schema: Any, where: Where) -> list[tuple[Plain, Where]]:
    """Plain schemas whose union is `schema`; empty for one that admits nothing.

    **Raises:** `SchemaError` naming tool, place and keyword for what cannot be honoured exactly.
    """
    if schema is True:
        return [({}, where)]
    if schema is False:
        return []
    if not isinstance(schema, Mapping):
        raise where.error("schema", f"must be an object, not {type(schema).__name__}")
    plain: Plain = {}
    for key, value in schema.items():
        if key in ANNOTATIONS or key in COMBINATORS:
            continue
        if key not in KEYWORDS:
            raise where.error(key, "cannot be enforced exactly; remove it or rewrite the schema without it")
        plain[key] = value
    plain = _checked(plain, where)
    found = [(plain, where)]
    if "$ref" in schema:
        target, inner = _resolve(schema["$ref"], where)
        found = _both(found, alternatives(target, inner))
    for key in ("allOf", "anyOf", "oneOf"):
        if key not in schema:
            continue
        branches = schema[key]
        if not isinstance(branches, Sequence) or isinstance(branches, str) or not branches:
            raise where.error(key, "must be a non-empty list of schemas")
        expanded = [alternatives(b, where.at(f"{key}/{i}")) for i, b in enumerate(branches)]
        if key == "allOf":
            for branch in expanded:
                found = _both(found, branch)
            continue
        if key == "oneOf":
            narrowed = [_both(found, branch) for branch in expanded]
            for i, one in enumerate(narrowed):
                for other in narrowed[:i]:
                    if not all(disjoint(a, b, w, v) for a, w in one for b, v in other):
                        raise where.error(key, "has branches that a value could match together; use 'anyOf'")
        found = _both(found, [plain for branch in expanded for plain in branch])
    if len(found) > MAX_ALTERNATIVES:
        raise where.error("anyOf", f"combines to more than {MAX_ALTERNATIVES} alternatives")
    return found


def _resolve(reference: Any, where: Where) -> tuple[Any, Where]:
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise where.error(
            "$ref", f"{reference!r} points out of the tool; put the definition into its '$defs'"
        )
    if reference in where.refs:
        raise where.error(
            "$ref", f"{reference!r} is recursive; write the levels that are needed one into another"
        )
    target: Any = where.document
    for part in reference[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and part in target:
            target = target[part]
        elif isinstance(target, Sequence) and not isinstance(target, str) and part.isdecimal():
            target = target[int(part)] if int(part) < len(target) else None
        else:
            target = None
        if target is None:
            raise where.error("$ref", f"{reference!r} points to nothing in the tool")
    return target, Where(where.tool, where.document, where.path, (*where.refs, reference))


def _checked(plain: Plain, where: Where) -> Plain:
    """Types of the keywords' values; lists and tuples where plain forms have them."""
    out = dict(plain)
    if "type" in out:
        if not isinstance(out["type"], (str, list, tuple)):
            raise where.error("type", "must be a name or a list of names")
        kinds = tuple(_listed(out["type"]))
        for kind in kinds:
            if kind not in TYPES:
                raise where.error("type", f"{kind!r} is unknown; known: {', '.join(TYPES)}")
        out["type"] = kinds
    if "const" in out:
        value = out.pop("const")
        out["enum"] = [v for v in out["enum"] if same(v, value)] if "enum" in out else [value]
    expected: dict[str, tuple[type, ...]] = {
        "enum": (list, tuple), "pattern": (str,), "format": (str,), "required": (list, tuple),
        "properties": (dict,), "prefixItems": (list, tuple), "items": (dict, bool),
        "additionalProperties": (dict, bool), "uniqueItems": (bool,),
    }  # fmt: skip
    for key, kinds in expected.items():
        if key in out and not isinstance(out[key], kinds):
            names = " or ".join(k.__name__ for k in kinds)
            raise where.error(key, f"must be of type {names}, not {type(out[key]).__name__}")
    for key in ("minLength", "maxLength", "minItems", "maxItems"):
        value = out.get(key)
        if value is not None and (isinstance(value, bool) or value != int(value) or value < 0):
            raise where.error(key, f"must be a whole number of at least 0, not {value!r}")
    for key in _OF_TYPE["number"]:
        if key in out and (isinstance(out[key], bool) or not isinstance(out[key], (int, float))):
            raise where.error(key, f"must be a number, not {out[key]!r}")
    if out.get("uniqueItems") is False:
        del out["uniqueItems"]
    for key in ("pattern", "format"):
        if key in out:
            out[key] = [out[key]]
    if "type" not in out:
        # Keywords of one type say which type is meant; the standard would let all others pass as well.
        meant = [t for t, keys in _OF_TYPE.items() if any(k in out for k in keys)]
        if meant and "enum" not in out:
            out["type"] = tuple(meant)
    return out


def _both(
    left: list[tuple[Plain, Where]], right: list[tuple[Plain, Where]]
) -> list[tuple[Plain, Where]]:  # fmt: skip
    merged = [(conjunction(a, b, w), _refs(w, v)) for a, w in left for b, v in right]
    if len(merged) > MAX_ALTERNATIVES:
        raise left[0][1].error("anyOf", f"combines to more than {MAX_ALTERNATIVES} alternatives")
    return [(plain, where) for plain, where in merged if plain is not None]


def _refs(a: Where, b: Where) -> Where:
    return Where(a.tool, a.document, a.path, tuple(dict.fromkeys((*a.refs, *b.refs))))


def conjunction(a: Plain, b: Plain, where: Where) -> Plain | None:
    """The plain schema of what both admit, None if their types exclude each other."""
    out = {**a, **b}
    if "type" in a and "type" in b:
        kinds = tuple(dict.fromkeys(k for x in a["type"] for y in b["type"] if (k := _common(x, y))))
        if not kinds:
            return None
        out["type"] = kinds
    both = a.keys() & b.keys()
    for key in both - {"type"}:
        x, y = a[key], b[key]
        if key == "enum":
            out[key] = [v for v in x if any(same(v, w) for w in y)]
        elif key in ("minimum", "exclusiveMinimum", "minLength", "minItems"):
            out[key] = max(x, y)
        elif key in ("maximum", "exclusiveMaximum", "maxLength", "maxItems"):
            out[key] = min(x, y)
        elif key in ("pattern", "format") or key == "required":
            out[key] = list(dict.fromkeys([*x, *y]))
        elif key == "items":
            out[key] = {"allOf": [x, y]}
        elif key in ("properties", "additionalProperties"):
            pass
        elif x != y:
            raise where.error(key, "is given twice with different values; write one that means both")
    if "properties" in a or "properties" in b:
        names = dict.fromkeys([*a.get("properties", {}), *b.get("properties", {})])
        sides = [s for s in (a, b) if "properties" in s or "additionalProperties" in s]
        out["properties"] = {}
        for name in names:
            said = [x.get("properties", {}).get(name, x.get("additionalProperties", True)) for x in sides]
            if all(x is not False for x in said):
                out["properties"][name] = {"allOf": said}
            elif name in out.get("required", ()):
                return None
    if "additionalProperties" in both:
        out["additionalProperties"] = {"allOf": [a["additionalProperties"], b["additionalProperties"]]}
    return out


def _common(x: str, y: str) -> str | None:
    if x == y:
        return x
    return "integer" if {x, y} == {"integer", "number"} else None


def disjoint(a: Plain, b: Plain, where: Where, other: Where) -> bool:
    """Whether it is plain to see that no value matches both."""
    if "type" in a and "type" in b and not any(_common(x, y) for x in a["type"] for y in b["type"]):
        return True
    if "enum" in a and "enum" in b:
        return not any(same(x, y) for x in a["enum"] for y in b["enum"])
    for x, y in ((a, b), (b, a)):
        if "enum" in x and "type" in y and not any(fits_type(v, y["type"]) for v in x["enum"]):
            return True
    if a.get("type") == b.get("type") == ("object",):
        shared = set(a.get("required", ())) & set(b.get("required", ()))
        for name in sorted(shared & set(a.get("properties", ())) & set(b.get("properties", ()))):
            left = alternatives(a["properties"][name], where.at(name))
            right = alternatives(b["properties"][name], other.at(name))
            if all(disjoint(x, y, w, v) for x, w in left for y, v in right):
                return True
    return False


def fits_type(value: Any, kinds: Sequence[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    if value is None:
        return "null" in kinds
    if isinstance(value, (int, float)):
        return "number" in kinds or ("integer" in kinds and value == int(value))
    name = "string" if isinstance(value, str) else "object" if isinstance(value, Mapping) else "array"
    return name in kinds


def same(a: Any, b: Any) -> bool:
    """Equality of JSON: 1 is 1.0 but not true."""
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, (list, dict)) or isinstance(b, (list, dict)):
        return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    return a == b
