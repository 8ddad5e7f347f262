"""Speed of the real training step: `just bench`.

Prints seconds a step (gradients and optimizer apart), tokens/s, compile seconds and peak memory for configs/needle.py at batch 8,
encoder 256, decoder 128, float32, as a ratio to the original on the same kind of machine. Synthetic tokens; the best of `--repeat`.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import sys
import time
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import tyro

from needlex.batch import Batch
from needlex.config import load_preset
from needlex.losses.config import LossConfig
from needlex.model.seq2seq import Seq2Seq, count_parameters
from needlex.optim.build import build_optimizer
from needlex.optim.schedule import make_schedule
from needlex.precision import named
from needlex.sharding import build_mesh, put_batch
from needlex.train.config import TrainConfig
from needlex.train.step import Gradients, init_state, make_update

ORIGINAL_SECONDS = 7.5
"""The original's step (gradients 4.6 to 5.1, optimizer 2.4) at this size, measured on two x86-64 cores with AVX-512, jax 0.10.2."""


@dataclass(frozen=True)
class Args:
    """Size of the step."""

    config: str = "needle"
    batch: int = 8
    encoder: int = 256
    decoder: int = 128
    precision: str = "float32"
    repeat: int = 3
    json: bool = False


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    config = load_preset(args.config, TrainConfig)
    policy, mesh = named(args.precision), build_mesh(config.mesh)
    shape = dataclasses.replace(
        config.model, vocab_size=config.model.vocab_size or config.tokenizer.vocab_size
    )
    model = Seq2Seq(shape, key=jr.key(0))
    params, static = eqx.partition(model, eqx.is_array)
    optimizer = build_optimizer(config.optim, make_schedule(config.optim, 1000), policy)
    state = init_state(params, optimizer, 0, mesh)
    del params
    gradients = Gradients(static, LossConfig(contrastive_weight=0.0), policy, mesh, False, 1)
    update = make_update(optimizer, config.optim.clip, mesh)
    batch = put_batch(synthetic(args.batch, args.encoder, args.decoder, shape.vocab_size or 0), mesh)

    start = time.perf_counter()
    step = gradients.tokens.lower(batch, state.params, state.key, state.step, None).compile()
    grads, terms = step(batch, state.params, state.key, state.step, None)
    apply = update.lower(grads, terms.loss, state).compile()
    compile_seconds = time.perf_counter() - start
    times = []
    for _ in range(args.repeat + 1):
        start = time.perf_counter()
        grads, terms = jax.block_until_ready(step(batch, state.params, state.key, state.step, None))
        middle = time.perf_counter()
        state, _ = jax.block_until_ready(apply(grads, terms.loss, state))
        times.append((middle - start, time.perf_counter() - middle))
        del grads
    forward_backward, optimizer_seconds = (min(t[i] for t in times[1:]) for i in (0, 1))
    total = forward_backward + optimizer_seconds
    tokens = args.batch * (args.encoder + args.decoder)
    unit = 1 if sys.platform == "darwin" else 1024
    figures = {
        "parameters": count_parameters(model), "jax": jax.__version__, "precision": args.precision,
        "step_seconds": round(total, 3), "gradient_seconds": round(forward_backward, 3), "optimizer_seconds": round(optimizer_seconds, 3),
        "tokens_per_second": round(tokens / total, 1), "compile_seconds": round(compile_seconds, 1),
        "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30, 2),
        "times_original": round(ORIGINAL_SECONDS / total, 2),
    }  # fmt: skip
    for name, value in figures.items():
        print(f"  {name:<20} {value}")
    print(
        "  (times_original compares with 7.5 s on two x86-64 cores and means something only on such a machine)"
    )
    if args.json:
        print(json.dumps(figures))


def synthetic(rows: int, encoder: int, decoder: int, vocabulary: int) -> Batch:
    """A full batch of random tokens."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> np.ndarray:
        return rng.integers(6, vocabulary, (rows, n)).astype(np.int32)

    ones = np.ones((rows, decoder), np.int32)
    return Batch(draw(encoder), draw(decoder), draw(decoder), ones, np.ones((rows, encoder), np.int32), ones)


if __name__ == "__main__":
    main()
