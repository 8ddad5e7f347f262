"""The Python door: what `needlex.load` gives, and how it refuses."""

from __future__ import annotations

import json
import re
import shutil

import equinox as eqx
import grain
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import needlex
from needlex.api import AnswerError, ToolCaller
from needlex.checkpoint.foreign import export_v1
from needlex.checkpoint.store import CheckpointError, Store
from needlex.config import ConfigError, read_config
from needlex.data.tokenizer import TokenizerConfig, train_tokenizer
from needlex.decode.predict import Prediction
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.precision import named
from needlex.schema import Call, Example, SchemaError, parse_tools
from needlex.train.config import TrainConfig
from tests.train.runs import TOOLS, trained

ENC = np.array([[7, 8, 9, 10, 11, 12], [9, 9, 8, 7, 0, 0]], np.int32)
DEC = np.array([[1, 4, 9, 8], [1, 4, 7, 0]], np.int32)


@eqx.filter_jit
def direct(model: Seq2Seq, *ids):
    """Logits of one row, from the model itself."""
    return model(*ids)


@pytest.fixture(scope="module")
def model() -> ToolCaller:
    return needlex.load(trained())


def test_what_comes_out_is_what_the_model_computes(model):
    assert model.config.d_model == 16 and model.tokenizer.vocab_size == model.config.vocab_size
    wanted = [direct(model.model, e, d) for e, d in zip(jnp.asarray(ENC), jnp.asarray(DEC), strict=True)]
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


def test_without_segments_id_zero_is_padding(model):
    """Segments of ones where there is an id, and none, are one thing; one row and a batch of them too."""
    segments = (ENC != 0).astype(np.int32), np.ones_like(DEC)
    given = np.asarray(model.logits(ENC, DEC, *segments))
    np.testing.assert_allclose(model.logits(ENC, DEC)[:, :3], given[:, :3], rtol=1e-5, atol=1e-5)
    for row in range(2):
        one = [x[row] for x in (ENC, DEC, *segments)]
        wanted = direct(model.model, *map(jnp.asarray, one))
        np.testing.assert_allclose(model.logits(*one), wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(given[row], wanted, rtol=1e-5, atol=1e-5)


def test_a_call_is_typed_or_an_error_with_the_text(model):
    found = model.call("ring at den 3", TOOLS)
    assert all(isinstance(c, Call) and c.name in {t["name"] for t in TOOLS} for c in found)
    (row,) = model.predict([Example("ring at den 3", parse_tools(TOOLS), ())])
    assert row.error is None and json.loads(row.text) == [c.to_json() for c in found]
    # Definitions of another form, and their text, ask the same.
    wrapped = [{"type": "function", "function": t} for t in TOOLS]
    assert model.call("ring at den 3", wrapped) == model.call("ring at den 3", json.dumps(TOOLS)) == found
    # After six updates a free answer is no list of calls.
    (free,) = model.predict([Example("ring", parse_tools(TOOLS), ())], max_new_tokens=3, constrained=False)
    with pytest.raises(AnswerError) as e:
        model.call("ring", TOOLS, max_new_tokens=3, constrained=False)
    assert e.value.text == free.text and repr(free.text) in str(e.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[{", "the answer is not valid JSON"),
        ('{"name": "ring"}', "the answer must be a list"),
        ('[{"arguments": {}}]', "call without a name"),
        ("[NaN]", "NaN is not a finite number"),
    ],
)
def test_whatever_the_model_writes_is_an_error_with_that_text(model, monkeypatch, text, why):
    written = [model.tokenizer.encode(text), Prediction(text, tokens=1)]
    monkeypatch.setattr("needlex.api.stream", lambda *_: iter(written))
    with pytest.raises(AnswerError, match=why) as e:
        model.call("ring", TOOLS)
    assert e.value.text == text


def test_what_cannot_be_asked_is_refused(model):
    with pytest.raises(SchemaError, match="no tools"):
        model.call("ring", [])
    with pytest.raises(SchemaError, match="tool 'f', parameters/x: 'pattern'"):
        model.call("ring", [{"name": "f", "parameters": {"x": {"type": "string", "pattern": "("}}}])
    with pytest.raises(ValueError, match=r"too_long.*the limit is 384"):
        model.call("ring " * 2000, TOOLS)


def test_a_step_is_loaded_like_the_run(model):
    (step,) = (trained() / "checkpoints").iterdir()
    for path in (step, str(step), str(trained())):
        found = needlex.load(path)
        np.testing.assert_array_equal(found.logits(ENC, DEC), model.logits(ENC, DEC))
        assert (found.config, found.render, found.run_config) == (
            model.config,
            model.render,
            model.run_config,
        )
        assert (found.max_encoder, found.max_decoder) == (4 * 96, 2 * 80)
    assert model.run_config is not None and model.run_config.run_dir == str(trained())


def test_a_named_step_is_that_step(model, tmp_path):
    """Two steps of other weights in one run: each is what its folder says, and the run is the newest."""
    run = tmp_path / "run"
    shutil.copytree(trained(), run)
    config = read_config(TrainConfig, run / "config.json")
    other = Seq2Seq(config.model, key=jr.key(9))
    data = iter(grain.MapDataset.range(3).to_iter_dataset())
    store = Store(run, config.checkpoint, named(config.precision))
    store.save(8, eqx.filter(other, eqx.is_array), {"step": jnp.array(8)}, data, {"step": 8})
    store.close()
    for path, wanted in [
        (run, other), (run / "checkpoints" / "8", other), (run / "checkpoints" / "6", model.model),
    ]:  # fmt: skip
        found = np.asarray(needlex.load(path).logits(ENC[0], DEC[0]))
        np.testing.assert_allclose(
            found, direct(wanted, jnp.asarray(ENC[0]), jnp.asarray(DEC[0])), rtol=1e-5, atol=1e-5
        )


def test_what_is_no_checkpoint_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.*needlex\.train --run-dir"):
        needlex.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="999"):
        needlex.load(trained() / "checkpoints" / "999")
    with pytest.raises(CheckpointError, match=r"no run directory.*config\.json"):
        needlex.load(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(CheckpointError, match=r"notes\.txt is no run directory"):
        needlex.load(tmp_path / "notes.txt")
    with pytest.raises(FileNotFoundError, match=r"no tokenizer at .*gone\.model"):
        needlex.load(trained(), tokenizer=tmp_path / "gone.model")
    shutil.copy(trained() / "config.json", tmp_path)
    shutil.copy(trained() / "tokenizer.model", tmp_path)
    with pytest.raises(CheckpointError, match=re.escape(str(tmp_path))):  # a run that saved nothing
        needlex.load(tmp_path)
    (tmp_path / "checkpoints" / "7").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="7"):  # an empty step
        needlex.load(tmp_path / "checkpoints" / "7")
    (tmp_path / "config.json").write_text('{"model": {"head": 2}}')
    with pytest.raises(ConfigError, match=r"config\.json: unknown field model\.head; did you mean"):
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
        bare.logits(ENC[0], DEC[0]), direct(made, jnp.asarray(ENC[0]), jnp.asarray(DEC[0])), atol=1e-3
    )  # float16 on disk
    with pytest.raises(ValueError, match="no tokenizer"):
        _ = bare.tokenizer
    whole = needlex.load(tmp_path / "model.pkl", tokenizer=trained() / "tokenizer.model")
    (row,) = whole.predict([Example("ring", parse_tools(TOOLS), ())], max_new_tokens=8)
    assert row.error is None or row.error.startswith("unfinished")


