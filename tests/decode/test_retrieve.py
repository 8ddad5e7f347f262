"""Ranking of tools: the same whatever the batch, kept by content, and a choice that fits."""

from __future__ import annotations

from functools import cache

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.data.encode import TooLong, encode_query
from needlex.data.render import RenderConfig, render_tool
from needlex.data.tokenizer import TokenizerConfig, train_tokenizer
from needlex.decode import retrieve
from needlex.decode.retrieve import Retriever, choose_tools, untrained_head
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Tool
from tests.data.rows import shuffled_keys, tokenizer

QUERY = "turn on the light in the kitchen"
JSON_TOOLS = [
    {
        "name": f"{verb}_{thing}" + "_now" * (i % 4),
        "description": "Does it",
        "parameters": {
            "type": "object",
            "properties": {p: {"type": "integer", "minimum": i} for p in ("area", "brightness", "title")[: i % 4]},
            "required": [],
        },
    }
    for i, (verb, thing) in enumerate((v, t) for v in ("get", "set", "play", "stop") for t in ("time", "light", "music"))
]  # fmt: skip
TOOLS = tuple(Tool.from_json(t) for t in JSON_TOOLS)
STYLES = (RenderConfig(), RenderConfig(style="json", descriptions=True))


def fresh(seed: int = 0) -> Seq2Seq:
    config = ModelConfig(
        vocab_size=tokenizer().vocab_size, d_model=16, heads=2, kv_heads=1, encoder_layers=1, decoder_layers=1,
        contrastive_dim=8, init_std=0.4,
    )  # fmt: skip
    return Seq2Seq(config, key=jr.key(seed))


@cache
def model(seed: int = 0) -> Seq2Seq:
    """Random, with a head that looks trained and a gate that lets attention through."""
    return eqx.tree_at(
        lambda m: (m.contrastive.hidden.bias, m.contrastive.log_temperature, m.encoder.layers.gate),
        fresh(seed),
        (0.5 * jnp.ones(4), jnp.array(-1.0), jnp.ones(1)),
    )


def retriever(
    seed: int = 0, render: RenderConfig = STYLES[0], max_query=64, max_tool=64, **more
) -> Retriever:
    return Retriever(model(seed), tokenizer(), render, max_query, max_tool, **more)


@pytest.fixture
def blocks(monkeypatch):
    """Shapes of the blocks that the model was run on."""
    seen, real = [], retrieve._embed

    def counted(params, static, tokens):
        seen.append(tokens.shape)
        return real(params, static, tokens)

    monkeypatch.setattr(retrieve, "_embed", counted)
    return seen


def direct(text: str, limit: int = 10_000) -> np.ndarray:
    """Oracle: the model on the ids of one text, without padding or batch."""
    return np.asarray(_direct(model(), jnp.asarray(tokenizer().encode(text)[:limit], jnp.int32)))


@eqx.filter_jit
def _direct(model, ids):
    return model.embed(ids)


@pytest.mark.parametrize("render", STYLES, ids=("signature", "json"))
def test_embeddings_and_scores_are_those_of_the_model(render):
    tools, found = TOOLS[::3], _shared(render)  # few: the oracle compiles for each length
    matrix = found.embed_tools(tools)
    assert matrix.dtype == np.float32 and matrix.shape == (len(tools), 8)
    expected = np.stack([direct(render_tool(t, render)) for t in tools])
    np.testing.assert_allclose(matrix, expected, atol=1e-5)
    ranked = found.rank(QUERY, tools)
    assert sorted(r.index for r in ranked) == list(range(len(tools)))
    for r in ranked:
        assert r.tool is tools[r.index] and not r.truncated and not r.query_truncated
        assert r.score == pytest.approx(float(expected[r.index] @ direct(QUERY)), abs=1e-5)
    assert [r.score for r in ranked] == sorted((r.score for r in ranked), reverse=True)
    assert ranked[0].score - ranked[-1].score > 0.05  # else the order would say nothing
    assert found.rank(QUERY, tools, 3) == ranked[:3]


