"""Does this configuration compute the model that the weights describe? And if not, where does it depart first?

The whole path (policy, quantised base, adapters, mesh, jit) is compared with the oracle; where they differ too much, each
layer and then each operation of the first wrong layer is run on the oracle's own inputs, so that one fault shows in
one place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import needlex.model.encoder as encoder_room
import needlex.model.seq2seq as model_room
import needlex.nn.attention as attention_room
from needlex.adapt.lora import LoraLinear, linear_maps, merge, replace_maps
from needlex.batch import Batch
from needlex.checkpoint.store import flatten
from needlex.doctor.oracle import Operation, Oracle, Row
from needlex.doctor.report import Finding
from needlex.losses.config import LossConfig
from needlex.model.config import ModelConfig
from needlex.precision import Policy
from needlex.sharding import put_batch, replicated
from needlex.train.loop import Start
from needlex.train.step import assemble, batch_sums


class Tolerance(NamedTuple):
    """Largest differences that are accepted."""

    ce: float
    """Of the cross-entropy, nats a token."""
    logits: float
    """Of the logits, relative L2."""
    operation: float
    """Of one operation on the oracle's inputs, relative L2."""


LIKE = Tolerance(1e-4, 1e-4, 1e-4)
"""Float32 against the oracle on the same weights."""
ROUGH = Tolerance(0.5, 0.10, 0.03)
"""16-bit arithmetic, or 16- and 4-bit weights against the float32 ones (as in the post-mortem of the NF4 forward pass)."""


def compare(start: Start, float32_model: Any, config: ModelConfig, policy: Policy, mesh: Mesh, rows: Sequence[Row],
            targets: Sequence[np.ndarray]) -> list[Finding]:  # fmt: skip
    """Findings of area parity. `float32_model` is the base before anything was stored in fewer bits."""
    query = rows[0].encoder[rows[0].encoder_segments == 1]
    ce, logits, embedding = subject(start, policy, mesh, rows, targets, query)
    whole = eqx.combine(*(t for t in start[:3] if t is not None))
    same = arrays_of(merge(whole))
    like = LIKE if policy.compute == "float32" else ROUGH
    findings = [_judge("same weights", ce, logits, same, config, rows, targets, like)]
    if not findings[0].ok:
        model = assemble(start.params, start.frozen, start.static, policy)
        findings.append(
            Finding("parity", "bisection", False, bisect(model, same, config, rows, like.operation))
        )
    if start.frozen is not None:
        original = arrays_of(merge(with_same_adapters(whole, float32_model)))
        found = _judge("against float32 weights", ce, logits, original, config, rows, targets, ROUGH)
        findings.append(
            found if found.ok else found._replace(detail=f"{found.detail}; {worst_map(same, original)}")
        )
    return [*findings, _embedding(start, embedding, same, config, policy, query, like)]


def with_same_adapters(model: Any, base: Any) -> Any:
    """`base` with the adapters of `model`: what is compared is the base, not what the adapters add."""
    maps = linear_maps(model)

    def replace(path: str, linear: Any) -> Any:
        x = maps[path]
        return eqx.tree_at(lambda m: m.base, x, linear) if isinstance(x, LoraLinear) else linear

    return replace_maps(base, replace)


def arrays_of(model: Any) -> dict[str, np.ndarray]:
    """Float32 weights by path."""
    return {k: np.asarray(x, np.float32) for k, x in flatten(eqx.filter(model, eqx.is_array)).items()}


class Computed(NamedTuple):
    """What the configuration gives for the probe's rows."""

    ce: float
    logits: list[np.ndarray]
    embedding: np.ndarray


