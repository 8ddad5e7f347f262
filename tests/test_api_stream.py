"""Answers as they are written, what is known about them, and Python functions that carry them out."""

from __future__ import annotations

import copy
import datetime
import enum
import itertools
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

from needlex.api import AnswerError, Calls, Ran, ToolCaller
from needlex.data.encode import encode_query
from needlex.data.tokenizer import EOS
from needlex.decode import loop
from needlex.decode.engine import PROMPT
from needlex.decode.loop import GREEDY, Sampling
from needlex.decode.predict import Prediction, call_log_probabilities
from needlex.decode.predict import stream as ids_of
from needlex.decode.stream import ArgumentFinished, CallFinished, CallOpened, Finished, Text
from needlex.loading import load
from needlex.schema import Call, Example, SchemaError, parse_tools
from tests.train.runs import TOOLS, trained

QUERY = "ring at den 3"
DRAWN = [Sampling(1.5, seed=s) for s in range(1, 7)]
"""After six updates the most likely answer is none; these have calls with long and odd arguments."""


@cache
def loaded() -> ToolCaller:
    return load(trained())


@pytest.fixture(scope="module")
def model() -> ToolCaller:
    return loaded()


def writes(monkeypatch, text: str, error: str | None = None, between=lambda: None) -> None:
    """Make the model write `text` token by token, with `between()` before each but the first."""

    def stream(engine, tokenizer, *_):
        ids = tokenizer.encode(text)
        for i, token in enumerate(ids):
            if i:
                between()
            yield [token]
        yield Prediction(text, error, -1.0, tokens=len(ids))

    monkeypatch.setattr("needlex.api.stream", stream)


@pytest.fixture
def steps(monkeypatch) -> list[int]:
    """Grows by one with every step of the engine."""
    taken, advance = [], loop._advance

    def counted(*args):
        taken.append(1)
        return advance(*args)

    monkeypatch.setattr(loop, "_advance", counted)
    return taken


def spelled(events: list[Any]) -> list[Call]:
    """The calls as told by their parts alone."""
    calls: list[Call] = []
    arguments: dict[str, Any] = {}
    for event in events:
        match event:
            case CallOpened(index, name):
                assert index == len(calls)
                arguments = {}
                opened = name
            case ArgumentFinished(index, name, value):
                assert index == len(calls)
                arguments[name] = value
            case CallFinished(index, call):
                assert index == len(calls) and call == Call(opened, arguments)
                calls.append(call)
    return calls


@pytest.mark.parametrize("sampling", [GREEDY, *DRAWN], ids=lambda s: s.seed)
def test_a_stream_tells_what_a_call_gives(model, sampling):
    found = model.call(QUERY, TOOLS, sampling=sampling)
    events = list(model.stream(QUERY, TOOLS, sampling=sampling))
    assert "".join(e.text for e in events if isinstance(e, Text)) == found.text
    assert events[-1] == Finished(tuple(found)) and sum(isinstance(e, Finished) for e in events) == 1
    assert spelled(events) == found
    (row,) = model.predict([Example(QUERY, parse_tools(TOOLS), ())], sampling=sampling)
    assert (row.text, row.error) == (found.text, None)


def test_the_drawn_answers_have_calls(model):
    """What the tests here stand on."""
    counts = [len(model.call(QUERY, TOOLS, sampling=s)) for s in DRAWN]
    assert sum(counts) >= 3


def test_an_event_comes_as_soon_as_its_step(model, steps):
    sampling = next(s for s in DRAWN if model.call(QUERY, TOOLS, sampling=s))
    total = len(steps)
    model.call(QUERY, TOOLS, sampling=sampling)
    total = len(steps) - total
    steps.clear()
    seen = [(type(e), len(steps)) for e in model.stream(QUERY, TOOLS, sampling=sampling)]
    texts = [at for kind, at in seen if kind is Text]
    assert texts[0] <= 1 < 5 < total == len(steps)
    assert all(a < b for a, b in itertools.pairwise(texts))
    opened = next(at for kind, at in seen if kind is CallOpened)
    assert opened < next(at for kind, at in seen if kind is CallFinished)


def test_nothing_is_computed_before_the_first_event_is_asked_for(model, steps):
    events = model.stream(QUERY, TOOLS)
    assert not steps
    next(events)
    assert steps


def test_streams_that_are_left_or_mixed_disturb_nobody(model):
    alone = [list(model.stream(QUERY, TOOLS, sampling=s)) for s in DRAWN[:3]]
    for count in (1, 3, 6):
        events = model.stream(QUERY, TOOLS, sampling=DRAWN[1])
        assert list(itertools.islice(events, count)) == alone[1][:count]
        events.close()
        assert list(events) == []
        assert list(model.stream(QUERY, TOOLS, sampling=DRAWN[0])) == alone[0]
    mixed = [[], [], []]
    streams = [model.stream(QUERY, TOOLS, sampling=s) for s in DRAWN[:3]]
    for row in itertools.zip_longest(*streams):
        for told, event in zip(mixed, row, strict=True):
            told += [event] if event is not None else []
    assert mixed == alone


