"""How tools and answers become text, and which character of an answer is name, key or value.

Two styles of tools:

- `signature` (default): one tool a line, `set_light(area,brightness:int,mode*:auto|manual)`; a string is the
  unmarked type, `*` marks a required argument. A third of the tokens of JSON, and the names stand
  alone so that they are cut into the same pieces in the tools and in the answer.
- `json`: the compact JSON that Needle v1 was trained on.

Answers are always compact JSON with the arguments sorted by name: one answer, one string.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from needlex import definitions
from needlex.schema import Call, Parameter, Tool

BASE, NAME, VALUE, KEY = 0, 1, 2, 3
"""Token classes of an answer: punctuation and fixed words, tool names, argument values, argument keys."""

_TYPES = {
    "integer": "int",
    "number": "num",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "null",
}
_STRINGS = {None, "string", "str"}


@dataclass(frozen=True)
class RenderConfig:
    """Rendering of tools; saved with the model, since a model reads only the style it was trained on."""

    style: Literal["signature", "json"] = "signature"
    """Text form of the tools."""
    descriptions: bool = False
    """Whether the descriptions of tools are shown to the model."""


class Span(NamedTuple):
    """Characters `start` to `end` (exclusive) of a rendered answer belong to `token_class`."""

    start: int
    end: int
    token_class: int


def render_tools(tools: Sequence[Tool], config: RenderConfig = RenderConfig()) -> str:
    """All tools as one text; independent of the order of keys in the definitions."""
    if config.style == "json":
        return _dumps([_as_json(t, config) for t in tools])
    return "\n".join(render_tool(t, config) for t in tools)


def render_tool(tool: Tool, config: RenderConfig = RenderConfig()) -> str:
    """One tool alone, as the retrieval head sees it."""
    if config.style == "json":
        return _dumps(_as_json(tool, config))
    text = f"{tool.name}({','.join([_signature(p) for p in tool.parameters])})"
    if config.descriptions and tool.description:
        text += " " + " ".join(tool.description.split())
    return text


def _signature(parameter: Parameter) -> str:
    # Remembered on the parameter: rows are rendered anew in every epoch, most often with the tools they had.
    memo = parameter.__dict__
    text = memo.get("_signature")
    if text is None:
        text = memo["_signature"] = (
            parameter.name
            + ("*" if parameter.required else "")
            + _suffix(parameter.schema, definitions.read(parameter.schema))
        )
    return text


def _suffix(schema: Mapping[str, Any], known: definitions.Definitions, inside: tuple[str, ...] = ()) -> str:
    kind = _kind(schema, known, inside)
    return f":{kind}" if kind else ""


def _kind(schema: Mapping[str, Any], known: definitions.Definitions, inside: tuple[str, ...] = ()) -> str:
    """Short type of a JSON Schema; the empty text stands for a string.

    A reference is shown as what it leads to in `known`, by its name where that would never end.
    """
    if "const" in schema:
        return _scalar(schema["const"])
    if isinstance(schema.get("enum"), (list, tuple)):
        return "|".join(_scalar(v) for v in schema["enum"])
    for union in ("anyOf", "oneOf"):
        if isinstance(schema.get(union), (list, tuple)):
            branches = [s for s in schema[union] if isinstance(s, Mapping)]
            return "|".join(_kind(s, known, inside) or "str" for s in branches)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        key = definitions.target(reference)
        meant = known.get(key)
        whole = reference.count("/") == 2  # not a place inside the definition
        if isinstance(meant, Mapping) and whole and reference not in inside:
            return _kind(meant, known, (*inside, reference))
        return key[1] or reference
    parts = schema.get("allOf")
    if isinstance(parts, (list, tuple)) and len(parts) == 1 and isinstance(parts[0], Mapping):
        return _kind(parts[0], known, inside)  # how a reference gets a description of its own
    kind = schema.get("type")
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        return "|".join(_TYPES.get(k, "str" if k in _STRINGS else str(k)) for k in kind)
    if kind == "array":
        items = schema.get("items")
        return f"[{_kind(items, known, inside) or 'str'}]" if isinstance(items, Mapping) else "list"
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        fields = [(k, v) for k, v in sorted(properties.items()) if isinstance(v, Mapping)]
        return "{" + ",".join(str(k) + _suffix(v, known, inside) for k, v in fields) + "}"
    return "" if kind in _STRINGS else _TYPES.get(str(kind), str(kind))


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else _dumps(_canonical(value))


def _as_json(tool: Tool, config: RenderConfig) -> dict[str, Any]:
    raw = tool.to_json()
    schema = raw["parameters"]
    raw["parameters"] = {k: v if k == "required" else _canonical(v) for k, v in schema.items()}
    if not (config.descriptions and tool.description):
        del raw["description"]
    return raw


def render_answer(calls: Iterable[Call]) -> tuple[str, list[Span]]:
    """The answer as compact JSON, and the spans of its names, keys and values (quotes excluded).

    The decision for no call, the bracket after `[`, counts as a name.

    Spans come from writing the text, not from searching it, so values that repeat, equal a key or hold
    escapes are marked where they stand.
    """
    writer = AnswerWriter()
    writer.put("[")
    for i, call in enumerate(calls):
        writer.put(',{"name":' if i else '{"name":')
        writer.string(call.name, NAME)
        writer.put(',"arguments":')
        writer.value(call.arguments)
        writer.put("}")
    # The bracket that closes an empty answer stands where a name could: it is weighted like one.
    writer.put("]", NAME if writer.text == "[" else BASE)
    return writer.text, writer.spans


class AnswerWriter:
    """Writes compact JSON and remembers which characters are names, keys and values."""

    def __init__(self, *, sort: bool = True, ascii_only: bool = False):
        """`sort` orders the keys of objects; `ascii_only` writes `\\uXXXX` for all other characters."""
        self.spans: list[Span] = []
        self._parts: list[str] = []
        self._length = 0
        self._sort = sort
        self._dumps = _dumps_ascii if ascii_only else _dumps

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def put(self, text: str, token_class: int = BASE) -> None:
        if token_class != BASE and text:
            self.spans.append(Span(self._length, self._length + len(text), token_class))
        self._parts.append(text)
        self._length += len(text)

    def string(self, text: str, token_class: int) -> None:
        self.put('"')
        self.put(self._dumps(text)[1:-1], token_class)
        self.put('"')

    def value(self, value: Any) -> None:
        if isinstance(value, Mapping):
            self.put("{")
            for i, (key, inner) in enumerate(sorted(value.items()) if self._sort else value.items()):
                if i:
                    self.put(",")
                self.string(str(key), KEY)
                self.put(":")
                self.value(inner)
            self.put("}")
        elif isinstance(value, str):
            self.string(value, VALUE)
        elif isinstance(value, Sequence):
            self.put("[")
            for i, inner in enumerate(value):
                if i:
                    self.put(",")
                self.value(inner)
            self.put("]")
        else:
            self.put(self._dumps(value), VALUE)


def _canonical(value: Any) -> Any:
    """The value with the keys of its objects sorted: their order in the input must not reach the model."""
    if isinstance(value, Mapping):
        return {str(k): _canonical(v) for k, v in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_canonical(v) for v in value]
    return value


# Text stays text: escapes for non-ASCII would cost tokens and hide values from copying.
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_dumps_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