def test_a_tool_alone_is_embedded_as_among_others():
    together = retriever().embed_tools(TOOLS)
    one = retriever()
    alone = np.concatenate([one.embed_tools([t]) for t in TOOLS])
    np.testing.assert_allclose(alone, together, atol=1e-6, rtol=0)
    backwards = retriever().embed_tools(TOOLS[::-1])[::-1]
    np.testing.assert_allclose(backwards, together, atol=1e-6, rtol=0)


def test_known_tools_are_not_embedded_again(blocks):
    found = retriever()
    first = found.embed_tools(TOOLS)
    assert blocks
    blocks.clear()
    np.testing.assert_array_equal(found.embed_tools(TOOLS[3:]), first[3:])
    # The description is not shown to the model in this style: the same text, the same embedding.
    found.embed_tools([Tool(TOOLS[0].name, "Something else", TOOLS[0].parameters)])
    assert blocks == []
    found.rank(QUERY, TOOLS)
    assert blocks == [(1, 16)]  # the query
    blocks.clear()
    found.embed_tools([*TOOLS, Tool("new_one")])
    assert len(blocks) == 1


def test_only_so_many_are_kept_and_those_used_last(blocks):
    found = retriever(remember=3)
    all_at_once = found.embed_tools(TOOLS)  # more than are kept, none lost
    np.testing.assert_allclose(all_at_once, retriever().embed_tools(TOOLS), atol=1e-6)
    assert len(found._kept) == 3
    found.embed_tools(TOOLS[:3])
    found.embed_tools(TOOLS[:1])  # used again: the second is now the oldest
    found.embed_tools(TOOLS[3:4])
    blocks.clear()
    found.embed_tools([TOOLS[0], TOOLS[2], TOOLS[3]])
    assert blocks == []
    found.embed_tools([TOOLS[1]])
    assert len(blocks) == 1


def test_two_models_do_not_meet():
    a, b = retriever(0), retriever(1)
    first = a.embed_tools(TOOLS)
    second = b.embed_tools(TOOLS)  # the same texts, the same shapes, the same compiled function
    assert np.abs(first - second).max() > 0.1
    np.testing.assert_array_equal(a.embed_tools(TOOLS), first)
    np.testing.assert_allclose(retriever(1).embed_tools(TOOLS), second, atol=1e-6)


def test_new_texts_do_not_compile_again():
    found = retriever()
    for n in (5, 17, 33):
        found.rank("a" * n, [Tool("b" * n)])
    before = retrieve._embed._cache_size()  # pyright: ignore
    for n in range(1, 60, 3):
        found.rank("c" * n, [Tool("d" * min(m + 1, 60)) for m in range(n)])
    assert retrieve._embed._cache_size() == before  # pyright: ignore


def test_equal_scores_keep_the_order_of_the_caller():
    a, b = TOOLS[0], TOOLS[5]
    ranked = retriever().rank(QUERY, [a, b] * 50)
    assert len({r.score for r in ranked}) == 2
    for tool in (a, b):
        places = [r.index for r in ranked if r.tool == tool]
        assert places == sorted(places) and len(places) == 50


@given(st.data())
@settings(max_examples=20)
def test_the_order_of_keys_in_a_definition_is_not_seen(data):
    shuffled = [Tool.from_json(shuffled_keys(t, data.draw)) for t in JSON_TOOLS]
    for render in STYLES:
        found = _shared(render)
        np.testing.assert_array_equal(found.embed_tools(shuffled), found.embed_tools(TOOLS))
        assert [r.index for r in found.rank(QUERY, shuffled)] == [r.index for r in found.rank(QUERY, TOOLS)]


@cache
def _shared(render: RenderConfig) -> Retriever:
    return retriever(render=render, max_tool=512)


def test_long_texts_are_cut_and_the_result_says_which():
    found = retriever(max_query=6, max_tool=9)
    long, short = Tool("set_" + "light" * 20), Tool("stop")
    ranked = {r.tool.name: r for r in found.rank(QUERY, [long, short])}
    assert ranked[long.name].truncated and not ranked["stop"].truncated
    assert all(r.query_truncated for r in ranked.values())
    expected = direct(render_tool(long), 9) @ direct(QUERY, 6)
    assert ranked[long.name].score == pytest.approx(float(expected), abs=1e-5)
    assert found.rank(QUERY, [long])[0].truncated  # also when it comes from memory
    exactly = len(tokenizer().encode(QUERY))
    assert not retriever(max_query=exactly).rank(QUERY, TOOLS)[0].query_truncated


