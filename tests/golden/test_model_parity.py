"""The original's numbers (golden cases 1, 2, 3, 7, 8, 10), float32.

`difference` is the largest absolute difference over the largest absolute value of the array: one number for a
whole array (forward) or leaf (gradients). Measured: 5e-7 forward, 2e-5 gradients.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from needlex.batch import Batch, Pairs
from needlex.checkpoint.foreign import TABLE, import_v1, read_v1
from needlex.losses.config import LossConfig
from needlex.losses.contrastive import clip_logits
from needlex.losses.tokens import token_sums
from needlex.model.heads import mean_pool
from needlex.precision import Policy, named
from needlex.sharding import MeshConfig, build_mesh
from needlex.train.step import Gradients, batch_sums, pairs_loss
from needlex.tree import leaf_paths
from tests.golden.vectors import GOLDEN, config_of, difference, load, model_of, needs_golden, nest
from tests.model import oracle

pytestmark = needs_golden

FORWARD, GRADIENT = 3e-6, 5e-5
BASIC, PACKED, FFN, REAL = "case1_basic.npz", "case2_packed.npz", "case3_ffn.npz", "case10_real_tokens.npz"


def ids(case: dict[str, np.ndarray], *names: str) -> list[jax.Array]:
    return [jnp.asarray(case[name]) for name in names]


@pytest.fixture(scope="module")
def basic():
    return model_of(BASIC)[0]


def batch_of(name: str) -> Batch:
    """Inputs of a case, padded to 3 rows of 24 + 20: one shape compiles once, and padding has to be inert."""
    case = load(name)

    def pad(key: str, width: int) -> jax.Array:
        array = case[key]
        return jnp.asarray(np.pad(array, ((0, 3 - len(array)), (0, width - array.shape[1]))))

    sides = (
        ("src", 24),
        ("tgt_in", 20),
        ("tgt_out", 20),
        ("token_class", 20),
        ("enc_seg", 24),
        ("dec_seg", 20),
    )
    identity = np.arange(1, 4) * (np.arange(3) < len(case["src"]))
    pairs = Pairs(pad("query_tokens", 9), pad("tool_tokens", 13), jnp.asarray(identity))
    src, tgt_in, tgt_out, classes, enc_seg, dec_seg = (pad(*side) for side in sides)
    return Batch(src, tgt_in, tgt_out, classes, enc_seg, dec_seg, pairs)


def test_padded_batch_without_segments(basic):
    case = load(BASIC)
    source, target = ids(case, "src", "tgt_in")
    assert difference(jax.vmap(basic.encode)(source), case["infer/encoder_out"]) < FORWARD
    assert difference(jax.vmap(basic)(source, target), case["infer/logits"]) < FORWARD


def test_decoder_that_reads_its_padding_as_generation_does(basic):
    case = load(BASIC)
    source, target = ids(case, "src", "tgt_in")

    def run(source, target):
        read = (source != 0).astype(source.dtype)
        return basic.embedding.logits(basic.decode(target, basic.encode(source), read, jnp.ones_like(target)))

    assert difference(jax.vmap(run)(source, target), case["infer/logits_causal_only"]) < FORWARD


def test_greedy_decoding_of_the_original_is_the_arg_max_here(basic):
    case = load(BASIC)
    buffer = jnp.asarray(case["greedy/buffer"][0])
    source = jnp.asarray(case["src"][0])
    read = (source != 0).astype(source.dtype)
    states = jax.jit(lambda t, s: basic.decode(t, basic.encode(s), read, jnp.ones_like(t)))(buffer, source)
    logits = np.asarray(basic.embedding.logits(states))[:-1]
    np.testing.assert_array_equal(logits.argmax(-1), buffer[1:])
    top = np.sort(logits, -1)
    assert (
        difference(top[:, -1] - top[:, -2], case["greedy/margin"]) < 1e-4
    )  # a difference of two close numbers


def test_oracle_of_the_model_tests_agrees_with_the_original():
    """What `tests/model/test_oracle.py` claims without golden vectors rests on this."""
    case, params, config = load(PACKED), nest(load(BASIC), "params"), config_of(BASIC)
    rows = (case[name][0].tolist() for name in ("src", "tgt_in", "enc_seg", "dec_seg"))
    real = case["dec_seg"][0] != 0
    assert difference(oracle.logits(params, config, *rows)[real], case["train/logits"][0][real]) < FORWARD


@pytest.mark.parametrize("name", [BASIC, PACKED])
def test_packed_rows_with_segments(basic, name):
    case = load(name)
    source, target, enc_seg, dec_seg = ids(case, "src", "tgt_in", "enc_seg", "dec_seg")
    real = case["dec_seg"] != 0
    logits = np.asarray(jax.vmap(basic)(source, target, enc_seg, dec_seg))
    assert difference(logits[real], case["train/logits"][real]) < FORWARD
    if name == PACKED:
        states = np.asarray(jax.vmap(basic.encode)(source, enc_seg))
        real = case["enc_seg"] != 0
        assert difference(states[real], case["train/encoder_out"][real]) < FORWARD


def test_retrieval_embeddings(basic):
    case = load(BASIC)
    query, tool = (jax.vmap(basic.embed)(tokens) for tokens in ids(case, "query_tokens", "tool_tokens"))
    assert difference(query, case["contrastive/query_emb"]) < FORWARD
    assert difference(tool, case["contrastive/tool_emb"]) < FORWARD
    logits = clip_logits(query, tool, basic.contrastive.log_temperature)
    assert difference(logits, case["contrastive/logits"]) < FORWARD


@pytest.mark.parametrize("activation", ["swiglu", "geglu", "drelu"])
def test_feed_forward_and_its_widths(activation):
    case = load(FFN)
    model, config = model_of(FFN, activation=activation)
    source, target = ids(case, "src", "tgt_in")
    width = config.hidden_ff

    @eqx.filter_jit
    def run(model, masks):
        return jax.vmap(lambda s, t, m: model(s, t, width_mask=m))(source, target, masks)

    def prefix(k):
        return jnp.broadcast_to(jnp.arange(width) < k, (len(source), width)).astype(jnp.float32)

    assert difference(jax.vmap(model.encode)(source), case[f"{activation}/encoder_out"]) < FORWARD
    assert difference(jax.vmap(model)(source, target), case[f"{activation}/logits_nomask"]) < FORWARD
    for k in (96, 48):
        assert difference(run(model, prefix(k)), case[f"{activation}/logits_width{k}"]) < FORWARD
    rows = jnp.asarray(case["batch_ffn_mask"])
    assert difference(run(model, rows), case[f"{activation}/logits_batchmask"]) < FORWARD

    def sliced(leaf, axis):
        return jnp.take(leaf, jnp.arange(48), axis=axis)

    for stack in ("encoder", "decoder"):
        layer = getattr(model, stack).layers.feedforward.layer
        narrow = (sliced(layer.gate.weight, 2), sliced(layer.up.weight, 2), sliced(layer.down.weight, 1))

        def weights(m, stack=stack):
            layer = getattr(m, stack).layers.feedforward.layer
            return layer.gate.weight, layer.up.weight, layer.down.weight

        model = eqx.tree_at(weights, model, narrow)
    assert difference(jax.vmap(model)(source, target), case[f"{activation}/logits_sliced48"]) < FORWARD


def test_confidence_head(basic):
    case = load("case7_confidence.npz")
    params = nest(load(BASIC), "params") | nest(case, "hidden16")
    del params["confidence"]  # the expected output lies beside the parameters
    model, config = import_v1(params, config_of(BASIC))
    assert config.confidence
    (source,) = ids(case, "src")
    pooled = jax.vmap(lambda tokens: mean_pool(basic.encode(tokens), tokens != 0))(source)
    assert difference(pooled, case["pooled"]) < FORWARD
    assert difference(jax.vmap(model.confidence_of)(source), case["hidden16/confidence"]) < FORWARD


def test_checkpoint_widened_to_float32():
    case = load("case8_ckpt_expected.npz")
    model, _ = import_v1(*read_v1(GOLDEN / "needle_v1_tiny.pkl"))
    assert {leaf.dtype for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array))} == {jnp.dtype("float32")}
    source, target = ids(case, "src", "tgt_in")
    assert difference(jax.vmap(model.encode)(source), case["f32/encoder_out"]) < FORWARD
    assert difference(jax.vmap(model)(source, target), case["f32/logits"]) < FORWARD


def test_bfloat16_compute_is_no_further_from_float32_than_the_original(basic):
    case = load(BASIC)
    source, target = ids(case, "src", "tgt_in")
    low = named("bfloat16").to_compute(basic)
    logits = jax.vmap(low)(source, target)
    assert logits.dtype == jnp.float32
    exact = case["infer/logits"]
    theirs = difference(case["bf16/logits"], exact)
    assert 1e-4 < difference(logits, exact) < 1.5 * theirs < 0.1


CASES = {BASIC: "case1", PACKED: "case2"}


def test_cross_entropy_of_every_position():
    case = load(PACKED)
    logits, targets, classes = ids(case, "train/logits", "tgt_out", "token_class")
    real = case["dec_seg"] != 0
    alone = jax.vmap(
        jax.vmap(lambda lo, t, c: token_sums(lo[None], t[None], c[None], jnp.ones(1, bool), (1.0,) * 4).ce)
    )
    assert (
        difference(np.asarray(alone(logits, targets, classes))[real], case["train/ce_per_token"][real])
        < FORWARD
    )


def gradient_differences(grads, prefix: str) -> dict[str, float]:
    """Difference of every leaf, by v1 name."""
    ours = dict(zip(leaf_paths(grads), jax.tree.leaves(grads), strict=True))
    expected = load(REAL)
    rows = [(theirs, path) for theirs, path in TABLE if path in ours]
    assert len(rows) == len(ours) == sum(key.startswith(f"{prefix}/") for key in expected)
    return {theirs: difference(ours[path], expected[f"{prefix}/{theirs}"]) for theirs, path in rows}


def test_loss_of_the_training_step_and_its_gradients(basic):
    params, static = eqx.partition(basic, eqx.is_array)
    run = Gradients(static, LossConfig(), Policy(), build_mesh(MeshConfig()), dropout=False, accumulate=1)
    for name, key in CASES.items():
        grads, terms = run(batch_of(name), params, jr.key(0), jnp.zeros((), jnp.int32))
        assert difference(terms.loss, load(REAL)[f"{key}/loss/total"]) < FORWARD
        worst = gradient_differences(grads, f"{key}/grads_total")
        assert max(worst.values()) < GRADIENT, worst


def test_parts_of_the_loss_and_their_gradients(basic):
    params, static = eqx.partition(basic, eqx.is_array)

    @jax.jit
    def run(params, batch, weights):
        def parts(params):
            model = eqx.combine(params, static)
            sums = batch_sums(model, batch, LossConfig(), None)
            ce, z = sums.weighted_ce / sums.count, 1e-4 * sums.z / sums.count
            return (ce, z, pairs_loss(model, batch.pairs)), sums

        values, pull, sums = jax.vjp(parts, params, has_aux=True)
        return values, pull(weights)[0], sums

    for name, key in CASES.items():
        batch = batch_of(name)
        for part, short in enumerate(("ce", "z_real", "contrastive")):
            weights = tuple(jnp.float32(part == i) for i in range(3))
            values, grads, sums = run(params, batch, weights)
            loss = "weighted_ce" if short == "ce" else short
            assert difference(values[part], load(REAL)[f"{key}/loss/{loss}"]) < FORWARD
            assert difference(sums.ce / sums.count, load(name)["loss/unweighted_ce"]) < FORWARD
            assert float(sums.count) == (load(name)["dec_seg"] != 0).sum()
            worst = gradient_differences(grads, f"{key}/grads_{short}")
            assert max(worst.values()) < GRADIENT, (part, worst)
