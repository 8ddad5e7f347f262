"""One builder: configuration, leaf labels and precision policy become an optax transformation."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from needlex.optim.config import OptimConfig
from needlex.optim.muon import scale_by_muon
from needlex.optim.schedule import Schedule
from needlex.precision import Policy, cast_floats
from needlex.tree import Rule, apply_rules

RULES = (
    Rule(r"^confidence\.", "frozen", optional=True),  # trained after the rest, by calibration
    Rule(r"(encoder|decoder|contrastive)\..*\.weight$", "matrix"),
    Rule(r"(\.scale|gate|log_temperature)$", "scale"),
    Rule(r"\.bias$|^embedding\.weight$", "rest"),
)
"""Which group a leaf belongs to: Muon's matrices, AdamW's scales (norms, gates, temperature) and rest, or frozen."""


def labels(params: Any) -> Any:
    """Tree of group names for the parameters.

    **Raises:** `ValueError` naming a leaf that belongs to no group.
    """
    return apply_rules(RULES, params, "optimizer groups")


def scale_by_rate(peak: float, schedule: Schedule) -> optax.GradientTransformationExtraArgs:
    """Times minus the learning rate of the update; `step` (updates made so far) is passed to `update`.

    The step is the trainer's, not a private count, so a skipped update does not shift the schedule.
    """

    def update(updates, state, params=None, *, step, **_):
        del params
        rate = -peak * schedule(step + 1)
        return jax.tree.map(lambda u: rate.astype(u.dtype) * u, updates), state

    return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)  # pyright: ignore[reportArgumentType]


def in_dtype(inner: optax.GradientTransformation, policy: Policy) -> optax.GradientTransformationExtraArgs:
    """Keep every float leaf of the state in the policy's optimizer dtype; compute in float32."""
    wrapped = optax.with_extra_args_support(inner)

    def init(params):
        # Strong types and fresh buffers: a weak type would compile the second step again.
        return cast_floats(jax.tree.map(jnp.asarray, wrapped.init(params)), policy.optimizer)

    def update(updates, state, params=None, **extra):
        updates, state, params = cast_floats((updates, state, params), "float32")
        # Optax multiplies int32 counts and floats, which strict promotion, where it is on, would refuse.
        with jax.numpy_dtype_promotion("standard"):
            updates, state = wrapped.update(updates, state, params, **extra)
        return updates, cast_floats(state, policy.optimizer)

    return optax.GradientTransformationExtraArgs(init, update)


def build_optimizer(
    config: OptimConfig, schedule: Schedule, policy: Policy
) -> optax.GradientTransformationExtraArgs:
    """The transformation (after clipping, which the step does); its `update` takes `step=`."""

    def adamw(rate: float):
        return optax.chain(
            optax.scale_by_adam(config.b1, config.b2, eps=policy.optimizer_epsilon),
            optax.add_decayed_weights(config.weight_decay) if config.weight_decay else optax.identity(),
            scale_by_rate(rate, schedule),
        )

    muon = optax.chain(
        scale_by_muon(config.muon_momentum, config.muon_steps),
        optax.add_decayed_weights(config.muon_weight_decay),
        scale_by_rate(config.muon_lr, schedule),
    )

    def adafactor(rate: float):
        return optax.chain(
            # No scaling by the parameter: leaves that start at zero (gates, norm scales) would not move.
            optax.scale_by_factored_rms(min_dim_size_to_factor=32),
            optax.clip_by_block_rms(1.0),
            scale_by_rate(rate, schedule),
        )

    other = adafactor if config.name == "adafactor" else adamw
    by_label: dict[Hashable, optax.GradientTransformation] = {
        "matrix": muon if config.name == "muon" else other(config.lr),
        "scale": other(config.lr * config.scale_lr_factor),
        "rest": other(config.lr),
        "frozen": optax.set_to_zero(),
    }
    return in_dtype(optax.partition(by_label, labels), policy)
