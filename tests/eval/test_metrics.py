"""Figures of hand-worked rows; texts that are no answer; reasons of failures; the report."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.eval import Report, failures, parse_calls, score
from needlex.eval.metrics import MAX_DEPTH
from needlex.schema import Call, Example, Parameter, Tool

LIGHT = Tool("set_light", parameters=(Parameter("area"), Parameter("brightness"), Parameter("mode")))
TIME = Tool("get_time")
SEND = Tool("send", parameters=(Parameter("to"), Parameter("text")))
TIMECALL = Call("get_time")


def row(*calls: Call, tools: tuple[Tool, ...] = (LIGHT, TIME, SEND), source: str = "s") -> Example:
    return Example("do it", tools, calls, source)


def call(name: str, **arguments) -> Call:
    return Call(name, arguments)


def light(**arguments) -> Call:
    return Call("set_light", arguments)


def figures(**named):
    return named


def answer(*calls: Call) -> str:
    return json.dumps([c.to_json() for c in calls])


# --- what parses ---------------------------------------------------------------------------------------


def test_parses_calls_with_quotes_unicode_and_white_space():
    text = ' [ {"arguments": {"to": "Zoë \\"Z\\"", "n": [1, {"x": null}]}, "name": "send"} ]\n'
    assert parse_calls(text) == [Call("send", {"to": 'Zoë "Z"', "n": [1, {"x": None}]})]
    assert parse_calls("[]") == []


GARBAGE = [
    "", " ", "null", "true", "7", '"[]"', "{}", "[1, 2]", "[null]", "[[]]", '["get_time"]', "[{}]",
    "[", "[]]", "[] []",
    '{"name": "get_time", "arguments": {}}',  # an object, not a list
    '[{"name": "get_time"}]',
    '[{"arguments": {}}]',
    '[{"name": "", "arguments": {}}]',
    '[{"name": 3, "arguments": {}}]',
    '[{"name": ["get_time"], "arguments": {}}]',
    '[{"name": "get_time", "arguments": null}]',
    '[{"name": "get_time", "arguments": []}]',
    '[{"name": "get_time", "arguments": "{}"}]',
    '[{"name": "get_time", "arguments": {}, "id": 1}]',
    '[{"name": "get_time", "arguments": {}}, 5]',
    '[{"name": "get_time", "arguments": {}},]',
    "[{'name': 'get_time', 'arguments': {}}]",
    '[{"name": "send", "arguments": {"to": "a", "to": "b"}}]',
    '[{"name": "send", "name": "send", "arguments": {}}]',
    '[{"name": "send", "arguments": {"to": NaN}}]',
    '[{"name": "send", "arguments": {"to": -Infinity}}]',
    '[{"name": "send", "arguments": {"to": 1e999}}]',
    '[{"name": "send", "arguments": {"to": 3.5.5}}]',
    '[{"name": "send", "arguments": {"to": 01}}]',
    '[{"name": "send", "arguments": {"to": "he said "hi""}}]',
    '[{"name": "send", "arguments": {"to": "\\x"}}]',
    '[{"name": "send", "arguments": {"to": "line\nbreak"}}]',
    '[{"name": "send", "arguments": {"to": ' + "1" * 5000 + "}}]",
    "[" * 100_000,
    "[" * 500 + "]" * 500,
    "\ufeff[]",
    "\x00\ufffd",
]  # fmt: skip


@pytest.mark.parametrize("text", GARBAGE)
def test_garbage_does_not_parse_and_counts_against_the_row(text):
    assert parse_calls(text) is None
    report = score([row(TIMECALL), row()], [text, text])
    assert (report.parse_rate, report.exact_match, report.exact_order) == (0.0, 0.0, 0.0)
    assert (report.name_recall, report.name_precision, report.name_f1, report.call_f1) == (
        0.0,
        None,
        0.0,
        0.0,
    )
    assert report.no_call == {"rows": 1, "false_call_rate": 0.0, "correct": 0.0}
    assert report.with_calls == {"rows": 1, "missed_call_rate": 1.0}
    assert [f["reason"] for f in failures([row(TIMECALL), row()], [text, text], 9)] == ["unparsable"] * 2


def test_nesting_is_counted_from_the_outer_list():
    def nested(levels: int) -> str:  # the list, the call and the arguments are three levels
        return '[{"name": "f", "arguments": {"x": ' + "[" * (levels - 3) + "1" + "]" * (levels - 3) + "}}]"

    assert parse_calls(nested(MAX_DEPTH)) is not None
    assert parse_calls(nested(MAX_DEPTH + 1)) is None


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=30), st.text('[]{}",: \\nameargutso1', max_size=40)))
def test_any_text_is_scored_and_never_raises(text):
    example = row(light(area="hall"))
    report = score([example], [text])
    parsed = parse_calls(text)
    assert report.parse_rate == (0.0 if parsed is None else 1.0)
    assert len(failures([example], [text], 1)) == 1


# --- hand-worked figures -------------------------------------------------------------------------------

CASES = {
    "right": (
        [row(light(area="hall", brightness=50))],
        [answer(light(brightness=50.0, area="hall"))],
        figures(
            rows=1, parse_rate=1, name_precision=1, name_recall=1, name_f1=1, call_precision=1, call_recall=1,
            call_f1=1, exact_match=1, exact_order=1, argument_accuracy=1, value_accuracy=1,
            missing_parameters=0, hallucinated_parameters=0, unknown_tools=0,
            no_call={"rows": 0, "false_call_rate": None, "correct": None},
            with_calls={"rows": 1, "missed_call_rate": 0},
        ),
    ),
    # 3 expected arguments in the pair: area equal, brightness wrong, mode absent; `room` is not declared.
    "half right": (
        [row(light(area="hall", brightness=50, mode="auto"))],
        [answer(light(area="hall", brightness=5, room="hall"))],
        figures(
            name_f1=1, call_precision=0, call_recall=0, call_f1=0, exact_match=0, argument_accuracy=1 / 3,
            value_accuracy=1 / 2, missing_parameters=1 / 3, hallucinated_parameters=1 / 3, unknown_tools=0,
        ),
    ),
    # A declared argument that was not asked for is wrong, but not hallucinated.
    "declared but not expected": (
        [row(light(area="hall"))],
        [answer(light(area="hall", mode="auto"))],
        figures(call_f1=0, argument_accuracy=1, missing_parameters=0, hallucinated_parameters=0),
    ),
    # 3 expected and 4 predicted calls; names in both: set_light, send (get_time is expected once).
    "several calls": (
        [row(light(area="a"), Call("send", {"to": "x", "text": "y"}), light(area="b"))],
        [answer(TIMECALL, Call("send", {"to": "x"}), light(area="b"), Call("dance", {"to": 1, "fro": 2}))],
        figures(
            name_precision=2 / 4, name_recall=2 / 3, name_f1=4 / 7, call_precision=1 / 4, call_recall=1 / 3,
            call_f1=2 / 7, exact_match=0, argument_accuracy=2 / 3, value_accuracy=1, missing_parameters=1 / 3,
            hallucinated_parameters=0, unknown_tools=1 / 4,
        ),
    ),
    "order of calls": (
        [row(light(area="a"), TIMECALL)],
        [answer(TIMECALL, light(area="a"))],
        figures(exact_match=1, exact_order=0, call_f1=1),
    ),
    "the same call twice is not once": (
        [row(TIMECALL), row(TIMECALL, TIMECALL)],
        [answer(TIMECALL, TIMECALL), answer(TIMECALL)],
        figures(exact_match=0, name_precision=2 / 3, name_recall=2 / 3, call_f1=2 / 3),
    ),
    # Written first to last the pairs would agree on nothing; the crossed pairs agree on both areas.
    "pairs by agreement": (
        [row(light(area="a", brightness=1), light(area="b", brightness=2))],
        [answer(light(area="b", brightness=9), light(area="a", brightness=8))],
        figures(name_f1=1, call_f1=0, argument_accuracy=2 / 4, value_accuracy=2 / 4, missing_parameters=0),
    ),
    # Pairing first with first (2 equal arguments) leaves a pair with 1; the crossed pairs have 2 + 2.
    "pairs by total agreement": (
        [row(call("f", a=1, b=1, c=1), call("f", a=1, b=1, c=2), tools=(Tool("f"),))],
        [answer(call("f", a=1, b=1, c=3), call("f", a=1, b=0, c=1))],
        figures(argument_accuracy=4 / 6, value_accuracy=4 / 6),
    ),
    "fewest expected arguments decide a tie": (
        [row(light(area="a"), light(area="a", mode="auto"))],
        [answer(light(area="a"))],
        figures(argument_accuracy=1, missing_parameters=0, call_recall=1 / 2, name_recall=1 / 2),
    ),
    "types": (
        [row(light(area=v)) for v in (True, 1, "1", None, [1])],
        [answer(light(area=v)) for v in (1, True, 1, False, 1)],
        figures(name_f1=1, exact_match=0, value_accuracy=0),
    ),
    "numbers, key order, list order": (
        [row(light(area={"x": [1, 2], "y": 2**53})), row(light(area=[1, 2])), row(light(area=-0.0))],
        [
            '[{"arguments": {"area": {"y": 9007199254740992.0, "x": [1.0, 2e0]}}, "name": "set_light"}]',
            answer(light(area=[2, 1])),
            answer(light(area=0)),
        ],
        figures(exact_match=2 / 3, value_accuracy=2 / 3),
    ),
    # Of four rows without a call: right, called twice, unparsable, called an unknown tool.
    "no-call rows": (
        [row(), row(), row(), row(), row(TIMECALL)],
        ["[]", answer(TIMECALL, TIMECALL), "nothing", answer(Call("dance")), answer(TIMECALL)],
        figures(
            parse_rate=4 / 5, name_precision=1 / 4, name_recall=1, name_f1=2 / 5, call_precision=1 / 4,
            call_f1=2 / 5, exact_match=2 / 5, unknown_tools=1 / 4, hallucinated_parameters=None,
            argument_accuracy=None, value_accuracy=None, missing_parameters=None,
            no_call={"rows": 4, "false_call_rate": 2 / 4, "correct": 1 / 4},
            with_calls={"rows": 1, "missed_call_rate": 0},
        ),
    ),
    "missed calls": (
        [row(TIMECALL), row(TIMECALL), row(TIMECALL), row(TIMECALL)],
        ["[]", "[", answer(light(area=1)), answer(TIMECALL)],
        figures(
            with_calls={"rows": 4, "missed_call_rate": 2 / 4}, name_precision=1 / 2, name_recall=1 / 4,
            no_call={"rows": 0, "false_call_rate": None, "correct": None},
        ),
    ),
    "only silence": (
        [row(), row()],
        ["[]", "[]"],
        figures(
            parse_rate=1, exact_match=1, exact_order=1, name_precision=None, name_recall=None, name_f1=None,
            call_precision=None, call_recall=None, call_f1=None, unknown_tools=None, argument_accuracy=None,
            hallucinated_parameters=None, with_calls={"rows": 0, "missed_call_rate": None},
        ),
    ),
    "no rows": (
        [],
        [],
        figures(
            rows=0, parse_rate=None, exact_match=None, exact_order=None, name_f1=None, call_f1=None,
            breakdown={"tools": {}, "call_type": {}, "source": {}}, errors={"too_long": 0},
        ),
    ),
    "paired, but nothing in common": (
        [row(light(area="a"))],
        [answer(light(mode="auto"))],
        figures(argument_accuracy=0, missing_parameters=1, value_accuracy=None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_hand_worked(name):
    examples, predictions, expected = CASES[name]
    found = score(examples, predictions).to_json()
    assert {key: found[key] for key in expected} == expected


def test_breakdown_holds_each_row_once_under_its_own_value():
    few = (LIGHT, TIME)
    examples = [row(tools=few), row(TIMECALL, tools=few), row(TIMECALL, source=""), row(TIMECALL, TIMECALL)]
    found = score(examples, ["[]", "[", answer(TIMECALL), answer(TIMECALL)]).breakdown
    bad = {"rows": 1, "parse_rate": 0.0, "name_f1": 0.0, "call_f1": 0.0, "exact_match": 0.0}
    assert found["tools"] == {
        "2": {"rows": 2, "parse_rate": 0.5, "name_f1": 0.0, "call_f1": 0.0, "exact_match": 0.5},
        "3": {"rows": 2, "parse_rate": 1.0, "name_f1": 4 / 5, "call_f1": 4 / 5, "exact_match": 0.5},
    }
    assert found["call_type"] == {
        "none": {"rows": 1, "parse_rate": 1.0, "name_f1": None, "call_f1": None, "exact_match": 1.0},
        "single": {"rows": 2, "parse_rate": 0.5, "name_f1": 2 / 3, "call_f1": 2 / 3, "exact_match": 0.5},
        "multi": {"rows": 1, "parse_rate": 1.0, "name_f1": 2 / 3, "call_f1": 2 / 3, "exact_match": 0.0},
    }
    assert found["source"]["unnamed"]["rows"] == 1
    assert found["source"]["s"]["rows"] == 3
    assert score(examples[1:2], ["["]).breakdown["tools"] == {"2": bad}


def test_breakdown_by_tools_is_sorted_by_number():
    examples = [row(tools=tuple(Tool(f"t{i}") for i in range(n))) for n in (10, 9, 2)]
    assert list(score(examples, ["[]"] * 3).breakdown["tools"]) == ["2", "9", "10"]


def test_rows_with_an_error_count_as_failures_whatever_their_text():
    examples = [row(), row(TIMECALL), row(TIMECALL)]
    texts = ["[]", answer(TIMECALL), answer(TIMECALL)]
    errors = ["too_long: 90 tokens, the limit is 64", None, "too_long: 91 tokens"]
    report = score(examples, texts, errors)
    assert report.errors == {"too_long": 2}
    assert (report.rows, report.parse_rate, report.exact_match, report.name_recall) == (
        3,
        1 / 3,
        1 / 3,
        1 / 2,
    )
    assert [f["reason"] for f in failures(examples, texts, 5, errors)] == [errors[0], errors[2]]
    assert score(examples, texts).errors == {"too_long": 0}


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="2 examples, 1 predictions"):
        score([row(), row()], ["[]"])
    with pytest.raises(ValueError, match="2 errors"):
        failures([row()], ["[]"], 1, [None, None])


# --- reasons -------------------------------------------------------------------------------------------

REASONS = [
    (row(TIMECALL), "[]", "missed_call: get_time"),
    (row(), answer(TIMECALL), "false_call: get_time"),
    (row(TIMECALL), answer(Call("dance")), "unknown_tool: dance"),
    (row(TIMECALL), answer(light(area=1)), "wrong_tool: set_light instead of get_time"),
    (row(TIMECALL), answer(TIMECALL, TIMECALL), "wrong_tool: get_time, get_time instead of get_time"),
    (
        row(light(area="Zoë", brightness=1)),
        answer(light(area="Zoe", mode="x", room=1)),
        'arguments: set_light.area is "Zoe" instead of "Zoë", set_light.brightness is missing, '
        "set_light.mode is not expected, set_light.room is not declared",
    ),
]


@pytest.mark.parametrize(("example", "text", "reason"), REASONS)
def test_a_failure_says_why(example, text, reason):
    (failure,) = failures([example], [text], 3)
    assert failure["reason"] == reason
    assert failure["query"] == "do it"
    assert failure["tools"] == ["set_light", "get_time", "send"]
    assert failure["predicted"] == text
    assert parse_calls(failure["expected"]) == list(example.calls)


def test_failures_stop_at_the_limit_and_keep_the_order():
    examples = [row(TIMECALL, source=str(i)) for i in range(6)]
    texts = ["[]", answer(TIMECALL), "[", "[]", "x", "[]"]
    assert [f["predicted"] for f in failures(examples, texts, 3)] == ["[]", "[", "[]"]
    assert failures(examples, texts, 0) == []


# --- the report ----------------------------------------------------------------------------------------


def test_json_of_a_report_is_plain_and_independent():
    report = score([row(TIMECALL), row()], [answer(TIMECALL), "x"])
    first = report.to_json()
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    first["breakdown"]["source"]["s"]["rows"] = 99
    first["counts"].clear()
    assert isinstance(report, Report)
    assert report.to_json()["breakdown"]["source"]["s"]["rows"] == 2
    assert report.to_json()["counts"]["rows"] == 2


def test_table_shows_shares_and_dashes_in_aligned_columns():
    lines = score([row(), row(light(area="a"))], ["[]", answer(light(area="b"))]).table().splitlines()
    assert lines[0].split() == ["rows", "parse", "name", "F1", "call", "F1", "exact"]
    assert [line.split() for line in lines[1:]] == [
        ["tools", "3", "2", "1.000", "1.000", "0.000", "0.500"],
        ["call_type", "none", "1", "1.000", "-", "-", "1.000"],
        ["call_type", "single", "1", "1.000", "1.000", "0.000", "0.000"],
        ["source", "s", "2", "1.000", "1.000", "0.000", "0.500"],
    ]
    assert len({len(line) for line in lines}) == 1
