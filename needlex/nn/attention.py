"""Grouped-query attention with QK-norm, for one example. Self- and cross-attention are the same module."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int

from needlex.nn.linear import Linear
from needlex.nn.norm import ZCRMSNorm
from needlex.nn.rotary import rotary_angles, rotate
from needlex.nn.softmax_attention import attention_core
from needlex.types import Key


class Attention(eqx.Module):
    """softmax(norm(q) norm(k)^T / sqrt(c)) v with h query heads on k key-value heads, no biases.

    Key-value head j serves the query heads j r to j r + r - 1. Queries and keys are normalised per head before the
    rotation. Scores and softmax are float32.
    """

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    query_norm: ZCRMSNorm
    key_norm: ZCRMSNorm
    heads: int = eqx.field(static=True)
    kv_heads: int = eqx.field(static=True)
    rope_base: float | None = eqx.field(static=True)

    def __init__(
        self, width: int, heads: int, kv_heads: int, *, std: float, out_std: float, rope_base: float | None,
        epsilon: float, key: Key,
    ):  # fmt: skip
        """`rope_base` is None where positions are not rotated (cross-attention)."""
        c = width // heads
        kq, kk, kv, ko = jr.split(key, 4)
        self.query = Linear(width, heads * c, std=std, key=kq)
        self.key = Linear(width, kv_heads * c, std=std, key=kk)
        self.value = Linear(width, kv_heads * c, std=std, key=kv)
        self.out = Linear(heads * c, width, std=out_std, key=ko)
        self.query_norm, self.key_norm = ZCRMSNorm(c, epsilon), ZCRMSNorm(c, epsilon)
        self.heads, self.kv_heads, self.rope_base = heads, kv_heads, rope_base

    def __check_init__(self):
        if self.heads % self.kv_heads:
            raise ValueError(
                f"{self.heads} query heads cannot be shared out to {self.kv_heads} key-value heads"
            )

    def queries(
        self, x: Float[Array, "t d"], positions: Int[Array, "t"], key: Key | None = None
    ) -> Float[Array, "k r t c"]:
        """Normalised, rotated queries, grouped by the key-value head they read."""
        q = self.query(x, key).reshape(x.shape[0], self.kv_heads, self.heads // self.kv_heads, -1)
        return self._rotate(self.query_norm(q), positions).transpose(1, 2, 0, 3)

    def keys_values(
        self, x: Float[Array, "s d"], positions: Int[Array, "s"], key: Key | None = None
    ) -> tuple[Float[Array, "k s c"], Float[Array, "k s c"]]:
        """Normalised, rotated keys and the values: what a decoder caches."""
        kk, kv = (None, None) if key is None else jr.split(key)
        k = self.key(x, kk).reshape(x.shape[0], self.kv_heads, -1)
        v = self.value(x, kv).reshape(x.shape[0], self.kv_heads, -1)
        return self._rotate(self.key_norm(k), positions).transpose(1, 0, 2), v.transpose(1, 0, 2)

    def _rotate(self, x, positions):
        if self.rope_base is None:
            return x
        return rotate(x, rotary_angles(positions, x.shape[-1], self.rope_base))

    def attend(
        self,
        q: Float[Array, "k r t c"],
        k: Float[Array, "k s c"],
        v: Float[Array, "k s c"],
        mask: Bool[Array, "t s"],
        key: Key | None = None,
    ) -> Float[Array, "t d"]:
        """Read the values. A query with nothing to read gets zeros, with finite gradients."""
        read = attention_core(q, k, v, mask).transpose(2, 0, 1, 3)
        return self.out(read.reshape(read.shape[0], -1), key)

    def __call__(
        self,
        x: Float[Array, "t d"],
        memory: Float[Array, "s d"],
        mask: Bool[Array, "t s"],
        key: Key | None = None,
    ) -> Float[Array, "t d"]:
        """Attention from `x` to `memory` (the same array in self-attention); positions count from 0 in both.

        `key` is for projections that are random in training.
        """
        kq, kk, ko = (None, None, None) if key is None else jr.split(key, 3)
        q = self.queries(x, jnp.arange(x.shape[0]), kq)
        k, v = self.keys_values(memory, jnp.arange(memory.shape[0]), kk)
        return self.attend(q, k, v, mask, ko)


def segment_mask(queries: Int[Array, "t"], keys: Int[Array, "s"], causal: bool = False) -> Bool[Array, "t s"]:
    """True where query and key belong to the same packed example; padding (segment 0) is never read."""
    mask = (queries[:, None] == keys[None, :]) & (keys[None, :] != 0)
    if causal:
        mask &= jnp.arange(queries.shape[0])[:, None] >= jnp.arange(keys.shape[0])[None, :]
    return mask