@pytest.mark.parametrize(
    ("change", "weight", "reason"),
    [
        (lambda m: fresh(), None, "as it was at the start"),
        (lambda m: m, 0.0, "loss.contrastive_weight 0"),
        (lambda m: eqx.tree_at(lambda x: x.contrastive.out.weight, m, replace_fn=jnp.zeros_like), 0.1, "all zero"),
        (lambda m: eqx.tree_at(lambda x: x.contrastive.hidden.bias, m, jnp.full(4, jnp.nan)), 0.1, "not finite"),
    ],
)  # fmt: skip
def test_a_head_that_is_not_trained_is_refused(change, weight, reason, blocks):
    found = Retriever(change(model()), tokenizer(), STYLES[0], 64, 64, weight)
    for call in (
        lambda: found.embed_tools(TOOLS),
        lambda: found.rank(QUERY, TOOLS),
        lambda: choose_tools(found, QUERY, TOOLS, 1000, 3),
        lambda: choose_tools(found, QUERY, TOOLS, 40),
    ):
        with pytest.raises(ValueError, match=reason) as error:
            call()
        assert "train with loss.contrastive_weight > 0" in str(error.value)
    assert isinstance(error.value, TooLong) and error.value.limit == 40
    assert blocks == []
    # Where nothing has to be chosen the head is not needed.
    assert choose_tools(found, QUERY, TOOLS, 1000).tools == TOOLS


def test_a_trained_head_is_recognised():
    assert untrained_head(model()) is None and untrained_head(model(), 0.1) is None
    one_step = eqx.tree_at(lambda m: m.contrastive.log_temperature, fresh(), jnp.array(1e-3))
    assert untrained_head(one_step) is None


def test_an_embedding_without_direction_is_refused_and_not_kept():
    dead = eqx.tree_at(lambda m: m.contrastive.hidden.bias, model(), jnp.full(4, -1e6))
    for broken in (
        dead,
        eqx.tree_at(lambda m: m.embedding.weight, model(), replace_fn=lambda x: x * jnp.nan),
    ):
        found = Retriever(broken, tokenizer(), STYLES[0], 64, 64)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"'get_time\(\)' no direction"):
                found.embed_tools(TOOLS)


def test_bad_arguments_are_refused():
    found = retriever()
    with pytest.raises(ValueError, match="k is 0"):
        found.rank(QUERY, TOOLS, 0)
    with pytest.raises(ValueError, match="query is empty"):
        found.rank("", TOOLS)
    with pytest.raises(ValueError, match="max_tools is 0"):
        choose_tools(found, QUERY, TOOLS, 100, 0)
    with pytest.raises(ValueError, match="not valid Unicode at character 1"):
        found.embed_tools([Tool("a\ud800")])
    for name in ("max_query", "max_tool", "remember"):
        with pytest.raises(ValueError, match=f"{name} is 0"):
            retriever(**{name: 0})
    assert found.rank(QUERY, []) == [] and found.embed_tools([]).shape == (0, 8)


def tokens(indices, render) -> int:
    return len(encode_query(QUERY, [TOOLS[i] for i in sorted(indices)], tokenizer(), render, 10**6))


