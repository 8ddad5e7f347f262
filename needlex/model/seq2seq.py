"""The model: query and tools go into the encoder, the calls come out of the decoder.

Every method takes one example; batches go through `jax.vmap` outside. Segment ids give all three masks: positions
read only positions of the same packed example, and padding (segment 0) is read by nobody. Without segments every
position is one example and id 0 is padding.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int

from needlex.model.config import ModelConfig
from needlex.model.decoder import Decoder
from needlex.model.encoder import Encoder
from needlex.model.heads import ConfidenceHead, ContrastiveHead, mean_pool
from needlex.nn.attention import segment_mask
from needlex.nn.linear import Embedding
from needlex.types import Key

PAD = 0


class Seq2Seq(eqx.Module):
    """Attention-only encoder-decoder with a tied embedding, a retrieval head and a confidence head."""

    embedding: Embedding
    encoder: Encoder
    decoder: Decoder
    contrastive: ContrastiveHead
    confidence: ConfidenceHead | None

    def __init__(self, config: ModelConfig, *, key: Key):
        if config.vocab_size is None:
            raise ValueError(
                "model.vocab_size is not set; take it from the tokenizer before building the model"
            )
        ke, kn, kd, kc, kf = jr.split(key, 5)
        self.embedding = Embedding(config.vocab_size, config.d_model, std=config.init_std, key=ke)
        self.encoder = Encoder(config, kn)
        self.decoder = Decoder(config, kd)
        self.contrastive = ContrastiveHead(config, kc)
        self.confidence = ConfidenceHead(config, kf) if config.confidence else None

    def encode(
        self, tokens: Int[Array, "e"], segments: Int[Array, "e"] | None = None,
        width_mask: Float[Array, "f"] | None = None, *, key: Key | None = None,
    ) -> Float[Array, "e d"]:  # fmt: skip
        """Encoder states."""
        return self.encoder(self.embedding(tokens), encoder_mask(tokens, segments), width_mask, key=key)

    def decode(
        self, tokens: Int[Array, "t"], memory: Float[Array, "e d"], memory_segments: Int[Array, "e"],
        segments: Int[Array, "t"] | None = None, width_mask: Float[Array, "f"] | None = None, *, key: Key | None = None,
    ) -> Float[Array, "t d"]:  # fmt: skip
        """Decoder states; `memory_segments` is 1 at real encoder positions where nothing is packed."""
        self_mask, cross_mask = decoder_masks(tokens, segments, memory_segments)
        return self.decoder(self.embedding(tokens), memory, self_mask, cross_mask, width_mask, key=key)

    def __call__(
        self, encoder: Int[Array, "e"], decoder: Int[Array, "t"], encoder_segments: Int[Array, "e"] | None = None,
        decoder_segments: Int[Array, "t"] | None = None, width_mask: Float[Array, "f"] | None = None,
        *, key: Key | None = None,
    ) -> Float[Array, "t v"]:  # fmt: skip
        """float32 logits of the token after each decoder input."""
        ke, kd = (None, None) if key is None else jr.split(key)
        memory = self.encode(encoder, encoder_segments, width_mask, key=ke)
        memory_segments = _sides(encoder, encoder_segments)[1]
        states = self.decode(decoder, memory, memory_segments, decoder_segments, width_mask, key=kd)
        return self.embedding.logits(states)

    def embed(self, tokens: Int[Array, "e"], *, key: Key | None = None) -> Float[Array, "m"]:
        """Retrieval embedding of a query or a tool, unit length."""
        return self.contrastive(mean_pool(self.encode(tokens, key=key), tokens != PAD))

    def confidence_of(self, tokens: Int[Array, "e"]) -> Float[Array, ""]:
        """Confidence in [0, 1] for an encoder input.

        **Raises:** `ValueError` if the model was built without the head.
        """
        if self.confidence is None:
            raise ValueError("this model has no confidence head (model.confidence is off)")
        return self.confidence(mean_pool(self.encode(tokens), tokens != PAD))


def encoder_mask(tokens: Int[Array, "e"], segments: Int[Array, "e"] | None) -> Bool[Array, "e e"]:
    """Which encoder positions read which."""
    return segment_mask(*_sides(tokens, segments))


def decoder_masks(
    tokens: Int[Array, "t"], segments: Int[Array, "t"] | None, memory_segments: Int[Array, "e"]
) -> tuple[Bool[Array, "t t"], Bool[Array, "t e"]]:
    """Which decoder positions read which of the decoder (none ahead), and which of the encoder."""
    reads, read = _sides(tokens, segments)
    return segment_mask(reads, read, causal=True), segment_mask(reads, memory_segments)


def _sides(
    tokens: Int[Array, "n"], segments: Int[Array, "n"] | None
) -> tuple[Int[Array, "n"], Int[Array, "n"]]:
    """Segments with which positions read, and with which they are read."""
    if segments is not None:
        return segments, segments
    return jnp.ones_like(tokens), (tokens != PAD).astype(tokens.dtype)


def count_parameters(model: Seq2Seq) -> int:
    """Number of trainable numbers in the model."""
    return sum(x.size for x in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