def test_probabilities_are_those_of_one_full_pass(model, monkeypatch):
    """The whole answer, and each call: of every token the log-probability that a pass without caches gives."""
    written: list[int] = []

    def recorded(*args):
        for found in ids_of(*args):
            written.extend([] if isinstance(found, Prediction) else found)
            yield found

    monkeypatch.setattr("needlex.api.stream", recorded)
    tools = parse_tools(TOOLS)
    encoder = encode_query(QUERY, tools, model.tokenizer, model.render, model.max_encoder)
    for sampling in (GREEDY, *DRAWN):
        written.clear()
        found = model.call(QUERY, tools, sampling=sampling)
        targets = np.array([*written, EOS])
        decoder = np.zeros(192, np.int32)  # one shape for all
        decoder[: len(targets) + 1] = [*PROMPT, *written]
        logits = np.asarray(model.logits(encoder, decoder), np.float64)[1 : len(targets) + 1]
        scores = logits[np.arange(len(targets)), targets] - np.logaddexp.reduce(logits, axis=1)
        assert found.log_probability == pytest.approx(scores.sum(), rel=1e-4)
        assert len(found.log_probabilities) == len(found)
        assert found.log_probability - 1e-6 <= sum(found.log_probabilities) <= 0
        # What belongs to no call: the tokens that lie in the brackets and commas around them altogether.
        raw, outside, depth = found.text.encode(), [], 0
        quoted = False
        for i, byte in enumerate(raw):
            char = chr(byte)
            if char == '"' and raw[:i][::-1].split(b'"')[0].count(b"\\") == 0:
                quoted = not quoted
            depth += 0 if quoted else (char == "{") - (char == "}")
            outside.append(depth == 0 and char in "[],")
        at, rest = 0, float(scores[-1])
        for token, score in zip(written, scores, strict=False):
            size = len(model.tokenizer.pieces[token])
            rest += score if all(outside[at : at + size]) else 0
            at += size
        if b"\\" not in raw:
            assert sum(found.log_probabilities) == pytest.approx(scores.sum() - rest, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("broken", [b"\xff\xfe", b"\xe3\x81", b"\xf0\x9f\x98", "é".encode()])
def test_broken_characters_move_no_probability_to_another_call(broken):
    calls = [b'{"name":"a","arguments":{"x":"' + broken + b'"}}', b'{"name":"b","arguments":{}}']
    raw = b"[" + b",".join(calls) + b"]"
    pieces = [raw[i : i + 1] for i in range(len(raw))]
    text = raw.decode(errors="replace")
    assert call_log_probabilities(text, pieces, [1.0] * len(raw)) == tuple(len(c) for c in calls)


def test_an_answer_nested_without_end_has_no_probabilities_of_calls():
    text = '[{"name":"a","arguments":{"x":' + "[" * 100_000
    assert call_log_probabilities(text, [text.encode()], [-1.0]) == ()


def test_calls_are_a_list_that_keeps_what_it_knows(model):
    found = model.call(QUERY, TOOLS, sampling=DRAWN[0])
    assert isinstance(found, list) and found == list(found) and found != [*found, Call("stop")]
    assert found.tools == ("dim", "ring", "stop") and found.note is None
    for other in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert type(other) is Calls and other == found and vars(other) == vars(found)


def test_the_same_seed_gives_the_same_answer_and_another_another(model):
    texts = [model.call(QUERY, TOOLS, sampling=s).text for s in DRAWN]
    assert texts == [model.call(QUERY, TOOLS, sampling=s).text for s in DRAWN]
    assert len(set(texts)) > 3
    greedy = {model.call(QUERY, TOOLS, sampling=Sampling(0.0, seed=s)).text for s in (0, 1)}
    assert greedy == {model.call(QUERY, TOOLS).text}


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("", None, "not valid JSON"),  # ended at once
        ("[]", "unfinished: no end within 2 tokens", "unfinished"),  # complete, but who knows
        ('[{"name":"ring","arguments":{"at":"den"}},{"name":', None, "complete calls before that: 1"),
        ('[{"name":"ring","arguments":{"at":"den"}},7]', None, "call 1 of the answer"),
    ],
)
def test_a_bad_answer_is_the_same_error_everywhere_and_runs_nothing(model, monkeypatch, text, error, why):
    writes(monkeypatch, text, error)
    rang: list[str] = []

    def ring(at: str):
        rang.append(at)

    told = []
    raised = []
    with pytest.raises(AnswerError, match=why) as e:
        model.call(QUERY, TOOLS)
    raised.append(e.value)
    with pytest.raises(AnswerError) as e:
        for event in model.stream(QUERY, TOOLS):
            told.append(event)
    raised.append(e.value)
    with pytest.raises(AnswerError) as e:
        model.run(QUERY, ring)
    raised.append(e.value)
    assert {(str(x), x.text) for x in raised} == {(str(raised[0]), text)}
    assert "".join(t.text for t in told if isinstance(t, Text)) == text
    assert not any(isinstance(t, Finished) for t in told) and rang == []
    again = pickle.loads(pickle.dumps(raised[0]))  # as from a worker process
    assert (str(again), again.text) == (str(raised[0]), text)


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


