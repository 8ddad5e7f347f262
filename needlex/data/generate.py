"""Tool-call examples without a network: deterministic, thousands of rows a second.

Each row takes one to three requests drawn from sentence templates (`embedded`), the tools they call, and
distractors, by preference of the same domain. Evaluation splits never share a query with training, of
whatever size or seed, because a stable hash of the query decides where it belongs; on top of that,
`unseen_values` uses only values and `unseen_templates` only wordings that training never uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random

from needlex.data.embedded.chat import RIVALS, chat_templates
from needlex.data.embedded.domains import own_sources
from needlex.data.embedded.held_out import query_held_out
from needlex.data.embedded.home import home_sources
from needlex.data.embedded.source import ToolSource
from needlex.data.embedded.templates import Draw, Template
from needlex.schema import Call, Example, Tool

SPLITS = ("train", "validation", "seen_values", "unseen_values", "unseen_templates", "unseen_names")
MAX_TOOLS = 10


@dataclass(frozen=True)
class GenerateConfig:
    """How many rows, and of what kind."""

    rows: int = 20_000
    """Training rows."""
    held_out_rows: int = 300
    """Rows of each other split."""
    seed: int = 0
    """The same seed gives the same rows; a split of more rows begins with those of one of fewer."""
    tool_weights: tuple[float, ...] = (0.26, 0.2, 0.16, 0.12, 0.08, 0.06, 0.04, 0.03, 0.03, 0.02)
    """Share of rows with 1, 2, ..., 10 tools (needs no sum of one)."""
    none_share: float = 0.12
    """Share of rows whose right answer is no call."""
    multi_share: float = 0.15
    """Share of rows with two or three calls."""

    def __post_init__(self):
        for name in ("rows", "held_out_rows"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if len(self.tool_weights) != MAX_TOOLS or min(self.tool_weights) < 0 or sum(self.tool_weights) <= 0:
            raise ValueError(
                f"tool_weights must be {MAX_TOOLS} weights >= 0 (rows with 1, 2, ... tools), "
                f"not all zero, got {self.tool_weights}"
            )
        for name in ("none_share", "multi_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {getattr(self, name)}")
        if self.none_share + self.multi_share > 1:
            raise ValueError("none_share + multi_share must not exceed 1; lower one of them")


def generate(config: GenerateConfig, split: str = "train") -> list[Example]:
    """All rows of one split.

    **Raises:** `ValueError` for an unknown split; `RuntimeError` when a split cannot give that many
    different rows.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
    wanted = config.rows if split == "train" else config.held_out_rows
    rows: list[Example] = []
    seen: set[tuple] = set()
    misses = 0
    candidates = _candidates(config, split)
    while len(rows) < wanted:
        example = next(candidates)
        key = (example.query, tuple(t.name for t in example.tools))
        if query_held_out(example.query) == (split == "train") or key in seen:
            misses += 1
            if misses > 1000 + 100 * wanted:
                raise RuntimeError(f"split {split!r} cannot give {wanted} different rows; ask for fewer")
            continue
        seen.add(key)
        rows.append(example)
    return rows


@dataclass(frozen=True)
class _Book:
    """All that can be asked for, prepared once for one choice of templates."""

    sources: tuple[ToolSource, ...]
    templates: dict[str, tuple[tuple[Template, ...], ...]]
    """Templates by tool, grouped by combination."""
    chat: tuple[Template, ...]
    by_domain: dict[str, tuple[ToolSource, ...]]


@cache
def _sources() -> tuple[ToolSource, ...]:
    sources = (*home_sources(), *own_sources())
    names = [s.tool.name for s in sources]
    assert len(set(names)) == len(names), sorted(n for n in names if names.count(n) > 1)
    return sources


@cache
def _book(unseen: bool) -> _Book:
    sources, (trained_chat, unseen_chat) = _sources(), chat_templates()
    templates = {
        s.tool.name: tuple(v for v in (s.unseen if unseen else s.trained).values() if v) for s in sources
    }
    by_domain: dict[str, list[ToolSource]] = {}
    for source in sources:
        by_domain.setdefault(source.domain, []).append(source)
    return _Book(
        sources,
        {name: groups for name, groups in templates.items() if groups},
        tuple(unseen_chat if unseen else trained_chat),
        {domain: tuple(members) for domain, members in by_domain.items()},
    )


@cache
def _trained_skeletons() -> frozenset[str]:
    """Wordings (values left out) that training templates were seen to give, so that `unseen_templates` gives others."""
    random, found = Random("skeletons"), set()
    for groups in _book(False).templates.values():
        for template in (t for group in groups for t in group):
            for _ in range(40):
                if draw := template.draw(random):
                    found.add(_skeleton(draw))
    return frozenset(found)


