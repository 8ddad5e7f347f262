"""Optional gated feed-forward layer."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import Array, Float

from needlex.nn.linear import Linear
from needlex.types import Key

Activation = Literal["swiglu", "geglu", "drelu"]


class FeedForward(eqx.Module):
    """down(act(gate x) * up x); swiglu: SiLU, geglu: GELU (tanh form), drelu: ReLU on both halves.

    GLU variants: Shazeer 2020; drelu: Song et al. 2024 (Turbo Sparse).
    """

    gate: Linear
    up: Linear
    down: Linear
    activation: Activation = eqx.field(static=True)

    def __init__(
        self, width: int, hidden: int, activation: Activation, *, std: float, out_std: float, key: Key
    ):
        kg, ku, kd = jr.split(key, 3)
        self.gate = Linear(width, hidden, std=std, key=kg)
        self.up = Linear(width, hidden, std=std, key=ku)
        self.down = Linear(hidden, width, std=out_std, key=kd)
        self.activation = activation

    def __call__(
        self, x: Float[Array, "t d"], width_mask: Float[Array, "f"] | None = None, key: Key | None = None
    ) -> Float[Array, "t d"]:
        """`width_mask` (0 or 1 a hidden unit) trains and runs the nested narrower layers of a Matryoshka; `key` is for maps
        that are random in training."""
        kg, ku, kd = (None, None, None) if key is None else jr.split(key, 3)
        gate, up = self.gate(x, kg), self.up(x, ku)
        match self.activation:
            case "swiglu":
                hidden = jax.nn.silu(gate) * up
            case "geglu":
                hidden = jax.nn.gelu(gate, approximate=True) * up
            case "drelu":
                hidden = jax.nn.relu(gate) * jax.nn.relu(up)
        if width_mask is not None:
            hidden = hidden * width_mask.astype(hidden.dtype)[None, :]
        return self.down(hidden, kd)
