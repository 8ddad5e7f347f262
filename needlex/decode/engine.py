"""Decoding with caches: the encoder runs once, its keys and values are projected once, each token costs one step.

One code path feeds several tokens (prefill) or one (a step) to every row of a batch, whose encoder inputs may be of any
length and whose answers may be at any position. Weights are arguments: nothing is kept between calls, so two models in a
process cannot meet.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from needlex.data.tokenizer import EOS, TOOL_CALL
from needlex.model.decoder import DecoderBlock
from needlex.model.encoder import FeedForwardSublayer, gated
from needlex.model.seq2seq import PAD, Seq2Seq
from needlex.nn.linear import Embedding
from needlex.nn.norm import ZCRMSNorm
from needlex.nn.rotary import rotary_angles, rotate

PROMPT = (EOS, TOOL_CALL)
"""What every answer starts from."""
BLOCK = 64
"""Encoder positions that lie together."""


class DecoderLayer(eqx.Module):
    """A decoder block by itself, the projections of one input joined: slices of stacked layers would be copied in every step."""

    self_norm: ZCRMSNorm
    self_in: Float[Array, "d qkv"]
    query_norm: ZCRMSNorm
    key_norm: ZCRMSNorm
    self_out: Float[Array, "hc d"]
    self_gate: Float[Array, ""]
    cross_norm: ZCRMSNorm
    cross_query: Float[Array, "d hc"]
    cross_query_norm: ZCRMSNorm
    cross_out: Float[Array, "hc d"]
    cross_gate: Float[Array, ""]
    cross_memory: Float[Array, "d kv"]
    cross_key_norm: ZCRMSNorm
    feedforward: FeedForwardSublayer | None
    heads: int = eqx.field(static=True)
    kv_heads: int = eqx.field(static=True)
    rope_base: float | None = eqx.field(static=True)


class DecoderWeights(eqx.Module):
    """All that steps read."""

    embedding: Embedding
    logits: Float[Array, "d v"]
    """The embedding's transpose."""
    layers: tuple[DecoderLayer, ...]
    norm: ZCRMSNorm


class Cache(NamedTuple):
    """Keys and values of every layer; n positions of the answer, e of the encoder, in j blocks of p.

    Keys lie channel by channel, and those of the encoder in blocks: on a CPU, XLA's products read them three times as fast
    as position by position.
    """

    self_keys: tuple[Float[Array, "b k 1 c n"], ...]
    self_values: tuple[Float[Array, "b k n c"], ...]
    cross_keys: tuple[Float[Array, "b k j c p"], ...]
    cross_values: tuple[Float[Array, "b k e c"], ...]
    cross_mask: Bool[Array, "b e"]
    """Real encoder positions."""


class Engine:
    """A model made ready to decode. Holds its own copy of the decoder's weights, and nothing else.

    `model.decoder` must be plain: adapters are merged before.
    """

    def __init__(self, model: Seq2Seq):
        params, self.static = eqx.partition(model, eqx.is_array)
        self.params = params
        self.weights: DecoderWeights = _prepare(params, self.static)
        self.vocab_size = model.embedding.weight.shape[0]


@partial(jax.jit, static_argnames="static")
def _prepare(params: Any, static: Any) -> DecoderWeights:
    decoder = eqx.combine(params, static).decoder
    arrays, fixed = eqx.partition(decoder.layers, eqx.is_array)
    count = decoder.layers.self_gate.shape[0]
    blocks = [eqx.combine(jax.tree.map(lambda x, i=i: x[i], arrays), fixed) for i in range(count)]
    embedding = eqx.combine(params, static).embedding
    return DecoderWeights(embedding, embedding.weight.T, tuple(_layer(b) for b in blocks), decoder.norm)


def _layer(block: DecoderBlock) -> DecoderLayer:
    own, cross = block.self_attention, block.cross_attention
    return DecoderLayer(
        block.self_norm,
        jnp.concatenate([own.query.weight, own.key.weight, own.value.weight], axis=1),
        own.query_norm, own.key_norm, own.out.weight, block.self_gate, block.cross_norm, cross.query.weight,
        cross.query_norm, cross.out.weight, block.cross_gate,
        jnp.concatenate([cross.key.weight, cross.value.weight], axis=1), cross.key_norm, block.feedforward,
        own.heads, own.kv_heads, own.rope_base,
    )  # fmt: skip


def start(
    params: Any, weights: DecoderWeights, static: Any, encoder: Int[Array, "b e"], length: int
) -> Cache:
    """Encode a batch (padded with 0) and prepare caches for `length` decoder tokens a row."""
    memory = jax.vmap(eqx.combine(params, static).encode)(encoder)
    rows, width = encoder.shape
    block = BLOCK if width % BLOCK == 0 else width
    keys, values = [], []
    for layer in weights.layers:
        both = (memory @ layer.cross_memory).reshape(rows, width, 2, layer.kv_heads, -1)
        blocks = layer.cross_key_norm(both[:, :, 0]).reshape(rows, -1, block, *both.shape[3:])
        keys.append(blocks.transpose(0, 3, 1, 4, 2))
        values.append(both[:, :, 1].transpose(0, 2, 1, 3))
    empty = [jnp.zeros((*v.shape[:2], length, v.shape[3]), v.dtype) for v in values]
    turned = tuple(x.swapaxes(2, 3)[:, :, None] for x in empty)
    return Cache(turned, tuple(empty), tuple(keys), tuple(values), encoder != PAD)


