"""A tool together with the sentences that ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from needlex.data.embedded.held_out import held_out_templates
from needlex.data.embedded.templates import Template
from needlex.schema import Parameter, Tool

_TYPES = {"int": "integer", "num": "number", "bool": "boolean", "str": "string"}


@dataclass(frozen=True)
class ToolSource:
    """One tool, its templates by slot combination, and what it must not be offered with."""

    tool: Tool
    domain: str
    trained: Mapping[str, tuple[Template, ...]]
    """Templates that training uses, by combination."""
    unseen: Mapping[str, tuple[Template, ...]]
    """Templates of the `unseen_templates` split, by combination."""
    rivals: frozenset[str] = frozenset()
    """Groups: two tools that share one could serve the same request and are never offered together."""


def make_source(
    tool: Tool, domain: str, templates: Sequence[Template], rivals: Sequence[str] = ()
) -> ToolSource:
    """Divide the templates of a tool into trained and unseen ones."""
    combinations: dict[str, list[Template]] = {}
    for template in templates:
        combinations.setdefault(template.combination, []).append(template)
    trained, unseen = {}, {}
    for name, members in combinations.items():
        kept_back = held_out_templates([t.text for t in members])
        trained[name] = tuple(t for t in members if t.text not in kept_back)
        unseen[name] = tuple(t for t in members if t.text in kept_back)
    if not any(unseen.values()):  # every tool takes part in the test of new wording
        largest = max(trained, key=lambda name: len(trained[name]))
        if len(trained[largest]) > 1:
            unseen[largest], trained[largest] = trained[largest][-1:], trained[largest][:-1]
    unseen = {name: members for name, members in unseen.items() if members}
    return ToolSource(tool, domain, trained, unseen, frozenset(rivals))


def parse_tool(name: str, description: str, parameters: str) -> Tool:
    """A tool from a short notation: `city*, days:int, unit:celsius|fahrenheit, items:[str]` (`*`: required).

    **Raises:** `ValueError` for an unknown type.
    """
    parsed = []
    for text in filter(None, (p.strip() for p in parameters.split(","))):
        key, _, kind = text.partition(":")
        required, key = key.endswith("*"), key.rstrip("*")
        parsed.append(Parameter(key, _schema(kind), required))
    return Tool(name, description, tuple(parsed))


def _schema(kind: str) -> dict[str, Any]:
    if not kind:
        return {"type": "string"}
    if "|" in kind:
        return {"type": "string", "enum": kind.split("|")}
    if kind.startswith("["):
        return {"type": "array", "items": {"type": _TYPES[kind[1:-1]]}}
    if kind not in _TYPES:
        raise ValueError(f"unknown parameter type {kind!r}; known are {sorted(_TYPES)}, a|b and [type]")
    return {"type": _TYPES[kind]}
