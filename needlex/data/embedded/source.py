"""A tool together with the sentences that ask for it, and the text files that hold both.

`tools.txt` and `home.txt`: `@ name (domain) description`, a line `: parameters`, then templates, one a line.
After a line `= {"argument": value}` the templates imply these arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from needlex.data.embedded.held_out import held_out_templates
from needlex.data.embedded.pools import Pool
from needlex.data.embedded.templates import Template, compile_expression, slots_of
from needlex.data.embedded.values import sections
from needlex.schema import Parameter, Tool

_TYPES = {"int": "integer", "num": "number", "bool": "boolean", "str": "string"}
_HEADING = re.compile(r"(\w+) \((\w+)\) (.+)")
_RULES = {
    "show": "(show|show me|list|give me|read me|read out)",
    "find": "(find|find me|look for|search for|locate)",
    "whats": "(what's|what is)",
    "my": "[my|the]",
    "tell": "(tell me|give me)",
    "want": "(I want to|I'd like to|I need to)",
    "forecast": "(weather|weather forecast|forecast)",
    "get_order": "(order|order me|get me|get)",
}


@dataclass(frozen=True)
class ToolSource:
    """One tool and its templates, by combination of slots."""

    tool: Tool
    domain: str
    trained: Mapping[str, tuple[Template, ...]]
    """Templates that training uses."""
    unseen: Mapping[str, tuple[Template, ...]]
    """Templates of the `unseen_templates` split."""


def divide(
    templates: Sequence[Template],
) -> tuple[dict[str, tuple[Template, ...]], dict[str, tuple[Template, ...]]]:
    """Trained and unseen templates by combination; one at least is unseen where there are two or more."""
    combinations: dict[str, list[Template]] = {}
    for template in templates:
        combinations.setdefault(template.combination, []).append(template)
    trained, unseen = {}, {}
    for name, members in combinations.items():
        kept_back = held_out_templates([t.text for t in members])
        trained[name] = tuple(t for t in members if t.text not in kept_back)
        unseen[name] = tuple(t for t in members if t.text in kept_back)
    if not any(unseen.values()):
        largest = max(trained, key=lambda name: len(trained[name]))
        if len(trained[largest]) > 1:
            unseen[largest], trained[largest] = trained[largest][-1:], trained[largest][:-1]
    return ({k: v for k, v in trained.items() if v}, {k: v for k, v in unseen.items() if v})


def read_tools(file: str, pools: Mapping[str, Pool]) -> list[tuple[Tool, str, list[Template]]]:
    """Tools of a text file of this folder, with their domain and their templates.

    **Raises:** `ValueError` naming the tool, for a line that cannot be read.
    """
    found = []
    for heading, text in sections(file).items():
        match = _HEADING.fullmatch(heading)
        lines = text.splitlines()
        if match is None or not lines or not lines[0].startswith(":"):
            raise ValueError(f"{file}: {heading!r} must be 'name (domain) description', then ': parameters'")
        name, domain, description = match.groups()
        tool = Tool(name, description, _parameters(f"{file}: tool {name!r}", lines[0][1:]))
        found.append((tool, domain, read_templates(lines[1:], pools)))
    return found


def read_templates(lines: Sequence[str], pools: Mapping[str, Pool]) -> list[Template]:
    """Templates, one a line; the combination of each is the set of arguments it gives."""
    templates, fixed = [], {}
    for line in lines:
        if line.startswith("= "):
            fixed = json.loads(line[2:])
            continue
        combination = ",".join(sorted({*slots_of(line), *fixed}))
        templates.append(Template(line, combination, compile_expression(line, _RULES, pools), fixed))
    return templates


def _parameters(where: str, text: str) -> tuple[Parameter, ...]:
    """`city*, days:int, unit:celsius|fahrenheit, items:[str]` (`*`: required)."""
    parsed = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        key, _, kind = part.partition(":")
        parsed.append(Parameter(key.rstrip("*"), _schema(where, kind), key.endswith("*")))
    return tuple(parsed)


def _schema(where: str, kind: str) -> dict[str, Any]:
    if not kind:
        return {"type": "string"}
    if "|" in kind:
        return {"type": "string", "enum": kind.split("|")}
    if kind.startswith("["):
        return {"type": "array", "items": {"type": _TYPES[kind[1:-1]]}}
    if kind not in _TYPES:
        raise ValueError(f"{where}: unknown type {kind!r}; known are {sorted(_TYPES)}, a|b and [type]")
    return {"type": _TYPES[kind]}
