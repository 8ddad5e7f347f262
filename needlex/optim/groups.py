"""Which optimizer, rate and decay each leaf gets: the house's own rules, then those of the configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from needlex.tree import Rule, apply_rules, path_name

RULES = (
    Rule(r"^confidence\.", "frozen", optional=True),  # trained after the rest, by calibration
    Rule(
        r"(encoder|decoder|contrastive)\..*\.weight$", "matrix", optional=True
    ),  # where only a part is trained
    Rule(r"(\.scale|gate|log_temperature)$", "scale", optional=True),
    Rule(r"\.bias$|^embedding\.weight$", "rest"),
)
"""Which kind a leaf is: Muon's matrices, AdamW's scales (norms, gates, temperature) and rest, or frozen."""
ADAPTER_RULES = (Rule(r"\.lora_[ab]$", "matrix"), *(r._replace(optional=True) for r in RULES))
"""The same for adapters and what is trained beside them."""


@dataclass(frozen=True)
class Group:
    """Leaves that are treated alike."""

    kind: str
    """matrix, scale, rest or frozen."""
    rate: float = 1.0
    """Factor on the learning rate."""
    decay: bool = True
    """Whether weight decay applies."""

    def __str__(self) -> str:
        return (
            self.kind + (f" x{self.rate:g}" if self.rate != 1 else "") + ("" if self.decay else " no decay")
        )


@dataclass(frozen=True)
class Wish:
    """What a rule of the configuration changes."""

    rate: float = 1.0
    decay: bool = True
    frozen: bool = False


def parse_rule(text: str) -> tuple[str, Wish]:
    """`PATTERN: lr=50, decay=off` or `PATTERN: frozen` as the regular expression and what it sets.

    **Raises:** `ValueError` saying what is wrong with it.
    """
    pattern, colon, settings = text.rpartition(":")
    where = f"optim.rules: {text!r}"
    if not colon or not pattern.strip():
        raise ValueError(f"{where} must be 'PATTERN: lr=50, decay=off' or 'PATTERN: frozen'")
    try:
        re.compile(pattern.strip())
    except re.error as e:
        raise ValueError(f"{where}: the pattern is no regular expression ({e})") from None
    found: dict[str, Any] = {}
    for word in (w.strip() for w in settings.split(",")):
        name, _, value = (part.strip() for part in word.partition("="))
        try:
            if name == "lr" and 0 < float(value) < float("inf"):
                found["rate"] = float(value)
            elif name == "decay" and value in ("on", "off"):
                found["decay"] = value == "on"
            elif word == "frozen":
                found["frozen"] = True
            else:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"{where}: {word!r} is none of lr=FACTOR (positive), decay=on, decay=off, frozen"
            ) from None
    if "frozen" in found and len(found) > 1:
        raise ValueError(f"{where}: a frozen leaf has no rate and no decay")
    return pattern.strip(), Wish(**found)


def groups(params: Any, rules: Sequence[str] = ()) -> Any:
    """Tree of `Group` for the parameters. Of `rules` the first that matches a leaf decides.

    **Raises:** `ValueError` naming a leaf that belongs to no group, or a rule that decides nothing.
    """
    names = [path_name(p) for p, _ in jax.tree_util.tree_leaves_with_path(params)]
    adapters = any(re.search(ADAPTER_RULES[0].pattern, n) for n in names)
    kinds = apply_rules(ADAPTER_RULES if adapters else RULES, params, "optimizer groups")
    parsed = [Rule(*parse_rule(r)) for r in rules]
    wishes = apply_rules([*parsed, Rule("", Wish(), optional=True)], params, "optim.rules")

    def settle(kind: str, wish: Wish) -> Group:
        return Group("frozen") if wish.frozen or kind == "frozen" else Group(kind, wish.rate, wish.decay)

    return jax.tree.map(settle, kinds, wishes)


def labels(params: Any, rules: Sequence[str] = ()) -> Any:
    """`groups` by name."""
    return jax.tree.map(str, groups(params, rules))
