"""The Python door: what `needlex.load` gives, and how it refuses."""

from __future__ import annotations

import shutil

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import needlex
from needlex.api import AnswerError, ToolCaller
from needlex.checkpoint.foreign import export_v1
from needlex.checkpoint.store import CheckpointError
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Call, Example, SchemaError, parse_tools
from tests.train.runs import TOOLS, trained

ENC = np.array([[7, 8, 9, 10, 11, 12], [9, 9, 8, 7, 0, 0]], np.int32)
DEC = np.array([[1, 4, 9, 8], [1, 4, 7, 0]], np.int32)


@pytest.fixture(scope="module")
def model() -> ToolCaller:
    return needlex.load(trained())


def test_what_comes_out_is_what_the_model_computes(model):
    assert model.config.d_model == 16 and model.tokenizer.vocab_size == model.config.vocab_size
    wanted = [model.model(e, d) for e, d in zip(jnp.asarray(ENC), jnp.asarray(DEC), strict=True)]
    found = np.asarray(model.logits(ENC, DEC))
    assert found.dtype == np.float32 and found.shape == (2, 4, model.config.vocab_size)
    np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.logits(ENC[0], DEC[0]), wanted[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        model.encode(ENC)[1], model.model.encode(jnp.asarray(ENC[1])), rtol=1e-5, atol=1e-5
    )
    vectors = np.asarray(model.embed(ENC))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(model.embed(ENC[1]), model.embed(ENC[1, :4]), rtol=1e-5, atol=1e-5)


def test_segments_keep_packed_examples_apart(model):
    """A1 through the public door: the second example of a packed row does not see the first."""
    segments = np.array([[1, 1, 1, 2, 2, 2]], np.int32), np.array([[1, 1, 2, 2]], np.int32)
    packed = np.asarray(model.logits(ENC[:1], DEC[:1], *segments))
    edited_enc, edited_dec = ENC[:1].copy(), DEC[:1].copy()
    edited_enc[0, :3], edited_dec[0, :2] = 13, 14
    other = np.asarray(model.logits(edited_enc, edited_dec, *segments))
    np.testing.assert_array_equal(packed[0, 2:], other[0, 2:])
    assert np.abs(packed[0, :2] - other[0, :2]).max() > 1e-3


def test_ids_of_another_shape_are_refused(model):
    with pytest.raises(ValueError, match=r"\[rows, positions\]"):
        model.encode(np.zeros((1, 2, 3), np.int32))


def test_a_call_is_typed_or_an_error_with_the_text(model):
    try:
        answer = model.call("ring at den 3", TOOLS)
        assert all(isinstance(c, Call) for c in answer)
    except AnswerError as e:
        (row,) = model.predict([Example("ring at den 3", parse_tools(TOOLS), ())])
        assert e.text == row.text
    with pytest.raises(SchemaError, match="no tools"):
        model.call("ring", [])
    with pytest.raises(ValueError, match=r"too_long.*the limit is 384"):
        model.call("ring " * 2000, TOOLS)


def test_a_step_is_loaded_like_the_run(model):
    steps = sorted((trained() / "checkpoints").iterdir())
    found = needlex.load(steps[-1])
    np.testing.assert_array_equal(found.logits(ENC, DEC), model.logits(ENC, DEC))
    with pytest.raises(FileNotFoundError, match="999"):
        needlex.load(trained() / "checkpoints" / "999")


def test_what_is_no_checkpoint_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.*needlex\.train --run-dir"):
        needlex.load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"no run directory.*config\.json"):
        needlex.load(tmp_path)
    shutil.copy(trained() / "config.json", tmp_path)
    with pytest.raises((CheckpointError, FileNotFoundError), match="checkpoint"):
        needlex.load(tmp_path)


def test_a_v1_pickle_answers_once_it_has_a_tokenizer(tmp_path):
    source = needlex.load(trained())
    config = ModelConfig(
        vocab_size=source.tokenizer.vocab_size,
        d_model=16,
        heads=2,
        kv_heads=1,
        encoder_layers=1,
        decoder_layers=1,
    )
    made = Seq2Seq(config, key=jr.key(3))
    export_v1(made, config, tmp_path / "model.pkl")
    bare = needlex.load(tmp_path / "model.pkl")
    np.testing.assert_allclose(
        bare.logits(ENC[0], DEC[0]), made(jnp.asarray(ENC[0]), jnp.asarray(DEC[0])), atol=1e-3
    )  # float16 on disk
    with pytest.raises(ValueError, match="no tokenizer"):
        bare.tokenizer  # noqa: B018
    whole = needlex.load(tmp_path / "model.pkl", tokenizer=trained() / "tokenizer.model")
    (row,) = whole.predict([Example("ring", parse_tools(TOOLS), ())], max_new_tokens=8)
    assert row.error is None or row.error.startswith("unfinished")


def test_two_loaded_models_do_not_meet(model):
    """C5: the second has other weights; both answer as they did alone, in either order."""
    arrays, static = eqx.partition(model.model, eqx.is_array)
    moved = eqx.combine(jax.tree.map(lambda x: x + 0.5 if x.dtype == np.float32 else x, arrays), static)
    other = ToolCaller(moved, model.config, model.tokenizer, model.render)
    first, second = np.asarray(model.logits(ENC, DEC)), np.asarray(other.logits(ENC, DEC))
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(model.logits(ENC, DEC), first)
    np.testing.assert_allclose(
        second[0], moved(jnp.asarray(ENC[0]), jnp.asarray(DEC[0])), rtol=1e-5, atol=1e-5
    )
