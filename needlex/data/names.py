"""Names in other styles and with other words: of tools and of parameters.

Training sees snake_case, camelCase, PascalCase, dotted and flat names; Title_Snake and kebab-case are
kept for tests, as are the held-out words of `needlex.data.words`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from needlex.data import words as pools
from needlex.data.words import Draw
from needlex.schema import Call, Example, Parameter, Tool


@lru_cache(maxsize=1 << 16)
def _words(name: str) -> tuple[str, ...]:
    """`getHTTPResponse`, `get_http-response` and `get.http response` are all (get, http, response)."""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", text)
    return tuple(w.lower() for w in re.split(r"[\W_]+", text) if w) or (name,)


def _snake(words: tuple[str, ...]) -> str:
    return "_".join(words)


def _camel(words: tuple[str, ...]) -> str:
    return words[0] + "".join([w[:1].upper() + w[1:] for w in words[1:]])


def _pascal(words: tuple[str, ...]) -> str:
    return "".join([w[:1].upper() + w[1:] for w in words])


def _dotted(words: tuple[str, ...]) -> str:
    return ".".join(words)


def _object_first(words: tuple[str, ...]) -> str:
    return ".".join([words[-1], "_".join(words[:-1])][: len(words)])


def _flat(words: tuple[str, ...]) -> str:
    return "".join(words)


def _title_snake(words: tuple[str, ...]) -> str:
    return "_".join([w[:1].upper() + w[1:] for w in words])


def _kebab(words: tuple[str, ...]) -> str:
    return "-".join(words)


_Style = Callable[[tuple[str, ...]], str]
_CASES: list[_Style | None] = [None, _snake, _camel, _pascal]
_STYLES = 2 * _CASES + [_dotted, _object_first, _flat]
"""Styles of tool names in training by weight; `None` keeps the style of each name."""
_PARAMETER_STYLES = _CASES
"""Of parameters: dots and words run together make poor argument names."""


def _affix(name: str, prefix: str, suffix: str) -> str:
    """The name with words before and after it, joined as the words of the name are."""
    for separator in ("_", "-", "."):
        if separator in name:
            break
    else:
        if name.upper() != name and name.lower() != name:  # camelCase, PascalCase
            if prefix:
                prefix = prefix[:1].upper() + prefix[1:] if name[:1].isupper() else prefix
                name = prefix + name[:1].upper() + name[1:]
            return name + suffix[:1].upper() + suffix[1:]
        separator = "_"
    return separator.join([part for part in (prefix, name, suffix) if part])


def _draw_affixes(draw: Draw) -> tuple[str, str]:
    where = draw.unit()
    prefix = suffix = ""
    if where < 0.5:
        prefix = draw.pseudo_word() if draw.unit() < 0.3 else draw.pick(pools.PREFIXES)
    if where > 0.4 and where < 0.8:
        suffix = draw.pseudo_word() if draw.unit() < 0.3 else draw.pick(pools.SUFFIXES)
    return prefix, suffix


def _draw_parameter_affixes(draw: Draw) -> tuple[str, str]:
    where = draw.unit()
    if where < 0.4:
        return draw.pick(pools.PARAMETER_PREFIXES), ""
    if where < 0.8:
        return "", draw.pick(pools.PARAMETER_SUFFIXES)
    return (draw.pseudo_word(), "") if where < 0.9 else ("", draw.pseudo_word())


def _training_name(name: str, style: _Style | None, affixes: tuple[str, str]) -> str:
    prefix, suffix = affixes
    if style is None:
        return _affix(name, prefix, suffix)
    return style(tuple(part for part in (prefix, *_words(name), suffix) if part))


def rename_tools(example: Example, draw: Draw) -> Example:
    """Tools and calls under names of one training style, with training words around them."""
    style = draw.pick(_STYLES)
    affixes = _draw_affixes(draw) if draw.unit() < 0.5 else None  # one for the row, or one for each name
    return _rename_tools(example, lambda name: _training_name(name, style, affixes or _draw_affixes(draw)))


def held_out_names(example: Example, draw: Draw) -> Example:
    """Tools and calls under names that training never makes: held-out prefixes, suffixes or styles."""
    kind = draw.below(3)
    if kind == 2:
        styles = (_title_snake, _kebab) if draw.below(2) else (_kebab, _title_snake)
        for style in styles:  # a name of one word has no kebab-case, a Chinese one no capitals
            if all(len(_words(t.name)) > 1 and style(_words(t.name)) != t.name for t in example.tools):
                return _rename_tools(example, lambda name, style=style: style(_words(name)))
        kind = draw.below(2)
    words = (pools.HELD_OUT_PREFIXES, pools.HELD_OUT_SUFFIXES)[kind]
    shared = (
        draw.pick(words) if draw.unit() < 0.5 else None
    )  # one for the row, as a vendor has, or one for each name

    def rename(name: str) -> str:
        word = shared or draw.pick(words)
        return _affix(name, "", word) if kind else _affix(name, word, "")

    return _rename_tools(example, rename)


def rename_parameters(example: Example, draw: Draw) -> Example:
    """Parameters and arguments under other names, one new name for each old one in the whole row."""
    style = draw.pick(_PARAMETER_STYLES)
    share = draw.unit()
    names: dict[str, str] = {}
    taken: set[str] = set()
    for tool in example.tools:
        for p in tool.parameters:
            if p.name not in names:
                affixes = _draw_parameter_affixes(draw) if draw.unit() < share else ("", "")
                names[p.name] = _unique(_training_name(p.name, style, affixes), taken)
    tools = []
    for tool in example.tools:
        parameters = tuple([Parameter(names[p.name], p.schema, p.required) for p in tool.parameters])
        tools.append(Tool(tool.name, tool.description, parameters))
    calls = tuple(Call(c.name, {names.get(k, k): v for k, v in c.arguments.items()}) for c in example.calls)
    return Example(example.query, tuple(tools), calls, example.source)


def _rename_tools(example: Example, rename: Callable[[str], str]) -> Example:
    taken: set[str] = set()
    names = {t.name: _unique(rename(t.name), taken) for t in example.tools}
    tools = tuple(Tool(names[t.name], t.description, t.parameters) for t in example.tools)
    calls = tuple(Call(names[c.name], c.arguments) for c in example.calls)
    return Example(example.query, tools, calls, example.source)


def _unique(base: str, taken: set[str]) -> str:
    name, number = base, 2
    while name in taken:
        name, number = f"{base}{number}", number + 1
    taken.add(name)
    return name