def test_functions_get_typed_arguments_in_the_order_of_the_calls(model, monkeypatch):
    done: list[Any] = []

    def dim(lamp: int, to: Level = Level.LOW) -> str:
        """Dim a lamp."""
        done.append((lamp, to))
        return f"{lamp} is {to.name}"

    async def wake(on: datetime.date) -> datetime.date:
        done.append(on)
        return on

    writes(
        monkeypatch,
        '[{"name":"wake","arguments":{"on":"2024-02-29"}},{"name":"dim","arguments":{"lamp":3,"to":"high"}},'
        '{"name":"dim","arguments":{"lamp":4}}]',
    )
    found = model.run(QUERY, [dim, wake])
    day = datetime.date(2024, 2, 29)
    assert done == [day, (3, Level.HIGH), (4, Level.LOW)]
    assert [r.result for r in found] == [day, "3 is HIGH", "4 is LOW"]
    assert [r.call for r in found] == found.answer and found.answer.tools == ("dim", "wake")


@pytest.mark.parametrize("sampling", DRAWN, ids=lambda s: s.seed)
def test_what_runs_is_what_a_call_with_the_definitions_gives(model, sampling):
    done: list[Call] = []

    def dim(lamp: int, to: int):
        assert type(lamp) is type(to) is int
        done.append(Call("dim", {"lamp": lamp, "to": to}))

    def ring(at: str):
        done.append(Call("ring", {"at": at}))

    def stop():
        done.append(Call("stop"))

    found = model.run(QUERY, iter([dim, ring, stop]), sampling=sampling)
    wanted = model.call(QUERY, [dim, ring, stop], sampling=sampling)
    assert done == wanted == found.answer and found == [Ran(c, None) for c in wanted]


def test_what_a_function_raises_names_the_call(model, monkeypatch):
    def ring(at: str):
        if at == "attic":
            raise KeyError(at)

    def stop():
        raise AssertionError("after the failure")

    writes(
        monkeypatch,
        '[{"name":"ring","arguments":{"at":"den"}},{"name":"ring","arguments":{"at":"attic"}},'
        '{"name":"stop","arguments":{}}]',
    )
    with pytest.raises(KeyError, match="attic") as e:
        model.run(QUERY, [ring, stop])
    assert e.value.__notes__ == ["in ring({'at': 'attic'}); calls carried out before: 1"]


def test_what_cannot_run_is_refused_before_the_model_is_asked(model, monkeypatch):
    def ring(at: str):
        raise AssertionError("carried out")

    first = ring

    def ring(at: str):  # reads the same: which of the two would a call mean?
        raise AssertionError("carried out")

    monkeypatch.setattr("needlex.api.stream", lambda *_: pytest.fail("the model was asked"))
    with pytest.raises(SchemaError, match="two functions are called 'ring'"):
        model.run(QUERY, [first, ring])
    with pytest.raises(SchemaError, match=r"\{'name': 'stop'\} is no function; `call` takes definitions"):
        model.run(QUERY, [ring, {"name": "stop"}])
    with pytest.raises(SchemaError, match="no tools"):
        model.run(QUERY, [])
    with pytest.raises(SchemaError, match="lambda has no name"):
        model.run(QUERY, lambda at: at)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="raise max_new_tokens"):
        model.run(QUERY, ring, max_new_tokens=1)
    assert len(model.run(QUERY, [ring, ring], max_new_tokens=2)) == 0  # twice the same is no question


def test_a_call_compiles_nothing_new_the_second_time(model):
    model.call(QUERY, TOOLS)
    before = [f._cache_size() for f in (loop._begin, loop._advance, loop._choose)]
    model.call("dim lamp 4 to 2", TOOLS)
    list(model.stream(QUERY, TOOLS[:2]))
    assert [f._cache_size() for f in (loop._begin, loop._advance, loop._choose)] == before
