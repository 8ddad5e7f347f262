"""As lora.py, on a base in four bits (NF4)."""

import dataclasses

from needlex.config import load_preset
from needlex.finetune.config import FinetuneConfig

config = dataclasses.replace(load_preset("lora", FinetuneConfig), method="qlora")