def _skeleton(draw: Draw) -> str:
    return " ".join("".join(draw.skeleton).lower().split())


def _candidates(config: GenerateConfig, split: str) -> Iterator[Example]:
    """An endless stream of rows, before those of the wrong side of the query hash are dropped."""
    # A string seeds `Random` through SHA-512: the same on every machine.
    random = Random(f"{config.seed}/{split}")
    maker = _Maker(config, split, random)
    while True:
        example = maker.row()
        if example is not None:
            yield example


class _Maker:
    """Draws rows of one split."""

    def __init__(self, config: GenerateConfig, split: str, random: Random):
        self.config, self.random = config, random
        self.held_out_values = split == "unseen_values"
        self.unseen_templates = split == "unseen_templates"
        self.book = _book(self.unseen_templates)
        self.callable = tuple(s for s in self.book.sources if s.tool.name in self.book.templates)
        self.counts = tuple(range(1, MAX_TOOLS + 1))

    def row(self) -> Example | None:
        """One row, or `None` when the draw came to nothing (too few tools for the calls, no acceptable text)."""
        random = self.random
        tools = random.choices(self.counts, self.config.tool_weights)[0]
        kind = random.random()
        if kind < self.config.none_share:
            return self._none_row(tools)
        if kind < self.config.none_share + self.config.multi_share:
            return self._multi_row(max(tools, 1))
        request = self._request(self._pick(self.callable))
        if request is None:
            return None
        source, draw = request
        query = _dress(draw, random)
        return self._example(query, [source], [draw], tools)

    def _none_row(self, tools: int) -> Example | None:
        if self.random.random() < 0.3:
            draw = self._pick(self.book.chat).draw(self.random, self.held_out_values)
            if draw is None or (self.held_out_values and not draw.open_values):
                return None
            draw.arguments.clear()
            offered = self._distractors([], tools, RIVALS, self._pick(self.book.sources).domain)
            return _finish(_dress(draw, self.random), offered, [], "embedded/chat", self.random)
        request = self._request(self._pick(self.callable))
        if request is None:
            return None
        source, draw = request
        offered = self._distractors([source], tools, source.rivals, source.domain)
        return _finish(
            _dress(draw, self.random), offered, [], f"embedded/none/{source.tool.name}", self.random
        )

    def _multi_row(self, tools: int) -> Example | None:
        random = self.random
        wanted = 2 if random.random() < 0.75 else 3
        first = self._pick(self.callable)
        chosen = [first]
        for _ in range(wanted - 1):
            kind = random.random()
            if tools == 1 or kind < 0.25:
                chosen.append(chosen[-1])
            elif kind < 0.6:
                chosen.append(self._pick(self.book.by_domain[first.domain]))
            else:
                chosen.append(self._pick(self.callable))
        names = {s.tool.name for s in chosen}
        if len(names) > tools or _rivals(chosen) or not names <= self.book.templates.keys():
            return None
        requests = [self._request(s) for s in chosen]
        draws = [r[1] for r in requests if r is not None]
        if len(draws) < wanted:
            return None
        calls = [
            json.dumps(d.arguments, sort_keys=True) + s.tool.name for s, d in zip(chosen, draws, strict=True)
        ]
        if len(set(calls)) < wanted:
            return None
        distinct = list({s.tool.name: s for s in chosen}.values())
        offered = self._distractors(distinct, tools - len(distinct), frozenset(), first.domain) + [
            s.tool for s in distinct
        ]
        query = _join(draws, random)  # first: it may lower the case of the arguments
        made = [Call(s.tool.name, d.arguments) for s, d in zip(chosen, draws, strict=True)]
        return _finish(query, offered, made, "embedded/multi", random)

    def _example(self, query: str, called: list[ToolSource], draws: list[Draw], tools: int) -> Example | None:
        offered = [s.tool for s in called] + self._distractors(
            called, tools - len(called), frozenset(), called[0].domain
        )
        calls = [Call(s.tool.name, d.arguments) for s, d in zip(called, draws, strict=True)]
        return _finish(query, offered, calls, f"embedded/{called[0].domain}", self.random)

    def _request(self, source: ToolSource) -> tuple[ToolSource, Draw] | None:
        groups = self.book.templates[source.tool.name] if source.tool.name in self.book.templates else ()
        if not groups:
            return None
        draw = self._pick(self._pick(groups)).draw(self.random, self.held_out_values)
        if draw is None or (self.held_out_values and not draw.open_values):
            return None
        if self.unseen_templates and _skeleton(draw) in _trained_skeletons():
            return None
        return source, draw

    def _distractors(
        self, called: list[ToolSource], count: int, rivals: frozenset[str], domain: str
    ) -> list[Tool]:
        """Tools that are not called: half of them of the same domain, none that could serve as well."""
        taken = {s.tool.name for s in called}
        rivals = rivals.union(*(s.rivals for s in called))
        offered: list[Tool] = []
        for attempt in range(8 * count):
            if len(offered) == count:
                break
            near = attempt < 3 * count and self.random.random() < 0.5
            source = self._pick(self.book.by_domain[domain] if near else self.book.sources)
            if source.tool.name not in taken and not source.rivals & rivals:
                taken.add(source.tool.name)
                rivals = rivals | source.rivals
                offered.append(source.tool)
        return offered

    def _pick(self, items):
        return items[int(self.random.random() * len(items))]


