"""Shape of the model."""

from __future__ import annotations

from dataclasses import dataclass

from needlex.nn.feedforward import Activation


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and options of the encoder-decoder.

    The defaults are the real model: 28.5 M parameters and a table of d_model numbers a piece, 32.7 M with 8192 pieces
    (32.6 M without the confidence head).
    """

    vocab_size: int | None = None
    """Rows of the embedding table; None takes the tokenizer's."""
    d_model: int = 512
    """Model width; the head size is d_model / heads."""
    heads: int = 8
    """Query heads."""
    kv_heads: int = 4
    """Key-value heads; each serves heads / kv_heads query heads."""
    encoder_layers: int = 12
    decoder_layers: int = 12
    feedforward: bool = False
    """Adds a feed-forward sub-layer to every block (the original has none)."""
    d_ff: int | None = None
    """Feed-forward width; None is 4 d_model."""
    activation: Activation = "swiglu"
    """Feed-forward activation."""
    mat_factors: tuple[int, ...] = ()
    """Feed-forward widths trained beside the full one, as divisors of it (Matryoshka); rows of a batch are shared out."""
    dropout: float = 0.0
    """Share of a sub-layer's output that is zeroed in training."""
    contrastive_dim: int = 128
    """Size of the retrieval embedding."""
    confidence: bool = True
    """Whether the model has a confidence head (trained after the rest)."""
    rope_base: float = 10000.0
    init_std: float = 0.02
    """Standard deviation of projections and embedding at start."""
    norm_epsilon: float = 1e-6
    remat: bool = False
    """Recompute activations in the backward pass: half the memory, about the same speed."""
    unroll: bool = False
    """Unroll the layer scan: faster for few layers, longer to compile."""

    def __post_init__(self):
        for name in ("d_model", "heads", "kv_heads", "encoder_layers", "decoder_layers", "contrastive_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"model.{name} is {getattr(self, name)}; it must be at least 1")
        if self.d_model % self.heads or (self.d_model // self.heads) % 2:
            raise ValueError(
                f"model.d_model {self.d_model} / model.heads {self.heads} must be an even whole number (rotary turns pairs)"
            )
        if self.heads % self.kv_heads:
            raise ValueError(f"model.heads {self.heads} must be a multiple of model.kv_heads {self.kv_heads}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"model.dropout is {self.dropout}; it must be in [0, 1)")
        if self.vocab_size is not None and self.vocab_size < 7:
            raise ValueError(f"model.vocab_size is {self.vocab_size}; the six special ids need at least 7")
        if self.d_ff is not None and not self.feedforward:
            raise ValueError(
                "model.d_ff is set but model.feedforward is off; add --model.feedforward or leave d_ff out"
            )

        if self.mat_factors and not self.feedforward:
            raise ValueError(
                "model.mat_factors is set but model.feedforward is off; add --model.feedforward or leave it out"
            )
        if any(f < 2 or f > self.hidden_ff for f in self.mat_factors):
            raise ValueError(
                f"model.mat_factors are {self.mat_factors}; each must be at least 2 and at most the width {self.hidden_ff}"
            )

    @property
    def hidden_ff(self) -> int:
        """Feed-forward width."""
        return self.d_ff or 4 * self.d_model
