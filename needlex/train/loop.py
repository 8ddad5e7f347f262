"""The training loop: batches in, updates, validation, checkpoints, numbers out."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh
from tqdm import tqdm

from needlex.batch import Batch
from needlex.checkpoint.store import Store, saved_steps
from needlex.compress.prune import apply_masks, block_masks
from needlex.config import fingerprint, to_dict
from needlex.losses.tokens import TokenSums
from needlex.model.seq2seq import Seq2Seq
from needlex.optim.build import build_optimizer
from needlex.optim.schedule import make_schedule
from needlex.precision import named
from needlex.sharding import build_mesh, put_batch, replicated
from needlex.track import Tracker
from needlex.train.config import NOT_HASHED, TrainConfig
from needlex.train.guard import Guard, check_first_loss
from needlex.train.preempt import StopRequest
from needlex.train.setup import Prepared
from needlex.train.step import Gradients, TrainState, init_state, make_evaluate, make_update
from needlex.tree import leaf_paths


class Seen(NamedTuple):
    """What a hook made of a validation."""

    cards: dict[str, str] = {}  # noqa: RUF012
    """Texts for TensorBoard, by name."""
    scalars: dict[str, float] = {}  # noqa: RUF012
    """Numbers for TensorBoard and metrics.jsonl, by name."""
    stop: str | None = None
    """Why the run should end here."""


class Moment(NamedTuple):
    """A validation, for a hook to look at."""

    step: int
    params: Any
    """What is trained."""
    model: Seq2Seq
    """The plain model with it."""
    validation: dict[str, float]
    """Loss, perplexity, accuracy."""


EvalHook = Callable[[Moment], Seen]
"""Called at every validation."""


class Start(NamedTuple):
    """What a run begins with. `eqx.combine(params, frozen, static)` is the model."""

    params: Any
    """What is trained."""
    frozen: Any
    """What is only read; None if all is trained."""
    static: Any
    dropout: bool
    """Whether the model is random in training."""
    plain: Callable[[Any], Seq2Seq] = lambda model: model
    """Makes a model that decodes of it: merges adapters."""

    def model(self, params: Any) -> Seq2Seq:
        """The plain model with these trained values."""
        parts = (params, self.static) if self.frozen is None else (params, self.frozen, self.static)
        return self.plain(eqx.combine(*parts))


def from_scratch(config: TrainConfig) -> Start:
    """A freshly drawn model, all of it trained."""
    model = Seq2Seq(config.model, key=jr.key(config.seed))
    params, static = eqx.partition(model, eqx.is_array)
    return Start(params, None, static, config.model.dropout > 0)


class Result(NamedTuple):
    """How a run ended."""

    summary: dict[str, Any]
    """Plain numbers: steps, losses, seconds, checkpoint."""
    state: TrainState
    model: Seq2Seq
    """The trained model, float32 masters."""


def train(
    config: TrainConfig,
    data: Prepared,
    on_eval: EvalHook | None = None,
    say: Callable[[str], None] | None = None,
    start: Start | None = None,
) -> Result:
    """Run `config` on prepared data, from `start` (a fresh model if not given) or, with `resume`, from the newest readable
    checkpoint.

    The run continues bit for bit where it stopped (on the same number of devices). SIGTERM and Ctrl-C save and return.

    **Raises:** `ValueError` for a run directory or checkpoint that does not fit; `NonFiniteError` when training falls apart.
    """
    say = say or (lambda text: tqdm.write(text, file=sys.stdout))
    policy, mesh = named(config.precision), build_mesh(config.mesh)
    for name, rows in (("batch_size", config.data.batch_size), ("pairs", config.data.pairs_per_batch)):
        if rows % mesh.size:
            raise ValueError(
                f"data.{name} {rows} cannot be split over {mesh.size} devices (mesh.data {config.mesh.data}); "
                "make it a multiple"
            )
    schedule = make_schedule(config.optim, data.steps)
    optimizer = build_optimizer(config.optim, schedule, policy)
    start = start or from_scratch(config)
    prune = config.prune
    state = init_state(start.params, optimizer, config.seed, mesh, prune.sparsity > 0)
    frozen = None if start.frozen is None else jax.device_put(start.frozen, replicated(mesh))
    start = start._replace(frozen=frozen)  # merging needs both parts on the same devices
    new_masks = jax.jit(block_masks, static_argnames="group_size", out_shardings=replicated(mesh))
    accumulate = config.optim.accumulate
    gradients = Gradients(
        start.static, config.loss, policy, mesh, start.dropout, accumulate, config.model.mat_factors
    )
    update = make_update(optimizer, config.optim.clip, mesh, config.optim.clamp)
    evaluate = make_evaluate(start.static, config.loss, policy, mesh)
    names, trained = leaf_paths(start.params), sum(x.size for x in jax.tree.leaves(start.params))

    store = Store(config.run_dir, config.checkpoint, policy)
    batches, first = data.batches(), 0
    meta = {"config": to_dict(config), "hash": fingerprint(config, NOT_HASHED)}
    if config.resume and not saved_steps(config.run_dir):
        say(f"no checkpoint in {config.run_dir}; starting from the start")
    elif config.resume:
        first, params, rest = store.restore(state.params, state._replace(params=None), batches, say)
        state = rest._replace(params=params)
        say(f"resumed {config.run_dir} at step {first} of {data.steps}")
    tracker = Tracker(config.run_dir, config.track, first, to_dict(config))
    guard = Guard(names, config.optim.max_skipped, say)
    rates = {"lr/adamw": config.optim.lr, "lr/muon": config.optim.muon_lr}
    say(
        f"{trained:,} parameters, {len(names)} leaves; {data.steps} updates of {data.rows_per_step} rows "
        f"on {mesh.size} device(s)"
    )

    # Text has no rows of calls: its batches are counted.
    rows = len(data.validation_rows) or sum(
        int(b.decoder_segments.any(axis=1).sum()) for b in data.validation
    )
    started = clock = time.perf_counter()
    tokens, tokens_seen, validation, terms, step, ended = 0, 0, None, None, first, False
    bar = tqdm(total=data.steps, initial=first, desc="train", unit="step", dynamic_ncols=True,
               mininterval=0.5 if sys.stderr.isatty() else 15)  # fmt: skip
    # Signals are held back until all is on disk. The loader's threads would outlive the interpreter's modules.
    with StopRequest() as stop, closing(batches), closing(store), closing(tracker), closing(bar):
        for step in range(first + 1, data.steps + 1):
            host = next(batches)
            tokens += int(np.count_nonzero(host.encoder)) + int(np.count_nonzero(host.decoder_segments))
            batch = put_batch(host, mesh, leading=int(accumulate > 1))
            grads, terms = gradients(batch, state.params, state.key, state.step, frozen)
            state, info = update(grads, terms.loss, state)
            # Waiting for this step's numbers costs nothing: the loader works ahead in its own threads.
            guard.check(step, info)
            if prune.due(step, data.steps):
                target = jnp.array(prune.target(step, data.steps), jnp.float32)
                masks = new_masks(state.params, target, group_size=prune.group_size)
                state = state._replace(params=apply_masks(state.params, masks), masks=masks)
            if step == 1:
                check_first_loss(_mean(terms.sums.ce, terms.sums), data.vocab_size, say)
            if step % config.log_every == 0 or step in (1, data.steps):
                now = time.perf_counter()
                rate, clock, tokens, tokens_seen = tokens / (now - clock), now, 0, tokens_seen + tokens
                share = float(schedule(jnp.array(step)))
                values = _values(terms, float(info.norm), rate) | {k: v * share for k, v in rates.items()}
                values["skipped"] = float(info.skipped)
                if host.pairs is not None and config.loss.contrastive_weight:
                    values["loss/contrastive"] = float(terms.contrastive)
                tracker.scalars(step, values)
                bar.set_postfix(loss=f"{values['loss/total']:.3f}", ppl=f"{values['train/perplexity']:.2f}",
                                tok_s=f"{rate:,.0f}", refresh=False)  # fmt: skip
            bar.update(1)
            last = step == data.steps
            if not stop and (last or step % config.eval_every == 0):
                found = validate(evaluate, data.validation, (state.params, frozen), mesh, stop, rows)
                if found is not None:
                    validation = found
                    tracker.scalars(step, {f"validation/{k}": v for k, v in found.items()})
                    tracker.scalars(step, gate_values(state.params), files_only=True)
                    say(f"step {step}: validation loss {found['loss']:.4f}, perplexity {found['perplexity']:.3f}, "
                        f"token accuracy {found['accuracy']:.4f} ({found['rows']:.0f} rows)")  # fmt: skip
                    if on_eval is not None:
                        seen = on_eval(Moment(step, state.params, start.model(state.params), found))
                        if seen.scalars:
                            tracker.scalars(step, seen.scalars)
                        for name, text in seen.cards.items():
                            tracker.text(step, name, text)
                        if seen.stop is not None:
                            say(f"step {step}: {seen.stop}")
                            last = ended = True
                clock = time.perf_counter()
            stopping = bool(stop) and not ended  # asked once: a signal that comes later is for the next step
            if stopping or last or step % config.checkpoint.every == 0:
                store.save(
                    step,
                    state.params,
                    state._replace(params=None),
                    batches,
                    {**meta, "step": step, "validation": validation},
                )
            if ended:
                break
            if stopping:
                say(f"{stop.reason}: saved step {step}; continue with --resume")
                break
    seconds = time.perf_counter() - started
    summary = {
        "run_dir": config.run_dir, "hash": meta["hash"], "steps": step, "finished": ended or step >= data.steps, "resumed_from": first,
        "seconds": round(seconds, 2), "skipped": int(state.skipped), "parameters": trained,
        "train_loss": None if terms is None else _mean(terms.sums.ce, terms.sums), "validation": validation,
    }  # fmt: skip
    return Result(summary, state, start.model(state.params))


def validate(
    evaluate: Callable,
    batches: Sequence[Batch],
    parts: tuple[Any, ...],
    mesh: Mesh,
    stop: StopRequest,
    rows: int,
) -> dict[str, float] | None:
    """Loss over all validation `rows` once, with the `parts` that `evaluate` takes of a model.

    None if a stop was asked for meanwhile, or there is nothing to validate on.
    """
    total: TokenSums | None = None
    for batch in batches:
        if stop:
            return None
        sums = jax.device_get(evaluate(put_batch(batch, mesh), *parts))
        total = sums if total is None else TokenSums(*(a + b for a, b in zip(total, sums, strict=True)))
    if total is None:
        return None
    ce = _mean(total.ce, total)
    return {
        "loss": ce, "weighted_loss": _mean(total.weighted_ce, total), "perplexity": math.exp(min(ce, 80.0)),
        "accuracy": _mean(total.correct, total), "rows": float(rows),
    }  # fmt: skip


def gate_values(params: Any) -> dict[str, float]:
    """sigmoid of every residual gate, by layer."""
    values = {}
    for name, leaf in zip(leaf_paths(params), jax.tree.leaves(params), strict=True):
        if name.endswith("gate"):
            for layer, gate in enumerate(np.asarray(jax.nn.sigmoid(leaf.astype(jnp.float32))).ravel()):
                values[f"gates/{name}/{layer}"] = float(gate)
    return values


def _values(terms: Any, norm: float, rate: float) -> dict[str, float]:
    sums = terms.sums
    ce = _mean(sums.ce, sums)
    return {
        "loss/total": float(terms.loss), "loss/weighted_ce": _mean(sums.weighted_ce, sums), "loss/ce": ce, "loss/z": _mean(sums.z, sums),
        "train/perplexity": math.exp(min(ce, 80.0)), "train/accuracy": _mean(sums.correct, sums), "train/gradient_norm": norm,
        "train/tokens_per_second": rate,
    }  # fmt: skip


def _mean(value: Any, sums: TokenSums) -> float:
    return float(value) / max(float(sums.count), 1.0)
