"""The embedded generator: deterministic rows, valid answers, held-out sets that are held out."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.data.embedded.catalogue import SHARED_SLOTS, catalogue
from needlex.data.embedded.held_out import held_out_templates, query_held_out, value_held_out
from needlex.data.embedded.pools import Number, Words, spell
from needlex.data.embedded.source import read_templates
from needlex.data.embedded.templates import Draw, compile_expression
from needlex.data.embedded.values import pools
from needlex.data.generate import SPLITS, GenerateConfig, generate
from needlex.generate_data import main
from needlex.schema import Example, Tool

ROWS, HELD_OUT = 3000, 150
PYTHON_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list}


@cache
def rows(split: str, seed: int = 0) -> tuple[Example, ...]:
    return tuple(generate(GenerateConfig(rows=ROWS, held_out_rows=HELD_OUT, seed=seed), split))


def spoken(query: str) -> str:
    return re.sub(r"\W+", " ", query.lower()).strip()


def open_parameters(example: Example):
    """(call, parameter, value) for each string, or string of a list, that no enum restricts."""
    for call in example.calls:
        tool = next(t for t in example.tools if t.name == call.name)
        for parameter in tool.parameters:
            value = call.arguments.get(parameter.name)
            if "enum" not in parameter.schema:
                for text in value if isinstance(value, list) else [value]:
                    if isinstance(text, str):
                        yield call, parameter.name, text


# Determinism -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
def test_same_seed_same_rows_other_seed_other_rows(split):
    config = GenerateConfig(rows=60, held_out_rows=60, seed=3)
    first = [e.to_json() for e in generate(config, split)]
    assert first == [e.to_json() for e in generate(config, split)]
    other = generate(GenerateConfig(rows=60, held_out_rows=60, seed=4), split)
    assert len({e.query for e in other} & {e["query"] for e in first}) < 30


def test_more_rows_begin_with_the_fewer():
    few, many = (generate(GenerateConfig(rows=n, seed=1), "train") for n in (50, 120))
    assert many[:50] == few


def test_rows_do_not_depend_on_the_process():
    code = (
        "from needlex.data.generate import *; "
        "print(hash('milk'), [e.to_json() for e in generate(GenerateConfig(rows=40), 'train')])"
    )
    outputs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        outputs.append(done.stdout.split(" ", 1))
    assert outputs[0][0] != outputs[1][0]
    assert outputs[0][1] == outputs[1][1]


def test_values_and_queries_are_held_out_by_their_letters():
    # Golden: another hash would leak values into the training sets that models were trained on.
    values = ("milk", "bread", "kitchen", "attic", "Paris", "Osaka", "jazz", "oat milk", "ramen", "canopy")
    assert [v for v in values if value_held_out(v)] == ["attic", "Osaka"]
    assert all(value_held_out(v.upper()) == value_held_out(v) for v in values)
    queries = [f"turn on the lamp number {n}" for n in range(40)]
    assert [n for n, q in enumerate(queries) if query_held_out(q)] == [14, 19, 24]
    assert all(
        query_held_out(q) == query_held_out(f"Turn on the LAMP, number {n}!") for n, q in enumerate(queries)
    )


# Held-out sets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [s for s in SPLITS if s != "train"])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_evaluation_query_occurs_in_training_of_any_seed(split, seed):
    train = {spoken(e.query) for e in rows("train", 0)} | {spoken(e.query) for e in rows("train", 1)}
    assert not train & {spoken(e.query) for e in rows(split, seed)}


@pytest.mark.parametrize("split", [s for s in SPLITS if s != "unseen_values"])
def test_held_out_values_never_occur_outside_their_split(split):
    held_out = {v.lower() for p in pools().values() if isinstance(p, Words) for v in p.unseen}
    for example in rows(split):
        for call, name, value in open_parameters(example):
            assert value.lower() not in held_out, (example.query, call.name, name)


def test_unseen_values_has_only_held_out_values_in_open_slots():
    held_out_kinds = Counter()
    exempt = re.compile(r"(date|time|check_in|number|phone|tracking|expression)")
    for example in rows("unseen_values"):
        if not example.calls:
            continue
        opened = [(c.name, n, v) for c, n, v in open_parameters(example) if not exempt.search(n)]
        for name, parameter, value in opened:
            assert value_held_out(value), (example.query, name, parameter)
            held_out_kinds[parameter] += 1
        assert all(any(o[0] == c.name for o in opened) for c in example.calls), example.query
    assert len(held_out_kinds) > 15


def test_unseen_templates_are_worded_as_training_never_is():
    book = catalogue()
    random, trained = Random(0), set()
    for source in book.sources.values():
        for template in itertools.chain.from_iterable(source.trained.values()):
            for _ in range(10):
                if draw := template.draw(random):
                    trained.add(draw.wording())
    unseen_texts = {t.text for s in book.sources.values() for g in s.unseen.values() for t in g}
    trained_texts = {
        (s.tool.name, t.text) for s in book.sources.values() for g in s.trained.values() for t in g
    }
    for name, source in book.sources.items():
        assert source.unseen, f"{name} has no held-out template"
        assert not {(name, t.text) for g in source.unseen.values() for t in g} & trained_texts
    share = len(unseen_texts) / (len(unseen_texts) + len(trained_texts))
    assert 0.07 < share < 0.2
    singles = [spoken(e.query) for e in rows("unseen_templates") if e.call_type == "single"]
    assert len(singles) > 90
    assert not {spoken(w) for w in trained if "{" not in w} & set(singles)


@given(st.sets(st.text("abc {}", min_size=1), max_size=40))
def test_held_out_templates_are_a_stable_small_part(texts):
    chosen = held_out_templates(sorted(texts))
    assert chosen == held_out_templates(sorted(texts, reverse=True))
    assert chosen <= texts
    assert len(chosen) <= len(texts) / 10 + 1 and (len(texts) < 5 or chosen)
    assert len(texts) > 1 or not chosen


# Answers ---------------------------------------------------------------------------------------------


def check_value(schema, value) -> bool:
    kind = schema["type"]
    if not isinstance(value, PYTHON_TYPES[kind]) or isinstance(value, bool) != (kind == "boolean"):
        return False
    if kind == "array":
        return bool(value) and all(check_value(schema["items"], v) for v in value)
    return "enum" not in schema or value in schema["enum"]


@pytest.mark.parametrize("split", SPLITS)
def test_every_answer_is_valid_for_its_tools(split):
    for example in rows(split):
        assert Example.from_json(example.to_json()) == example
        for call in example.calls:
            tool = next(t for t in example.tools if t.name == call.name)
            schemas = {p.name: p.schema for p in tool.parameters}
            for name, value in call.arguments.items():
                assert check_value(schemas[name], value), (example.query, call)
            missing = {p.name for p in tool.parameters if p.required} - set(call.arguments)
            assert not missing, (example.query, call)


@pytest.mark.parametrize("split", SPLITS)
def test_strings_are_copied_from_the_query_letter_by_letter(split):
    for example in rows(split):
        for call, name, value in open_parameters(example):
            assert value in example.query, (example.query, call.name, name)


def test_numbers_of_the_answer_are_said_in_the_query():
    for example in rows("train"):
        query = f" {spoken(example.query.replace('.', 'dot'))} "
        for call in example.calls:
            for name, value in call.arguments.items():
                if isinstance(value, bool) or not isinstance(value, (int, float)):
                    continue
                texts = {str(value).replace(".", "dot")} | (
                    {spell(value)} if isinstance(value, int) else set()
                )
                implied = (name == "brightness" and value in (1, 100)) or name == "color_temperature"
                half = value == 30 and "half" in query
                said = any(re.search(rf"(?<![a-z0-9]){t}(?![0-9])", query) for t in texts)
                assert said or implied or half, (example.query, call)


def test_calls_are_in_the_order_of_the_query():
    checked = 0
    for example in rows("train"):
        if example.call_type != "multi":
            continue
        values = [
            [v for c, _, v in open_parameters(Example(example.query, example.tools, (call,)))]
            for call in example.calls
        ]
        for a, b in itertools.pairwise(values):
            if a and b and not set(a) & set(b) and all(example.query.count(v) == 1 for v in a + b):
                checked += 1
                assert min(map(example.query.find, a)) < max(map(example.query.find, b)), example.query
    assert checked > 100


def test_no_call_repeats_and_no_row_without_a_call_offers_the_missing_tool():
    book = catalogue()
    for example in rows("train"):
        assert len({json.dumps(c.to_json(), sort_keys=True) for c in example.calls}) == len(example.calls)
        if example.source.startswith("embedded/near_miss/"):
            missing = example.source.rsplit("/", 1)[1]
            offered = {t.name for t in example.tools}
            assert missing not in offered and not offered & book.stand_ins[missing]


def test_rivals_are_never_offered_together():
    rivals = catalogue().rivals
    for example in rows("train"):
        names = {t.name for t in example.tools}
        assert len(names) == len(example.tools)
        assert not any(rivals[n] & names for n in names)


# Shares ----------------------------------------------------------------------------------------------


def test_shares_of_calls_and_of_numbers_of_tools():
    config = GenerateConfig()
    kinds = Counter(e.call_type for e in rows("train"))
    # Three standard deviations of a binomial of 3000 rows are at most 0.028.
    assert kinds["none"] / ROWS == pytest.approx(config.none_share, abs=0.02)
    assert kinds["multi"] / ROWS == pytest.approx(config.multi_share, abs=0.02)
    tools = Counter(len(e.tools) for e in rows("train"))
    assert sorted(tools) == list(range(1, 11))
    for count, weight in enumerate(config.tool_weights, start=1):
        assert tools[count] / ROWS == pytest.approx(weight / sum(config.tool_weights), abs=0.028)


def test_shares_follow_the_config():
    only_none = generate(GenerateConfig(rows=100, none_share=1.0, multi_share=0.0), "train")
    only_multi = generate(GenerateConfig(rows=100, none_share=0.0, multi_share=1.0), "train")
    five = generate(GenerateConfig(rows=100, tool_weights=(0, 0, 0, 0, 1, 0, 0, 0, 0, 0)), "train")
    assert {e.call_type for e in only_none} == {"none"}
    assert {e.call_type for e in only_multi} == {"multi"}
    assert {len(e.tools) for e in five} == {5}


def test_every_tool_is_called_and_names_are_plain_words():
    called = {c.name for e in rows("train") for c in e.calls}
    assert called == set(catalogue().sources)
    for source in catalogue().sources.values():
        for name in (source.tool.name, *source.tool.parameter_names):
            assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name)
        assert source.tool.description.endswith(".")


def test_own_tools_have_ten_phrasings_and_ten_domains():
    names = [line.split()[1] for line in _resource("tools.txt").splitlines() if line.startswith("@ ")]
    own = [s for n, s in catalogue().sources.items() if n in names]
    assert len(own) >= 30 and len({s.domain for s in own}) >= 10
    for source in own:
        assert sum(len(g) for g in (*source.trained.values(), *source.unseen.values())) >= 10, (
            source.tool.name
        )


def _resource(name: str) -> str:
    from importlib.resources import files

    return (files("needlex.data.embedded") / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("pool", "at_least"), [("area", 60), ("device", 150), ("item", 300), ("timer_name", 60), ("song", 100)]
)
def test_word_pools_are_large(pool, at_least):
    found = pools()[pool]
    assert isinstance(found, Words)
    assert len(found.trained) + len(found.unseen) >= at_least
    assert len(found.unseen) / (len(found.trained) + len(found.unseen)) == pytest.approx(0.2, abs=0.1)


# Errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("none_share", 1.2),
        ("multi_share", -0.1),
        ("tool_weights", (1.0,)),
        ("tool_weights", (0.0,) * 10),
        ("rows", -1),
    ],
)
def test_bad_config_is_refused_with_the_name_of_the_field(field, value):
    with pytest.raises(ValueError, match=field):
        GenerateConfig(**{field: value})


def test_shares_above_one_and_unknown_splits_are_refused():
    with pytest.raises(ValueError, match="must not exceed 1"):
        GenerateConfig(none_share=0.6, multi_share=0.6)
    with pytest.raises(ValueError, match="unknown split 'test'"):
        generate(GenerateConfig(), "test")


def test_a_split_that_cannot_give_so_many_rows_says_so(monkeypatch):
    monkeypatch.setattr("needlex.data.generate.query_held_out", lambda query: False)
    monkeypatch.setattr("needlex.data.generate.MAX_DRAWS", 50)
    with pytest.raises(RuntimeError, match=r"split 'validation': no new row .* ask for fewer"):
        generate(GenerateConfig(held_out_rows=1), "validation")


# Templates -------------------------------------------------------------------------------------------


def draws(text: str, count: int = 200) -> set[str]:
    part = compile_expression(text, {"polite": "(please|kindly)"}, {"n": Number(1, 2)})
    found = set()
    for seed in range(count):
        draw = Draw(Random(seed))
        part(draw)
        found.add(draw.text())
    return found


@pytest.mark.parametrize(
    ("template", "sentences"),
    [
        ("go [now]", {"go", "go now"}),
        ("(a|b) c", {"a c", "b c"}),
        ("(x;[y])", {"x", "x y", "y x"}),
        ("<polite> go", {"please go", "kindly go"}),
        ("take {n} hours", {"take 1 hour", "take 2 hours"}),
        ("go [there] , now", {"go, now", "go there, now"}),
        ("a (apple|pear|one)", {"an apple", "a pear", "a one"}),
    ],
)
def test_a_template_gives_exactly_its_sentences(template, sentences):
    assert draws(template) == sentences


def test_a_template_of_an_unknown_pool_or_rule_is_refused():
    with pytest.raises(KeyError, match="nowhere"):
        compile_expression("go {nowhere}", {}, {})
    with pytest.raises(KeyError, match="nothing"):
        read_templates(["<nothing> more"], {})


def test_slots_that_are_shared_out_belong_to_their_tools():
    for name, slot in SHARED_SLOTS.items():
        tool: Tool = catalogue().sources[name].tool
        assert slot in tool.parameter_names, name


@given(st.integers(0, 99))
@settings(max_examples=100)
def test_spelled_numbers_are_words_and_differ(number):
    assert re.fullmatch(r"[a-z]+( [a-z]+)?", spell(number))
    assert [n for n in range(100) if spell(n) == spell(number)] == [number]


# Command ---------------------------------------------------------------------------------------------


def test_the_command_writes_refuses_and_repeats_itself(tmp_path, capsys):
    path, other = tmp_path / "a.jsonl.gz", tmp_path / "deep" / "b.jsonl.gz"
    base = ["--num-samples", "40", "--seed", "5", "--split", "unseen_values", "--json"]
    assert main([*base, "--output-jsonl", str(path)]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["rows"] == 40 and sum(summary["calls"].values()) == 40
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    expected = generate(GenerateConfig(held_out_rows=40, seed=5), "unseen_values")
    assert [Example.from_json(json.loads(line)) for line in lines] == expected

    assert main([*base, "--output-jsonl", str(path)]) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert main([*base, "--output-jsonl", str(path), "--overwrite"]) == 0
    assert main([*base, "--output-jsonl", str(other)]) == 0
    assert other.read_bytes() == path.read_bytes()


def test_the_command_writes_plain_text_without_gz(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    assert main(["--num-samples", "25", "--output-jsonl", str(path)]) == 0
    assert len(path.read_text(encoding="utf-8").splitlines()) == 25
    assert "25 rows of split train" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [path]