def subject(
    start: Start,
    policy: Policy,
    mesh: Mesh,
    rows: Sequence[Row],
    targets: Sequence[np.ndarray],
    query: np.ndarray,
) -> Computed:
    """Cross-entropy and logits of `rows`, embedding of `query`, as the trainer computes them: jitted, sharded, in the policy's dtypes."""
    count = -(-len(rows) // mesh.size) * mesh.size
    filled = [*rows, *[Row(*(np.zeros_like(x) for x in rows[0]))] * (count - len(rows))]
    asked = [*targets, *[np.zeros_like(targets[0])] * (count - len(rows))]
    encoder, decoder, es, ds = (np.stack(x).astype(np.int32) for x in zip(*filled, strict=True))
    target = np.stack(asked).astype(np.int32)
    batch = put_batch(Batch(encoder, decoder, target, np.zeros_like(target), es, ds), mesh)

    # One program: two of them would take twice the time to compile.
    @partial(jax.jit, out_shardings=replicated(mesh))
    def compute(batch: Batch, query, params, frozen):
        model = assemble(params, frozen, start.static, policy)
        sums = batch_sums(model, batch, LossConfig(), None)
        logits = jax.vmap(lambda e, d, a, b: model(e, d, a, b))(
            batch.encoder, batch.decoder, batch.encoder_segments, batch.decoder_segments
        )
        return sums, logits, model.embed(query)

    sums, logits, embedding = jax.device_get(
        compute(batch, query.astype(np.int32), start.params, start.frozen)
    )
    return Computed(
        float(sums.ce) / float(sums.count), list(np.asarray(logits, np.float64)[: len(rows)]), embedding
    )


def _judge(name: str, ce: float, logits: list[np.ndarray], arrays: dict[str, np.ndarray], config: ModelConfig, rows: Sequence[Row],
           targets: Sequence[np.ndarray], most: Tolerance) -> Finding:  # fmt: skip
    want = [Oracle(arrays, config).run(row) for row in rows]
    losses = np.concatenate(
        [_losses(x, t)[r.decoder_segments != 0] for x, t, r in zip(want, targets, rows, strict=True)]
    )
    real = [r.decoder_segments != 0 for r in rows]
    got_all = np.concatenate([x[m] for x, m in zip(logits, real, strict=True)])
    want_all = np.concatenate([x[m] for x, m in zip(want, real, strict=True)])
    apart, difference = relative(got_all, want_all), abs(ce - float(losses.mean()))
    ok = bool(apart <= most.logits and difference <= most.ce)
    detail = f"cross-entropy {ce:.5f} and {losses.mean():.5f} (tolerance {most.ce:g}), logits {apart:.2e} apart (tolerance {most.logits:g})"
    values = {"cross_entropy": ce, "oracle_cross_entropy": float(losses.mean()), "logits_relative_l2": apart}
    return Finding("parity", name, ok, detail, values)


def _losses(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(targets)), targets]


def relative(got: Any, want: np.ndarray) -> float:
    """L2 of the difference over L2 of what is right; infinite if anything is not finite."""
    got = np.asarray(got, np.float64)
    if got.shape != want.shape or not np.isfinite(got).all():
        return float("inf")
    size = float(np.linalg.norm(want))
    return float(np.linalg.norm(got - want)) / (size if size else 1.0)


def _embedding(start: Start, got: np.ndarray, arrays: dict[str, np.ndarray], config: ModelConfig, policy: Policy, query: np.ndarray,
               most: Tolerance) -> Finding:  # fmt: skip
    """The retrieval head, with its bias."""
    oracle = Oracle(arrays, config)
    want = oracle.embed(query)
    model = assemble(start.params, start.frozen, start.static, policy)
    # The first layer by itself, too: where few of its units are active, unit length hides a bias.
    hidden = [op for op in oracle.operations if op.layer == "contrastive" and op.name]
    apart = max(relative(got, want), *(relative(run_operation(model, op), op.result) for op in hidden))
    detail = f"embedding {apart:.2e} apart (tolerance {most.logits:g})"
    if apart > most.logits:
        detail += "; " + _first(model, oracle.operations, most.operation)
    return Finding("parity", "retrieval head", apart <= most.logits, detail, {"relative_l2": apart})


def bisect(
    model: Any, arrays: dict[str, np.ndarray], config: ModelConfig, rows: Sequence[Row], most: float
) -> str:
    """Where `model` departs from the oracle first: layer, then operation."""
    for row in rows:
        oracle = Oracle(arrays, config)
        oracle.run(row)
        if not (found := _first(model, oracle.operations, most)).startswith("no "):
            return found
    return "no single operation departs: the parts are right and their combination (jit, sharding) is not"


