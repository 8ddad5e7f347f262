"""Batches: every row once an epoch whoever asks, packed without a leak or a loss, continued from anywhere."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import grain
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.batch import Batch, Pairs
from needlex.data.augment import AugmentConfig
from needlex.data.config import DataConfig
from needlex.data.corpus import drop_long
from needlex.data.encode import encode_example
from needlex.data.loader import (
    BatchWindows,
    Encoder,
    batch_shapes,
    mixture,
    packed_rows,
    training_batches,
    validation_batches,
)
from needlex.data.packing import best_fit_decreasing
from needlex.data.render import render_answer, render_tool, render_tools
from needlex.data.tokenizer import EOS, TOOL_CALL, TOOLS, Tokenizer, TokenizerConfig, train_tokenizer
from needlex.schema import Call, Example, Tool

PLAIN = AugmentConfig(values=0.0, names=0.0, parameters=0.0, shuffle_tools=False)
CONFIG = DataConfig(
    train=("x",), batch_size=4, max_encoder=96, max_decoder=48, packing=False, buckets=2, window=4,
    packing_window=24, max_query=24, max_tool=24, prefetch=2, augment=PLAIN,
)  # fmt: skip
PACKED = dataclasses.replace(CONFIG, packing=True)
CONFIGS = {"padding": CONFIG, "packing": PACKED}


@cache
def examples(count: int = 64) -> tuple[Example, ...]:
    """Rows with a number each, of unequal length, with and without calls."""
    tools = tuple(Tool.from_json(t) for t in (
        {"name": "light_on", "parameters": {"area": "string"}}, {"name": "stop"}, {"name": "ring"},
    ))  # fmt: skip
    found = []
    for i in range(count):
        calls = tuple(Call("light_on", {"area": f"hall {j}"}) for j in range(i % 3))
        found.append(Example(f"row {i} " + "on " * (i % 5), tools[: 1 + i % 3], calls, f"source {i % 2}"))
    return tuple(found)


@cache
def tokenizer() -> Tokenizer:
    texts = [t for e in examples() for t in (e.query, render_tools(e.tools), render_answer(e.calls)[0])]
    return train_tokenizer(texts, TokenizerConfig(vocab_size=400))


def lengths(rows: Iterable[Example], config: DataConfig = CONFIG) -> np.ndarray:
    coded = [encode_example(r, tokenizer(), config.render, 999, 999) for r in rows]
    return np.array([(len(c.encoder), len(c.decoder)) for c in coded])


def batches(
    config: DataConfig, seed: int = 1, rows: Any = None, **options: Any
) -> grain.DatasetIterator[Batch]:
    sources = [examples()] if rows is None else rows
    flat = [row for source in sources for row in source]
    return training_batches(sources, lengths(flat), config, tokenizer(), seed, **options)


def queries(batch: Batch) -> list[str]:
    """Query of every example of a batch, read from its ids."""
    found = []
    for ids, segments in zip(batch.encoder, batch.encoder_segments, strict=True):
        for segment in range(1, segments.max() + 1):
            one = ids[segments == segment].tolist()
            found.append(tokenizer().decode(one[: one.index(TOOLS)]))
    return found


def same(a: Any, b: Any) -> bool:
    return jax.tree.structure(a) == jax.tree.structure(b) and all(
        x.dtype == y.dtype and np.array_equal(x, y)
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


ALL = Counter(e.query for e in examples())


def test_padded_batches_hold_every_row_once_an_epoch_in_another_order():
    stream = batches(CONFIG)
    epochs = [[q for b in islice(stream, 16) for q in queries(b)] for _ in range(3)]
    assert [Counter(e) for e in epochs] == [ALL] * 3
    assert len({tuple(e) for e in epochs}) == 3


def test_packed_rows_hold_every_row_of_the_stream_once():
    """At the start of each window: what came out is what went in but for the rows that wait."""
    encoded = mixture([examples()], (), 1).seed(1).random_map(Encoder(PACKED, tokenizer()))
    items: list[Any] = [encoded[i] for i in range(400)]
    stream = [tokenizer().decode(c[: c.tolist().index(TOOLS)]) for c in (item.encoder for item in items)]
    assert Counter(stream[:64]) == Counter(stream[64:128]) == ALL
    rows, out, window, carried = iter(packed_rows(encoded, PACKED, 1)), Counter(), 0, 0
    while window < 12:
        row = next(rows)
        state: dict[str, Any] = rows.get_state()
        if state["number"] != window:
            window = state["number"]
            waiting = Counter(
                tokenizer().decode(e["encoder"][: e["encoder"].index(TOOLS)]) for e in state["carried"]
            )
            carried += waiting.total()
            assert out + waiting == Counter(stream[: PACKED.packing_window * window])
        out.update(queries(Batch(**{k: v[None] for k, v in row.items()})))
    assert carried  # rows did wait


@pytest.mark.parametrize("kind", CONFIGS)
def test_order_is_a_function_of_the_seed_alone(kind):
    config = CONFIGS[kind]
    first = list(islice(batches(config), 12))
    more = dataclasses.replace(config, threads=1, prefetch=5)
    assert all(same(a, b) for a, b in zip(first, batches(more), strict=False))
    other = list(islice(batches(config, seed=2), 12))
    assert [q for b in first for q in queries(b)] != [q for b in other for q in queries(b)]


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("processes", [2, 4])
def test_processes_share_the_global_batch(kind, processes):
    """The parts of 2 and 4 processes put together are the batch that one process makes."""
    options: dict[str, Any] = {"pairs_every": 2} | ({"accumulate": 2} if kind == "packing" else {})
    axis = int("accumulate" in options)
    whole = list(islice(batches(CONFIGS[kind], **options), 8))
    parts = [
        list(islice(batches(CONFIGS[kind], process=i, processes=processes, **options), 8))
        for i in range(processes)
    ]

    def sliced(batch: Batch, process: int) -> Batch:
        return jax.tree.map(lambda x: x[(slice(None),) * axis + (slice(process, None, processes),)], batch)

    for step, batch in enumerate(whole):
        rows = batch._replace(pairs=None)
        for process in range(processes):
            assert same(parts[process][step]._replace(pairs=None), sliced(rows, process))
        if batch.pairs is not None:  # the order of pairs is free, the pairs are not
            union = Counter(p for part in parts for p in _pairs(part[step].pairs))
            assert union == Counter(_pairs(batch.pairs))


def _pairs(pairs: Pairs | None) -> list[tuple[bytes, bytes, int]]:
    assert pairs is not None
    query, tool = (x.reshape(-1, x.shape[-1]) for x in (pairs.query, pairs.tool))
    return [
        (q.tobytes(), t.tobytes(), int(i))
        for q, t, i in zip(query, tool, pairs.identity.ravel(), strict=True)
    ]


@pytest.mark.parametrize("kind", CONFIGS)
def test_any_position_continues_exactly(kind):
    """Through the JSON of a checkpoint, with pairs and micro-batches, and on another number of threads."""
    options: dict[str, Any] = {"pairs_every": 3} | ({"accumulate": 2} if kind == "packing" else {})
    augmented = dataclasses.replace(CONFIGS[kind], augment=AugmentConfig())
    whole = list(islice(batches(augmented, **options), 26))
    stream = batches(augmented, **options)
    for position in range(19):
        state = json.loads(json.dumps(stream.get_state()))
        resumed = batches(dataclasses.replace(augmented, threads=1), **options)
        for _ in range(position % 4):  # wherever the new stream stood
            next(resumed)
        resumed.set_state(state)
        count = 7 if position % 6 == 0 else 2
        assert all(same(next(resumed), b) for b in whole[position : position + count])
        assert same(next(stream), whole[position])


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 2), (2, 1)])
def test_a_resume_with_another_number_of_processes_goes_on(kind, before, after):
    """D8: the position that one process saved is that of all; together they go on with the rows of an uninterrupted run."""
    whole = list(islice(batches(CONFIGS[kind], pairs_every=2), 9))
    streams = [batches(CONFIGS[kind], pairs_every=2, process=i, processes=before) for i in range(before)]
    for stream in streams:
        for _ in range(5):
            next(stream)
    states = [json.dumps(stream.get_state()) for stream in streams]
    assert len(set(states)) == 1  # what the first process writes to the checkpoint
    resumed = [batches(CONFIGS[kind], pairs_every=2, process=i, processes=after) for i in range(after)]
    for stream in resumed:
        stream.set_state(json.loads(states[0]))
    for batch in whole[5:]:
        parts = [next(stream) for stream in resumed]
        for process, part in enumerate(parts):
            wanted = Batch(*(None if x is None else x[process::after] for x in batch._replace(pairs=None)))
            assert same(part._replace(pairs=None), wanted)
        if batch.pairs is not None:
            assert Counter(p for part in parts for p in _pairs(part.pairs)) == Counter(_pairs(batch.pairs))


def test_pairs_have_a_number_of_their_own():
    """More pairs than rows, shared out to processes and micro-batches, none of them twice."""
    config = dataclasses.replace(CONFIGS["packing"], pairs=24)
    whole = list(islice(batches(config, pairs_every=2, accumulate=2), 4))
    assert [b.pairs is not None and b.pairs.query.shape[:2] for b in whole] == [False, (2, 24)] * 2
    halves = [
        list(islice(batches(config, pairs_every=2, accumulate=2, process=i, processes=2), 4)) for i in (0, 1)
    ]
    for step in (1, 3):
        union = Counter(p for half in halves for p in _pairs(half[step].pairs))
        assert union == Counter(_pairs(whole[step].pairs))
    with pytest.raises(ValueError, match=r"data\.pairs 24 cannot be shared out to 5 processes"):
        batches(dataclasses.replace(config, batch_size=20), pairs_every=2, processes=5)


def test_pairs_come_every_nth_step_and_name_their_tool():
    stream = list(islice(batches(CONFIG, pairs_every=3), 18))
    assert [i for i, b in enumerate(stream, 1) if b.pairs is not None] == [3, 6, 9, 12, 15, 18]
    by_query = {e.query: e for e in examples()}
    identities: dict[str, set[int]] = {}
    for pairs in (b.pairs for b in stream if b.pairs is not None):
        for query, tool, identity in zip(pairs.query, pairs.tool, pairs.identity, strict=True):
            if identity == 0:
                assert not query.any() and not tool.any()
                continue
            example = by_query[tokenizer().decode(query)]
            name = example.calls[0].name
            texts = {render_tool(t, CONFIG.render) for t in example.tools if t.name == name}
            assert {tokenizer().decode(tool)} == texts
            identities.setdefault(tokenizer().decode(tool), set()).add(int(identity))
    assert identities and all(len(i) == 1 for i in identities.values())


def test_augmentation_is_drawn_anew_each_epoch():
    config = dataclasses.replace(CONFIG, augment=AugmentConfig(values=0.0, names=1.0, parameters=0.0))
    stream = batches(config)
    epochs = [islice_rows(stream, 16) for _ in range(2)]
    assert epochs[0].keys() == epochs[1].keys() == ALL.keys()
    changed = sum(epochs[0][q] != epochs[1][q] for q in ALL)
    assert changed > 0.8 * len(ALL)


def islice_rows(stream: Iterable[Batch], count: int) -> dict[str, str]:
    """Tools by query."""
    found = {}
    for batch in islice(stream, count):
        for query, ids in zip(queries(batch), batch.encoder, strict=True):
            found[query] = tokenizer().decode(ids[ids.tolist().index(TOOLS) :])
    return found


def test_weights_decide_the_mixture_and_rows_stay_even_within_a_source():
    sources = [examples()[:40], examples()[40:]]
    config = dataclasses.replace(CONFIG, train=("a", "b"), weights=(1.0, 3.0))
    drawn = [q for b in islice(batches(config, rows=sources), 80) for q in queries(b)]
    counts = Counter(drawn)
    of_second = sum(counts[e.query] for e in sources[1])
    assert abs(of_second / len(drawn) - 0.75) < 0.02
    for source in sources:
        shares = [counts[e.query] for e in source]
        assert max(shares) - min(shares) <= 1


def test_without_weights_sources_are_one_heap():
    sources = [examples()[:40], examples()[40:]]
    drawn = [q for b in islice(batches(CONFIG, rows=sources), 16) for q in queries(b)]
    assert Counter(drawn) == ALL


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 7, 32])
def test_validation_holds_every_row_once_and_every_process_has_as_many_batches(size, processes):
    """D9: no row is lost or counted twice, and no process waits for one that has no batch left."""
    config = dataclasses.replace(CONFIG, batch_size=size)
    rows = examples()[:61]
    parts = [validation_batches(rows, config, tokenizer(), i, processes) for i in range(processes)]
    shapes = [[jax.tree.map(np.shape, b) for b in part] for part in parts]
    assert all(s == shapes[0] for s in shapes)
    found = [q for part in parts for batch in part for q in queries(batch)]
    assert Counter(found) == Counter(e.query for e in rows)
    # The filling is padding in every field.
    empty = [b.encoder_segments.max(axis=1) == 0 for part in parts for b in part]
    everything = [b for part in parts for b in part]
    assert sum(e.sum() for e in empty) == sum(len(b.encoder) for b in everything) - len(rows)
    assert not any(x[e].any() for b, e in zip(everything, empty, strict=True) for x in b[:6])


def test_packed_examples_are_whole_and_apart():
    """A row is examples one after the other, each as `encode_example` makes it, then nothing."""
    wanted = Counter()
    for e in examples():
        coded = encode_example(e, tokenizer(), PACKED.render, 999, 999)
        fields = (coded.encoder, coded.decoder, coded.targets, coded.classes)
        wanted[tuple(f.tobytes() for f in fields)] += 1
    for batch in islice(batches(PACKED), 20):
        assert batch.encoder.shape == (4, 96) and batch.decoder.shape == (4, 48)
        for i in range(4):
            encoder, decoder = batch.encoder_segments[i], batch.decoder_segments[i]
            count = encoder.max()
            assert count >= 1 and decoder.max() == count
            for segments in (encoder, decoder):
                real = segments[segments != 0]
                assert not segments[len(real) :].any() and set(np.diff(real)) <= {0, 1} and real[0] == 1
            for segment in range(1, count + 1):
                e, d = encoder == segment, decoder == segment
                fields = (
                    batch.encoder[i][e],
                    *(x[i][d] for x in (batch.decoder, batch.targets, batch.classes)),
                )
                assert tuple(f.tobytes() for f in fields) in wanted
                assert fields[1][:2].tolist() == [EOS, TOOL_CALL] and fields[2][-1] == EOS
            assert not batch.encoder[i][encoder == 0].any()
            assert not any(x[i][decoder == 0].any() for x in (batch.decoder, batch.targets, batch.classes))


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_best_fit_loses_nothing_and_stays_in_both_budgets(sizes):
    found = best_fit_decreasing(np.array(sizes), (20, 12))
    assert sorted(i for row in found for i in row) == list(range(len(sizes)))
    assert all(np.array(sizes)[row].sum(axis=0)[s] <= b for row in found for s, b in enumerate((20, 12)))
    # First-fit bound: of two rows that share a fullest side, not both can be less than half full.
    assert len(found) <= 2 * np.ceil((np.array(sizes) / (20, 12)).sum())


def drawn(count: int) -> list[Example]:
    """Rows with 1 to 10 tools of 0 to 4 arguments, queries of 2 to 20 words, and 0 to 3 calls."""
    rng, found = np.random.default_rng(0), []
    words = ("light_on", "stop", "ring", "area", "hall", "row", "on")
    for i in range(count):
        tools = tuple(
            Tool.from_json({
                "name": f"{words[rng.integers(7)]}_{j}",
                "parameters": dict.fromkeys(words[: rng.integers(5)], "string"),
            })
            for j in range(1 + min(9, rng.geometric(0.3)))
        )  # fmt: skip
        called = rng.choice([0, 1, 1, 1, 1, 2, 3])
        calls = tuple(
            Call(t.name, {p: " ".join(rng.choice(words, rng.integers(1, 4))) for p in t.parameter_names})
            for t in tools[:called]
        )
        found.append(Example(f"row {i} " + " ".join(rng.choice(words, rng.integers(1, 19))), tools, calls))
    return found


@pytest.mark.parametrize("budgets", [(1024, 640), (160, 96), (128, 512)])
def test_packed_rows_are_95_percent_full(budgets):
    """Of the tighter budget."""
    config = dataclasses.replace(
        PACKED, max_encoder=budgets[0], max_decoder=budgets[1], packing_window=1024, threads=2
    )
    rows, _ = drop_long(drawn(500), "drawn", tokenizer(), config, lambda _: None)
    assert len(rows) > 400
    encoded = mixture([rows], (), 0).seed(0).random_map(Encoder(config, tokenizer()))
    used, count = np.zeros(2), 0
    stream = iter(packed_rows(encoded, config, 0))
    while stream.get_state()["number"] < 2:  # type: ignore[index]
        row = next(stream)
        used += [np.count_nonzero(row["encoder_segments"]), np.count_nonzero(row["decoder_segments"])]
        count += 1
    assert (used / count / budgets).max() >= 0.95


def test_few_tools_are_drawn_anew_and_the_least_row_always_fits():
    """A row is measured with one draw of tools; a later draw that does not fit falls back, and never fails."""
    tools = tuple(Tool.from_json({"name": n}) for n in ("a", "b", "c", "a_tool_of_a_very_long_name" * 4))
    rows = [Example("hi", tools, (), "x"), Example("do b", tools, (Call("b", {}),), "x")]
    config = dataclasses.replace(CONFIG, max_tools=1, max_encoder=24)
    encoder = Encoder(config, tokenizer())
    seen = {r.query: Counter() for r in rows}
    for row in rows:
        for i in range(40):
            ids = encoder(row, np.random.default_rng(i)).encoder.tolist()
            seen[row.query][tokenizer().decode(ids[ids.index(TOOLS) :])] += 1
    assert set(seen["hi"]) == {"a()", "b()", "c()"}
    assert set(seen["do b"]) == {"b()"}


def test_shapes_are_few_and_hold_every_batch():
    rng = np.random.default_rng(0)
    sizes = np.stack([rng.integers(5, 90, 500), rng.integers(3, 48, 500)], axis=1)
    shapes = batch_shapes(sizes, (96, 48), 3)
    assert 1 < len(shapes) <= 4 and shapes[-1] == (96, 48)
    assert len({b.encoder.shape + b.decoder.shape for b in islice(batches(CONFIG), 40)}) <= 3


def test_rows_of_a_window_are_alike():
    """Padding is what the windows save: sorted batches are narrower than drawn ones."""
    encoded = mixture([examples()], (), 1).seed(1).random_map(Encoder(CONFIG, tokenizer()))
    shapes = [(n, 48) for n in range(8, 97, 4)]

    def area(window: int) -> int:
        stream = BatchWindows(encoded, 4, window, shapes, 1, (0, 1))
        return sum(stream[i].encoder.size for i in range(16))

    assert area(16) < 0.9 * area(1)


def test_what_cannot_be_shared_out_is_refused():
    with pytest.raises(ValueError, match=r"data\.batch_size 4 cannot be shared out to 3 processes"):
        batches(CONFIG, processes=3)
    with pytest.raises(ValueError, match=r"optim\.accumulate needs batches of one shape.*data\.packing"):
        batches(CONFIG, accumulate=2)


PROGRAM = """
import sys
from tests.data.test_loader import *
stream = batches(PACKED, pairs_every=2)
print(*(q.strip() for _ in range(3) for q in queries(next(stream))), sep=",")
"""


def test_a_plain_program_can_read(tmp_path):
    """D10: no absl flags, no main guard."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120,
        env={"PYTHONPATH": str(root), "PATH": "", "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wanted = [q.strip() for b in islice(batches(PACKED, pairs_every=2), 3) for q in queries(b)]
    assert done.stdout.strip().split(",") == wanted
