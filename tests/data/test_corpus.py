"""Which rows a run reads, trains on, validates on and leaves out, and what it says about them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from needlex.data import corpus
from needlex.data.augment import AugmentConfig
from needlex.data.config import DataConfig
from needlex.data.corpus import Corpus, drop_long, fit_tools, load_corpus, tokenizer_texts
from needlex.data.sources import DataError
from needlex.schema import Example
from tests.data.rows import examples, tokenizer

TOOLS = [{"name": n} for n in ("ring", "stop", "dial")]
PLAIN = AugmentConfig(values=0.0, names=0.0, parameters=0.0, shuffle_tools=False)


def write(path: Path, count: int, *extra: str) -> str:
    """Rows `NAME 0`, `NAME 1`, ... of a file NAME.jsonl, then the lines `extra`."""
    rows = [
        {"query": f"{path.stem} {i}", "tools": TOOLS, "answers": [{"name": "ring"}] if i % 2 else []}
        for i in range(count)
    ]
    path.write_text("\n".join([*map(json.dumps, rows), *extra]) + "\n")
    return str(path)


def queries(rows) -> list[str]:
    return [row.query for row in rows]


def test_the_last_two_percent_are_held_out(tmp_path):
    said: list[str] = []
    paths = (write(tmp_path / "a.jsonl", 200), write(tmp_path / "b.jsonl", 30))
    found = load_corpus(DataConfig(train=paths), None, said.append)
    assert [name for name, _ in found.train] == list(paths)
    assert [len(rows) for _, rows in found.train] == [196, 29]
    assert found.rows == 225
    held = [f"a {i}" for i in range(196, 200)] + ["b 29"]
    assert queries(found.validation) == held
    assert not set(held) & {q for _, rows in found.train for q in queries(rows)}
    assert said == ["validation: the last 2% of the training rows (5), as data.validation is not given"]


def test_a_validation_file_leaves_the_training_rows_alone(tmp_path):
    train, other = write(tmp_path / "a.jsonl", 5), write(tmp_path / "b.jsonl", 3)
    found = load_corpus(DataConfig(train=(train,), validation=(other,)), None, pytest.fail)
    assert (found.rows, queries(found.validation)) == (5, ["b 0", "b 1", "b 2"])


def test_embedded_rows_are_validated_on_their_own_split(monkeypatch, tmp_path):
    asked = []

    def generate(config, split):
        asked.append((config, split))
        return examples() if split == "train" else examples()[:1]

    monkeypatch.setattr(corpus, "generate", generate)
    path = write(tmp_path / "a.jsonl", 4)
    config = DataConfig(train=("embedded", path))
    found = load_corpus(config, None, pytest.fail)
    assert asked == [(config.embedded, "train"), (config.embedded, "validation")]
    assert (found.rows, len(found.validation)) == (len(examples()) + 4, 1)


@pytest.mark.parametrize("limit", [1, 7, 60, 61, 1000])
def test_max_samples_is_a_limit_and_is_spread_over_the_file(tmp_path, limit):
    path, other = write(tmp_path / "a.jsonl", 60), write(tmp_path / "b.jsonl", 2)
    found = load_corpus(DataConfig(train=(path,), validation=(other,)), limit, pytest.fail)
    numbers = [int(q.split()[1]) for q in queries(found.train[0][1])]
    assert len(numbers) == min(limit, 60)
    assert numbers == sorted(set(numbers))
    assert max(np.diff([0, *numbers, 60])) <= -(-60 // len(numbers))


def test_max_samples_is_shared_by_the_sources(tmp_path):
    paths = write(tmp_path / "a.jsonl", 90), write(tmp_path / "b.jsonl", 30), write(tmp_path / "c.jsonl", 1)
    found = load_corpus(DataConfig(train=paths, validation=(paths[0],)), 22, pytest.fail)
    assert [len(rows) for _, rows in found.train] == [16, 5, 1]  # a source that was asked for is never empty


def test_validation_rows_are_limited_evenly_and_lose_tools_not_answers(tmp_path):
    paths = write(tmp_path / "a.jsonl", 40), write(tmp_path / "b.jsonl", 40)
    config = DataConfig(train=paths, validation=paths, max_eval_samples=20, max_tools=1)
    found = load_corpus(config, None, pytest.fail)
    assert [q.split()[0] for q in queries(found.validation)] == ["a"] * 10 + ["b"] * 10
    assert all(len(e.tools) == 1 for e in found.validation)
    assert all(e.tools[0].name == "ring" for e in found.validation if e.calls)
    assert load_corpus(config, None, pytest.fail) == found


def test_bad_rows_are_said_with_their_lines(tmp_path):
    said: list[str] = []
    path = write(tmp_path / "a.jsonl", 3, "{", "", '{"query": "no tools", "answers": []}')
    load_corpus(DataConfig(train=(path,), validation=(path,)), None, said.append)
    assert "2 of 5 rows rejected" in said[0]
    assert f"{path}:4: " in said[0] and f"{path}:6: " in said[0]


def test_files_of_no_use_are_errors_that_name_them(tmp_path):
    empty, bad, single = tmp_path / "empty.jsonl", tmp_path / "bad.jsonl", write(tmp_path / "one.jsonl", 1)
    empty.write_text("")
    bad.write_text("{\nnope\n")
    for path, message in [
        (str(empty), "empty.jsonl is empty"),
        (
            str(bad),
            r"no usable row in .*bad\.jsonl: 2 of 2 rows rejected(.|\n)*bad\.jsonl:1: (.|\n)*bad\.jsonl:2: ",
        ),
        (str(tmp_path / "none.jsonl"), r"no data file at .*none\.jsonl"),
        (single, r"one\.jsonl: one row cannot be both trained on and validated; give data\.validation"),
    ]:
        with pytest.raises(DataError, match=message):
            load_corpus(DataConfig(train=(path,)), None, lambda _: None)


def long_rows() -> list[Example]:
    short = examples()[3]
    return [
        short,
        dataclasses.replace(short, query="hello " * 200),
        *examples()[:1],
        dataclasses.replace(short, query="hi " * 200),
    ]


def test_rows_over_a_budget_are_counted_by_side():
    said: list[str] = []
    config = DataConfig(train=("x",), max_encoder=100, max_decoder=20)
    rows, lengths = drop_long(long_rows(), "some.jsonl", tokenizer(), config, said.append)
    assert rows == [examples()[3]]
    assert lengths.shape == (1, 2) and (lengths[0] <= (100, 20)).all()
    assert said[0].startswith("some.jsonl: 3 of 4 rows left out, ")
    assert "2 over the encoder budget" in said[0] and "1 over the decoder budget" in said[0]
    assert "(row 2: the encoder side takes" in said[0]


def test_no_row_left_is_an_error_that_names_budgets_and_the_first_row():
    config = DataConfig(train=("x",), max_encoder=100, max_decoder=20)
    with pytest.raises(DataError, match=r"some\.jsonl: none of 1 rows fits data\.max_encoder 100 and "
                       r"data\.max_decoder 20; row 1: the encoder side takes \d+ tokens, the limit is 100"):  # fmt: skip
        drop_long(long_rows()[1:2], "some.jsonl", tokenizer(), config, lambda _: None)
    with pytest.raises(DataError, match=r"none of 0 rows fits.*there is no row"):
        drop_long([], "some.jsonl", tokenizer(), config, lambda _: None)


def test_fewer_tools_keep_the_called_ones():
    row = examples()[0]
    kept = [fit_tools(row, DataConfig(max_tools=2), np.random.default_rng(i)) for i in range(20)]
    assert {len(e.tools) for e in kept} == {2}
    assert all("light_turn_on" in {t.name for t in e.tools} for e in kept)
    assert len({t.name for e in kept for t in e.tools}) == 3
    assert fit_tools(row, DataConfig(max_tools=3), np.random.default_rng(0)) is row


def test_the_tokenizer_sees_rows_of_every_source_evenly(tmp_path):
    paths = write(tmp_path / "a.jsonl", 60), write(tmp_path / "b.jsonl", 20)
    config = DataConfig(train=paths, validation=(paths[0],), augment=PLAIN)
    found: Corpus = load_corpus(config, None, pytest.fail)
    texts = list(tokenizer_texts(found, config, 20, seed=0))
    assert texts == list(tokenizer_texts(found, config, 20, seed=0))
    assert texts[0::3] == [f"a {i}" for i in range(0, 60, 4)] + [f"b {i}" for i in range(0, 20, 4)]
    assert set(texts[1::3]) == {"ring()\nstop()\ndial()"}
    assert set(texts[2::3]) == {"[]"}  # every fourth row calls nothing
