"""Tools, calls and examples: one canonical form, parsed once at the door.

Tool definitions come flat (`{"city": "string"}` or `{"city": {"type": "string"}}`), as JSON Schema
(`{"type": "object", "properties": ...}`, BFCL's "dict" included) or OpenAI-wrapped (`{"type": "function", "function": {...}}`).
Whatever comes in, a `Tool` holds its parameters sorted by name, so that the order of keys in the input
can never reach the model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from needlex import definitions

CallType = Literal["none", "single", "multi"]


class SchemaError(ValueError):
    """A tool, call or row that cannot be understood; the message says which part and why."""


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool. `schema` is its JSON Schema (may be empty: any value).

    Definitions that a `$ref` in it needs (`#/$defs/X`) are in its own `$defs`: it can be understood alone.
    """

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    required: bool = False


@dataclass(frozen=True)
class Tool:
    """A callable the model may choose. Parameters are sorted by name."""

    name: str
    description: str = ""
    parameters: tuple[Parameter, ...] = ()

    def __post_init__(self):
        ordered = tuple(sorted(self.parameters, key=lambda p: p.name))
        object.__setattr__(self, "parameters", ordered)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters)

    @classmethod
    def from_json(cls, raw: Any) -> Tool:
        """Parse one tool definition of any supported form.

        **Raises:** `SchemaError` when it is no object, has no name, or its parameters are malformed.
        """
        if not isinstance(raw, Mapping):
            raise SchemaError(f"a tool must be an object, not {type(raw).__name__}")
        inner = raw.get("function")
        if isinstance(inner, Mapping) and "name" not in raw:  # OpenAI wraps the definition once more
            raw = inner
        name = raw.get("name")
        if not isinstance(name, str) or not name.strip():
            raise SchemaError("tool without a name (field 'name' must be a non-empty string)")
        description = raw.get("description")
        if description is not None and not isinstance(description, str):
            raise SchemaError(f"tool {name!r}: 'description' must be a string")
        return cls(name, description or "", _parameters(name, raw))

    def to_json(self) -> dict[str, Any]:
        """The tool as name, description and JSON Schema parameters, in canonical key order.

        Definitions that parameters refer to stand where the standard looks for them, beside `properties`.
        """
        properties, shared = definitions.brought_back({p.name: p.schema for p in self.parameters})
        schema = {
            "type": "object",
            "properties": properties,
            "required": [p.name for p in self.parameters if p.required],
            **shared,
        }
        return {"name": self.name, "description": self.description, "parameters": schema}


def _parameters(tool: str, raw: Mapping[str, Any]) -> tuple[Parameter, ...]:
    declared = raw.get("parameters", raw.get("input_schema", raw.get("arguments")))
    if declared is None:
        return ()
    if isinstance(declared, str):
        declared = load_json(declared, f"tool {tool!r}: 'parameters'")
    if not isinstance(declared, Mapping):
        raise SchemaError(f"tool {tool!r}: 'parameters' must be an object, not {type(declared).__name__}")
    properties = declared.get("properties")
    # A flat definition may have parameters called `type` or `properties`; "dict" is what BFCL calls an object.
    of_keywords = isinstance(properties, Mapping) and set(declared) <= _SCHEMA_KEYWORDS
    is_schema = (
        declared.get("type") == "object"
        or "$schema" in declared
        or (of_keywords and declared.get("type", "dict") == "dict")
    )
    if is_schema:
        properties = properties or {}
        if not isinstance(properties, Mapping):
            raise SchemaError(f"tool {tool!r}: 'properties' must be an object")
        required: Any = declared.get("required") or []
        if not isinstance(required, (list, tuple)) or not all(isinstance(r, str) for r in required):
            raise SchemaError(f"tool {tool!r}: 'required' must be a list of names")
        unknown = sorted(set(required) - set(properties))
        if unknown:
            raise SchemaError(f"tool {tool!r}: 'required' names unknown parameters {unknown}")
        needed = set(required)
    else:
        properties, needed = declared, set()
    for keyword in definitions.KEYWORDS if is_schema else ():
        if not isinstance(declared.get(keyword, {}), (Mapping, type(None))):
            raise SchemaError(f"tool {tool!r}: {keyword!r} must be an object of schemas by name")
    shared = definitions.read(declared) if is_schema else {}
    parameters = []
    for name, schema in properties.items():
        if isinstance(schema, str):  # flat form: the value is a type name
            schema = {"type": schema}
        elif schema is None:
            schema = {}
        if not isinstance(schema, Mapping):
            raise SchemaError(f"tool {tool!r}: parameter {name!r} must be an object or a type name")
        kind = schema.get("type")
        if not isinstance(kind, (str, list, tuple, type(None))) or (
            isinstance(kind, (list, tuple)) and not all(isinstance(k, str) for k in kind)
        ):
            raise SchemaError(
                f"tool {tool!r}: the type of parameter {name!r} must be a name or a list of names"
            )
        try:
            schema = definitions.taken_along(schema, shared)
            if not _finite(schema):
                raise SchemaError(
                    f"tool {tool!r}: parameter {name!r} holds NaN or an infinity; JSON has neither"
                )
        except RecursionError:
            raise SchemaError(f"tool {tool!r}: parameter {name!r} is nested too deeply") from None
        flag = schema.get("required")  # the flat form marks single parameters
        if isinstance(flag, bool):
            schema = {k: v for k, v in schema.items() if k != "required"}
        parameters.append(Parameter(str(name), dict(schema), name in needed or flag is True))
    return tuple(parameters)


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(_finite(v) for v in value.values())
    return not isinstance(value, (list, tuple)) or all(_finite(v) for v in value)