def test_two_loaded_models_do_not_meet(model, tmp_path):
    """C5: another shape with its own tokenizer, and other weights of the same shape; in any order each answers as alone."""
    arrays, static = eqx.partition(model.model, eqx.is_array)
    moved = eqx.combine(jax.tree.map(lambda x: x + 0.5 if x.dtype == np.float32 else x, arrays), static)
    texts = [f"sail boat {i} to the {i % 7}th island with {i} hands" for i in range(50)]
    tokenizer = train_tokenizer(texts, TokenizerConfig(vocab_size=360))
    tokenizer.save(tmp_path / "small.model")
    small = ModelConfig(
        tokenizer.vocab_size, d_model=8, heads=2, kv_heads=2, encoder_layers=1, decoder_layers=1
    )
    export_v1(Seq2Seq(small, key=jr.key(5)), small, tmp_path / "small.pkl")

    def callers() -> list[ToolCaller]:
        return [
            needlex.load(trained()),
            ToolCaller(moved, model.config, model.tokenizer, model.render),
            needlex.load(tmp_path / "small.pkl", tokenizer=tmp_path / "small.model"),
        ]

    row = [Example("ring at den 3", parse_tools(TOOLS), ())]
    alone = callers()
    wanted = [
        [direct(c.model, e, d) for e, d in zip(jnp.asarray(ENC), jnp.asarray(DEC), strict=True)]
        for c in alone
    ]
    texts = [c.predict(row, max_new_tokens=24) for c in reversed(alone)][::-1]
    together = callers()
    for i in (0, 1, 2, 0, 2, 1, 0):
        found = together[i].logits(ENC, DEC)
        np.testing.assert_allclose(found, np.stack(wanted[i]), rtol=1e-4, atol=1e-5)
        assert together[i].predict(row, max_new_tokens=24) == texts[i]
    assert len({t[0].log_probability for t in texts}) == 3


def test_a_tokenizer_of_another_size_is_refused(tmp_path):
    config = ModelConfig(vocab_size=360, d_model=8, heads=2, kv_heads=2, encoder_layers=1, decoder_layers=1)
    export_v1(Seq2Seq(config, key=jr.key(5)), config, tmp_path / "model.pkl")
    with pytest.raises(ValueError, match=r"the tokenizer has 3\d\d pieces, the model's table 360 rows"):
        needlex.load(tmp_path / "model.pkl", tokenizer=trained() / "tokenizer.model")
