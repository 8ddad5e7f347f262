"""Pruning: which blocks go, along which ramp, and that they stay at zero while the rest is trained."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from needlex.compress.prune import PruneConfig, apply_masks, block_masks, block_scores, full_masks, prunable
from tests.golden.vectors import GOLDEN, needs_golden


def _tree(rng: np.random.Generator) -> dict:
    return {
        "encoder": {"a.weight": jnp.asarray(rng.normal(size=(2, 40, 8)), jnp.float32)},
        "decoder": {"b.weight": jnp.asarray(rng.normal(size=(64, 8)), jnp.float32)},
        "embedding": {"weight": jnp.asarray(rng.normal(size=(16, 8)), jnp.float32)},
        "norm": {"scale": jnp.ones(8)},
    }


def test_only_projections_are_pruned():
    assert prunable("encoder.layers.attention.query.weight") and prunable("contrastive.hidden.weight")
    assert not any(map(prunable, ["embedding.weight", "encoder.norm.scale", "decoder.layers.self_gate"]))
    masks = full_masks(_tree(np.random.default_rng(0)))
    assert masks["embedding"]["weight"] is None and masks["norm"]["scale"] is None


@pytest.mark.parametrize("sparsity", [0.25, 0.5, 0.9])
def test_the_weakest_blocks_of_all_matrices_together_go(sparsity):
    tree = _tree(np.random.default_rng(1))
    masks = block_masks(tree, jnp.array(sparsity, jnp.float32), 32)
    kept, lost = [], []
    for part, name in (("encoder", "a.weight"), ("decoder", "b.weight")):
        weight, mask = np.asarray(tree[part][name]), np.asarray(masks[part][name])
        for layer, keep in zip(
            weight.reshape(-1, *weight.shape[-2:]), mask.reshape(-1, *mask.shape[-2:]), strict=True
        ):
            for start in range(0, layer.shape[0], 32):
                block, alive = layer[start : start + 32], keep[start : start + 32]
                assert (alive == alive[0]).all()  # a block lives or dies as one
                for column in range(block.shape[1]):
                    (kept if alive[0, column] else lost).append(np.abs(block[:, column]).sum())
    assert max(lost) <= min(kept)
    assert len(lost) / (len(lost) + len(kept)) == pytest.approx(sparsity, abs=0.03)
    pruned = apply_masks(tree, masks)
    assert (
        np.asarray(pruned["decoder"]["b.weight"])[np.asarray(masks["decoder"]["b.weight"]) == 0] == 0
    ).all()
    assert pruned["embedding"]["weight"] is tree["embedding"]["weight"]


def test_short_last_block_counts_its_own_rows():
    weight = jnp.arange(20 * 3, dtype=jnp.float32).reshape(20, 3) - 30
    scores = block_scores(weight, 16)
    np.testing.assert_allclose(scores, [np.abs(weight[:16]).sum(0), np.abs(weight[16:]).sum(0)])


def test_ramp_starts_ends_and_locks():
    config = PruneConfig(sparsity=0.5, interval=10)
    assert [config.target(s, 100) for s in (0, 33)] == [0.0, 0.0]
    assert config.target(67, 100) == config.target(100, 100) == 0.5
    assert config.target(50, 100) == pytest.approx(0.5 * (1 - (1 - 17 / 34) ** 3))
    due = [s for s in range(1, 101) if config.due(s, 100)]
    assert due == [33, 43, 53, 63, 67]
    assert not any(PruneConfig().due(s, 100) for s in range(101))


@pytest.mark.parametrize(
    ("field", "value"), [("sparsity", 1.0), ("group_size", 0), ("interval", 0), ("start", 0.9), ("end", 1.5)]
)
def test_impossible_settings_name_the_field(field, value):
    with pytest.raises(ValueError, match=rf"prune\.{field}"):
        PruneConfig(**{field: value})


@needs_golden
def test_masks_and_ramp_of_the_original():
    case = np.load(GOLDEN / "case6_quant_prune.npz")
    tree = {
        "encoder": {"a.weight": jnp.asarray(case["prune/tree/a/kernel"])},
        "decoder": {"b.weight": jnp.asarray(case["prune/tree/b/kernel"])},
    }
    for sparsity, name in ((0.5, "mask_kernels_only"), (0.25, "mask_kernels_only_s025")):
        masks = block_masks(tree, jnp.array(sparsity, jnp.float32), 32)
        np.testing.assert_array_equal(masks["encoder"]["a.weight"], case[f"prune/{name}/a/kernel"])
        np.testing.assert_array_equal(masks["decoder"]["b.weight"], case[f"prune/{name}/b/kernel"])
    config = PruneConfig(sparsity=0.5)
    ramp = [config.target(int(step), 100) for step in case["cubic/step"]]
    np.testing.assert_allclose(ramp, case["cubic/sparsity"], atol=1e-6)