def _rivals(sources: list[ToolSource]) -> bool:
    """Whether two different tools could serve one of the requests."""
    distinct = list({s.tool.name: s for s in sources}.values())
    return any(a.rivals & b.rivals for i, a in enumerate(distinct) for b in distinct[:i])


def _finish(query: str, tools: list[Tool], calls: list[Call], source: str, random: Random) -> Example | None:
    if not tools:
        return None
    random.shuffle(tools)
    return Example(query, tuple(tools), tuple(calls), source)


# How people dress up a request -----------------------------------------------------------------------

_QUESTION = re.compile(
    r"(what|how|who|where|when|which|why|is|are|am|do|does|did|will|can|could|any|has|got|whats)\b",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"(turn|set|switch|open|close|lock|unlock|play|pause|stop|start|add|put|send|call|text|email|remind|show|find|"
    r"take|make|book|order|cancel|delete|remove|create|tell|give|get|read|check|convert|calculate|translate|"
    r"schedule|move|track|log|record|search|change|adjust|skip|mute|unmute|resume|raise|lower|shut|increase|"
    r"decrease|roll|pick|define|reserve|transfer|pay|navigate|launch|wake|announce|broadcast|look|write)\b"
)
_BEFORE = ("please ", "can you ", "could you ", "can you please ", "could you please ", "would you ", "hey, ",
           "I want you to ", "I need you to ", "go ahead and ", "just ", "would you please ", "ok, ")  # fmt: skip
_AFTER = (" please", ", please", ", thanks", " for me", " now", ", thank you", " right away")
_JOINTS = (
    " and ",
    " and then ",
    ", then ",
    ", and also ",
    ". then ",
    ", ",
    " and also ",
    "; ",
    ". also ",
    " plus ",
)
_FIRM_JOINTS = (", and then ", ". then ", "; ", ". also ", ". after that ", ". next, ")


def _dress(draw: Draw, random: Random) -> str:
    """Politeness, capitals and punctuation, each in a share of the rows; open values stay as they are."""
    text = draw.text()
    return _present(_polite(text, draw, random), _starts_with_value(text, draw), [draw], random)


def _polite(text: str, draw: Draw, random: Random) -> str:
    chance = random.random()
    if chance < 0.16 and _VERB.match(text):
        return random.choice(_BEFORE) + text
    if chance < 0.24 and _VERB.match(text) and not draw.loose_end and "please" not in text:
        return text + random.choice(_AFTER)
    return text


def _starts_with_value(text: str, draw: Draw) -> bool:
    return any(text.startswith(v) for v in draw.open_values)


def _present(text: str, fixed_start: bool, draws: list[Draw], random: Random) -> str:
    style = random.random()
    if style < 0.2:  # all in lower case: the values with it
        text = text.lower()
        for draw in draws:
            draw.arguments = {k: _lower(v, draw.open_values) for k, v in draw.arguments.items()}
    elif style < 0.65 and not fixed_start:
        text = text[0].upper() + text[1:]
    ending = random.random()
    asks = bool(_QUESTION.match(text))
    if ending < (0.5 if asks else 0.25) and text[-1].isalnum():
        text += "?" if asks else "." if random.random() < 0.85 else "!"
    return text


def _lower(value, open_values: list[str]):
    if isinstance(value, list):
        return [_lower(v, open_values) for v in value]
    return value.lower() if isinstance(value, str) and value in open_values else value


def _join(draws: list[Draw], random: Random) -> str:
    texts = []
    for i, draw in enumerate(draws):
        text = draw.text()
        if i:
            joints = _FIRM_JOINTS if draws[i - 1].loose_end else _JOINTS
            texts.append(random.choice(joints))
        texts.append(_polite(text, draw, random) if i == 0 and not draw.loose_end else text)
    text = "".join(texts)
    return _present(text, _starts_with_value(text, draws[0]), draws, random)
