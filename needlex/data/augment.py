"""Rows with other names and values, so that a model copies what it reads instead of remembering it.

Both functions are pure in (example, generator). `restyle_held_out` gives the names that training never sees.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from needlex.data.names import held_out_names, rename_parameters, rename_tools
from needlex.data.values import replace_values
from needlex.data.words import Draw
from needlex.schema import Example


@dataclass(frozen=True)
class AugmentConfig:
    """Shares of rows, each drawn independently, in [0, 1]."""

    values: float = 0.4
    """Rows whose values that stand verbatim in the query become unseen words and numbers."""
    names: float = 0.5
    """Rows whose tool names get another style and words before or after them."""
    parameters: float = 0.3
    """Rows whose parameter names get another style and words before or after them."""
    shuffle_tools: bool = True
    """Whether the tools of a row come in random order."""

    def __post_init__(self):
        for name in ("values", "names", "parameters"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise ValueError(f"augment.{name} is {share}; it is a share of rows, between 0 and 1")


def augment(example: Example, config: AugmentConfig, rng: np.random.Generator) -> Example:
    """The example with values, tool names and parameter names changed, each with its share."""
    draw = Draw(rng)
    if draw.unit() < config.values:
        example = replace_values(example, draw)
    if draw.unit() < config.names:
        example = rename_tools(example, draw)
    if draw.unit() < config.parameters:
        example = rename_parameters(example, draw)
    if config.shuffle_tools and len(example.tools) > 1:
        order = rng.permutation(len(example.tools))
        example = replace(example, tools=tuple(example.tools[i] for i in order))
    return example


def restyle_held_out(example: Example, rng: np.random.Generator) -> Example:
    """The example with tool names of a kind that training never uses.

    All tools of the row get a held-out prefix, or a held-out suffix, or a held-out style
    (Title_Snake or kebab-case): one third of the rows each.
    """
    return held_out_names(example, Draw(rng))
