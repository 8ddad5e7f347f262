"""Encoder: self-attention (and, if wanted, feed-forward) blocks with gated residuals."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float

from needlex.model.config import ModelConfig
from needlex.nn.attention import Attention
from needlex.nn.feedforward import FeedForward
from needlex.nn.norm import ZCRMSNorm
from needlex.nn.stack import dropout, inner, run_layers, stack_layers
from needlex.types import Key


def gated(
    x: Float[Array, "*b t d"], gate: Float[Array, ""], y: Float[Array, "*b t d"]
) -> Float[Array, "*b t d"]:
    """x + sigmoid(gate) y; the gate is 0 at start, so half of y."""
    return x + jax.nn.sigmoid(gate.astype(jnp.float32)).astype(x.dtype) * y


def make_attention(config: ModelConfig, rotary: bool, key: Key) -> Attention:
    layers = config.encoder_layers + config.decoder_layers
    return Attention(
        config.d_model, config.heads, config.kv_heads, std=config.init_std,
        out_std=config.init_std / (2 * layers) ** 0.5, rope_base=config.rope_base if rotary else None,
        epsilon=config.norm_epsilon, key=key,
    )  # fmt: skip


class FeedForwardSublayer(eqx.Module):
    """The optional third sub-layer of a block, with its own norm and gate."""

    norm: ZCRMSNorm
    layer: FeedForward
    gate: Float[Array, ""]

    def __init__(self, config: ModelConfig, key: Key):
        layers = config.encoder_layers + config.decoder_layers
        self.norm = ZCRMSNorm(config.d_model, config.norm_epsilon)
        self.layer = FeedForward(
            config.d_model, config.hidden_ff, config.activation, std=config.init_std,
            out_std=config.init_std / (2 * layers) ** 0.5, key=key,
        )  # fmt: skip
        self.gate = jnp.zeros(())

    def __call__(
        self, x: Float[Array, "t d"], width_mask: Float[Array, "f"] | None, rate: float, key: Key | None
    ) -> Float[Array, "t d"]:
        y = self.layer(self.norm(x), width_mask, inner(key))
        return gated(x, self.gate, dropout(y, rate, key))


class EncoderBlock(eqx.Module):
    """x + sigmoid(g) attention(norm x), then the same with feed-forward if there is one."""

    norm: ZCRMSNorm
    attention: Attention
    gate: Float[Array, ""]
    feedforward: FeedForwardSublayer | None
    dropout: float = eqx.field(static=True)

    def __init__(self, config: ModelConfig, key: Key):
        ka, kf = jr.split(key)
        self.norm = ZCRMSNorm(config.d_model, config.norm_epsilon)
        self.attention = make_attention(config, rotary=True, key=ka)
        self.gate = jnp.zeros(())
        self.feedforward = FeedForwardSublayer(config, kf) if config.feedforward else None
        self.dropout = config.dropout

    def __call__(
        self, x: Float[Array, "e d"], mask: Bool[Array, "e e"], width_mask: Float[Array, "f"] | None = None,
        *, key: Key | None = None,
    ) -> Float[Array, "e d"]:  # fmt: skip
        ka, kf = (None, None) if key is None else jr.split(key)
        y = self.norm(x)
        x = gated(x, self.gate, dropout(self.attention(y, y, mask, inner(ka)), self.dropout, ka))
        return x if self.feedforward is None else self.feedforward(x, width_mask, self.dropout, kf)


class Encoder(eqx.Module):
    """A stack of blocks and a final norm."""

    layers: EncoderBlock
    norm: ZCRMSNorm
    remat: bool = eqx.field(static=True)
    unroll: bool = eqx.field(static=True)

    def __init__(self, config: ModelConfig, key: Key):
        self.layers = stack_layers(lambda k: EncoderBlock(config, k), config.encoder_layers, key)
        self.norm = ZCRMSNorm(config.d_model, config.norm_epsilon)
        self.remat, self.unroll = config.remat, config.unroll

    def __call__(
        self, x: Float[Array, "e d"], mask: Bool[Array, "e e"], width_mask: Float[Array, "f"] | None = None,
        *, key: Key | None = None,
    ) -> Float[Array, "e d"]:  # fmt: skip
        """Encoder states of embedded inputs `x`."""

        def apply(layer: EncoderBlock, x, k):
            return layer(x, mask, width_mask, key=k)

        return self.norm(run_layers(self.layers, apply, x, key=key, remat=self.remat, unroll=self.unroll))
