"""Ids of an example: layout of both sides, exact classes, nothing cut, the same at training and inference."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlex.data.encode import (
    TooLong,
    answer_classes,
    contrastive_pair,
    encode_example,
    encode_query,
    tool_identity,
)
from needlex.data.render import RenderConfig, Span, render_answer, render_tool, render_tools
from needlex.data.tokenizer import EOS, TOOL_CALL, TOOLS, Tokenizer
from needlex.schema import Call, Example, Parameter, Tool
from tests.data.rows import calls, class_of_characters, examples, texts, tokenizer, tools

SIGNATURE, JSON = RenderConfig(), RenderConfig("json", True)
BIG = 100_000


def _oracle(text: str, ids: list[int]) -> list[int]:
    """Piece by piece, byte by byte: the class of the first byte that is not base."""
    of_bytes = [k for c, k in zip(text, class_of_characters(text), strict=True) for _ in c.encode()]
    result, at = [], 0
    for i in ids:
        size = len(tokenizer().pieces[i])
        result.append(next((k for k in of_bytes[at : at + size] if k), 0))
        at += size
    assert at == len(of_bytes)
    return result


@given(calls)
def test_classes_agree_with_a_reader_of_the_json(made):
    text, spans = render_answer(made)
    ids = tokenizer().encode(text)
    classes = answer_classes(text, spans, ids, tokenizer())
    assert classes.dtype == np.int32
    assert classes.tolist() == _oracle(text, ids)


def test_a_piece_over_a_border_has_the_class_of_what_it_decides():
    class Pieces:  # a tokenizer with pieces across borders: `"a` then `":"` then `b"`
        dummy_prefix = False

        def byte_lengths(self, ids):
            return np.array([2, 3, 1, 2, 1])

    text, spans = '"a":"éb"', [Span(1, 2, 3), Span(5, 7, 2)]
    pieces: Any = Pieces()
    assert answer_classes(text, spans, [0] * 5, pieces).tolist() == [3, 0, 2, 2, 0]


def test_a_lossy_tokenizer_is_refused():
    with pytest.raises(ValueError, match="the pieces spell 4 bytes, the text has 5"):
        answer_classes("[ []]", [], tokenizer().encode("[[]]"), tokenizer())


@pytest.mark.parametrize("render", [SIGNATURE, JSON], ids=["signature", "json"])
def test_layout_of_both_sides(render):
    tok = tokenizer()
    for example in examples():
        encoded = encode_example(example, tok, render, BIG, BIG)
        for array in (encoded.encoder, encoded.decoder, encoded.targets, encoded.classes):
            assert array.dtype == np.int32
        at = encoded.encoder.tolist().index(TOOLS)
        assert tok.decode(encoded.encoder[:at]) == example.query
        assert tok.decode(encoded.encoder[at + 1 :]) == render_tools(example.tools, render)
        text, _ = render_answer(example.calls)
        answer = tok.encode(text)
        assert encoded.decoder.tolist() == [EOS, TOOL_CALL, *answer]
        assert encoded.targets.tolist() == [TOOL_CALL, *answer, EOS]
        assert encoded.classes.tolist() == [0, *_oracle(text, answer), 0]


@given(texts.filter(bool), st.lists(tools, min_size=1, max_size=4), st.data())
def test_ids_of_a_tool_do_not_depend_on_its_neighbours(query, made, data):
    order = data.draw(st.permutations(made))
    ids, moved = (encode_query(query, t, tokenizer(), SIGNATURE, BIG).tolist() for t in (made, order))
    at = ids.index(TOOLS) + 1
    assert ids[:at] == moved[:at]
    assert tokenizer().decode(ids[at:]) == render_tools(made)
    lines = sorted(tokenizer().decode(tokenizer().encode(render_tool(t) + "\n")) for t in made)
    assert sorted(render_tool(t) + "\n" for t in made) == lines
    if order[-1] == made[-1]:  # the last line alone has no line break
        assert sorted(ids[at:]) == sorted(moved[at:])


def test_training_and_inference_read_the_same():
    for example in examples():
        seen = encode_query(example.query, example.tools, tokenizer(), SIGNATURE, BIG)
        np.testing.assert_array_equal(seen, encode_example(example, tokenizer(), SIGNATURE, BIG, BIG).encoder)


def test_special_texts_of_a_user_stay_text():
    ids = encode_query("<tools> <tool_call>", [Tool("<tools>")], tokenizer(), SIGNATURE, BIG).tolist()
    assert ids.count(TOOLS) == 1
    assert TOOL_CALL not in ids


@pytest.mark.parametrize("render", [SIGNATURE, JSON], ids=["signature", "json"])
def test_what_fits_exactly_fits_and_one_token_less_does_not(render):
    for example in examples():
        full = encode_example(example, tokenizer(), render, BIG, BIG)
        n, m = len(full.encoder), len(full.decoder)
        same = encode_example(example, tokenizer(), render, n, m)
        np.testing.assert_array_equal(same.encoder, full.encoder)
        np.testing.assert_array_equal(same.targets, full.targets)
        with pytest.raises(TooLong, match=f"encoder side takes {n} tokens, the limit is {n - 1}") as error:
            encode_example(example, tokenizer(), render, n - 1, m)
        assert error.value.reason == "encoder"
        with pytest.raises(TooLong, match=f"decoder side takes {m} tokens, the limit is {m - 1}") as error:
            encode_example(example, tokenizer(), render, n, m - 1)
        assert error.value.reason == "decoder"
        copied = pickle.loads(pickle.dumps(error.value))
        assert (str(copied), copied.reason, copied.limit) == (str(error.value), "decoder", m - 1)


def test_contrastive_pairs_hold_a_called_tool():
    tok, rng = tokenizer(), np.random.default_rng(0)
    made = (Tool("a"), Tool("b"), Tool("c"))
    example = Example("do b and c", made, (Call("b"), Call("c"), Call("b")))
    seen = set()
    for _ in range(50):
        pair = contrastive_pair(example, tok, SIGNATURE, 64, 64, rng)
        assert pair is not None
        query, ids, identity = pair
        assert tok.decode(query) == "do b and c"
        tool = next(t for t in made if render_tool(t) == tok.decode(ids))
        assert identity == tool_identity(tool, SIGNATURE)
        seen.add(tool.name)
    assert seen == {"b", "c"}


def test_no_contrastive_pair_without_a_call_or_room():
    rng = np.random.default_rng(0)
    silent, short = Example("hello", (Tool("a"),), ()), Example("do", (Tool("a"),), (Call("a"),))
    assert contrastive_pair(silent, tokenizer(), SIGNATURE, 64, 64, rng) is None
    assert contrastive_pair(short, tokenizer(), SIGNATURE, 1, 64, rng) is None
    assert contrastive_pair(short, tokenizer(), SIGNATURE, 64, 1, rng) is None
    with pytest.raises(ValueError, match="calls 'b', which is not among the tools"):
        contrastive_pair(Example("do", (Tool("a"),), (Call("b"),)), tokenizer(), SIGNATURE, 64, 64, rng)


def test_tools_that_read_the_same_have_one_identity():
    hidden = [
        Tool("f", text, (Parameter("a", {"type": "string", "description": text}),)) for text in ("x", "y")
    ]
    assert tool_identity(hidden[0], SIGNATURE) == tool_identity(hidden[1], SIGNATURE)
    assert tool_identity(hidden[0], JSON) != tool_identity(hidden[1], JSON)
    # the same number in every process, so that hosts agree; and an int32
    assert tool_identity(Tool("get_time"), SIGNATURE) == 1889164834
    numbers = [tool_identity(Tool(f"t{i}"), SIGNATURE) for i in range(500)]
    assert len(set(numbers)) == 500
    assert all(0 <= number < 2**31 for number in numbers)


def test_encoding_needs_no_more_than_the_saved_model(tmp_path):
    tokenizer().save(tmp_path / "t.model")
    again = Tokenizer.load(tmp_path / "t.model")
    for example in examples():
        first, second = (encode_example(example, t, SIGNATURE, BIG, BIG) for t in (tokenizer(), again))
        np.testing.assert_array_equal(first.encoder, second.encoder)
        np.testing.assert_array_equal(first.classes, second.classes)
