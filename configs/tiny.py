"""A model of 0.4 M parameters that learns to call tools in four minutes on a laptop CPU, from embedded data alone."""

from needlex.data.augment import AugmentConfig
from needlex.data.config import DataConfig
from needlex.data.generate import GenerateConfig
from needlex.data.tokenizer import TokenizerConfig
from needlex.losses.config import LossConfig
from needlex.model.config import ModelConfig
from needlex.optim.config import OptimConfig
from needlex.train.config import TrainConfig

config = TrainConfig(
    run_dir="runs/tiny",
    steps=1500,
    eval_every=500,
    model=ModelConfig(
        d_model=128, heads=4, kv_heads=2, encoder_layers=2, decoder_layers=2, init_std=0.05, unroll=True
    ),
    tokenizer=TokenizerConfig(vocab_size=768),
    data=DataConfig(
        batch_size=32, max_encoder=128, max_decoder=64, packing=False, max_query=24, max_tool=32,
        embedded=GenerateConfig(rows=20_000), augment=AugmentConfig(),
    ),
    loss=LossConfig(contrastive_every=4),
    optim=OptimConfig(lr=3e-3, muon_lr=0.03, warmup_ratio=0.03, decay_ratio=0.3),
)  # fmt: skip