def _first(model: Any, operations: Sequence[Operation], most: float) -> str:
    in_block: list[Operation] = []
    for op in operations:
        if "[" in op.layer and op.name:
            in_block.append(op)
            continue
        apart = relative(run_operation(model, op), op.result)
        if apart > most:
            for inner in in_block:
                if "[" in op.layer and (error := relative(run_operation(model, inner), inner.result)) > most:
                    return f"first layer that departs: {inner.layer}, first operation: {inner.name} ({error:.2e}, tolerance {most:g})"
            name = op.name or "the layer as a whole; each operation in it is right"
            return f"first layer that departs: {op.layer}, first operation: {name} ({apart:.2e}, tolerance {most:g})"
        in_block = []
    return "no operation departs"


def run_operation(model: Any, op: Operation) -> Any:
    """One operation of the real model on the oracle's inputs, in the layout of its result."""
    dtype = model.embedding.weight.dtype
    given = {
        k: jnp.asarray(v, v.dtype if v.dtype == bool else jnp.int32 if v.dtype.kind in "iu" else dtype)
        for k, v in op.inputs.items()
    }
    x = given.get("x", given.get("tokens", jnp.zeros(0)))
    if op.layer == "contrastive":
        return model.contrastive.hidden(x) if op.name == "hidden" else model.contrastive(x)
    if "[" not in op.layer:
        stack = getattr(model, op.layer)
        match op.name:
            case "embedding":
                return model.embedding(given["tokens"])
            case "mask":
                return model_room.encoder_mask(given["tokens"], given["segments"])
            case "causal mask":
                return model_room.decoder_masks(given["tokens"], given["segments"], given["memory_segments"])[
                    0
                ]
            case "cross mask":
                return model_room.decoder_masks(given["tokens"], given["segments"], given["memory_segments"])[
                    1
                ]
            case "logits":
                return model.embedding.logits(x)
            case _:
                return stack.norm(x)
    block = _block(model, op.layer)
    if not op.name:
        others = [given["mask"]] if "mask" in given else [given["memory"], given["own"], given["across"]]
        return block(x, *others)
    if op.name.endswith("gate"):
        owner = block.feedforward if op.name.startswith("feedforward") else block
        return encoder_room.gated(x, getattr(owner, op.name.split()[-1]), given["y"])
    part, _, which = op.name.partition(".")
    if not which and op.name.endswith("softmax and read"):
        return _read(getattr(block, op.name.split()[0]), given)
    owner = getattr(block, part)
    if not which:
        return owner(x)
    if not which.endswith("rotary"):
        return getattr(owner, which)(x)
    positions = jnp.arange(x.shape[0])
    if which.startswith("query"):
        q = owner.queries(x, positions)
        return q.transpose(2, 0, 1, 3).reshape(x.shape[0], owner.heads, -1)
    return owner.keys_values(x, positions)[0].transpose(1, 0, 2)


def _read(attention: Any, given: dict[str, Any]) -> Any:
    q, k, v = given["q"], given["k"], given["v"]
    grouped = q.reshape(q.shape[0], attention.kv_heads, -1, q.shape[-1]).transpose(1, 2, 0, 3)
    got = attention_room.attention_core(grouped, k.transpose(1, 0, 2), v.transpose(1, 0, 2), given["mask"])
    return got.transpose(2, 0, 1, 3).reshape(q.shape[0], -1)


def _block(model: Any, layer: str) -> Any:
    found = re.fullmatch(r"(\w+)\.layers\[(\d+)\]", layer)
    assert found is not None
    arrays, static = eqx.partition(getattr(model, found[1]).layers, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda x: x[int(found[2])], arrays), static)


def worst_map(stored: dict[str, np.ndarray], original: dict[str, np.ndarray]) -> str:
    """Which stored weight differs most from the original one."""
    errors = {
        k: relative(stored[k], original[k].astype(np.float64)) for k in original if k.endswith("weight")
    }
    name = max(errors, key=lambda k: errors[k])
    return f"the stored weights differ most at {name} ({errors[name]:.3f} relative)"
