"""All examinations of one configuration."""

from __future__ import annotations

import dataclasses
import math
import platform
import sys
from importlib.metadata import version
from typing import Any

import jax
import jax.random as jr

from needlex.doctor.constants import prove
from needlex.doctor.parity import compare
from needlex.doctor.probe import probe_rows
from needlex.doctor.report import Finding
from needlex.doctor.updates import prove_dtypes, prove_updates
from needlex.finetune.base import begin
from needlex.finetune.config import FinetuneConfig
from needlex.loading import Read, read
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.optim.build import build_optimizer
from needlex.optim.schedule import make_schedule
from needlex.precision import Policy, named
from needlex.sharding import build_mesh
from needlex.train.config import TrainConfig
from needlex.train.constants import constants
from needlex.train.loop import Start, from_scratch
from needlex.tree import path_name

DEFAULT_VOCABULARY = 512
"""Pieces of a model whose configuration leaves the number to a tokenizer that is not there yet."""


def examine(config: FinetuneConfig | TrainConfig, say: Any = print) -> list[Finding]:
    """Findings for a run that is not made: nothing is written.

    **Raises:** `ValueError` or `OSError` when the checkpoint cannot be read or the configuration does not fit it.
    """
    policy, mesh = named(config.precision), build_mesh(config.mesh)
    start, model, shape, found = _start(config, policy, say)
    lora = config.lora if isinstance(config, FinetuneConfig) and config.method in ("lora", "qlora") else None
    quantized = isinstance(config, FinetuneConfig) and config.method == "qlora"
    findings = prove(constants(shape, config.optim, config.loss, policy, lora, quantized))
    optimizer = build_optimizer(config.optim, make_schedule(config.optim, 100), policy)
    findings.append(prove_dtypes(start.params, optimizer, policy.optimizer))
    findings += prove_updates(start.params, optimizer, config.optim.rules)
    data, source = config.data, config.data.train[0]
    if found is not None and found.run is not None:
        data = dataclasses.replace(found.run.data, max_encoder=1024, max_decoder=512)
        source = source if source != "embedded" else found.run.data.train[0]
    assert shape.vocab_size is not None
    rows, targets, what = probe_rows(found.tokenizer if found else None, data, shape.vocab_size, source)
    parity = compare(start, model, shape, policy, mesh, rows, targets)
    findings += parity
    findings.append(first_loss(parity[0].values["cross_entropy"], shape.vocab_size, what, found is not None))
    return [*findings, *environment(start, mesh.size)]


def _start(
    config: FinetuneConfig | TrainConfig, policy: Policy, say: Any
) -> tuple[Start, Seq2Seq, ModelConfig, Read | None]:
    if isinstance(config, TrainConfig):
        if config.model.vocab_size is None:
            config = dataclasses.replace(
                config, model=dataclasses.replace(config.model, vocab_size=DEFAULT_VOCABULARY)
            )
        start = from_scratch(config)
        return start, start.model(start.params), config.model, None
    if not config.checkpoint:
        raise ValueError("--checkpoint is missing; a fine-tuning starts from one")
    found = read(config.checkpoint, config.tokenizer)
    start = begin(found.model, config.with_free_gradients(), policy, False)
    if config.method in ("lora", "qlora"):
        # Adapters that are zero would hide faults in them: B gets values, as after some updates.
        drawn = jax.tree_util.tree_map_with_path(
            lambda path, x: (
                0.02 * jr.normal(jr.key(1), x.shape, x.dtype)
                if path_name(path).endswith((".lora_a", ".lora_b"))
                else x
            ),
            start.params,
        )
        start = start._replace(params=drawn)
        say(
            "adapters are drawn at random for the forward pass: at their start they are zero and would hide faults"
        )
    return start, found.model, found.config, found


def first_loss(ce: float, vocab_size: int, what: str, trained: bool) -> Finding:
    """The loss beside that of a uniform guess: far above it the forward pass is wrong, not the data."""
    uniform = math.log(vocab_size)
    # A fresh tied embedding repeats its input, a little worse than a uniform guess; a trained one must be better.
    ok = ce <= uniform + (0.5 if trained and what != "random tokens" else 4)
    detail = f"{ce:.3f} nats a token on {what}; a uniform guess over {vocab_size} pieces is {uniform:.3f}"
    if not ok:
        detail += (
            ": the forward pass is wrong, not the data (wrong checkpoint, tokenizer, rotary, bias or mask)"
        )
    return Finding("loss", "first loss against ln(V)", ok, detail, {"cross_entropy": ce, "uniform": uniform})


def environment(start: Start, devices: int) -> list[Finding]:
    """Versions, devices and memory."""
    names = ("jax", "jaxlib", "equinox", "optax", "orbax-checkpoint", "grain", "numpy", "safetensors")
    versions = {n: version(n) for n in names} | {"python": platform.python_version()}
    found = jax.devices()
    arrays = jax.tree.leaves((start.params, start.frozen))
    size = sum(x.nbytes for x in arrays) / 1e6
    free = _free_memory_mb()
    # Parameters, their gradients and two moments.
    need = size + 3 * sum(x.nbytes for x in jax.tree.leaves(start.params)) / 1e6
    enough = free is None or need < free
    kind = f"{len(found)} x {found[0].device_kind} ({found[0].platform}), {devices} used"
    memory = f"weights {size:.1f} MB, with gradients and optimizer about {need:.1f} MB"
    memory += f"; {free:.0f} MB are free" if free is not None else ""
    return [
        Finding("environment", "versions", sys.version_info >= (3, 11), ", ".join(f"{k} {v}" for k, v in versions.items()), versions),
        Finding("environment", "devices", len(found) >= devices, kind),
        Finding("environment", "memory", enough, memory, {"weights_mb": size, "need_mb": need, "free_mb": free}),
    ]  # fmt: skip


def _free_memory_mb() -> float | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as f:
            return next(int(line.split()[1]) / 1024 for line in f if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None  # not Linux
