"""All weights, with one row in ten of what the base was trained on, so that it is not lost."""

import dataclasses

from needlex.config import load_preset
from needlex.finetune.config import FinetuneConfig, ReplayConfig
from needlex.optim.config import OptimConfig

config = dataclasses.replace(
    load_preset("lora", FinetuneConfig),
    method="full",
    epochs=10,
    replay=ReplayConfig(share=0.1),
    optim=OptimConfig(lr=1e-3, muon_lr=0.02, warmup_ratio=0.03, decay_ratio=0.5),
)
