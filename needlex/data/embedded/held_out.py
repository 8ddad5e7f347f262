"""What is kept from training: values and templates, chosen by a stable hash so that no list has to be stored.

A value is held out by its text alone, in every pool it occurs in: a name that is unseen as a device is not
seen as a timer either. A query is assigned to training or evaluation by its letters and digits alone, so
that no evaluation query, however written, occurs in any training set, of whatever size and seed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

VALUE_PERCENT = 20
"""Percent of the values of an open slot that training never sees."""
TEMPLATE_PERCENT = 10
"""Percent of the templates of a tool that training never sees."""
QUERY_PERCENT = 10
"""Percent of the queries that belong to the evaluation splits."""

# Salts under which everyday words (kitchen, London, milk, mom, "what time is it") are trained: a model that
# never saw "kitchen" would be of no use. Every pool has 9 to 31 percent held out under them.
_VALUE_SALT, _QUERY_SALT = "value430073", "query2"
_NOT_WORD = re.compile(r"[^a-z0-9]+")


def stable_percent(text: str, salt: str) -> int:
    """A number 0..99 that depends only on the texts (unlike `hash`, which differs by process)."""
    return crc32(f"{salt}\x00{text}".encode()) % 100


def value_held_out(value: str) -> bool:
    """Whether training never uses `value` in an open slot; upper case or lower makes no difference."""
    return stable_percent(value.lower(), _VALUE_SALT) < VALUE_PERCENT


def query_held_out(query: str) -> bool:
    """Whether `query` may occur in evaluation only; case, spaces and punctuation make no difference."""
    return stable_percent(_NOT_WORD.sub(" ", query.lower()).strip(), _QUERY_SALT) < QUERY_PERCENT


def held_out_templates(texts: Sequence[str]) -> set[str]:
    """The templates of one tool and slot combination that training never sees.

    About `TEMPLATE_PERCENT` of them, one at least where there are five or more, and none of fewer than
    two: a combination of slots that is never trained would test something else than new wording.
    """
    ordered = sorted(set(texts), key=lambda t: (crc32(f"template\x00{t}".encode()), t))
    if len(ordered) < 2:
        return set()
    wanted = len(ordered) * TEMPLATE_PERCENT / 100
    count = int(wanted) + (stable_percent(ordered[0], "round") < 100 * (wanted - int(wanted)))
    return set(ordered[: max(count, len(ordered) >= 5)])
