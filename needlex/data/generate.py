"""Tool-call examples without a network: deterministic, thousands of rows a second.

Each row takes one to three requests drawn from sentence templates (`embedded`), the tools they call, and
distractors, half of them from the same domain. Evaluation splits never share a query with training, of
whatever size and seed, because a stable hash of the query decides where it belongs; on top of that,
`unseen_values` uses only values and `unseen_templates` only wordings that training never uses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from needlex.data.embedded.catalogue import CHAT_STAND_INS, SHARED_SLOTS, catalogue
from needlex.data.embedded.held_out import query_held_out
from needlex.data.embedded.pools import pick
from needlex.data.embedded.templates import Draw, Template
from needlex.data.embedded.wording import say, share
from needlex.schema import Call, Example

SPLITS = ("train", "validation", "seen_values", "unseen_values", "unseen_templates", "unseen_names")
MAX_TOOLS = 10
MAX_DRAWS = 20_000
"""Draws for one row after which a split counts as exhausted."""
CHAT_SHARE = 0.5
"""Share of small talk among the rows without a call; the others miss the tool that is asked for."""
NONE_CLOSE = 0.2
"""Share of the same domain among the tools of rows without a call: few, since an unlike tool is the easier one to refuse."""
SHARED_SHARE = 0.35
"""Share of `in Paris and London` among the rows with several calls; the others join whole requests."""


@dataclass(frozen=True)
class GenerateConfig:
    """How many rows, and of what kind."""

    rows: int = 20_000
    """Training rows."""
    held_out_rows: int = 300
    """Rows of each other split."""
    seed: int = 0
    """The same seed gives the same rows; more rows of a split begin with the fewer."""
    tool_weights: tuple[float, ...] = (0.26, 0.2, 0.16, 0.12, 0.08, 0.06, 0.04, 0.03, 0.03, 0.02)
    """Share of rows with 1, 2, ..., 10 tools (any scale)."""
    none_share: float = 0.12
    """Share of rows whose right answer is no call."""
    multi_share: float = 0.15
    """Share of rows with two or three calls."""
    domains: tuple[str, ...] = ()
    """Domains whose tools are used (`home`, `timer`, `weather`, ...); none: all of them."""

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
    """All rows of one split, `config.rows` for `train` and `config.held_out_rows` for any other.

    No two rows of `train` have the same query and tools, no two rows of another split the same query.

    **Raises:** `ValueError` for an unknown split; `RuntimeError` when it cannot give that many such rows.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
    maker = _Maker(config, split)
    seen: set[tuple] = set()

    def wanted(example: Example) -> bool:
        key = (example.query, *(t.name for t in example.tools if split == "train"))
        if key in seen or query_held_out(example.query) == (split == "train"):
            return False
        seen.add(key)
        return True

    return [maker.row(wanted) for _ in range(config.rows if split == "train" else config.held_out_rows)]


@cache
def _templates(unseen: bool) -> dict[str, tuple[tuple[Template, ...], ...]]:
    """Templates by tool, grouped by combination; tools without any are left out."""
    groups = {n: (s.unseen if unseen else s.trained).values() for n, s in catalogue().sources.items()}
    return {name: tuple(found) for name, found in groups.items() if found}


@cache
def _trained_wordings() -> frozenset[str]:
    """Wordings that training templates were seen to give: a held-out template may give some of them too."""
    random, found = Random("wordings"), set()
    for groups in _templates(False).values():
        for template in (t for group in groups for t in group):
            found.update(draw.wording() for _ in range(60) if (draw := template.draw(random)))
    return frozenset(found)


