"""A tiny model, batches for it, and trainers on one or more devices, each built once for all tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh

from needlex.batch import Batch, Pairs
from needlex.losses.config import LossConfig
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.optim.build import build_optimizer
from needlex.optim.config import OptimConfig
from needlex.optim.schedule import make_schedule
from needlex.precision import Policy
from needlex.sharding import MeshConfig, build_mesh, put_batch
from needlex.train.step import Gradients, TrainState, init_state, make_update

VOCAB, ENCODER, DECODER = 40, 10, 8
CONFIG = ModelConfig(
    vocab_size=VOCAB, d_model=16, heads=2, kv_heads=1, encoder_layers=1, decoder_layers=1, contrastive_dim=8
)
OPTIM, LOSS, POLICY = OptimConfig(), LossConfig(), Policy()
TOTAL = 20
"""Updates that the schedules of the trainers are made for."""


def tiny_model(seed: int = 0, **changes: Any) -> Seq2Seq:
    """The tiny model, with fields of its configuration changed and every leaf drawn, gates and scales too."""
    rng = np.random.default_rng(seed)
    skeleton = eqx.filter_eval_shape(lambda key: Seq2Seq(replace(CONFIG, **changes), key=key), jr.key(0))
    return jax.tree.map(lambda x: jnp.asarray(0.3 * rng.standard_normal(x.shape), jnp.float32), skeleton)


def make_batch(seed: int, lengths: Sequence[int] = (8, 3, 5, 1, 8, 2, 7, 4), pairs: bool = True) -> Batch:
    """One row for each of `lengths`, its number of real decoder positions; 0 is an empty row.

    Two of the pairs call the same tool, and the last pair is missing.
    """
    rng, pair_rng = np.random.default_rng(seed), np.random.default_rng(seed + 1000)
    rows = len(lengths)
    real = np.arange(DECODER) < np.array(lengths)[:, None]
    encoder_real = (
        np.arange(ENCODER) < np.minimum(ENCODER, np.array(lengths) + (np.array(lengths) > 0) * 2)[:, None]
    )

    def ids(real, low=1, high=VOCAB):
        return np.where(real, rng.integers(low, high, real.shape), 0).astype(np.int32)

    found = None
    if pairs:
        identity = np.arange(1, rows + 1)
        identity[1], identity[-1] = 1, 0
        query, tool = (pair_rng.integers(1, VOCAB, (rows, n)).astype(np.int32) for n in (5, 6))
        found = Pairs(query, tool, identity.astype(np.int32))
    return Batch(
        ids(encoder_real), ids(real), ids(real), ids(real, 0, 4), encoder_real.astype(np.int32),
        real.astype(np.int32), found,
    )  # fmt: skip


def stack(batches: Sequence[Batch]) -> Batch:
    """Micro-batches on a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *batches)


def joined(batches: Sequence[Batch]) -> Batch:
    """The rows of all in one batch."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *batches)


class Trainer(NamedTuple):
    """The parts of a training run."""

    static: Any
    params: Any
    mesh: Mesh
    gradients: Gradients
    update: Any
    optimizer: Any
    accumulate: int

    def start(self, seed: int = 0) -> TrainState:
        """State at step 0, from the same parameters every time."""
        return init_state(self.params, self.optimizer, seed, self.mesh)

    def put(self, batch: Batch) -> Batch:
        """Batch on the mesh."""
        return put_batch(batch, self.mesh, leading=int(self.accumulate > 1))

    def step(self, state: TrainState, batch: Batch):
        """One whole training step: (state, Terms, UpdateInfo)."""
        grads, terms = self.gradients(self.put(batch), state.params, state.key, state.step)
        state, info = self.update(grads, terms.loss, state)
        return state, terms, info


@cache
def trainer(
    devices: int = 1, accumulate: int = 1, dropout: float = 0.0, optim: OptimConfig = OPTIM,
    loss: LossConfig = LOSS, policy: Policy = POLICY, total: int = TOTAL,
) -> Trainer:  # fmt: skip
    """Trainer of the tiny model. Its jitted functions are shared by all who ask for the same one."""
    mesh = build_mesh(MeshConfig(devices))
    params, static = eqx.partition(tiny_model(dropout=dropout), eqx.is_array)
    optimizer = build_optimizer(optim, make_schedule(optim, total), policy)
    gradients = Gradients(static, loss, policy, mesh, dropout > 0, accumulate)
    return Trainer(
        static, params, mesh, gradients, make_update(optimizer, optim.clip, mesh), optimizer, accumulate
    )


def host(tree: Any) -> list[np.ndarray]:
    """Leaves as numpy arrays, keys as their data."""
    data = jax.tree.map(
        lambda x: jr.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x, tree
    )
    return [np.asarray(leaf) for leaf in jax.tree.leaves(data)]
