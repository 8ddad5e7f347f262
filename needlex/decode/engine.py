"""Greedy decoding with caches: the encoder runs once, its keys and values are projected once, each token costs one step.

One code path feeds several tokens (prefill) or one (a step). Rows of a batch may have encoder inputs of any length. Parameters are
arguments: nothing is kept between calls, so two models in a process cannot meet.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from needlex.model.encoder import gated
from needlex.model.seq2seq import PAD, Seq2Seq

EOS, TOOL_CALL = 1, 4
PROMPT = (EOS, TOOL_CALL)
"""What every answer starts from."""


class Cache(NamedTuple):
    """Keys and values of one row, by layer."""

    self_keys: Float[Array, "l k n c"]
    self_values: Float[Array, "l k n c"]
    cross_keys: Float[Array, "l k e c"]
    cross_values: Float[Array, "l k e c"]
    cross_mask: Bool[Array, "e"]
    """Real encoder positions."""


class Generated(NamedTuple):
    """Answers of a batch; `tokens` are padding after the end."""

    tokens: Int[Array, "b n"]
    finished: Bool[Array, "b"]
    """Whether the answer ended within the budget."""
    log_probability: Float[Array, "b"]
    """Sum over the answer's tokens, end included, nats."""


def start(model: Seq2Seq, encoder: Int[Array, "e"], budget: int) -> Cache:
    """Encode one row and prepare a cache for `budget` decoder tokens."""
    memory = model.encode(encoder)
    positions = jnp.arange(encoder.shape[0])
    keys, values = eqx.filter_vmap(lambda layer: layer.cross_attention.keys_values(memory, positions))(
        model.decoder.layers
    )
    attention = model.decoder.layers.self_attention
    shape = (keys.shape[0], attention.kv_heads, budget, keys.shape[-1])
    empty = jnp.zeros(shape, keys.dtype)
    return Cache(empty, empty, keys, values, encoder != PAD)


def step(
    model: Seq2Seq, cache: Cache, tokens: Int[Array, "t"], position: Int[Array, ""]
) -> tuple[Float[Array, "t v"], Cache]:
    """Feed `tokens` of one row at `position`...; logits of the token after each, and the cache with them in it."""
    positions = position + jnp.arange(tokens.shape[0])
    self_mask = jnp.arange(cache.self_keys.shape[2])[None, :] <= positions[:, None]
    cross_mask = jnp.broadcast_to(cache.cross_mask, (tokens.shape[0], cache.cross_mask.shape[0]))
    arrays, static = eqx.partition(model.decoder.layers, eqx.is_array)

    def body(x, scanned):
        layer_arrays, self_k, self_v, cross_k, cross_v = scanned
        layer = eqx.combine(layer_arrays, static)
        y = layer.self_norm(x)
        q = layer.self_attention.queries(y, positions)
        k, v = layer.self_attention.keys_values(y, positions)
        self_k = jax.lax.dynamic_update_slice_in_dim(self_k, k, position, axis=1)
        self_v = jax.lax.dynamic_update_slice_in_dim(self_v, v, position, axis=1)
        x = gated(x, layer.self_gate, layer.self_attention.attend(q, self_k, self_v, self_mask))
        q = layer.cross_attention.queries(layer.cross_norm(x), positions)
        x = gated(x, layer.cross_gate, layer.cross_attention.attend(q, cross_k, cross_v, cross_mask))
        if layer.feedforward is not None:
            x = layer.feedforward(x, None, 0.0, None)
        return x, (self_k, self_v)

    scanned = (arrays, cache.self_keys, cache.self_values, cache.cross_keys, cache.cross_values)
    x, (keys, values) = jax.lax.scan(body, model.embedding(tokens), scanned)
    logits = model.embedding.logits(model.decoder.norm(x))
    return logits, cache._replace(self_keys=keys, self_values=values)


def prefill(model: Seq2Seq, encoder: Int[Array, "b e"], length: int) -> tuple[Float[Array, "b v"], Cache]:
    """Encode a batch and feed `PROMPT`: logits of each row's first token, and caches for `length` decoder tokens."""
    caches = jax.vmap(lambda e: start(model, e, length))(encoder)
    prompt = jnp.broadcast_to(jnp.array(PROMPT), (encoder.shape[0], len(PROMPT)))
    logits, caches = jax.vmap(partial(step, model), in_axes=(0, 0, None))(caches, prompt, jnp.array(0))
    return logits[:, -1], caches


@partial(jax.jit, static_argnames=("static", "max_new"))
def _generate(params: Any, static: Any, encoder: Int[Array, "b e"], max_new: int) -> Generated:
    model = eqx.combine(params, static)
    rows = encoder.shape[0]
    logits, caches = prefill(model, encoder, len(PROMPT) + max_new)
    advance = jax.vmap(partial(step, model), in_axes=(0, 0, None))
    absent = ~jnp.any(encoder != PAD, axis=1)  # rows that only fill up the batch end at once

    def choose(logits, done):
        chosen = jnp.argmax(logits, axis=-1)
        score = jnp.take_along_axis(jax.nn.log_softmax(logits), chosen[:, None], axis=-1)[:, 0]
        return jnp.where(done, PAD, chosen), jnp.where(done, 0.0, score)

    def more(carry):
        i, _, _, _, done, _ = carry
        return (i < max_new) & ~jnp.all(done)

    def body(carry):
        i, logits, caches, out, done, scores = carry
        chosen, score = choose(logits, done)
        out = out.at[:, i].set(chosen)
        done = done | (chosen == EOS)
        logits, caches = advance(caches, chosen[:, None], i + len(PROMPT))
        return i + 1, logits[:, -1], caches, out, done, scores + score

    out = jnp.zeros((rows, max_new), jnp.int32)
    carry = (jnp.array(0), logits, caches, out, absent, jnp.zeros(rows))
    _, _, _, out, done, scores = jax.lax.while_loop(more, body, carry)
    return Generated(jnp.where(out == EOS, PAD, out), done, scores)


def generate(model: Seq2Seq, encoder: Int[Array, "b e"], max_new: int) -> Generated:
    """Most likely answers for a batch of encoder inputs (padded with 0; a row of padding alone stays empty).

    Compiles once for each (rows, encoder length, max_new); pad to few lengths.
    """
    if max_new < 1:
        raise ValueError(f"max_new is {max_new}; at least one token must be allowed")
    params, static = eqx.partition(model, eqx.is_array)
    return _generate(params, static, encoder, max_new)
