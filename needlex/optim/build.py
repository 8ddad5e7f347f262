"""One builder: configuration, leaf labels and precision policy become an optax transformation."""

from __future__ import annotations

from collections.abc import Hashable

import jax
import jax.numpy as jnp
import optax

from needlex.optim.config import OptimConfig
from needlex.optim.groups import Group, groups, labels
from needlex.optim.muon import scale_by_muon
from needlex.optim.schedule import Schedule
from needlex.precision import Policy, cast_floats, check_epsilon

ADAFACTOR_EPSILON = 1e-30
"""Added to squared gradients. A normal number in float32 and bfloat16 (whose exponents are the same), zero in float16."""


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
    """The transformation (after clipping, which the step does); its `update` takes `step=` and needs the parameters.

    **Raises:** `ValueError` for Adafactor with a state that cannot hold its epsilon.
    """
    if config.name == "adafactor":
        check_epsilon("Adafactor's epsilon (optim.name adafactor)", ADAFACTOR_EPSILON, policy.optimizer)

    def adamw(rate: float, decay: bool):
        return optax.chain(
            optax.scale_by_adam(config.b1, config.b2, eps=policy.optimizer_epsilon),
            optax.add_decayed_weights(config.weight_decay)
            if decay and config.weight_decay
            else optax.identity(),
            scale_by_rate(rate, schedule),
        )

    def muon(rate: float, decay: bool):
        return optax.chain(
            scale_by_muon(config.muon_momentum, config.muon_steps),
            optax.add_decayed_weights(config.muon_weight_decay if decay else 0.0),
            scale_by_rate(rate, schedule),
        )

    def adafactor(rate: float, decay: bool):
        return optax.chain(
            # No scaling by the parameter: leaves that start at zero (gates, norm scales, adapters) would not move.
            optax.scale_by_factored_rms(epsilon=ADAFACTOR_EPSILON, min_dim_size_to_factor=32),
            optax.clip_by_block_rms(1.0),
            optax.add_decayed_weights(config.weight_decay)
            if decay and config.weight_decay
            else optax.identity(),
            scale_by_rate(rate, schedule),
        )

    def of(group: Group) -> optax.GradientTransformation:
        if group.kind == "frozen":
            return optax.set_to_zero()
        if group.kind == "matrix" and config.name == "muon":
            return muon(config.muon_lr * group.rate, group.decay)
        other = adafactor if config.name == "adafactor" else adamw
        rate = config.lr * (config.scale_lr_factor if group.kind == "scale" else 1.0)
        return other(rate * group.rate, group.decay)

    def build(params) -> optax.GradientTransformationExtraArgs:
        found = jax.tree.leaves(groups(params, config.rules))
        by_label: dict[Hashable, optax.GradientTransformation] = {str(g): of(g) for g in dict.fromkeys(found)}
        return optax.partition(by_label, lambda tree: labels(tree, config.rules))

    # Which groups there are is known when the parameters are.
    def init(params):
        return build(params).init(params)

    def update(updates, state, params=None, **extra):
        return build(params).update(updates, state, params, **extra)

    return in_dtype(optax.GradientTransformationExtraArgs(init, update), policy)
