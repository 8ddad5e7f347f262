"""What a fine-tuning step costs: `just bench-finetune`.

For each method and optimizer: seconds a step (best of `--repeat`) and as a share of the full step, megabytes of trained and
frozen arrays and of the optimizer, and the temporaries of the compiled gradient step. Synthetic tokens.
"""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.random as jr
import tyro
from bench import synthetic

from needlex.adapt.config import LoraConfig
from needlex.config import load_preset
from needlex.finetune.base import begin
from needlex.finetune.carry_out import megabytes
from needlex.finetune.config import FinetuneConfig
from needlex.losses.config import LossConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.optim.build import build_optimizer
from needlex.optim.config import OptimConfig
from needlex.optim.schedule import make_schedule
from needlex.precision import named
from needlex.sharding import build_mesh, put_batch
from needlex.train.config import TrainConfig
from needlex.train.step import Gradients, init_state, make_update

CASES = (
    ("full", "muon", "float32"), ("full", "adamw", "float32"), ("full", "adafactor", "float32"), ("lora", "adamw", "float32"),
    ("lora", "adamw", "float16-storage"), ("lora", "adamw", "bfloat16-storage"), ("lora", "adafactor", "float32"),
    ("qlora", "adamw", "float32"),
)  # fmt: skip
"""Method, optimizer, precision."""


@dataclass(frozen=True)
class Args:
    """Size of the step."""

    config: str = "needle"
    """Preset of training whose model is taken."""
    batch: int = 8
    encoder: int = 256
    decoder: int = 128
    rank: int = 16
    repeat: int = 3
    json: bool = False


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    preset = load_preset(args.config, TrainConfig)
    shape = dataclasses.replace(
        preset.model, vocab_size=preset.model.vocab_size or preset.tokenizer.vocab_size
    )
    model = Seq2Seq(shape, key=jr.key(0))
    rows = []
    for method, optimizer, precision in CASES:
        rows.append(measure(args, model, preset, method, optimizer, precision))
        full = rows[0]["step_seconds"]
        rows[-1]["share_of_full"] = round(rows[-1]["step_seconds"] / full, 2)
        print("  ".join(f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    if args.json:
        print(json.dumps(rows))


def measure(
    args: Args, model: Seq2Seq, preset: TrainConfig, method: str, optimizer: str, precision: str
) -> dict[str, Any]:
    """One case."""
    policy, mesh = named(precision), build_mesh(preset.mesh)
    lora = LoraConfig(rank=args.rank, alpha=2.0 * args.rank)
    start = begin(model, FinetuneConfig(method=method, precision=precision, lora=lora), policy, False)  # pyright: ignore[reportArgumentType]
    optim = OptimConfig(name=optimizer)  # pyright: ignore[reportArgumentType]
    built = build_optimizer(optim, make_schedule(optim, 1000), policy)
    state = init_state(start.params, built, 0, mesh)
    gradients = Gradients(start.static, LossConfig(contrastive_weight=0.0), policy, mesh, False, 1)
    update = make_update(built, optim.clip, mesh, optim.clamp)
    batch = put_batch(
        synthetic(args.batch, args.encoder, args.decoder, model.embedding.weight.shape[0]), mesh
    )
    step = gradients.tokens.lower(batch, state.params, state.key, state.step, start.frozen).compile()
    memory = step.memory_analysis()
    times = []
    for _ in range(args.repeat + 1):
        begun = time.perf_counter()
        grads, terms = step(batch, state.params, state.key, state.step, start.frozen)
        state, _ = jax.block_until_ready(update(grads, terms.loss, state))
        times.append(time.perf_counter() - begun)
        del grads
    return {
        "method": method, "optimizer": optimizer, "precision": precision, "step_seconds": round(min(times[1:]), 4),
        "trained_mb": megabytes(state.params), "frozen_mb": megabytes(start.frozen), "optimizer_mb": megabytes(state.optimizer),
        "gradients_mb": megabytes(state.params), "temporaries_mb": round(memory.temp_size_in_bytes / 1e6, 1) if memory else None,
    }  # fmt: skip


if __name__ == "__main__":
    main()