@given(st.integers(20, 1100), st.none() | st.integers(1, len(TOOLS) + 2), st.sampled_from(STYLES))
@settings(max_examples=200)
def test_what_is_chosen_fits_and_the_next_best_would_not(limit, max_tools, render):
    """Oracle: go down the ranking, pass over what is too long alone, stop at what no longer fits."""
    found = _shared(render)
    everything = list(range(len(TOOLS)))
    alone = {i: tokens([i], render) for i in everything}
    if min(alone.values()) > limit:
        with pytest.raises(TooLong) as error:
            choose_tools(found, QUERY, TOOLS, limit, max_tools)
        assert error.value.limit == limit and error.value.tokens > limit
        return
    choice = choose_tools(found, QUERY, TOOLS, limit, max_tools)
    assert choice.offered == len(TOOLS)
    most = len(TOOLS) if max_tools is None else max_tools
    if tokens(everything, render) <= limit and most >= len(TOOLS):
        assert choice.tools == TOOLS and choice.reason is None and choice.ranked == ()
        return
    expected: list[int] = []
    over: list[str] = []
    waiting: list[str] = []  # passed over, but nothing after them was chosen
    for r in found.rank(QUERY, TOOLS):
        if len(expected) == most:
            break
        if alone[r.index] > limit:
            waiting.append(r.tool.name)
        elif tokens([*expected, r.index], render) > limit:
            break
        else:
            expected.append(r.index)
            over, waiting = over + waiting, []
    assert choice.tools == tuple(TOOLS[i] for i in sorted(expected))
    assert tokens(expected, render) <= limit
    assert choice.ranked == tuple(found.rank(QUERY, TOOLS))
    assert choice.reason is not None
    assert (f"max_tools is {max_tools}" in choice.reason) == (most < len(TOOLS))
    assert choice.reason.partition("passed over, too long even alone: ")[2] == ", ".join(over)


@pytest.mark.parametrize("render", STYLES, ids=("signature", "json"))
def test_the_choice_is_full_to_the_token(render):
    """Also where what joins the tools takes many tokens beside their own."""
    many = [Tool(f"t{i}") for i in range(40)]
    # With hardly a merge the brackets of a list are pieces of their own, which many tools share.
    pieces = train_tokenizer(
        [QUERY, '[{"name":"t0123456789","parameters":{}}]'], TokenizerConfig(vocab_size=300)
    )
    found = Retriever(model(), pieces, render, 64, 512)
    order = [r.index for r in found.rank(QUERY, many)]
    sizes = [
        len(encode_query(QUERY, [many[i] for i in sorted(order[:n])], pieces, render, 10**6))
        for n in range(1, 41)
    ]
    for limit in range(sizes[0], sizes[-1], 5 if render.style == "json" else 1):
        chosen = choose_tools(found, QUERY, many, limit).tools
        assert len(chosen) == sum(size <= limit for size in sizes)


def test_a_query_too_long_is_refused_with_its_numbers():
    for query in ("x" * 100_000, "what time is it " * 6250):
        with pytest.raises(TooLong, match="that is the query without any tool") as error:
            choose_tools(retriever(), query, TOOLS, 256)
        assert error.value.tokens == len(tokenizer().encode(query)) + 1 and error.value.limit == 256


def test_a_query_that_leaves_no_room_is_refused_with_the_numbers_of_the_shortest_tool():
    limit = len(tokenizer().encode(QUERY)) + 2
    with pytest.raises(TooLong, match=f"with the shortest of {len(TOOLS)} tools") as error:
        choose_tools(retriever(), QUERY, TOOLS, limit)
    assert error.value.tokens == min(tokens([i], STYLES[0]) for i in range(len(TOOLS)))


@pytest.mark.parametrize("render", STYLES, ids=("signature", "json"))
def test_hundreds_of_tools(render, blocks):
    many = [Tool.from_json({**JSON_TOOLS[i % 12], "name": f"{TOOLS[i % 12].name}_{i}"}) for i in range(500)]
    found = retriever(render=render)
    choice = choose_tools(found, QUERY, many, 400)
    assert choice.offered == 500 == len(choice.ranked) and 1 < len(choice.tools) < 100
    assert choice.reason is not None and choice.reason.startswith("the query and 500 tools take ")
    places = [many.index(t) for t in choice.tools]
    assert places == sorted(places) and set(places) == {r.index for r in choice.ranked[: len(places)]}
    assert len(blocks) <= 500 / retrieve.ROWS + 5 and len(set(blocks)) <= 5
    limited = choose_tools(found, QUERY, many, 400, 2)
    assert {t.name for t in limited.tools} == {r.tool.name for r in choice.ranked[:2]}
    assert limited.reason == "500 tools were offered, max_tools is 2"
