"""Batches: the contract between data and model. Arrays are numpy on the way out of the loader, jax in the step."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Int


class Pairs(NamedTuple):
    """Query-tool pairs of the contrastive loss; row i of both belongs together."""

    query: Int[Any, "... p q"]
    """Token ids of the queries alone, 0 is padding."""
    tool: Int[Any, "... p u"]
    """Token ids of one called tool each, 0 is padding."""
    identity: Int[Any, "... p"]
    """Equal numbers mark the same tool: such pairs are no negatives of each other. 0: the row holds no pair."""


class Batch(NamedTuple):
    """Rows of training or validation, packed or padded. A leading axis of micro-batches may stand before `b`."""

    encoder: Int[Any, "... b e"]
    """Encoder token ids."""
    decoder: Int[Any, "... b t"]
    """Decoder input ids."""
    targets: Int[Any, "... b t"]
    """Decoder target ids."""
    classes: Int[Any, "... b t"]
    """Class of each target: 0 base, 1 name, 2 value, 3 key."""
    encoder_segments: Int[Any, "... b e"]
    """Packed example a position belongs to, from 1; 0 is padding."""
    decoder_segments: Int[Any, "... b t"]
    """The same for decoder inputs and targets."""
    pairs: Pairs | None = None
    """Pairs for the contrastive loss, on the steps that have it."""