_SCHEMA_KEYWORDS = {
    "type", "properties", "required", "optional", "additionalProperties", "title", "description", "default", "$id",
    "$comment", *definitions.KEYWORDS,
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One tool call: the tool's name and its arguments (JSON values by parameter name)."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Any) -> Call:
        """Parse `{"name", "arguments"}`, also wrapped in `{"function": ...}` or with arguments as a string.

        **Raises:** `SchemaError` when it is no object, has no name, or the arguments are no object.
        """
        if not isinstance(raw, Mapping):
            raise SchemaError(f"a call must be an object, not {type(raw).__name__}")
        if isinstance(raw.get("function"), Mapping):
            raw = raw["function"]
        name = raw.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError("call without a name (field 'name' must be a non-empty string)")
        arguments = raw.get("arguments", raw.get("parameters"))
        if isinstance(arguments, str):
            arguments = load_json(arguments, f"call {name!r}: 'arguments'")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, Mapping):
            raise SchemaError(f"call {name!r}: 'arguments' must be an object")
        return cls(name, dict(arguments))

    def __getitem__(self, key: str) -> Any:
        """`call["name"]` and `call["arguments"]`, as of the JSON object that it stands for."""
        if key not in ("name", "arguments"):
            raise KeyError(f"a call has 'name' and 'arguments', not {key!r}")
        return getattr(self, key)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "arguments": dict(self.arguments)}


@dataclass(frozen=True)
class Example:
    """A training or evaluation row: what was asked, which tools there were, which calls answer it."""

    query: str
    tools: tuple[Tool, ...]
    calls: tuple[Call, ...]
    source: str = ""

    @property
    def call_type(self) -> CallType:
        """`none` (no call), `single` (one) or `multi` (several)."""
        return "none" if not self.calls else "single" if len(self.calls) == 1 else "multi"

    @classmethod
    def from_json(cls, raw: Any, source: str = "") -> Example:
        """Parse a row with `query`, `tools` and `answers` (objects, or strings that hold JSON).

        **Raises:** `SchemaError` naming the field: missing query, no tools, a tool without a name, two tools
        of one name, a call of an unknown tool or with an unknown argument.
        """
        if not isinstance(raw, Mapping):
            raise SchemaError(f"a row must be an object, not {type(raw).__name__}")
        query = raw.get("query")
        if not isinstance(query, str) or not query.strip():
            raise SchemaError("row without a query (field 'query' must be a non-empty string)")
        tools = parse_tools(raw.get("tools"))
        answers = raw.get("answers")
        if isinstance(answers, str):
            answers = load_json(answers, "'answers'")
        if isinstance(answers, Mapping):
            answers = [answers]
        if not isinstance(answers, Sequence) or isinstance(answers, str):
            raise SchemaError("row without 'answers' (must be a list of calls; [] means no call)")
        calls = tuple(Call.from_json(a) for a in answers)
        by_name = {t.name: t for t in tools}
        for call in calls:
            if call.name not in by_name:
                raise SchemaError(f"the answer calls unknown tool {call.name!r}; known: {sorted(by_name)}")
            extra = sorted(set(call.arguments) - set(by_name[call.name].parameter_names))
            if extra:
                raise SchemaError(f"the call of {call.name!r} has undeclared arguments {extra}")
        return cls(query, tools, calls, str(raw.get("source") or source))

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "tools": [t.to_json() for t in self.tools],
            "answers": [c.to_json() for c in self.calls],
            "source": self.source,
        }


def parse_tools(raw: Any) -> tuple[Tool, ...]:
    """Parse a list of tool definitions, a single one, or a JSON string of either.

    **Raises:** `SchemaError` when there is no tool, a tool is malformed, or two different ones have the same name.
    """
    if isinstance(raw, str):
        raw = load_json(raw, "'tools'")
    if isinstance(raw, Mapping):
        raw = [raw]
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
        raise SchemaError("no tools (field 'tools' must be a non-empty list of tool definitions)")
    parsed = [t if isinstance(t, Tool) else Tool.from_json(t) for t in raw]
    # The same definition twice is one tool; two definitions under one name leave open which one a call means.
    tools = tuple(t for i, t in enumerate(parsed) if t not in parsed[:i])
    names = [t.name for t in tools]
    repeated = sorted({n for n in names if names.count(n) > 1})
    if repeated:
        raise SchemaError(f"several different tools share the name {repeated}; names must be unique")
    return tools


def load_json(text: str, where: str) -> Any:
    """Parse JSON strictly: NaN and infinities, which no JSON answer can hold, are refused.

    **Raises:** `SchemaError` that begins with `where`.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as e:
        place = f"character {e.pos}" if e.lineno == 1 else f"line {e.lineno}, column {e.colno}"
        raise SchemaError(f"{where} is not valid JSON: {e.msg} at {place}") from None
    except RecursionError:
        raise SchemaError(f"{where} is not usable JSON: nested too deeply") from None
    except _NotFinite as e:
        raise SchemaError(f"{where} is not valid JSON: {e} is not a finite number") from None
    except ValueError:  # Python reads no integer of more digits than `sys.get_int_max_str_digits()`
        raise SchemaError(f"{where} is not usable JSON: an integer with thousands of digits") from None


class _NotFinite(ValueError):
    pass


def _constant(text: str) -> Any:
    raise _NotFinite(text)


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _constant(text)


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_float)
