"""The training step: gradients of the loss, then a guarded update. Both are pure and jitted.

Several functions rather than one: the batch comes in several shapes, the update in one, and each compiles for itself.
Shapes: a batch is [b, ...], or [a, b, ...] with `accumulate` micro-batches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from needlex.batch import Batch, Pairs
from needlex.compress.matryoshka import width_masks
from needlex.compress.prune import apply_masks, full_masks
from needlex.losses.config import LossConfig
from needlex.losses.contrastive import clip_loss
from needlex.losses.tokens import TokenSums, token_sums
from needlex.model.seq2seq import Seq2Seq
from needlex.precision import Policy
from needlex.sharding import replicated
from needlex.types import Key

CLIP_EPSILON = 1e-12
"""Least gradient norm that clipping divides by, float32."""


class TrainState(NamedTuple):
    """Everything that an update changes."""

    params: Any
    """What is trained: float32 masters of the model's leaves, or of its adapters."""
    optimizer: Any
    step: Int[Array, ""]
    """Updates tried so far, skipped ones included."""
    key: Key
    """Root of the run's randomness on device; folded with the step, never replaced."""
    skipped: Int[Array, ""]
    """Updates skipped as non-finite."""
    skipped_run: Int[Array, ""]
    """Of these, how many in a row up to now."""
    masks: Any = None
    """0/1 at weights that pruning holds at zero; None without pruning."""


class Terms(NamedTuple):
    """What a step measured before its update."""

    loss: Float[Array, ""]
    sums: TokenSums
    contrastive: Float[Array, ""]


class UpdateInfo(NamedTuple):
    """What an update did."""

    norm: Float[Array, ""]
    """Global gradient norm before clamping and clipping."""
    finite: Bool[Array, "n"]
    """For every parameter leaf (order of `tree.leaf_paths`), whether its gradient was finite."""
    moves: Bool[Array, "n"]
    """The same for the change that the optimizer made of it."""
    applied: Bool[Array, ""]
    skipped: Int[Array, ""]
    skipped_run: Int[Array, ""]


def batch_sums(
    model: Seq2Seq, batch: Batch, config: LossConfig, key: Key | None, mat_factors: tuple[int, ...] = ()
) -> TokenSums:
    """Token sums of one micro-batch [b, ...].

    `key` turns dropout on, with another mask for every row; `mat_factors` gives rows different feed-forward widths.
    """
    rows = batch.encoder.shape[0]
    keys = None if key is None else jr.split(key, rows)
    feedforward = model.decoder.layers.feedforward
    masks = (
        width_masks(rows, feedforward.layer.down.weight.shape[-2], mat_factors)
        if feedforward and mat_factors
        else None
    )

    def row(encoder, decoder, encoder_segments, decoder_segments, mask, key):
        return model(encoder, decoder, encoder_segments, decoder_segments, mask, key=key)

    logits = jax.vmap(row)(
        batch.encoder, batch.decoder, batch.encoder_segments, batch.decoder_segments, masks, keys
    )
    return token_sums(logits, batch.targets, batch.classes, batch.decoder_segments != 0, config.class_weights)


def pairs_loss(model: Seq2Seq, pairs: Pairs) -> Float[Array, ""]:
    """CLIP loss of one micro-batch's pairs."""
    query, tool = jax.vmap(model.embed)(pairs.query), jax.vmap(model.embed)(pairs.tool)
    return clip_loss(query, tool, pairs.identity, model.contrastive.log_temperature)


def assemble(params: Any, frozen: Any, static: Any, policy: Policy) -> Seq2Seq:
    """The model to compute with: trained leaves in the compute dtype, frozen ones (None: there are none) as they are stored.

    Linear maps, norms and gates convert what they read, a layer at a time; only the embedding, whose dtype is that of all
    activations, is converted as a whole.
    """
    parts = (
        (policy.to_compute(params), static) if frozen is None else (policy.to_compute(params), frozen, static)
    )
    model = eqx.combine(*parts)
    return eqx.tree_at(lambda m: m.embedding, model, policy.to_compute(model.embedding))


def loss_fn(
    params: Any, frozen: Any, static: Any, batch: Batch, total: Float[Array, ""], config: LossConfig, policy: Policy,
    key: Key | None = None, mat_factors: tuple[int, ...] = (),
) -> tuple[Float[Array, ""], TokenSums]:  # fmt: skip
    """Token loss of one micro-batch as its share of the whole: sums over `total` real tokens.

    Adding this over the micro-batches gives the loss of the one big batch.
    """
    sums = batch_sums(assemble(params, frozen, static, policy), batch, config, key, mat_factors)
    total = jnp.maximum(total, 1.0)
    return sums.weighted_ce / total + config.z_weight * sums.z / total, sums


def contrastive_fn(params: Any, frozen: Any, static: Any, pairs: Pairs, policy: Policy) -> Float[Array, ""]:
    """CLIP loss of the pairs; with a leading axis, of all pairs, each with the negatives of its own micro-batch."""
    model = assemble(params, frozen, static, policy)
    if pairs.identity.ndim == 1:
        return pairs_loss(model, pairs)
    # Not a mean of means: micro-batches hold unequal numbers of pairs.
    counts = jnp.sum(pairs.identity != 0, axis=1, dtype=jnp.float32)
    losses = jax.lax.map(lambda part: pairs_loss(model, part), pairs)
    return jnp.sum(losses * counts) / jnp.maximum(jnp.sum(counts), 1.0)


