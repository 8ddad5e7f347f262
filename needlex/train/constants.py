"""Every epsilon, scale and constant of a run, with the dtype that it acts in; `needlex.doctor` proves that the dtype holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from needlex.adapt.config import LoraConfig
from needlex.compress.nf4 import LEVELS
from needlex.losses.config import LossConfig
from needlex.model.config import ModelConfig
from needlex.model.heads import LENGTH_FLOOR
from needlex.optim.build import ADAFACTOR_EPSILON
from needlex.optim.config import OptimConfig
from needlex.optim.muon import NORM_EPSILON
from needlex.precision import Policy
from needlex.train.step import CLIP_EPSILON


class Constant(NamedTuple):
    """A number that a computation adds, multiplies by or divides by."""

    name: str
    value: float
    dtype: str
    """Dtype of the arithmetic, or of the state that must still tell it from zero."""
    role: str


def constants(
    model: ModelConfig,
    optim: OptimConfig,
    loss: LossConfig,
    policy: Policy,
    lora: LoraConfig | None = None,
    quantized: bool = False,
) -> list[Constant]:
    """All of them for a run; those of parts that the run does not have are left out."""
    found = [
        Constant("model.norm_epsilon", model.norm_epsilon, policy.reduce, "under the root of ZCRMSNorm"),
        Constant(
            "retrieval length floor", LENGTH_FLOOR, policy.reduce, "under the root of the embedding's length"
        ),
        Constant("embedding scale", model.d_model**0.5, policy.compute, "times the looked-up rows"),
        Constant(
            "attention scale", (model.d_model // model.heads) ** -0.5, policy.reduce, "times the scores"
        ),
        Constant("final learning rate", _final_rate(optim), policy.param, "the least rate times 1"),
    ]
    if optim.clip is not None:
        found.append(Constant("clip floor", CLIP_EPSILON, "float32", "least norm that clipping divides by"))
    if optim.clamp is not None:
        found.append(Constant("optim.clamp", optim.clamp, "float32", "largest single gradient"))
    if optim.name in ("adamw", "muon"):
        found += [
            Constant(
                "Adam epsilon",
                policy.optimizer_epsilon,
                policy.optimizer,
                "added to the root of the second moment",
            ),
            Constant("Adam 1 - b1", 1 - optim.b1, policy.optimizer, "weight of a new gradient"),
            Constant("Adam 1 - b2", 1 - optim.b2, policy.optimizer, "weight of a new squared gradient"),
        ]
    if optim.name == "muon":
        found.append(
            Constant("Muon epsilon", NORM_EPSILON, "float32", "added to the norm before Newton-Schulz")
        )
    if optim.name == "adafactor":
        found.append(
            Constant("Adafactor epsilon", ADAFACTOR_EPSILON, policy.optimizer, "added to squared gradients")
        )
    if loss.z_weight:
        found.append(Constant("loss.z_weight", loss.z_weight, policy.reduce, "weight of the z-loss"))
    if lora is not None:
        found.append(Constant("LoRA scale", lora.scale, policy.compute, "times x A B"))
    if quantized:
        found.append(
            Constant(
                "least NF4 level", min(abs(x) for x in LEVELS if x), "float32", "times the scale of a block"
            )
        )
    return found


def constants_table(found: Sequence[Constant]) -> str:
    """A line each, for people."""
    width = max(len(c.name) for c in found)
    return "\n".join(f"  {c.name:<{width}}  {c.value:<9.3g} {c.dtype:<9} {c.role}" for c in found)


def _final_rate(optim: OptimConfig) -> float:
    rate = optim.lr if optim.name != "muon" else min(optim.lr, optim.muon_lr)
    return rate * (optim.final_ratio if optim.decay_ratio and optim.final_ratio else 1.0)
