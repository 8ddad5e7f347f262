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
    steps=2150,
    eval_every=500,
    model=ModelConfig(
        d_model=128, heads=4, kv_heads=2, encoder_layers=2, decoder_layers=2, init_std=0.05, unroll=True
    ),
    tokenizer=TokenizerConfig(vocab_size=768),
    data=DataConfig(
        batch_size=14,  # packed rows: about 31 examples
        max_encoder=160,
        max_decoder=64,
        # Pairs of their own number: with 14 of them, rows of the batch, the retrieval head found a third of the tools.
        pairs=32,
        max_query=32,
        max_tool=40,
        embedded=GenerateConfig(
            rows=40_000,
            domains=("home", "lists", "weather", "alarms", "messages", "clock"),
            tool_weights=(0.3, 0.25, 0.17, 0.1, 0.06, 0.04, 0.03, 0.02, 0.02, 0.01),
            none_share=0.1,
            multi_share=0.1,
        ),
        # Tool names must be read, not remembered; argument names may be remembered in so short a run.
        augment=AugmentConfig(values=0.3, names=0.7, parameters=0.05),
    ),
    # Values and punctuation alike, because punctuation decides whether to call again; three times as much for
    # names, and for the bracket in place of a name: which tool, if any, is the hardest to learn.
    loss=LossConfig(w_base=4.0, w_name=12.0, w_value=4.0, w_key=4.0, contrastive_every=4),
    optim=OptimConfig(lr=1.8e-3, muon_lr=0.07, warmup_ratio=0.03, decay_ratio=0.5),
)
