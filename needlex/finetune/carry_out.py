"""The run itself: base, adapters, data, training, the best weights on disk, figures before and after."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from needlex.adapt.files import adapter_of, fingerprint_arrays, save_adapter
from needlex.checkpoint.store import saved_steps
from needlex.checkpoint.weights import WEIGHTS, save_weights
from needlex.config import to_dict
from needlex.data.corpus import thin
from needlex.finetune.base import begin
from needlex.finetune.config import FinetuneConfig
from needlex.finetune.plan import SETTINGS, check_resume, old_rows, once_an_epoch, training_config
from needlex.finetune.warmup import warm_up
from needlex.finetune.watch import Watch, call_f1
from needlex.loading import Read, read
from needlex.precision import named
from needlex.train.constants import constants, constants_table
from needlex.train.loop import Moment, Start, train
from needlex.train.setup import prepare


def carry_out(config: FinetuneConfig, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Fine-tune as `config` says; returns plain numbers.

    **Raises:** `ValueError` (bad targets, another configuration, a base that cannot be read), `DataError`; nothing is written then.
    """
    check_resume(config)
    base = read(config.checkpoint, config.tokenizer)
    if base.tokenizer is None:
        raise ValueError(
            f"{config.checkpoint} holds no tokenizer; give the model's own with --tokenizer FILE"
        )
    policy = named(config.precision)
    settings = training_config(config, base)
    start = begin(base.model, config, policy, base.config.dropout > 0)
    say(about(config, start))
    adapted = config.lora if config.method in ("lora", "qlora") else None
    found = constants(base.config, config.optim, config.loss, policy, adapted, config.method == "qlora")
    say("epsilons and scales, and the dtypes that they act in:\n" + constants_table(found))
    settings, data = prepare(settings, say, base.tokenizer, len(config.data.train))
    settings = once_an_epoch(settings, config, data.steps)
    folder = Path(config.run_dir)
    (folder / SETTINGS).write_text(json.dumps(to_dict(config), indent=2) + "\n")

    if config.warmup.text:
        start = warm_up(config.warmup, settings, data.tokenizer, start, say)
    old, new = old_rows(base, config.old_rows), thin(data.validation_rows, config.eval_rows)
    old_data = base.run.data if base.run else settings.data

    def figures(model) -> dict[str, dict[str, float]]:
        return {
            "new": call_f1(model, new, data.tokenizer, settings.data),
            "old": call_f1(model, old, data.tokenizer, old_data),
        }

    before = figures(base.model)
    for which, scores in before.items():
        if scores:
            say(f"before, {which} tools: " + ", ".join(f"{k} {v:.3f}" for k, v in scores.items()))
    keep = keeper(config, base, start, policy, folder)
    reached = max(saved_steps(folder), default=0) if config.resume else 0
    watch = Watch(
        folder,
        new,
        data.validation_rows[:8],
        data.tokenizer,
        settings.data,
        config.patience,
        keep,
        say,
        reached,
    )
    result = train(settings, data, watch, say, start)
    best = watch.best
    if best is None:
        raise ValueError(
            "the run ended before its first validation; nothing was kept. Continue it with --resume"
        )
    after = figures(read(folder, base=config.checkpoint).model)
    state = result.state
    return result.summary | {
        "method": config.method, "best_step": int(best["step"]), "validations": watch.log, "before": before, "after": after,
        "memory_mb": {"trained": megabytes(state.params), "frozen": megabytes(start.frozen), "optimizer": megabytes(state.optimizer)},
    }  # fmt: skip


def keeper(
    config: FinetuneConfig, base: Read, start: Start, policy: Any, folder: Path
) -> Callable[[Moment], None]:
    """Writes the weights of a moment: the adapter, or all weights in the storage dtype."""
    base_hash = fingerprint_arrays(base.model)
    where = str(Path(config.checkpoint).absolute())

    def keep(moment: Moment) -> None:
        if config.method in ("lora", "qlora"):
            model = eqx.combine(moment.params, start.frozen, start.static)
            save_adapter(adapter_of(model, config.lora, config.method == "qlora", where, base_hash), folder)
        else:
            save_weights(eqx.filter(policy.to_storage(moment.model), eqx.is_array), folder / WEIGHTS)

    return keep


def about(config: FinetuneConfig, start: Start) -> str:
    """What is trained, in a line."""
    trained = sum(x.size for x in jax.tree.leaves(start.params))
    frozen = sum(x.size for x in jax.tree.leaves(start.frozen))
    text = {
        "lora": f"LoRA of rank {config.lora.rank} on a base stored in {named(config.precision).storage}",
        "qlora": f"LoRA of rank {config.lora.rank} on a base in four bits (NF4)",
        "full": "all weights",
        "head": "the tied embedding alone; gradients are neither clamped nor clipped",
    }[config.method]
    return f"{text}: {trained:,} numbers are trained, {frozen:,} array elements frozen ({megabytes(start.frozen):.2f} MB)"


def megabytes(tree: Any) -> float:
    """Size of the arrays of a tree, in 10^6 bytes."""
    arrays = [
        x
        for x in jax.tree.leaves(tree)
        if eqx.is_array(x) and not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    ]
    return round(sum(x.nbytes for x in arrays) / 1e6, 3)