class _Maker:
    """Draws rows of one split."""

    def __init__(self, config: GenerateConfig, split: str):
        self.config, self.split = config, split
        # A string seeds `Random` through SHA-512: the same on every machine.
        self.random = Random(f"{config.seed}/{split}")
        self.book = catalogue().only(config.domains)
        self.names = tuple(self.book.sources)
        self.held_out_values = split == "unseen_values"
        self.unseen_templates = split == "unseen_templates"
        self.templates = _templates(self.unseen_templates)
        self.callable = tuple(name for name in self.templates if name in self.book.sources)
        self.shareable = any(name in SHARED_SLOTS for name in self.callable)
        self.chat = self.book.unseen_chat if self.unseen_templates else self.book.chat

    def row(self, wanted: Callable[[Example], bool]) -> Example:
        """One row that is wanted; its kind and number of tools come first, so that refusals shift no share.

        **Raises:** `RuntimeError` when no such row came up in many draws.
        """
        tools = self.random.choices(range(1, MAX_TOOLS + 1), self.config.tool_weights)[0]
        kind = self.random.random()
        make: Callable[[int], Example | None] = self._single
        if kind < self.config.none_share:
            make = self._chat if self.random.random() < CHAT_SHARE else self._near_miss
        elif kind < self.config.none_share + self.config.multi_share:
            make = self._shared if self.random.random() < SHARED_SHARE and self.shareable else self._multi
        for _ in range(MAX_DRAWS):
            example = make(tools)
            if example is not None and wanted(example):
                return example
        raise RuntimeError(
            f"split {self.split!r}: no new row of {tools} tools in {MAX_DRAWS} draws; ask for fewer rows"
        )

    def _single(self, tools: int) -> Example | None:
        name = pick(self.random, self.callable)
        draw = self._draw(name)
        if draw is None:
            return None
        query, arguments = say([draw], self.random)
        return self._finish(query, [(name, arguments[0])], tools)

    def _near_miss(self, tools: int) -> Example | None:
        name = pick(self.random, self.callable)
        draw = self._draw(name)
        if draw is None:
            return None
        domain, query = self.book.sources[name].domain, say([draw], self.random)[0]
        return self._none(query, tools, {name} | self.book.stand_ins[name], domain, f"near_miss/{name}")

    def _chat(self, tools: int) -> Example | None:
        draw = pick(self.random, self.chat).draw(self.random, self.held_out_values)
        if draw is None or (self.held_out_values and not draw.is_open):
            return None
        domain = pick(self.random, tuple(self.book.by_domain))
        return self._none(say([draw], self.random)[0], tools, CHAT_STAND_INS, domain, "chat")

    def _multi(self, tools: int) -> Example | None:
        """Two or three requests in one query: of one tool, of one domain, or of any."""
        wanted = 2 if self.random.random() < 0.75 else 3
        names = [pick(self.random, self.callable)]
        while len(names) < wanted:
            kind = self.random.random()
            near = self.book.by_domain[self.book.sources[names[0]].domain]
            if tools == 1 or kind < 0.25:
                names.append(names[-1])
            else:
                names.append(pick(self.random, near if kind < 0.6 else self.callable))
        if len(set(names)) > tools or any(a in self.book.rivals[b] for a in names for b in names):
            return None
        draws = [draw for name in names if (draw := self._draw(name)) is not None]
        if len(draws) < wanted:
            return None
        query, arguments = say(draws, self.random)
        return self._finish(query, list(zip(names, arguments, strict=True)), tools)

    def _shared(self, tools: int) -> Example | None:
        """One request that names several values, `in Paris and London`: a call each."""
        name = pick(self.random, self.callable)
        slot = SHARED_SLOTS.get(name)
        draw = self._draw(name) if slot else None
        if slot is None or draw is None:
            return None
        if not share(draw, slot, 2 if self.random.random() < 0.75 else 3, self.random):
            return None
        query, (arguments,) = say([draw], self.random)
        return self._finish(query, [(name, {**arguments, slot: value}) for value in arguments[slot]], tools)

    def _draw(self, name: str) -> Draw | None:
        groups = self.templates.get(name)
        draw = (
            pick(self.random, pick(self.random, groups)).draw(self.random, self.held_out_values)
            if groups
            else None
        )
        if draw is None or (self.held_out_values and not draw.is_open):
            return None
        if self.unseen_templates and draw.wording() in _trained_wordings():
            return None
        return draw

    def _finish(
        self, query: str, calls: Sequence[tuple[str, Mapping[str, Any]]], tools: int
    ) -> Example | None:
        made = tuple(Call(name, arguments) for name, arguments in calls)
        if any(a == b for i, a in enumerate(made) for b in made[:i]):
            return None
        called = list(dict.fromkeys(name for name, _ in calls))
        domain = self.book.sources[called[0]].domain
        offered = called + self._distractors(called, tools - len(called), (), domain)
        source = f"embedded/{domain}" if len(made) == 1 else "embedded/multi"
        return self._example(query, offered, made, tools, source)

    def _none(
        self, query: str, tools: int, barred: Collection[str], domain: str, kind: str
    ) -> Example | None:
        return self._example(
            query, self._distractors([], tools, barred, domain, NONE_CLOSE), (), tools, f"embedded/{kind}"
        )

    def _distractors(
        self, called: Sequence[str], count: int, barred: Collection[str], domain: str, share: float = 0.5
    ) -> list[str]:
        """Tools that are not called: half of them of the same domain, none that could serve as well."""
        taken = {*called, *barred}.union(*(self.book.rivals[name] for name in called))
        offered: list[str] = []
        near = self.book.by_domain[domain]
        for attempt in range(20 * count):
            if len(offered) == count:
                break
            close = attempt < 3 * count and self.random.random() < share
            name = pick(self.random, near if close else self.names)
            if name not in taken:
                taken |= {name} | self.book.rivals[name]
                offered.append(name)
        return offered

    def _example(
        self, query: str, offered: list[str], calls: tuple[Call, ...], tools: int, source: str
    ) -> Example | None:
        if len(offered) != tools:
            return None
        self.random.shuffle(offered)
        return Example(query, tuple(self.book.sources[n].tool for n in offered), calls, source)
