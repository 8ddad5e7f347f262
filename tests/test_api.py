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
from needlex.data.render import render_tool
from needlex.data.tokenizer import TokenizerConfig, train_tokenizer
from needlex.decode.loop import Sampling
from needlex.decode.predict import Prediction
from needlex.decode.stream import Finished, ToolsChosen
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


CYCLES = {
    "of names": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    "of required fields": {"a": {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}, "required": ["n"]}},
    "of a list": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}},
}  # fmt: skip


def of_x(schema: dict, **shared) -> list[dict]:
    return [{"name": "f", "parameters": {"type": "object", "properties": {"x": schema}, **shared}}]


@pytest.mark.parametrize("door", ["call", "stream"])
@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ([], "no tools"),
        (None, "no tools"),
        ("[{", "'tools' is not valid JSON: .* at character 2"),
        ("7", "no tools .*list of tool definitions"),
        ([7], "a tool must be an object, not int"),
        (of_x({"type": "string", "pattern": "("}), "tool 'f', parameters/x: 'pattern'"),
        (of_x({"$ref": "#/$defs/a"}), r"parameters/x: .*#/\$defs/a"),
        *[(of_x({"$ref": "#/$defs/a"}, **{"$defs": c}), "tool 'f', parameters/x.* is recursive; write") for c in CYCLES.values()],
    ],
    ids=[*range(7), *CYCLES],
)  # fmt: skip
def test_tools_that_cannot_be_offered_are_refused(model, door, tools, why):
    with pytest.raises(SchemaError, match=why):
        list(getattr(model, door)("ring", tools))


@pytest.mark.parametrize("door", ["call", "stream", "retrieve"])
@pytest.mark.parametrize("query", ["", " \t\n", "\u3000"])
def test_a_query_of_nothing_is_refused(model, door, query):
    with pytest.raises(SchemaError, match="the query is empty; say in words"):
        list(getattr(model, door)(query, TOOLS))


@pytest.mark.parametrize("query", ["ring " * 20_000, "x" * 100_000, "é" * 100_000])
def test_a_query_beyond_the_budget_is_refused_with_the_numbers(model, query):
    tokens = len(model.tokenizer.encode(query)) + 1
    with pytest.raises(ValueError, match=rf"too_long: .* takes {tokens} tokens, the limit is 384: .*shorten"):
        model.call(query, TOOLS)


def test_a_budget_is_at_least_the_empty_answer(model):
    """Its two tokens: `[`, `]`."""
    assert model.call("ring", TOOLS, max_new_tokens=2) == []
    for few in (1, 0, -3):
        with pytest.raises(ValueError, match=rf"the budget is {few + 1} tokens, .*raise max_new_tokens"):
            model.call("ring", TOOLS, max_new_tokens=few)
        with pytest.raises(ValueError, match="raise max_new_tokens"):
            list(model.stream("ring", TOOLS, max_new_tokens=few))
    with pytest.raises(ValueError, match="at least one token must be allowed"):
        model.call("ring", TOOLS, max_new_tokens=0, constrained=False)


@pytest.mark.parametrize("budget", range(3, 40, 4))
def test_every_budget_gives_complete_calls(model, budget):
    for seed in range(4):
        found = model.call("ring", TOOLS, budget, sampling=Sampling(2.0, seed=seed))
        assert found == [Call.from_json(c) for c in json.loads(found.text)]
        assert len(model.tokenizer.encode(found.text)) <= budget  # no way to write it has fewer tokens


def with_lively_head(model: ToolCaller) -> ToolCaller:
    """The model with a head none of whose few units is dead: each text has a direction."""
    lively = eqx.tree_at(lambda m: m.contrastive.hidden.bias, model.model, replace_fn=lambda b: b + 1)
    return ToolCaller(lively, model.config, model.tokenizer, model.render, 384, 160, model.run_config)


@pytest.fixture(scope="module")
def ranking(model) -> ToolCaller:
    return with_lively_head(model)


MANY = [{"name": f"tool_{i}", "description": f"number {i}", "parameters": {"x": "integer"}} for i in range(500)]  # fmt: skip


def test_tools_are_ranked_by_the_cosine_of_their_embeddings(ranking):
    found = ranking.retrieve("ring at den 3", json.dumps(TOOLS))
    assert sorted(r.index for r in found) == [0, 1, 2]
    assert all(r.tool == parse_tools(TOOLS)[r.index] for r in found)
    texts = ["ring at den 3", *(render_tool(t, ranking.render) for t in parse_tools(TOOLS))]
    query, *tools = (np.asarray(ranking.embed(ranking.tokenizer.encode(t)), np.float64) for t in texts)
    np.testing.assert_allclose([r.score for r in found], [query @ tools[r.index] for r in found], atol=1e-5)
    scores = [r.score for r in found]
    assert scores == sorted(scores, reverse=True)
    assert ranking.retrieve("ring at den 3", TOOLS, 2) == found[:2]


def test_of_many_tools_those_are_offered_that_the_head_puts_first(ranking):
    """What is drawn then is what is drawn with the chosen tools alone, so it can name no other."""
    best = {r.tool.name for r in ranking.retrieve("ring at den 3", MANY, 2)}
    names = set()
    for seed in range(8):
        sampling = Sampling(2.0, seed=seed)
        found = ranking.call("ring at den 3", MANY, sampling=sampling, max_tools=2)
        assert set(found.tools) == best and found.note == "500 tools were offered, max_tools is 2"
        alone = ranking.call("ring at den 3", [t for t in MANY if t["name"] in best], sampling=sampling)
        assert (found.text, found.log_probability) == (alone.text, alone.log_probability)
        assert alone.note is None
        first, *rest = ranking.stream("ring at den 3", MANY, sampling=sampling, max_tools=2)
        assert first == ToolsChosen(found.tools, found.note)
        assert not any(isinstance(e, ToolsChosen) for e in rest) and rest[-1] == Finished(tuple(found))
        names |= {c.name for c in found}
    assert names and names <= best


def test_tools_beyond_the_budget_are_chosen_and_the_numbers_said(ranking):
    found = ranking.call("ring", MANY)
    assert found.note is not None
    assert re.fullmatch(r"the query and 500 tools take \d{4,} tokens, the limit is 384", found.note)
    order = [r.tool.name for r in ranking.retrieve("ring", MANY)]
    assert 5 < len(found.tools) < 100 and set(found.tools) == set(order[: len(found.tools)])
    assert list(found.tools) == [t["name"] for t in MANY if t["name"] in found.tools]
    assert ranking.call("ring", TOOLS, max_tools=3).note is None


def test_an_untrained_head_chooses_nothing(model):
    fresh = Seq2Seq(model.config, key=jr.key(1))
    caller = ToolCaller(fresh, model.config, model.tokenizer, model.render, 384, 160)
    with pytest.raises(ValueError, match=r"retrieval head .* not trained .*contrastive_weight"):
        caller.retrieve("ring", TOOLS)
    with pytest.raises(ValueError, match=r"retrieval head .* not trained"):
        caller.call("ring", TOOLS, max_tools=2)
    with pytest.raises(ValueError, match=r"too_long.*limit is 384: offer fewer tools.*not trained"):
        list(caller.stream("ring", MANY))
    with pytest.raises(ValueError, match="max_tools is 0; it must be at least 1"):
        model.call("ring", TOOLS, max_tools=0)
    assert caller.call("ring", TOOLS, max_tools=3).note is None  # nothing to choose


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
