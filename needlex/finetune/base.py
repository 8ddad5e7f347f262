"""What a fine-tuning starts from: a checkpoint that is only read, taken apart as each method needs it."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.random as jr

from needlex.adapt.lora import add_adapters, merge, saved_leaves, take_apart
from needlex.compress.quantize import quantize_maps
from needlex.finetune.config import FinetuneConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.precision import Policy
from needlex.train.loop import Start
from needlex.tree import leaves_at, put_leaves


def with_adapters(model: Seq2Seq, config: FinetuneConfig, policy: Policy) -> Any:
    """The frozen base in its storage form (four bits for `qlora`) with fresh float32 adapters.

    **Raises:** `ValueError` for targets or a rank that do not fit.
    """
    base = policy.to_storage(model)
    if config.method == "qlora":
        # Quantised from full precision: what storage would round first is not rounded twice.
        base = quantize_maps(model)
        base = eqx.tree_at(lambda m: m.embedding, base, policy.to_storage(base.embedding))
    adapted = add_adapters(base, config.lora, key=jr.key(config.seed))
    # What is trained is never rounded to the storage dtype.
    return put_leaves(adapted, leaves_at(policy.to_param(model), saved_leaves(adapted, config.lora)))


def begin(model: Seq2Seq, config: FinetuneConfig, policy: Policy, dropout: bool) -> Start:
    """The parts of `model` (float32) that training needs; `dropout` says whether the model itself has some."""
    if config.method in ("lora", "qlora"):
        adapted = with_adapters(model, config, policy)
        trained, frozen, static = take_apart(adapted, saved_leaves(adapted, config.lora))
        return Start(
            trained,
            frozen,
            static,
            dropout or config.lora.dropout > 0,
            lambda m: policy.to_compute(merge(m)),
        )
    arrays, static = eqx.partition(model, eqx.is_array)
    if config.method == "full":
        return Start(arrays, None, static, dropout)
    none = eqx.filter(arrays, lambda _: False)
    head = eqx.tree_at(lambda m: m.embedding, none, arrays.embedding, is_leaf=lambda x: x is None)
    rest = eqx.tree_at(lambda m: m.embedding.weight, policy.to_storage(arrays), None)
    return Start(head, rest, static, dropout, policy.to_compute)
