"""As lora.py, with all weights trained."""

import dataclasses

from needlex.config import load_preset
from needlex.finetune.config import FinetuneConfig
from needlex.optim.config import OptimConfig

config = dataclasses.replace(
    load_preset("lora", FinetuneConfig),
    method="full",
    epochs=10,
    optim=OptimConfig(lr=1e-3, muon_lr=0.02, warmup_ratio=0.03, decay_ratio=0.5),
)