class Gradients:
    """(batch, params, key, step, frozen) -> (float32 gradients of `params`, Terms).

    Tokens and pairs are differentiated by two jitted functions: batches come in several shapes, with pairs and without, and
    so each shape is compiled once.
    """

    def __init__(self, static: Any, config: LossConfig, policy: Policy, mesh: Mesh, dropout: bool, accumulate: int,
                 mat_factors: tuple[int, ...] = ()):  # fmt: skip
        whole = replicated(mesh)
        self._contrastive = config.contrastive_weight > 0

        def of_tokens(batch: Batch, params, key, step, frozen):
            grad = jax.value_and_grad(loss_fn, has_aux=True)
            total = jnp.sum(batch.decoder_segments != 0, dtype=jnp.float32)
            key = jr.fold_in(key, step) if dropout else None
            if accumulate == 1:
                (loss, sums), grads = grad(
                    params, frozen, static, batch, total, config, policy, key, mat_factors
                )
                return grads, Terms(loss, sums, jnp.zeros(()))

            def micro(carry, part):
                (loss, sums), grads = grad(
                    params, frozen, static, part[0], total, config, policy, part[1], mat_factors
                )
                return jax.tree.map(jnp.add, carry, (grads, loss, sums)), None

            keys = None if key is None else jr.split(key, accumulate)
            first = jax.tree.map(lambda x: x[0], batch)
            (loss, sums), grads = jax.eval_shape(
                lambda: grad(params, frozen, static, first, total, config, policy, None)
            )
            zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (grads, loss, sums))
            (grads, loss, sums), _ = jax.lax.scan(micro, zeros, (batch, keys))
            return grads, Terms(loss, sums, jnp.zeros(()))

        def of_pairs(pairs: Pairs, params, grads, terms: Terms, frozen):
            loss, more = jax.value_and_grad(contrastive_fn)(params, frozen, static, pairs, policy)
            # Seen every n-th step only, so n times as heavy then: the same on average.
            weight = config.contrastive_weight * config.contrastive_every
            grads = jax.tree.map(lambda a, b: a + weight * b, grads, more)
            return grads, Terms(terms.loss + weight * loss, terms.sums, loss)

        self.tokens = jax.jit(of_tokens, out_shardings=whole)
        self.pairs = jax.jit(of_pairs, out_shardings=whole, donate_argnums=2)

    def __call__(
        self, batch: Batch, params: Any, key: Key, step: Int[Array, ""], frozen: Any = None
    ) -> tuple[Any, Terms]:
        grads, terms = self.tokens(batch._replace(pairs=None), params, key, step, frozen)
        if batch.pairs is None or not self._contrastive:
            return grads, terms
        return self.pairs(batch.pairs, params, grads, terms, frozen)


def make_update(
    optimizer: optax.GradientTransformationExtraArgs,
    clip: float | None,
    mesh: Mesh,
    clamp: float | None = None,
):
    """Jitted (gradients, loss, state) -> (state, UpdateInfo); the state is donated.

    Every gradient is clamped to +-`clamp`, then all are scaled down to a global norm of at most `clip`.

    An update with a non-finite loss, gradient or change of a parameter changes nothing but the counters.
    """

    def update(grads, loss, state: TrainState):
        squares = jnp.stack([jnp.sum(jnp.square(g.astype(jnp.float32))) for g in jax.tree.leaves(grads)])
        norm = jnp.sqrt(jnp.sum(squares))
        finite = jnp.isfinite(squares)
        applied = jnp.all(finite) & jnp.isfinite(norm) & jnp.isfinite(loss)
        length = norm
        if clamp is not None:
            most = jnp.array(clamp, jnp.float32)
            grads = jax.tree.map(lambda g: jnp.clip(g, -most, most), grads)
            length = optax.global_norm(grads)
        if clip is not None:
            scale = jnp.minimum(1.0, clip / jnp.maximum(length, CLIP_EPSILON))
            grads = jax.tree.map(lambda g: g * scale, grads)
        updates, opt = optimizer.update(grads, state.optimizer, state.params, step=state.step)
        # Finite gradients are not enough: an epsilon that its dtype cannot hold makes 0/0 of a gradient of zero.
        moves = jnp.stack([jnp.all(jnp.isfinite(u)) for u in jax.tree.leaves(updates)])
        applied &= jnp.all(moves)
        params = optax.apply_updates(state.params, updates)
        if state.masks is not None:
            params = apply_masks(params, state.masks)
        keep = lambda new, old: jax.tree.map(lambda n, o: jnp.where(applied, n, o), new, old)  # noqa: E731
        missed = 1 - applied.astype(jnp.int32)
        new = TrainState(
            keep(params, state.params), keep(opt, state.optimizer), state.step + 1, state.key, state.skipped + missed,
            (state.skipped_run + 1) * missed, state.masks,
        )  # fmt: skip
        return new, UpdateInfo(norm, finite, moves, applied, new.skipped, new.skipped_run)

    return jax.jit(update, donate_argnums=2, out_shardings=replicated(mesh))


def make_evaluate(static: Any, config: LossConfig, policy: Policy, mesh: Mesh):
    """Jitted (batch, params, frozen) -> TokenSums, without dropout."""

    def evaluate(batch: Batch, params, frozen=None):
        return batch_sums(assemble(params, frozen, static, policy), batch, config, None)

    return jax.jit(evaluate, out_shardings=replicated(mesh))


def init_state(
    params: Any, optimizer: optax.GradientTransformationExtraArgs, seed: int, mesh: Mesh, prune: bool = False
) -> TrainState:
    """State of a run at step 0, placed on the mesh; `prune` adds masks that prune nothing yet."""

    def build(params):
        # Distinct buffers: donation would free an array that two fields share.
        return TrainState(
            params, optimizer.init(params), jnp.zeros((), jnp.int32), jr.key(seed), jnp.zeros((), jnp.int32),
            jnp.zeros((), jnp.int32), full_masks(params) if prune else None,
        )  # fmt: skip

    return jax.jit(build, out_shardings=replicated(mesh))(params)
