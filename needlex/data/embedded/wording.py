"""How people dress a request up, and how they say several in one breath."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from needlex.data.embedded.pools import pick
from needlex.data.embedded.templates import Draw

_QUESTION = re.compile(
    r"(what|whats|what's|how|how's|who|who's|where|where's|when|which|why|is|are|am|do (i|you|we)|does|did|"
    r"will|can|could|would|any|has|got)\b",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"(turn|set|switch|open|close|lock|unlock|play|pause|stop|start|add|put|send|call|text|email|remind|show|find|"
    r"take|make|book|order|cancel|delete|remove|create|tell|give|get|read|check|convert|calculate|translate|"
    r"schedule|move|track|log|record|search|change|adjust|skip|mute|unmute|resume|raise|lower|shut|increase|"
    r"decrease|roll|pick|define|reserve|transfer|pay|navigate|launch|wake|announce|broadcast|look|write)\b"
)
_BEFORE = (
    "please ", "can you ", "could you ", "can you please ", "could you please ", "would you ", "hey, ",
    "I want you to ", "I need you to ", "go ahead and ", "just ", "would you please ", "ok, ",
)  # fmt: skip
_AFTER = (" please", ", please", ", thanks", ", thank you", ", if you can")
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
    ", and ",
)
_FIRM_JOINTS = (", and then ", ". then ", "; ", ". also ", ". after that ", ". next, ")
"""After free text, where a mere `and` could belong to the text."""


def say(draws: Sequence[Draw], random: Random) -> tuple[str, list[Mapping[str, Any]]]:
    """The requests as one query, in order, and the arguments of each as they are written in it.

    Politeness, capitals and punctuation come in a share of the queries; where all of it is in lower case,
    so are the values that it spells out.
    """
    texts = []
    for i, draw in enumerate(draws):
        if i:
            texts.append(pick(random, _FIRM_JOINTS if draws[i - 1].loose_end else _JOINTS))
        texts.append(_polite(draw, last=i == len(draws) - 1, random=random) if i == 0 else draw.text())
    text = "".join(texts)
    arguments: list[Mapping[str, Any]] = [draw.arguments for draw in draws]
    style = random.random()
    if style < 0.2:
        text = text.lower()
        arguments = [{k: _lower(v, draw.spoken) for k, v in draw.arguments.items()} for draw in draws]
    elif style < 0.65 and not any(text.startswith(value) for value in draws[0].spoken):
        text = text[0].upper() + text[1:]
    asks = bool(_QUESTION.match(text))
    if text[-1].isalnum() and random.random() < (0.5 if asks else 0.25):
        text += "?" if asks else "." if random.random() < 0.85 else "!"
    return text, arguments


def _polite(draw: Draw, last: bool, random: Random) -> str:
    text, chance = draw.text(), random.random()
    if _VERB.match(text) and "please" not in text:
        if chance < 0.16:
            return pick(random, _BEFORE) + text
        if chance < 0.24 and last and not draw.loose_end:
            return text + pick(random, _AFTER)
    return text


def _lower(value: Any, spoken: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_lower(v, spoken) for v in value]
    return value.lower() if isinstance(value, str) and value in spoken else value


def share(draw: Draw, slot: str, count: int, random: Random) -> bool:
    """Make one request name `count` values of a slot, `in Paris and London`: its argument becomes their list.

    Returns `False`, and leaves the draw alone, when the slot is not in the sentence, holds no single value
    or is free text.
    """
    place = next((s for s in draw.slots if s[1] == slot), None)
    if place is None or place[2].loose or not isinstance(draw.arguments.get(slot), str):
        return False
    index, _, pool = place
    texts, values = [draw.parts[index]], [draw.arguments[slot]]
    for _ in range(20):
        text, value = pool.draw(random, draw.held_out)
        if len(values) < count and value not in values:
            texts.append(text)
            values.append(value)
    if len(values) < count:
        return False
    joint = pick(random, (" and ", " and ", " as well as ")) if count == 2 else " and "
    lead = re.search(r"\b(the|my|our) $", "".join(draw.parts[:index]))
    if lead and random.random() < 0.5:
        texts = [texts[0], *(lead[0] + t for t in texts[1:])]
    draw.parts[index] = ", ".join(texts[:-1]) + joint + texts[-1]
    draw.spoken.extend(values[1:])
    draw.arguments[slot] = values
    return True
