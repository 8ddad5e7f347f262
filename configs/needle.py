"""The real model: 32.7 M parameters, 8192 pieces, encoder 1024 and decoder 512 tokens, no feed-forward.

All defaults are those of the original's command line; the classes state them.
"""

from needlex.train.config import TrainConfig

config = TrainConfig(run_dir="runs/needle", precision="bfloat16")