def step(
    weights: DecoderWeights, cache: Cache, tokens: Int[Array, "b t"], position: Int[Array, "b"]
) -> tuple[Float[Array, "b t v"], Cache]:
    """Feed `tokens` of each row at its `position`...; logits of the token after each, and the caches with them in."""
    rows, width = tokens.shape
    positions = position[:, None] + jnp.arange(width)[None, :]
    self_mask = jnp.arange(cache.self_values[0].shape[2])[None, None, :] <= positions[:, :, None]
    cross_mask = jnp.broadcast_to(cache.cross_mask[:, None], (rows, width, cache.cross_mask.shape[1]))
    x = weights.embedding(tokens.reshape(-1)).reshape(rows, width, -1)
    keys, values = [], []
    for i, layer in enumerate(weights.layers):
        heads, kv_heads = layer.heads, layer.kv_heads
        y = _project(layer.self_norm(x), layer.self_in).reshape(rows, width, heads + 2 * kv_heads, -1)
        q, k, v = jnp.split(y, [heads, heads + kv_heads], axis=2)
        q, k = _turned(layer, layer.query_norm(q), positions), _turned(layer, layer.key_norm(k), positions)
        keys.append(_write(cache.self_keys[i], k.transpose(0, 2, 3, 1)[:, :, None], position, 3))
        values.append(_write(cache.self_values[i], v.transpose(0, 2, 1, 3), position, 1))
        read = _attend(q, keys[-1], values[-1], self_mask)
        x = gated(x, layer.self_gate, _project(read, layer.self_out))
        q = layer.cross_query_norm(
            _project(layer.cross_norm(x), layer.cross_query).reshape(rows, width, heads, -1)
        )
        read = _attend(q, cache.cross_keys[i], cache.cross_values[i], cross_mask)
        x = gated(x, layer.cross_gate, _project(read, layer.cross_out))
        if layer.feedforward is not None:
            flat = layer.feedforward(x.reshape(rows * width, -1), None, 0.0, None)
            x = flat.reshape(x.shape)
    logits = weights.norm(x).astype(jnp.float32) @ weights.logits.astype(jnp.float32)
    return logits, cache._replace(self_keys=tuple(keys), self_values=tuple(values))


def _project(x: Float[Array, "b t i"], w: Float[Array, "i o"]) -> Float[Array, "b t o"]:
    """`x @ w`. One vector's product is cut in four: XLA's CPU products of a batch take half as long as a single small one."""
    if x.shape[0] * x.shape[1] > 1 or x.shape[2] % 4:
        return x @ w
    return jnp.einsum("pi,pio->po", x.reshape(4, -1), w.reshape(4, -1, w.shape[1])).sum(0)[None, None]


def _turned(
    layer: DecoderLayer, x: Float[Array, "b t n c"], positions: Int[Array, "b t"]
) -> Float[Array, "b t n c"]:
    if layer.rope_base is None:
        return x
    flat = x.reshape(-1, *x.shape[2:])
    return rotate(flat, rotary_angles(positions.reshape(-1), x.shape[-1], layer.rope_base)).reshape(x.shape)


def _write(cache: Array, new: Array, position: Int[Array, "b"], axis: int) -> Array:
    """Put each row's new entries at its position (`axis` of one row)."""
    if cache.shape[0] == 1:
        return jax.lax.dynamic_update_slice_in_dim(cache, new, position[0], axis + 1)
    return jax.vmap(lambda c, x, p: jax.lax.dynamic_update_slice_in_dim(c, x, p, axis))(cache, new, position)


def _attend(
    q: Float[Array, "b t h c"],
    k: Float[Array, "b k j c p"],
    v: Float[Array, "b k n c"],
    mask: Bool[Array, "b t n"],
) -> Float[Array, "b t hc"]:
    """As `nn.attention`, for a batch; scores and softmax are float32, a query with nothing to read gets zeros."""
    rows, width, heads, channels = q.shape
    kv_heads, group = k.shape[1], heads // k.shape[1]
    q = q.reshape(rows, width, kv_heads, group, channels).transpose(0, 2, 3, 1, 4)
    q = q.reshape(rows, kv_heads, 1, group * width, channels)
    q = jnp.broadcast_to(q, (*k.shape[:3], *q.shape[3:]))
    scores = jnp.einsum("bkjmc,bkjcp->bkjmp", q, k, preferred_element_type=jnp.float32)
    scores = scores.transpose(0, 1, 3, 2, 4).reshape(rows, kv_heads, group * width, -1) * channels**-0.5
    mask = jnp.tile(mask, (1, group, 1))[:, None]
    weights = jax.nn.softmax(jnp.where(mask, scores, jnp.finfo(jnp.float32).min), axis=-1)
    read = jnp.einsum("bkmn,bknc->bkmc", jnp.where(mask, weights, 0).astype(v.dtype), v)
    read = read.reshape(rows, kv_heads, group, width, channels).transpose(0, 3, 1, 2, 4)
    return read.reshape(rows, width, -1)


def prefill(
    params: Any, weights: DecoderWeights, static: Any, encoder: Int[Array, "b e"], length: int
) -> tuple[Float[Array, "b v"], Cache]:
    """Encode a batch and feed `PROMPT`: logits of each row's first token, and caches for `length` decoder tokens."""
    cache = start(params, weights, static, encoder, length)
    prompt = jnp.broadcast_to(jnp.array(PROMPT), (encoder.shape[0], len(PROMPT)))
    logits, cache = step(weights, cache, prompt, jnp.zeros(encoder.shape[0], jnp.int32))
    return logits[:, -1], cache
