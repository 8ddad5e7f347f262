"""NF4: four bits a weight, in blocks with one scale each, the scales in eight bits (Dettmers et al. 2023, QLoRA).

Weights are frozen in this form; products read them out where they are used, and once more in the backward pass.
"""

from __future__ import annotations

import itertools
import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8, UInt8

from needlex.nn.linear import Linear, frozen_product
from needlex.types import Key

LEVELS = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""The sixteen values, quantiles of the normal distribution over [-1, 1] with an exact zero (appendix E of the paper)."""
BLOCK, SCALE_BLOCK = 64, 256
"""Weights with a scale of their own, and scales with one of theirs."""


class NF4(eqx.Module):
    """A weight [*l, in, out] in four bits; every matrix of a stack by itself, row by row, filled up to whole blocks."""

    codes: UInt8[Array, "*l half"]
    """Two weights a byte, the first in the upper half."""
    scales: Int8[Array, "*l blocks"]
    """Of each block, its largest |w| less `mean`, in units of `unit`."""
    unit: Float[Array, "*l groups"]
    """float32."""
    mean: Float[Array, "*l"]
    """float32."""
    shape: tuple[int, int] = eqx.field(static=True)

    def read(self) -> Float[Array, "*l in out"]:
        """The weight, float32."""
        stack = self.codes.shape[:-1]
        blocks = self.scales.shape[-1]
        unit = jnp.repeat(self.unit, SCALE_BLOCK, axis=-1)[..., :blocks]
        scales = jnp.maximum(self.scales.astype(jnp.float32) * unit + self.mean[..., None], 0)
        both = jnp.stack([self.codes >> 4, self.codes & 15], axis=-1)
        values = jnp.array(LEVELS, jnp.float32)[both.reshape(*stack, blocks, BLOCK).astype(jnp.int32)]
        flat = (values * scales[..., None]).reshape(*stack, -1)
        return flat[..., : math.prod(self.shape)].reshape(*stack, *self.shape)


def quantize(weight: Float[Array, "*l in out"]) -> NF4:
    """To four bits: the nearest of `LEVELS` times the largest |w| of each block of 64.

    A block of zeros stays zero: its scale is 0 and is never divided by.
    """
    *stack, width, out = weight.shape
    flat = weight.astype(jnp.float32).reshape(*stack, width * out)
    flat = jnp.pad(flat, [(0, 0)] * len(stack) + [(0, -(width * out) % BLOCK)])
    blocks = flat.reshape(*stack, -1, BLOCK)
    largest = jnp.max(jnp.abs(blocks), axis=-1)
    mean = jnp.mean(largest, axis=-1)
    centred = largest - mean[..., None]
    groups = jnp.pad(centred, [(0, 0)] * len(stack) + [(0, -centred.shape[-1] % SCALE_BLOCK)])
    groups = groups.reshape(*stack, -1, SCALE_BLOCK)
    unit = jnp.max(jnp.abs(groups), axis=-1) / 127
    codes8 = jnp.where(unit[..., None] > 0, jnp.round(groups / jnp.where(unit > 0, unit, 1)[..., None]), 0)
    codes8 = codes8.astype(jnp.int8).reshape(*stack, -1)[..., : centred.shape[-1]]
    part = jnp.where(largest[..., None] > 0, blocks / jnp.where(largest > 0, largest, 1)[..., None], 0)
    borders = jnp.array([(a + b) / 2 for a, b in itertools.pairwise(LEVELS)], jnp.float32)
    codes = jnp.searchsorted(borders, part).astype(jnp.uint8).reshape(*stack, -1, 2)
    return NF4(codes[..., 0] << 4 | codes[..., 1], codes8, unit, mean, (width, out))


class NF4Linear(eqx.Module):
    """A `Linear` whose weight is NF4; never trained."""

    packed: NF4
    bias: Float[Array, "*l out"] | None

    @property
    def weight(self) -> Float[Array, "*l in out"]:
        """The weight read out, float32."""
        return self.packed.read()

    def __call__(self, x: Float[Array, "*n in"], key: Key | None = None) -> Float[Array, "*n out"]:
        del key
        return frozen_product(x, self)

    @classmethod
    def of(cls, linear: Linear) -> NF4Linear:
        """The quantised form of a linear map, or of a stack of them."""
        return cls(quantize(linear.weight), linear.bias)
