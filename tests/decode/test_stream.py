"""Streams take nothing back, lose nothing, tell each part at its last character, and do not depend on the pieces."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import sys
import time
from functools import cache
from itertools import pairwise

import pytest
import sentencepiece as spm
from hypothesis import example, given
from hypothesis import strategies as st

from needlex.data.render import render_answer
from needlex.data.tokenizer import Tokenizer
from needlex.decode import stream
from needlex.decode.stream import (
    AnswerReader,
    ArgumentFinished,
    CallFinished,
    CallOpened,
    Event,
    Finished,
    Text,
    TextPieces,
    answer_events,
)
from needlex.schema import Call, SchemaError
from tests.decode.answers import rows, tokenizer

# Strings that hold what stands for structure elsewhere, escapes, characters of one to four bytes, U+2581.
strings = st.lists(
    st.sampled_from(['"', "\\", "[", "]", "{", "}", ",", ":", " ", "\n", "\u2581", "é", "長", "🙂", '","name":"x"', "a"])
    | st.text(st.characters(codec="utf-8"), max_size=3),
    max_size=5,
).map("".join)  # fmt: skip
names = strings.filter(bool)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=6,
)
calls_of = st.lists(st.builds(Call, names, st.dictionaries(strings, values, max_size=3)), max_size=3)


@cache
def v1_tokenizer() -> Tokenizer:
    """With a dummy prefix, as Needle v1 had it."""
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["play the song", "stop the song", '[{"name":"play"}]'] * 5), model_writer=model,
        model_type="bpe", vocab_size=400, byte_fallback=True, hard_vocab_limit=False, pad_id=0, eos_id=1, bos_id=2,
        unk_id=3, pad_piece="<pad>", user_defined_symbols=["<tool_call>", "<tools>"], minloglevel=2,
    )  # fmt: skip
    made = Tokenizer(model.getvalue())
    assert made.dummy_prefix and not tokenizer().dummy_prefix
    return made


TOKENIZERS = {"own": tokenizer, "v1": v1_tokenizer}


def cut(data: st.DataObject, sequence):
    """`sequence` in parts of random length, some of them empty."""
    at = data.draw(st.lists(st.integers(0, len(sequence)), max_size=12).map(sorted), label="cuts")
    return [sequence[a:b] for a, b in pairwise([0, *at, len(sequence)])]


def tokens(data: st.DataObject, text: str, made: Tokenizer) -> list[int]:
    """One of the many ways to write `text` in pieces, single bytes included."""
    rng, raw, ids, at = data.draw(st.randoms(use_true_random=False)), text.encode(), [], 0
    longest = max(map(len, made.pieces))
    known = {piece: i for i, piece in enumerate(made.pieces) if piece}
    while at < len(raw):
        fitting = [raw[at : at + n] for n in range(1, longest + 1) if raw[at : at + n] in known]
        ids.append(known[rng.choice(fitting)])
        at += len(made.pieces[ids[-1]])
    return ids


# --- text ---


@pytest.mark.parametrize("which", TOKENIZERS)
@given(st.data())
def test_pieces_of_any_ids_are_the_decoded_text(which, data):
    """T3: also of ids that are no UTF-8, with special ids between the bytes of a character."""
    made = TOKENIZERS[which]()
    byte = st.sampled_from([i for i, p in enumerate(made.pieces) if len(p) == 1 and p[0] > 127])
    space = st.sampled_from([i for i, p in enumerate(made.pieces) if p.startswith(b" ")])
    one = st.integers(0, 5) | byte | space | st.integers(0, made.vocab_size - 1)
    spelled = st.text(max_size=2).map(made.encode)  # whole characters, many of them in byte pieces
    ids = [i for part in data.draw(st.lists(one.map(lambda i: [i]) | spelled, max_size=15)) for i in part]
    pieces = TextPieces(made)
    for _ in range(2):  # the second text is not touched by the first
        parts = [pieces.push(p) for p in cut(data, ids)]
        assert "".join([*parts, pieces.flush()]) == made.decode(ids)


@pytest.mark.parametrize("which", TOKENIZERS)
@given(st.data(), st.text(st.characters(codec="utf-8")))
@example(None, " \u2581\u2581 a 🙂")
def test_a_character_comes_with_its_last_byte_and_nothing_is_replaced(which, data, text):
    made = TOKENIZERS[which]()
    ids = [made.pieces.index(bytes([b])) for b in (b" " * made.dummy_prefix + text.encode())]
    pieces, got = TextPieces(made), ""
    for n, token in enumerate(ids, 1 - made.dummy_prefix):
        got += pieces.push([token])
        assert got == text.encode()[:n].decode(errors="ignore")
    assert pieces.flush() == ""


# --- events ---


def feed(parts: list[str]) -> tuple[AnswerReader, list[list[Event]]]:
    reader = AnswerReader()
    return reader, [reader.push(p) for p in parts]


def told(events: list[list[Event]]) -> list[Event]:
    return [e for part in events for e in part if not isinstance(e, Text)]


def exact(events: list[Event]) -> str:
    """Equal only if the types are too: 1, 1.0 and True, 0.0 and -0.0."""
    return repr(events)


@st.composite
def written(draw) -> tuple[str, list[tuple[int, Event]]]:
    """An answer in any JSON spelling, and the events due with the place of the character that completes each.

    White space anywhere, keys in either order, `\\u` escapes, keys of arguments that repeat, numbers in any form.
    """
    text, due = "", []
    space = st.sampled_from(["", "", " ", "\n", "\t\r "])
    number = st.sampled_from(["0", "-0", "1e5", "-0.0", "12E-3", "1.50", "100000000000000000000", "7"])

    def put(part: str) -> None:
        nonlocal text
        text += part + draw(space)

    def spell(value) -> str:
        return json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))

    def last() -> int:  # place of the last character that is no white space
        return len(text.rstrip(" \n\t\r")) - 1

    put(draw(space) + "[")
    for index in range(draw(st.integers(0, 3))):
        put("," if index else "")
        name, arguments, held = draw(names), {}, []
        put("{")
        order = draw(st.permutations(["name", "arguments", *draw(st.sampled_from([[], ["other"]]))]))
        for i, member in enumerate(order):
            put("," if i else "")
            put(spell(member))
            put(":")
            if member == "name":
                put(spell(name))
                due += [(last(), CallOpened(index, name)), *((last(), e) for e in held)]
            elif member == "other":
                put(spell(draw(values)))
            else:
                put("{")
                for j in range(draw(st.integers(0, 3))):
                    put("," if j else "")
                    key = draw(st.sampled_from(["a", "b"]) | strings)
                    put(spell(key))
                    put(":")
                    raw = draw(number | values.map(spell))
                    ends_itself = raw[-1] in '"]}'
                    before = len(text)
                    put(raw)
                    # A number ends with what follows it: white space, or the comma or brace that is put next.
                    place = before + len(raw) - ends_itself
                    arguments[key] = json.loads(raw)
                    event = ArgumentFinished(index, key, arguments[key])
                    if "name" in order[:i]:
                        due.append((place, event))
                    else:
                        held.append(event)
                put("}")
        put("}")
        due.append((last(), CallFinished(index, Call(name, arguments))))
    put("]")
    return text, due


@given(written(), st.data())
def test_every_event_comes_with_its_last_character_wherever_the_text_is_cut(made, data):
    text, due = made
    reader, events = feed(list(text))
    assert all(e[0] == Text(c) for e, c in zip(events, text, strict=True))
    found = [(i, e) for i, part in enumerate(events) for e in part[1:]]
    assert exact(found) == exact(due)
    parts = cut(data, text)
    other, events = feed(parts)
    at = 0
    for part, got in zip(parts, events, strict=True):
        within = [e for place, e in due if at <= place < at + len(part)]
        assert exact(got) == exact([Text(part), *within] if part else [])
        at += len(part)
    calls = [e.call for _, e in due if isinstance(e, CallFinished)]
    assert exact(reader.finish()) == exact(other.finish()) == exact(calls) == exact(reader.calls)


@given(calls_of, st.data())
def test_ids_of_an_answer_in_any_tokenization_give_its_calls(calls, data):
    text = render_answer(calls)[0]
    ids = [4, *tokens(data, text, tokenizer()), 1]
    events = list(answer_events(tokenizer(), cut(data, ids)))
    assert "".join(e.text for e in events if isinstance(e, Text)) == text
    raws = json.loads(text)
    expected: list[Event] = []
    for i, raw in enumerate(raws):
        expected.append(CallOpened(i, raw["name"]))
        expected += [ArgumentFinished(i, k, v) for k, v in raw["arguments"].items()]
        expected.append(CallFinished(i, Call.from_json(raw)))
    expected.append(Finished(tuple(Call.from_json(r) for r in raws)))
    assert exact(told([events])) == exact(expected)


def test_answers_of_the_generator_token_by_token():
    for row in rows()[:40]:
        ids = tokenizer().encode(render_answer(row.calls)[0])
        *_, last = answer_events(tokenizer(), [[i] for i in ids])
        assert last == Finished(row.calls)


def test_the_example_of_an_answer_character_by_character():
    reader = AnswerReader()
    seen = ""
    moments = []
    for c in '[{"name":"set","arguments":{"x":-1e2,"to":"\\ud83d\\ude42"}}]':
        seen += c
        moments += [(seen, e) for e in reader.push(c)[1:]]
    call = Call("set", {"to": "🙂", "x": -100.0})
    assert moments == [
        ('[{"name":"set"', CallOpened(0, "set")),
        ('[{"name":"set","arguments":{"x":-1e2,', ArgumentFinished(0, "x", -100.0)),
        (seen[:-3], ArgumentFinished(0, "to", "🙂")),
        (seen[:-1], CallFinished(0, call)),
    ]
    assert reader.finish() == [call]


# --- garbage ---


def oracle(text: str) -> list[Call] | None:
    """The calls by the whole text at once; None where it holds none. NaN and infinities are no JSON."""

    def finite(raw: str) -> float:
        if not math.isfinite(float(raw)):
            raise ValueError(raw)
        return float(raw)

    try:
        raws = json.loads(text, parse_constant=finite, parse_float=finite)
        return [Call.from_json(raw) for raw in raws] if isinstance(raws, list) else None
    except ValueError:
        return None


@st.composite
def damaged(draw) -> str:
    text = draw(written())[0] if draw(st.booleans()) else render_answer(draw(calls_of))[0]
    for _ in range(draw(st.integers(1, 2))):
        a = draw(st.integers(0, len(text)))
        b = draw(st.sampled_from([a, min(a + 1, len(text)), len(text)]))
        text = (
            text[:a]
            + draw(st.sampled_from(["", *'[]{}",:\\ \n\t\x00\xa0\ud800', "1", "NaN", "null"]))
            + text[b:]
        )
    return text


_FORMS = st.recursive(
    st.sampled_from(
        ['"a"', '"b"', '""', '"{}"', '"{\\"x\\":1}"', '"{"', "{}", '{"x":1}', '{"y":[2],"y":3}', "null", "5", "[]"]
    ),
    lambda inner: st.lists(
        st.tuples(st.sampled_from(["name", "name", "arguments", "arguments", "parameters", "function", "x"]), inner),
        max_size=4,
    ).map(lambda pairs: "{" + ",".join(f'"{k}":{v}' for k, v in pairs) + "}"),
    max_leaves=8,
)  # fmt: skip
other_forms = st.lists(_FORMS, max_size=3).map(lambda parts: f"[{','.join(parts)}]")
"""Valid JSON in every form of a call that is admitted and many that are not, keys repeated."""

loose = st.text('[]{}",:\\u0e-.1 \nantrue\x00\ufeff', max_size=30) | st.text()


@given(damaged() | other_forms | loose, st.data())
@example('[{"name":"a","arguments":{}}]]', None)
@example('[{"name":"a","arguments":{"x":1e999}}]', None)
@example('[{"name":"a","arguments":{"x":' + "9" * 5000 + "}}]", None)
@example('[{"name":"a","arguments":{"x":' + "[" * 2000 + "1" + "]" * 2000 + "}}]", None)
@example('[{"name":"a","arguments":{"x":[1}}]', None)
@example('[{"name":"a","arguments":{"x":1,}}]', None)
@example('[{"name":"a",:{}}]', None)
@example('{"name":"a","arguments":{}}', None)
@example('\ufeff[{"name":"a","arguments":{}}]', None)
@example('[{"name":"a","arguments":{}},]', None)
@example('[{"name":"a"} {"name":"a"}]', None)
@example('[{name":"a"}]', None)
@example('[{"arguments":{"x":1},"name":"a","arguments":{"y":2}}]', None)
@example('[{"name":"a","name":"b","function":{"name":"a","arguments":"{\\"x\\":1}"}}]', None)
def test_any_text_is_read_without_error_and_finish_judges_as_the_whole_text_does(text, data):
    try:
        expected = oracle(text)
    except RecursionError:
        expected = None
    one, by_character = feed([text])
    two, by_part = feed(cut(data, text) if data else list(text))
    assert "".join(e.text for part in by_part for e in part if isinstance(e, Text)) == text
    assert exact(told(by_character)) == exact(told(by_part))
    events = told(by_part)
    finished = [e.call for e in events if isinstance(e, CallFinished)]
    assert [e.index for e in events if isinstance(e, CallFinished)] == list(range(len(finished)))
    assert exact(finished) == exact(one.calls) == exact(two.calls)
    if expected is None:
        with pytest.raises(SchemaError, match=f"complete calls before that: {len(finished)}$"):
            two.finish()
    else:
        assert exact(two.finish()) == exact(expected) == exact(finished)
    for i, call in enumerate(finished):  # who only keeps what was told last has the call
        own = [e for e in events if e.index == i]
        assert [e.name for e in own if isinstance(e, CallOpened)][-1] == call.name
        assert isinstance(own[0], CallOpened) and isinstance(own[-1], CallFinished)
        last = {e.name: e.value for e in own if isinstance(e, ArgumentFinished)}
        assert repr({k: last[k] for k in call.arguments}) == repr(call.arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the answer is not valid JSON: Expecting value at character 0; complete calls before that: 0"),
        ('[{"name":"a"},{"name":"b",,', r"at character 26; complete calls before that: 1"),
        (
            '[{"name":"a"}, {"name":""}]',
            r"call 1 of the answer, at character 15: call without a name.*that: 1",
        ),
        ('[{"name":"a"},3]', r"call 1 of the answer, at character 14: a call must be an object"),
        ('"sorry"', "must be a list of calls, not str"),
    ],
)
def test_errors_name_the_place_the_reason_and_what_was_read(text, message):
    for parts in ([text], list(text)):
        with pytest.raises(SchemaError, match=message):
            feed(parts)[0].finish()


def test_ids_of_garbage_give_their_text_before_the_error():
    found = []
    with pytest.raises(SchemaError, match="not valid JSON: Expecting value at character 0"):
        for event in answer_events(tokenizer(), [[i] for i in tokenizer().encode("sorry, no")]):
            found.append(event)
    assert "".join(e.text for e in found) == "sorry, no"


@pytest.mark.parametrize(
    "text",
    [
        '[{"name":"a","arguments":{"x":"' + "é\\n" * 70_000 + '"}}]',
        "[" + '{"name":"a","arguments":{"x":[1,"b"]}},' * 5_000 + '{"name":"a"}]',
        "[" + " " * 200_000 + "]",
        '[{"name":"a","arguments":{"x":' + "[1," * 60_000,
        "no " * 70_000,
    ],
    ids=["string", "calls", "space", "nested", "garbage"],
)
def test_characters_one_by_one_take_time_linear_in_their_number(text, monkeypatch):
    """Two hundred thousand in well under a second; reading the text anew with each would take minutes."""
    # Loaded past the hook that checks the types of every call in tests, which takes most of the time.
    spec = importlib.util.spec_from_file_location("plain_stream", stream.__file__)
    assert spec is not None and spec.loader is not None
    plain = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "plain_stream", plain)
    spec.loader.exec_module(plain)
    reader, start = plain.AnswerReader(), time.process_time()
    for c in text:
        reader.push(c)
    assert time.process_time() - start < 3
