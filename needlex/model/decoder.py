"""Decoder: causal self-attention, cross-attention (and, if wanted, feed-forward) blocks with gated residuals."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float

from needlex.model.config import ModelConfig
from needlex.model.encoder import FeedForwardSublayer, gated, make_attention
from needlex.nn.attention import Attention
from needlex.nn.norm import ZCRMSNorm
from needlex.nn.stack import dropout, inner, run_layers, stack_layers
from needlex.types import Key


class DecoderBlock(eqx.Module):
    """Self-attention, cross-attention, feed-forward: each x + sigmoid(g) f(norm x)."""

    self_norm: ZCRMSNorm
    self_attention: Attention
    self_gate: Float[Array, ""]
    cross_norm: ZCRMSNorm
    cross_attention: Attention
    cross_gate: Float[Array, ""]
    feedforward: FeedForwardSublayer | None
    dropout: float = eqx.field(static=True)

    def __init__(self, config: ModelConfig, key: Key):
        ks, kc, kf = jr.split(key, 3)
        self.self_norm = ZCRMSNorm(config.d_model, config.norm_epsilon)
        self.self_attention = make_attention(config, rotary=True, key=ks)
        self.self_gate = jnp.zeros(())
        self.cross_norm = ZCRMSNorm(config.d_model, config.norm_epsilon)
        self.cross_attention = make_attention(config, rotary=False, key=kc)
        self.cross_gate = jnp.zeros(())
        self.feedforward = FeedForwardSublayer(config, kf) if config.feedforward else None
        self.dropout = config.dropout

    def __call__(
        self, x: Float[Array, "t d"], memory: Float[Array, "e d"], self_mask: Bool[Array, "t t"],
        cross_mask: Bool[Array, "t e"], width_mask: Float[Array, "f"] | None = None, *, key: Key | None = None,
    ) -> Float[Array, "t d"]:  # fmt: skip
        ks, kc, kf = (None, None, None) if key is None else jr.split(key, 3)
        y = self.self_norm(x)
        y = self.self_attention(y, y, self_mask, inner(ks))
        x = gated(x, self.self_gate, dropout(y, self.dropout, ks))
        # The memory is the encoder's final norm already; it is not normalised again.
        y = self.cross_attention(self.cross_norm(x), memory, cross_mask, inner(kc))
        x = gated(x, self.cross_gate, dropout(y, self.dropout, kc))
        return x if self.feedforward is None else self.feedforward(x, width_mask, self.dropout, kf)


class Decoder(eqx.Module):
    """A stack of blocks and a final norm."""

    layers: DecoderBlock
    norm: ZCRMSNorm
    remat: bool = eqx.field(static=True)
    unroll: bool = eqx.field(static=True)

    def __init__(self, config: ModelConfig, key: Key):
        self.layers = stack_layers(lambda k: DecoderBlock(config, k), config.decoder_layers, key)
        self.norm = ZCRMSNorm(config.d_model, config.norm_epsilon)
        self.remat, self.unroll = config.remat, config.unroll

    def __call__(
        self, x: Float[Array, "t d"], memory: Float[Array, "e d"], self_mask: Bool[Array, "t t"],
        cross_mask: Bool[Array, "t e"], width_mask: Float[Array, "f"] | None = None, *, key: Key | None = None,
    ) -> Float[Array, "t d"]:  # fmt: skip
        """Normalised decoder states of embedded inputs `x` reading encoder states `memory`."""

        def apply(layer: DecoderBlock, x, k):
            return layer(x, memory, self_mask, cross_mask, width_mask, key=k)

        return self.norm(run_layers(self.layers, apply, x, key=key, remat=self.remat, unroll=self.unroll))
